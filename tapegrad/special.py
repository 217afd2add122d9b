"""tapegrad.special: special functions under the names of ``torch.special``."""

from __future__ import annotations

from . import faces as _faces
from .ops.blends import xlog1py as xlog1py
from .ops.blends import xlogy as xlogy
from .ops.clamping import round as round
from .ops.maths import digamma as digamma
from .ops.maths import erf as erf
from .ops.maths import erfc as erfc
from .ops.maths import erfinv as erfinv
from .ops.maths import exp2 as exp2
from .ops.maths import expm1 as expm1
from .ops.maths import lgamma as lgamma
from .ops.maths import log1p as log1p
from .ops.maths import sigmoid as sigmoid
from .ops.reduce import logsumexp as logsumexp
from .ops.softmax import log_softmax as log_softmax
from .ops.softmax import softmax as softmax
from .ops.special import entr as entr
from .ops.special import erfcx as erfcx
from .ops.special import i0 as i0
from .ops.special import i0e as i0e
from .ops.special import i1 as i1
from .ops.special import i1e as i1e
from .ops.special import igamma as igamma
from .ops.special import igammac as igammac
from .ops.special import log_ndtr as log_ndtr
from .ops.special import logit as logit
from .ops.special import mvlgamma as mvlgamma
from .ops.special import ndtr as ndtr
from .ops.special import ndtri as ndtri
from .ops.special import polygamma as polygamma
from .ops.special import sinc as sinc
from .ops.special import zeta as zeta

expit = sigmoid
gammainc = igamma
gammaincc = igammac
gammaln = lgamma
multigammaln = mvlgamma
psi = digamma

_faces.export(globals(), [name for name in globals() if not name.startswith("_")])
