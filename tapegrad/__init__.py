"""tapegrad: tape-based automatic differentiation on CPUs with kernels compiled by numba.

``import tapegrad as tg``; names and behaviour are PyTorch's.
"""

# Switches and questions about what is not there.
from . import accelerator as accelerator
from . import amp as amp
from . import autograd as autograd
from . import backends as backends
from . import cuda as cuda

# Above the tensor: networks, optimizers, data, weights.
from . import data as data
from . import faces as _faces
from . import linalg as linalg
from . import nn as nn
from . import ops as ops
from . import optim as optim
from . import special as special
from . import utils as utils
from .amp import GradScaler as GradScaler
from .amp import autocast as autocast
from .amp import is_autocast_enabled as is_autocast_enabled
from .basics import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from .basics import e as e
from .basics import get_default_device as get_default_device
from .basics import get_float32_matmul_precision as get_float32_matmul_precision
from .basics import inf as inf
from .basics import is_complex as is_complex
from .basics import is_floating_point as is_floating_point
from .basics import is_inference as is_inference
from .basics import is_same_size as is_same_size
from .basics import is_signed as is_signed
from .basics import is_tensor as is_tensor
from .basics import nan as nan
from .basics import newaxis as newaxis
from .basics import numel as numel
from .basics import pi as pi
from .basics import set_default_device as set_default_device
from .basics import set_float32_matmul_precision as set_float32_matmul_precision
from .basics import typename as typename
from .basics import use_deterministic_algorithms as use_deterministic_algorithms
from .buffers import empty_cache as empty_cache
from .buffers import memory_reserved as memory_reserved
from .creation import arange as arange
from .creation import as_tensor as as_tensor
from .creation import asarray as asarray
from .creation import empty as empty
from .creation import empty_like as empty_like
from .creation import eye as eye
from .creation import from_dlpack as from_dlpack
from .creation import from_numpy as from_numpy
from .creation import frombuffer as frombuffer
from .creation import full as full
from .creation import full_like as full_like
from .creation import linspace as linspace
from .creation import logspace as logspace
from .creation import ones as ones
from .creation import ones_like as ones_like
from .creation import range_ as range
from .creation import scalar_tensor as scalar_tensor
from .creation import tensor as tensor
from .creation import tril_indices as tril_indices
from .creation import triu_indices as triu_indices
from .creation import zeros as zeros
from .creation import zeros_like as zeros_like
from .custom import elementwise as elementwise
from .custom import kernel_source as kernel_source
from .device import device as device
from .dtypes import bool_ as bool
from .dtypes import double as double
from .dtypes import dtype as dtype
from .dtypes import finfo as finfo
from .dtypes import float16 as float16
from .dtypes import float32 as float
from .dtypes import float32 as float32
from .dtypes import float64 as float64
from .dtypes import get_default_dtype as get_default_dtype
from .dtypes import half as half
from .dtypes import iinfo as iinfo
from .dtypes import int8 as int8
from .dtypes import int16 as int16
from .dtypes import int32 as int
from .dtypes import int32 as int32
from .dtypes import int64 as int64
from .dtypes import long as long
from .dtypes import promote_types as promote_types
from .dtypes import set_default_dtype as set_default_dtype
from .dtypes import short as short
from .dtypes import uint8 as uint8
from .formats import channels_last as channels_last
from .formats import channels_last_3d as channels_last_3d
from .formats import contiguous_format as contiguous_format
from .formats import memory_format as memory_format
from .formats import preserve_format as preserve_format
from .formats import strided as strided
from .inspection import Tape as Tape
from .inspection import explain as explain
from .inspection import live_tape as live_tape
from .io import load as load
from .io import load_compiled as load_compiled
from .io import save as save
from .modes import enable_grad as enable_grad
from .modes import inference_mode as inference_mode
from .modes import is_grad_enabled as is_grad_enabled
from .modes import is_inference_mode_enabled as is_inference_mode_enabled
from .modes import no_grad as no_grad
from .modes import set_grad_enabled as set_grad_enabled
from .native import compile as compile
from .native import scan as scan
from .native import while_loop as while_loop
from .nn.summary import summary as summary

# The families of ops; each module lists in __all__ what it offers under PyTorch's names.
from .ops.activation import *  # noqa: F403
from .ops.adaptive import *  # noqa: F403
from .ops.arithmetic import *  # noqa: F403
from .ops.blends import *  # noqa: F403
from .ops.clamping import *  # noqa: F403
from .ops.closeness import *  # noqa: F403
from .ops.conv import *  # noqa: F403
from .ops.counting import *  # noqa: F403
from .ops.covariance import *  # noqa: F403
from .ops.diagonals import *  # noqa: F403
from .ops.distance import *  # noqa: F403
from .ops.dropout import *  # noqa: F403
from .ops.einsum import *  # noqa: F403
from .ops.embed import *  # noqa: F403
from .ops.extrema import *  # noqa: F403
from .ops.gather import *  # noqa: F403
from .ops.index import *  # noqa: F403
from .ops.layer_norm import *  # noqa: F403
from .ops.linalg_lu import *  # noqa: F403
from .ops.linalg_measures import *  # noqa: F403
from .ops.linalg_solve import *  # noqa: F403
from .ops.linalg_spectral import *  # noqa: F403
from .ops.masks import *  # noqa: F403
from .ops.maths import *  # noqa: F403
from .ops.matmul import *  # noqa: F403
from .ops.moments import *  # noqa: F403
from .ops.norm import *  # noqa: F403
from .ops.norms import *  # noqa: F403
from .ops.pick import *  # noqa: F403
from .ops.pool import *  # noqa: F403
from .ops.products import *  # noqa: F403
from .ops.quantile import *  # noqa: F403
from .ops.random import *  # noqa: F403
from .ops.reduce import *  # noqa: F403
from .ops.scan import *  # noqa: F403
from .ops.shape import *  # noqa: F403
from .ops.shuffle import *  # noqa: F403
from .ops.softmax import *  # noqa: F403
from .ops.sort import *  # noqa: F403
from .ops.special import *  # noqa: F403
from .printing import get_printoptions as get_printoptions
from .printing import printoptions as printoptions
from .printing import set_printoptions as set_printoptions
from .random import Generator as Generator
from .random import default_generator as default_generator
from .random import fork_rng as fork_rng
from .random import get_rng_state as get_rng_state
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import normal as normal
from .random import rand as rand
from .random import rand_like as rand_like
from .random import randint as randint
from .random import randint_like as randint_like
from .random import randn as randn
from .random import randn_like as randn_like
from .random import randperm as randperm
from .random import seed as seed
from .random import set_rng_state as set_rng_state
from .scopes import record_modules as record_modules
from .size import Size as Size
from .tensor import Tensor as Tensor
from .threads import get_num_threads as get_num_threads
from .threads import set_num_threads as set_num_threads
from .threads import threads as threads
from .typed import BoolTensor as BoolTensor
from .typed import ByteTensor as ByteTensor
from .typed import CharTensor as CharTensor
from .typed import DoubleTensor as DoubleTensor
from .typed import FloatTensor as FloatTensor
from .typed import HalfTensor as HalfTensor
from .typed import IntTensor as IntTensor
from .typed import LongTensor as LongTensor
from .typed import ShortTensor as ShortTensor
from .typed import set_default_tensor_type as set_default_tensor_type

for _family in vars(ops).values():
    _faces.export(globals(), getattr(_family, "__all__", ()))

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    raise AttributeError(ops.nearest.text(f"module 'tapegrad' has no attribute {name!r}", name, globals()))
