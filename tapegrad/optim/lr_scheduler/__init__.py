"""Learning-rate schedules."""

from __future__ import annotations

from .base import LRScheduler as LRScheduler
from .combined import ChainedScheduler as ChainedScheduler
from .combined import SequentialLR as SequentialLR
from .cyclic import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from .cyclic import CyclicLR as CyclicLR
from .cyclic import OneCycleLR as OneCycleLR
from .plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .simple import ConstantLR as ConstantLR
from .simple import CosineAnnealingLR as CosineAnnealingLR
from .simple import ExponentialLR as ExponentialLR
from .simple import LambdaLR as LambdaLR
from .simple import LinearLR as LinearLR
from .simple import MultiplicativeLR as MultiplicativeLR
from .simple import MultiStepLR as MultiStepLR
from .simple import PolynomialLR as PolynomialLR
from .simple import StepLR as StepLR

_LRScheduler = LRScheduler  # the old name
