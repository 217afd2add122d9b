"""Tensors without elements: how they are joined, and their strides."""

from __future__ import annotations

import pytest

import tapegrad as tg


@pytest.mark.parametrize("dim", [0, 1, -2, 5])
def test_cat_of_nothing_but_empty_tensors_takes_any_dimension(dim: int) -> None:
    x = tg.zeros(0, requires_grad=True)
    y = tg.cat([x, tg.zeros(0, dtype=tg.float64)], dim)
    assert y.shape == (0,)
    assert y.dtype is tg.float64
    y.sum().backward()
    assert x.grad.shape == (0,)


def test_cat_leaves_empty_tensors_out_and_checks_the_dimension_by_the_others() -> None:
    assert tg.cat([tg.zeros(0), tg.ones(2, 3)], 1).shape == (2, 3)
    for others in ([tg.ones(2, 3)], [tg.ones(2)], [tg.ones(1, 0)]):
        with pytest.raises(IndexError, match="Dimension out of range"):
            tg.cat([tg.zeros(0), *others], 2)


def test_tensors_without_elements_have_the_strides_of_contiguous_ones() -> None:
    assert tg.ones(0).stride() == (1,)
    assert tg.ones(2, 0, 3).stride() == (3, 3, 1)
    assert tg.ones(3)[tg.zeros(3) > 0].stride(0) == 1
