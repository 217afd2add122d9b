"""Joining tensors: the old convention about tensors of shape (0,)."""

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
