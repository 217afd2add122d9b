"""Tensors that a Module registers when they are assigned to it, also those whose shape is not known yet."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .. import dtypes
from ..device import check_device
from ..tape import LEAF, Value
from ..tensor import Tensor

# The slot itself: the classes below cover it by a property that raises.
_SLOT: Any = Value.__dict__["_array"]


def _over(data: Tensor | None, requires_grad: bool, cls: type[Any]) -> Any:
    """A leaf of the class over the memory of ``data``."""
    if data is None:
        array = np.empty(0, dtypes.get_default_dtype().numpy)
    elif isinstance(data, Tensor):
        array = data._array
    else:
        raise TypeError(
            f"{cls.__name__} is made from a Tensor, got {type(data).__name__}; use tapegrad.tensor(...)"
        )
    if requires_grad and not dtypes.of(array).is_floating_point:
        raise RuntimeError(
            "only tensors of floating-point dtype can require gradients, and this data is "
            f"{dtypes.of(array)}: "
            f"convert it, or pass requires_grad=False to {cls.__name__}"
        )
    made = Tensor._wrap(array, requires_grad, cls)
    if data is not None:
        made._version = data._version  # a change through either is noticed by what saved the other
    return made


class Parameter(Tensor):
    """A tensor that is a module's parameter: ``Parameter(data=None, requires_grad=True)``.

    It shares memory with ``data``, is a leaf whatever ``data`` was, and requires grad also if it is
    made under ``no_grad``. Assigned to an attribute of a Module it appears in ``parameters()``.
    Data of an integer or bool dtype needs ``requires_grad=False``.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        made: Parameter = _over(data, requires_grad, cls)
        return made

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """The object is complete when __new__ returns."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        known = memo.get(id(self))
        if known is not None:
            return known  # type: ignore[no-any-return]
        # Not its gradient: a copied parameter starts without one.
        twin = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = twin
        return twin

    def __repr__(self) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that is a module's buffer: ``Buffer(data=None, *, persistent=True)``.

    Assigned to an attribute of a Module it is registered as by ``register_buffer``. It does not
    require grad.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        made: Buffer = _over(data, False, cls)
        made.persistent = persistent
        return made

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        """The object is complete when __new__ returns."""


def empty(shape: tuple[int, ...], device: Any = None, dtype: dtypes.dtype | None = None) -> Tensor:
    """A tensor to be filled by an initialiser; ``dtype`` defaults to the default dtype."""
    check_device(device)
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if shape and min(shape) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    made: Tensor = Tensor._make(np.empty(shape, kind.numpy))
    return made


def empty_parameter(*shape: int, device: Any = None, dtype: dtypes.dtype | None = None) -> Parameter:
    """A Parameter to be filled by an initialiser."""
    return Parameter(empty(shape, device, dtype))


# ---- without a shape yet


class UninitializedTensorMixin(Tensor):
    """A tensor that knows its dtype only. ``materialize`` makes it an ordinary one, in place.

    Reading its values or its shape, and any operation on it, is an error. It may be converted to another
    dtype, copied, pickled and registered in a module.
    """

    cls_to_become: type[Any]

    def materialize(
        self, shape: tuple[int, ...], device: Any = None, dtype: dtypes.dtype | None = None
    ) -> None:
        """Become an (unfilled) tensor of this shape; optimizers that know it go on knowing it."""
        check_device(device)
        kind = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        self.__class__ = self.cls_to_become
        self._set_array(np.empty(tuple(shape), kind.numpy))
        self._bump("materialize")

    # What the empty array behind it may tell.

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.of(_SLOT.__get__(self))

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    @property
    def data(self) -> Tensor:
        made: Tensor = Tensor._make(_SLOT.__get__(self))
        return made

    @data.setter
    def data(self, value: Any) -> None:
        _SLOT.__set__(self, np.empty(0, value.dtype.numpy))

    def detach(self) -> Tensor:
        """Itself: there are no values to share."""
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """As ``Tensor.requires_grad_``: layers may be frozen before their first call."""
        self._node = LEAF if requires_grad else None
        return self

    def numpy(self, *, force: Any = False) -> np.ndarray:
        """Refused."""
        self._refuse()

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """As ``Tensor.to``; only the dtype can change."""
        return _uninitialized(type(self), self.requires_grad, self.data.to(*args, **kwargs).dtype)

    def float(self, memory_format: Any = None) -> Any:
        return self.to(dtypes.float32)

    def double(self, memory_format: Any = None) -> Any:
        return self.to(dtypes.float64)

    def half(self, memory_format: Any = None) -> Any:
        return self.to(dtypes.float16)

    def cpu(self, memory_format: Any = None) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = _uninitialized(type(self), self.requires_grad, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _uninitialized, (type(self), self.requires_grad, self.dtype)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"<{type(self).__name__}>"

    __hash__ = Tensor.__hash__

    # Everything else reads one of these.

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer: it becomes known at the first "
            "call of its module, or by loading a state_dict. Call the module with a batch first."
        )

    @property
    def _array(self) -> np.ndarray:  # type: ignore[override]
        self._refuse()

    @property
    def _char(self) -> str:  # type: ignore[override]
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"Attempted to use an uninitialized {'parameter' if isinstance(self, Parameter) else 'buffer'}: it has "
            "no values before the first call of its lazy module. Call the module with a (dummy) batch first."
        )


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """``UninitializedParameter(requires_grad=True, device=None, dtype=None)``: becomes a Parameter."""

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: dtypes.dtype | None = None
    ) -> UninitializedParameter:
        check_device(device)
        made: UninitializedParameter = _uninitialized(cls, requires_grad, dtype)
        return made

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """The object is complete when __new__ returns."""


class UninitializedBuffer(UninitializedTensorMixin):
    """``UninitializedBuffer(requires_grad=False, device=None, dtype=None, persistent=True)``; becomes a Tensor."""

    cls_to_become = Tensor
    persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        check_device(device)
        made: UninitializedBuffer = _uninitialized(cls, requires_grad, dtype)
        made.persistent = persistent
        return made

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> None:
        """The object is complete when __new__ returns."""


def _uninitialized(cls: type[Any], requires_grad: bool, dtype: dtypes.dtype | None) -> Any:
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    made = Tensor._make(np.empty(0, kind.numpy), LEAF if requires_grad else None)
    made.__class__ = cls
    return made


def is_lazy(param: Any) -> bool:
    """Whether this is an uninitialized parameter or buffer."""
    return isinstance(param, UninitializedTensorMixin)
