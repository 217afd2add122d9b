"""Machine code that makes objects: what they hold, whom they belong to, and that they go."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad import kernels, results
from tapegrad.ops.direct import DirectOp
from tapegrad.tape import Value


class Slotted:
    __slots__ = ("__weakref__", "first", "fixed", "row", "second", "unset")


class Freer(Slotted):  # has a __dict__, and a constructor that must not be called
    def __init__(self) -> None:
        raise AssertionError


def make(cls: type, fixed: object = None) -> Any:
    return kernels.objects.maker(cls, ("first", "second"), {"fixed": fixed}, {"row": (0, "item")})


def test_slots_are_filled() -> None:
    for cls in (Slotted, Freer):
        made = make(cls, fixed := object())("a", 2.5)
        assert type(made) is cls
        assert (made.first, made.second, made.row) == ("a", 2.5, [0, "item"])
        assert made.fixed is fixed
        assert not hasattr(made, "unset")
    made.anything = 3
    assert made.__dict__ == {"anything": 3}


def test_lists_are_new_ones() -> None:
    new = make(Slotted)
    a, b = new(1, 2), new(1, 2)
    a.row[0] = 7
    assert b.row == new(1, 2).row == [0, "item"]


def test_references_are_counted() -> None:
    fixed, given = object(), object()
    new = make(Slotted, fixed)
    before = sys.getrefcount(fixed), sys.getrefcount(given), sys.getrefcount(Slotted)
    made = [new(given, given) for _ in range(100)]
    assert sys.getrefcount(fixed) == before[0] + 100
    assert sys.getrefcount(given) == before[1] + 200
    row = sys.getrefcount(made[0].row)
    assert row == 2
    del made
    assert (sys.getrefcount(fixed), sys.getrefcount(given), sys.getrefcount(Slotted)) == before


def test_objects_in_a_cycle_are_collected() -> None:
    new = make(Slotted)
    made = new(None, None)
    assert gc.is_tracked(made)
    made.first = made
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_results_are_made_alike() -> None:
    tg.ones(2).exp()  # from now on there is machine code
    array = np.ones((2, 3), np.float32)
    by_code, by_steps = results.constant(array, "f"), results.by_steps(array, "f")
    assert results.constant is not results.by_steps
    assert type(by_code) is type(by_steps) is tg.Tensor
    assert by_code._array is by_steps._array is array
    for name in Value.__slots__:
        if name not in ("__weakref__", "_array"):
            assert getattr(by_code, name) == getattr(by_steps, name)


def test_all_namespaces_know_it() -> None:
    tg.ones(2).exp()
    for function in (tg.mul, tg.exp, tg.Tensor.__matmul__, Value._make, DirectOp.__call__):
        assert function.__globals__["constant"] is results.constant
