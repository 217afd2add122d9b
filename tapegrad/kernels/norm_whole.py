"""Batch, group and instance norm: kernels of norm.py one after the other, in one call.

For little data the time to reach a kernel is what counts. A group of planes of one sample, which lie side by side, is
read once from memory.
"""

from __future__ import annotations

from typing import Any

import numba

from . import norm
from .jit import FLAGS, Kernel, kernel


def _within(whole: Kernel) -> Any:
    """A kernel as a function that others call."""
    return numba.njit(**FLAGS)(whole.fn)


_plane_moments = _within(norm.plane_moments)
_merge_moments = _within(norm.merge_moments)
_coefficients = _within(norm.coefficients)
_scale_planes = _within(norm.scale_planes)
_plane_sums = _within(norm.plane_sums)
_weight_grads = _within(norm.weight_grads)
_input_coefficients = _within(norm.input_coefficients)
_combine_planes = _within(norm.combine_planes)


@kernel
def group_moments(x, mean, m2, group_mean, group_var, length, first, step, members, planes, start, stop):
    """Mean and variance of each group of planes; ``mean`` and ``m2`` are those of its planes. The range counts groups"""
    _plane_moments(x, mean, m2, length, 0, planes)
    _merge_moments(mean, m2, group_mean, group_var, length, first, step, members, start, stop)


@kernel
def normalize_planes(
    x, mean, var, weight, bias, shift, scale, offset, out, eps, length, per, channels, wrap, start, stop
):
    """out = x, normalised by the statistics of its group; the range counts planes"""
    _coefficients(mean, var, weight, bias, shift, scale, offset, eps, per, channels, 0, wrap)
    _scale_planes(x, shift, scale, offset, out, length, wrap, start, stop)


@kernel
def normalize_planes_grad(
    g, x, mean, var, weight, shift, sums, products, by_weight, by_bias, by_g, by_x, offset, out,
    eps, length, per, channels, wrap, first, step, members, start, stop,
):  # fmt: skip
    """The gradients of input, weight and bias of planes normalised by their own statistics; the range counts planes

    From ``shift`` to ``products`` and from ``by_g`` to ``offset`` there is room for numbers of planes.
    """
    for k in range(wrap):
        shift[k] = mean[k // per]
    _plane_sums(g, x, shift, sums, products, length, wrap, start, stop)
    _weight_grads(
        sums, products, mean, var, shift, by_weight, by_bias, eps, per, channels, stop, wrap, 0, channels
    )
    _input_coefficients(
        sums, products, mean, var, weight, shift, by_g, by_x, offset, eps, length, per, channels, first, step,
        members, 0, wrap // per,
    )  # fmt: skip
    _combine_planes(g, x, shift, by_g, by_x, offset, out, length, wrap, start, stop)


@kernel
def normalize_groups_grad(
    g, x, mean, var, weight, shift, sums, products, by_g, by_x, offset, out, eps, length, per, channels, planes,
    start, stop,
):  # fmt: skip
    """The gradient of the input where planes per group lie side by side; the range counts groups

    ``sums`` and ``products`` become those that weight_grads needs.
    """
    for s in range(start, stop):
        first, last = s * per, (s + 1) * per
        for k in range(first, last):
            shift[k] = mean[s]
        _plane_sums(g, x, shift, sums, products, length, planes, first, last)
        _input_coefficients(
            sums, products, mean, var, weight, shift, by_g, by_x, offset, eps, length, per, channels, per, 1, per, s,
            s + 1,
        )  # fmt: skip
        _combine_planes(g, x, shift, by_g, by_x, offset, out, length, planes, first, last)
