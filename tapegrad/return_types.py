"""Results with several parts: tuples whose parts also have names, printed as PyTorch prints them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


class _Printed:
    __slots__ = ()

    def __repr__(self) -> str:
        fields = self._fields  # type: ignore[attr-defined]
        parts = ",\n".join(f"{name}={value!r}" for name, value in zip(fields, self, strict=True))  # type: ignore[call-overload]
        return f"tapegrad.return_types.{type(self).__name__}(\n{parts})"


def _type(name: str, *fields: str) -> Any:
    made = type(name, (_Printed, namedtuple(name, fields)), {"__slots__": ()})
    made.__module__ = __name__
    made.__doc__ = f"Result of {name}: {', '.join(fields)}."
    return made


max = _type("max", "values", "indices")
min = _type("min", "values", "indices")
aminmax = _type("aminmax", "min", "max")
median = _type("median", "values", "indices")
nanmedian = _type("nanmedian", "values", "indices")
kthvalue = _type("kthvalue", "values", "indices")
mode = _type("mode", "values", "indices")
cummax = _type("cummax", "values", "indices")
cummin = _type("cummin", "values", "indices")
sort = _type("sort", "values", "indices")
topk = _type("topk", "values", "indices")
