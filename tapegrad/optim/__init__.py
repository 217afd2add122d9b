"""Optimizers and learning-rate schedules."""

from __future__ import annotations

from . import lr_scheduler as lr_scheduler
from . import swa_utils as swa_utils
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .adam_family import Adamax as Adamax
from .adam_family import NAdam as NAdam
from .adam_family import RAdam as RAdam
from .adaptive import Adadelta as Adadelta
from .adaptive import Adagrad as Adagrad
from .adaptive import RMSprop as RMSprop
from .lbfgs import LBFGS as LBFGS
from .matrices import Adafactor as Adafactor
from .matrices import Muon as Muon
from .matrices import SparseAdam as SparseAdam
from .minimize import Minimum as Minimum
from .minimize import hvp as hvp
from .minimize import minimize as minimize
from .minimize import value_and_grad as value_and_grad
from .optimizer import Optimizer as Optimizer
from .optimizer import register_optimizer_step_post_hook as register_optimizer_step_post_hook
from .optimizer import register_optimizer_step_pre_hook as register_optimizer_step_pre_hook
from .sgd import SGD as SGD
from .signs import ASGD as ASGD
from .signs import Rprop as Rprop
