"""Machine code that makes Python objects: an allocation and some stores, where the interpreter takes a step for each.

It uses functions of CPython's stable interface only. Where a class keeps its slots is found by looking at an object.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from .assembled import assembled

_I64, _I32 = ir.IntType(64), ir.IntType(32)
_OBJECT = ir.IntType(8).as_pointer()
_FASTCALL = 0x80  # METH_FASTCALL: (self, pointer to arguments, their number)
_kept: list[Any] = []  # what the machine code names by its address


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


def maker(
    cls: type[Any], given: Sequence[str], fixed: dict[str, Any], lists: dict[str, Sequence[Any]]
) -> Callable[..., Any]:
    """The C function ``(given...)`` that makes an object of a class with slots, and checks nothing.

    Slots ``given`` are filled with its arguments, ``fixed`` with the same object each time, ``lists`` with a new list of
    the same items each time. No ``__new__`` and ``__init__`` is called.
    """
    module = ir.Module(f"tapegrad_maker_{cls.__name__}")
    function = ir.Function(module, ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), _I64]), "make")
    b = ir.IRBuilder(function.append_basic_block())
    arguments = function.args[1]
    offsets = _offsets(cls, [*given, *fixed, *lists])

    def external(name: str, result: Any, *kinds: Any) -> Any:
        return ir.Function(module, ir.FunctionType(result, kinds), name)

    allocate = external("PyType_GenericAlloc", _OBJECT, _OBJECT, _I64)
    new_list = external("PyList_New", _OBJECT, _I64)
    set_item = external("PyList_SetItem", _I32, _OBJECT, _I64, _OBJECT)
    hold, drop = (external(name, ir.VoidType(), _OBJECT) for name in ("Py_IncRef", "Py_DecRef"))

    def known(value: Any) -> Any:
        _kept.append(value)
        return b.inttoptr(ir.Constant(_I64, id(value)), _OBJECT)

    nothing = ir.Constant(_OBJECT, None)
    # The object owns what it holds from the first store on: if memory runs out half way, dropping it drops the rest.
    made = b.call(allocate, [known(cls), ir.Constant(_I64, 0)])
    with b.if_then(b.icmp_unsigned("==", made, nothing), likely=False):
        b.ret(nothing)

    def store(name: str, value: Any) -> None:
        b.store(value, b.bitcast(b.gep(made, [ir.Constant(_I64, offsets[name])]), _OBJECT.as_pointer()))

    def share(name: str, value: Any) -> None:
        b.call(hold, [value])
        store(name, value)

    for j, name in enumerate(given):
        share(name, b.load(b.gep(arguments, [ir.Constant(_I64, j)])))
    for name, value in fixed.items():
        share(name, known(value))
    for name, items in lists.items():
        row = b.call(new_list, [ir.Constant(_I64, len(items))])
        with b.if_then(b.icmp_unsigned("==", row, nothing), likely=False):
            b.call(drop, [made])
            b.ret(nothing)
        for j, item in enumerate(items):
            value = known(item)
            b.call(hold, [value])
            b.call(set_item, [row, ir.Constant(_I64, j), value])
        store(name, row)
    b.ret(made)
    return _function(assembled(module).get_function_address("make"))


def _offsets(cls: type[Any], names: Sequence[str]) -> dict[str, int]:
    """Where in an object of a class its slots lie, in bytes."""
    sample = object.__new__(cls)
    marks = [object() for _ in names]
    for name, mark in zip(names, marks, strict=True):
        setattr(sample, name, mark)
    size = ctypes.sizeof(ctypes.c_size_t)
    words = list((ctypes.c_size_t * (cls.__basicsize__ // size)).from_address(id(sample)))
    return {name: words.index(id(mark)) * size for name, mark in zip(names, marks, strict=True)}


def _function(address: int) -> Any:
    """The Python object that calls machine code."""
    method = _Method(b"make", address, _FASTCALL, None)
    _kept.append(method)
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return kind(("PyCFunction_NewEx", ctypes.pythonapi))(ctypes.addressof(method), None, None)
