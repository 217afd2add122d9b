"""Tensor: the array with a place on the tape that users hold.

Arithmetic, reductions, views and the like come with the families of ops in tapegrad/ops. Here is what makes a Tensor a
Tensor: its gradient, its graph, its conversion to Python and NumPy, copying and printing.
"""

from __future__ import annotations

import copy
import operator
import sys
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from . import dtypes, engine, missing, op, ops, printing, results
from .device import check_device, cpu
from .device import device as Device
from .formats import check_format
from .hooks import RemovableHandle
from .inspection import Tape, tape_of, tensor_html
from .kernels.arrays import duplicate
from .kernels.recording import active, changed, now, refuse
from .ops import convert, interop
from .ops.activation import ActivationMethods
from .ops.arithmetic import ArithmeticMethods
from .ops.blends import BlendMethods
from .ops.clamping import ClampingMethods
from .ops.closeness import ClosenessMethods
from .ops.counting import CountingMethods
from .ops.covariance import CovarianceMethods
from .ops.create import CreationMethods
from .ops.diagonals import DiagonalMethods
from .ops.extrema import ExtremaMethods
from .ops.gather import GatherMethods
from .ops.index import IndexMethods
from .ops.inplace import InplaceMethods, kernel_inplace
from .ops.linalg_lu import LuMethods
from .ops.linalg_measures import MeasureMethods
from .ops.linalg_solve import SolveMethods
from .ops.linalg_spectral import SpectralMethods
from .ops.masks import MaskMethods
from .ops.maths import MathsMethods
from .ops.matmul import MatmulMethods
from .ops.moments import MomentMethods
from .ops.norms import NormMethods
from .ops.numbers import element, is_number
from .ops.pick import PickMethods
from .ops.products import ProductMethods
from .ops.quantile import QuantileMethods
from .ops.random import RandomMethods
from .ops.reduce import ReduceMethods
from .ops.relayout import RelayoutMethods
from .ops.scan import ScanMethods
from .ops.shape import ShapeMethods
from .ops.softmax import SoftmaxMethods
from .ops.sort import SortMethods
from .ops.special import SpecialMethods
from .size import Size
from .tape import LEAF, Entry, Extra, Value


class Tensor(
    ArithmeticMethods,
    MathsMethods,
    ShapeMethods,
    ReduceMethods,
    CreationMethods,
    InplaceMethods,
    IndexMethods,
    GatherMethods,
    PickMethods,
    MaskMethods,
    DiagonalMethods,
    RelayoutMethods,
    RandomMethods,
    MatmulMethods,
    ActivationMethods,
    SoftmaxMethods,
    ProductMethods,
    ScanMethods,
    ExtremaMethods,
    MomentMethods,
    ClampingMethods,
    BlendMethods,
    ClosenessMethods,
    NormMethods,
    CovarianceMethods,
    SolveMethods,
    LuMethods,
    SpectralMethods,
    MeasureMethods,
    SpecialMethods,
    SortMethods,
    QuantileMethods,
    CountingMethods,
    Value,
):
    """A multi-dimensional array that records what is done with it.

    Made by :func:`tapegrad.tensor`, :func:`tapegrad.zeros` and so on; ``Tensor(2, 3)`` makes an uninitialised
    one and ``Tensor([1, 2])`` one of default dtype.
    """

    _result: type[Any]

    def __new__(cls, *data: Any, device: Any = None) -> Any:
        check_device(device)
        if len(data) == 1 and isinstance(data[0], Value):
            array = data[0]._array.astype(dtypes.get_default_dtype().numpy, copy=False)
        elif len(data) == 1 and not isinstance(data[0], int):
            array = np.array(interop.to_array(data[0]), dtype=dtypes.get_default_dtype().numpy)
        else:
            array = np.empty(data or (0,), dtypes.get_default_dtype().numpy)
        return cls._wrap(array, cls=cls)

    def __init__(self, *data: Any, device: Any = None) -> None:
        pass

    @staticmethod
    def _wrap(array: np.ndarray, requires_grad: Any = False, cls: Any = None) -> Any:
        """A leaf over an array, which is not copied; of class ``cls`` if given."""
        made = Tensor._make(array)
        if cls is not None and cls is not Tensor:
            made.__class__ = cls
        if requires_grad:
            made.requires_grad_()
        return made

    # -- the graph --------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded and it takes part in gradients."""
        return (self._node if self._view is None else self._source()) is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether this leaf requires grad; RuntimeError for integers and for non-leaves."""
        node = self._source()
        if requires_grad:
            if node is None:
                if self._array.dtype.kind != "f":
                    raise RuntimeError(
                        f"only Tensors of floating point dtype can require gradients, this one has {self.dtype}; convert with .float() first"
                    )
                self._node = LEAF
                changed(self._array)
        elif node is LEAF:
            self._node = None
            changed(self._array)
        elif node is not None:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
                "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        return self

    @property
    def is_leaf(self) -> bool:
        """True for tensors made by the user and for constants: what no recorded operation produced."""
        node = self._source()
        return node is None or node is LEAF

    @property
    def grad_fn(self) -> Entry | None:
        """The entry of the tape that produced this tensor, None for a leaf."""
        node = self._source()
        return None if node is LEAF else node

    @property
    def output_nr(self) -> int:
        """Which output of its entry this tensor is."""
        return self._index

    @property
    def grad(self) -> Any:
        """The accumulated gradient of a leaf (or of a tensor with retain_grad), or None."""
        if self._grad is None and type(self._node) is Entry and not self.retains_grad:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
                "populated during backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use "
                ".retain_grad() on the non-leaf Tensor.",
                UserWarning,
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if active and (recorder := now()) is not None:
            recorder.cleared(self) if value is None else recorder.refuse("assigning .grad")
        if value is not None:
            if not isinstance(value, Value):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign a tensor as its own grad")
            if value._array.dtype != self._array.dtype:
                raise RuntimeError(
                    f"assigned grad has data of a different type: {value._array.dtype}, expected {self._array.dtype}"
                )
            if value._array.shape != self._array.shape:
                raise RuntimeError(
                    f"assigned grad has data of a different size: {list(value._array.shape)}, expected {list(self._array.shape)}"
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
        **unknown: Any,
    ) -> None:
        """Add the gradient of this tensor to ``.grad`` of every leaf it depends on.

        ``gradient`` weights a tensor with more than one element. The graph is released as it is used unless
        ``retain_graph``. RuntimeError for a tensor without a graph or with one that was released.
        """
        if unknown:
            name = next(iter(unknown))
            hint = "; it was renamed retain_graph" if name == "retain_variables" else ""
            raise TypeError(f"backward() got an unexpected keyword argument {name!r}{hint}")
        engine.backward([self], None if gradient is None else [gradient], retain_graph, create_graph, inputs)

    def tape(self) -> Tape:
        """The entries that this tensor depends on, in recorded order; prints as a table."""
        return tape_of(self, sys._getframe(1))

    def detach(self) -> Any:
        """A constant over the same memory: backward stops there."""
        made = self._make(self._array)
        made._version = self._version  # a change through either is noticed by what saved the other
        return made

    def detach_(self) -> Tensor:
        """Cut this tensor itself from what produced it."""
        if self._view is not None and self._view.base._node is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._node = None
        self._index = 0
        return self

    def _extras(self) -> Extra:
        if self._extra is None:
            self._extra = Extra()
        return self._extra

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call ``hook(grad)`` when this tensor's gradient is complete; a returned tensor replaces it."""
        node = self._source()
        if node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if node is LEAF:
            extra = self._extras()
            if extra.hooks is None:
                extra.hooks = OrderedDict()
            hooks = extra.hooks
            changed(self._array)
        else:
            hooks = node._more().outputs.setdefault(self._index, OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call ``hook(leaf)`` after a gradient was accumulated into this leaf."""
        node = self._source()
        if node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if node is not LEAF:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        extra = self._extras()
        if extra.post_hooks is None:
            extra.post_hooks = OrderedDict()
        handle = RemovableHandle(extra.post_hooks)
        extra.post_hooks[handle.id] = hook
        changed(self._array)
        return handle

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in ``.grad``."""
        node = self._source()
        if node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if node is not LEAF:
            self._extras().retains = True
            node._more().retain[self._index] = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether retain_grad was called on this non-leaf."""
        return self._extra is not None and self._extra.retains

    # -- what it is -------------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """A constant over the same memory whose changes are not noticed by the tape; prefer detach()."""
        return self._make(self._array)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, Value):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._node is not None and value._array.dtype.kind != "f":
            raise RuntimeError("data set to a tensor that requires gradients must be floating point")
        if value._array is not self._array:  # x.data -= y writes in place, and assigns what is there
            if active and (recorder := now()) is not None:
                recorder.replaced(self, "assigning .data")
            self._set_array(value._array)
        self._bump("assignment to .data")

    @property
    def dtype(self) -> dtypes.dtype:
        """The element type."""
        return dtypes.BY_NUM[self._array.dtype.num]

    @property
    def shape(self) -> Size:
        """The sizes of all dimensions."""
        return Size(self._array.shape)

    @property
    def device(self) -> Device:
        """Always the CPU."""
        return cpu

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    is_cuda = is_sparse = is_quantized = is_meta = False
    layout = "strided"
    names = None

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or the size of one dimension."""
        shape = self._array.shape
        return Size(shape) if dim is None else shape[ops.dims.wrap_dim(dim, len(shape))]

    def dim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self._array.size

    nelement = numel

    def element_size(self) -> int:
        """Bytes per element."""
        return self._array.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Elements to step over per index, for all dimensions or one."""
        array = self._array
        if array.size:
            strides = tuple(s // array.itemsize for s in array.strides)
        else:  # NumPy has zeros there
            strides = tuple(prod(max(n, 1) for n in array.shape[d + 1 :]) for d in range(array.ndim))
        return strides if dim is None else strides[ops.dims.wrap_dim(dim, len(strides))]

    def storage_offset(self) -> int:
        """Elements between the start of the memory and the first element."""
        base = self._array if self._view is None else self._view.base._array
        return int((self._array.ctypes.data - base.ctypes.data) // self._array.itemsize)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._array.ctypes.data)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in order without gaps."""
        return self._array.flags.c_contiguous

    def is_floating_point(self) -> bool:
        return self._array.dtype.kind == "f"

    def is_complex(self) -> bool:
        return False

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        return False

    def get_device(self) -> int:
        return -1

    @property
    def _version_count(self) -> int:
        return int(self._version[0])

    @property
    def _base(self) -> Any:
        """The tensor that this one is a view of, or None."""
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        return self._view is not None

    # -- conversion -------------------------------------------------------------------------------

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        copy: bool = False,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Any:
        """Converted to a dtype (or to the dtype of another tensor); itself if nothing changes."""
        for arg in args:
            if isinstance(arg, Value):
                dtype = dtypes.of(arg._array)
            elif isinstance(arg, (str, Device)):
                device = arg
            elif isinstance(arg, bool) or arg is None:
                copy = copy or False
            else:
                dtype = dtypes.as_dtype(arg)
        check_device(device)
        check_format(memory_format)
        to = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        return convert.to_dtype(self, to, copy)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The tensor's type as a string, or converted to a dtype."""
        return f"tapegrad.{self.dtype.short}Tensor" if dtype is None else self.to(dtypes.of_type(dtype))

    def type_as(self, other: Value) -> Any:
        """Converted to the dtype of another tensor."""
        return self.to(dtypes.of(other._array))

    def float(self, memory_format: Any = None) -> Any:
        """Converted to float32."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.float32)

    def double(self, memory_format: Any = None) -> Any:
        """Converted to float64."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.float64)

    def half(self, memory_format: Any = None) -> Any:
        """Converted to float16."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.float16)

    def long(self, memory_format: Any = None) -> Any:
        """Converted to int64."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.int64)

    def int(self, memory_format: Any = None) -> Any:
        """Converted to int32."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.int32)

    def short(self, memory_format: Any = None) -> Any:
        """Converted to int16."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.int16)

    def char(self, memory_format: Any = None) -> Any:
        """Converted to int8."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.int8)

    def byte(self, memory_format: Any = None) -> Any:
        """Converted to uint8."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.uint8)

    def bool(self, memory_format: Any = None) -> Any:
        """Converted to bool: whether each element is nonzero."""
        check_format(memory_format)
        return convert.to_dtype(self, dtypes.bool_)

    def cpu(self, memory_format: Any = None) -> Any:
        """The tensor itself: it is on the CPU."""
        return self

    def cuda(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("tapegrad computes on the CPU only: leave .cuda() away, or use .cpu()")

    def numpy(self, *, force: Any = False) -> np.ndarray:
        """A NumPy array over the same memory; RuntimeError if the tensor requires grad (unless ``force``)."""
        if self.requires_grad and not force:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        refuse("numpy()")
        return self._array.view()  # an array object of its own: its shape and dtype can be assigned to

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError(
                "Can't convert a Tensor that requires grad to a NumPy array, since operations on it would not be recorded. "
                "Use tensor.detach() first, or the functions of tapegrad."
            )
        refuse("conversion to a NumPy array")
        return np.array(self._array.view(), dtype=dtype, copy=copy)

    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return interop.call_ufunc(ufunc, method, inputs, kwargs)

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        refuse("__dlpack__()")
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        if self._array.size != 1:
            raise RuntimeError(f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        refuse("reading the value of a tensor")
        return self._array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        refuse("tolist()")
        return self._array.tolist()

    def __bool__(self) -> Any:
        if self._array.size != 1:
            if not self._array.size:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError(
                "Boolean value of Tensor with more than one value is ambiguous; use .any(), .all() or .item()"
            )
        refuse("a decision by the value of a tensor (if, while, and, or, not)")
        return self._array.item() != 0

    def __float__(self) -> Any:
        return operator_float(self.item())

    def __int__(self) -> Any:
        return operator_int(self.item())

    def __index__(self) -> Any:
        if self._array.dtype.kind not in "iub" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return operator.index(operator_int(self.item()))

    def __complex__(self) -> complex:
        return complex(self.item())

    def __len__(self) -> Any:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Any:
        return self.flip(0) if self._array.ndim else self

    def __contains__(self, element: Any) -> Any:
        if isinstance(element, (Value, *NUMBERS)):
            value = element._array if isinstance(element, Value) else element
            return operator_bool((self._array == value).any())
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
        )

    __hash__ = object.__hash__  # by identity; named because __eq__ compares elements

    # -- changing it ------------------------------------------------------------------------------

    def copy_(self, src: Any, non_blocking: Any = False) -> Any:
        """In place: the values of ``src``, broadcast and converted."""
        if not isinstance(src, Value):
            raise TypeError(f"copy_(): argument 'src' must be Tensor, not {type(src).__name__}")
        try:
            np.broadcast_to(src._array, self._array.shape)
        except ValueError:
            raise RuntimeError(
                f"copy_: The size of tensor a {list(self._array.shape)} must match the size of tensor b {list(src._array.shape)}"
            ) from None
        if np.may_share_memory(src._array, self._array):
            src = self._make(duplicate(src._array)) if src._edge() is None else src.clone()  # type: ignore[attr-defined]
        return kernel_inplace(convert.copied_into, self, src)

    def fill_(self, value: Any) -> Any:
        """In place: one value everywhere."""
        if isinstance(value, Value):
            if value._array.ndim:
                raise RuntimeError(
                    f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions."
                )
            return kernel_inplace(convert.filled, self, value, number=None)
        if not is_number(value):
            raise TypeError(f"fill_(): argument 'value' must be Number, not {type(value).__name__}")
        return kernel_inplace(convert.filled, self, None, number=element(value, self._array.dtype))

    def zero_(self) -> Any:
        """In place: zero everywhere."""
        if not active and self._node is None and self._view is None and self._array.flags.writeable:
            self._array.fill(0)
            self._bump("zero_")
            return self
        return kernel_inplace(convert.filled, self, None, number=0)

    def set_(self, source: Any) -> Any:
        """Take the memory of another tensor of the same dtype."""
        if not isinstance(source, Value):
            raise TypeError(f"set_(): argument 'source' must be Tensor, not {type(source).__name__}")
        if source._array.dtype != self._array.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source._array.dtype} to a tensor of type {self._array.dtype}"
            )
        if active and (recorder := now()) is not None:
            recorder.replaced(self, "set_()")
        self._set_array(source._array)
        self._bump("set_")
        return self

    # -- copying and printing -----------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: this one "
                f"was computed by {self.grad_fn!r}. Use detach() or clone()."
            )
        made = self._wrap(self._array.copy(), cls=type(self))
        made._node = self._node
        memo[id(self)] = made
        if self._grad is not None:
            made._grad = copy.deepcopy(self._grad, memo)
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __copy__(self) -> Any:
        made = self._wrap(self._array, cls=type(self))
        made._node, made._index, made._version, made._view = (
            self._node,
            self._index,
            self._version,
            self._view,
        )
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "a tensor that was computed from others cannot be pickled with its graph; use detach()"
            )
        return rebuild, (
            type(self),
            np.asarray(self._array, order="C"),
            self._node is LEAF,
            dict(self.__dict__),
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        suffixes = []
        node = self._source()
        if node is LEAF:
            suffixes.append("requires_grad=True")
        elif node is not None:
            suffixes.append(f"grad_fn=<{node.name()}>")
        return printing.format_tensor(self._array, suffixes)

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str | None:
        """For Jupyter: with the graph, if there is one."""
        return tensor_html(self)

    def __format__(self, spec: str) -> str:
        """A single number formats as one (so does PyTorch's, but for parameters); others take no format."""
        if not self._array.ndim and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __dir__(self) -> list[str]:
        return sorted({*missing.vars_of(type(self)), *self.__dict__})


# The methods above are named like Python's types, which inside the class they hide.
operator_float, operator_int, operator_bool = float, int, bool
NUMBERS = (int, float, bool)
Tensor._result = Tensor
results.bind(Tensor)
missing.mark(Tensor)
op.Op.wrap_saved = staticmethod(Tensor._make)


def rebuild(cls: type[Any], array: np.ndarray, requires_grad: bool, attributes: dict[str, Any]) -> Any:
    """A tensor from its pickled parts."""
    made = Tensor._wrap(array, cls=cls)
    if requires_grad:
        made._node = LEAF
    made.__dict__.update(attributes)
    return made
