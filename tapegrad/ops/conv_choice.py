"""Which way a convolution goes: the one that has less to do, counted from sizes alone.

Measured on fifteen hundred geometries: a way takes as long as the products of its tiles, padding and unused lanes included,
and each vector of elements that is laid out, turned or stored takes as long as MOVED of them. Of both ways these counts
are within a tenth of the truth, so the choice is off only where it matters little. It never looks at the number
of threads, and a geometry asks once.
"""

from __future__ import annotations

import math
from functools import lru_cache

from .. import kernels
from .conv_panels import LONG
from .conv_plan import plan, residues
from .windows import Windows

# Products of vectors that take as long as moving one vector.
MOVED = 10
# Vectors that could be moved while a line of a padded copy begins and ends, or a tile of sums does per vector.
_LINE, _SUM = 2, 1
# Products while a map is set up, beyond the first one.
_CALL = 50_000
# What has less to do by this much is taken: layouts that do not fit into caches cost more than they count here.
_CLEARLY = 0.9
# Pairs of places that meet, of which there are tables.
_MOST = 1 << 17
# Elements of the panel of as many images as a vector has lanes. With larger ones neither way is ahead.
_LARGEST = 1 << 22


def meeting(w: Windows) -> int:
    """How many pairs of an output and a tap meet an input, and not the padding."""
    count = 1
    for n, m, kernel, s, p, d in zip(*w, strict=True):
        count *= sum(
            max(0, min(m - 1, (n - 1 + p - k * d) // s) - max(0, -((k * d - p) // s)) + 1)
            for k in range(kernel)
        )
    return count


def _rows(n: int) -> int:
    """Rows of the tiles of panels that hold so many."""
    height: int = kernels.gemm_tile.HEIGHT
    rest = n % height
    return n - rest + (0 if not rest else height // 2 if rest <= height // 2 else height)


def _up(n: int, size: int) -> int:
    return -(-n // size)


# -- what is to do -----------------------------------------------------------------------------------------


def _panels(w: Windows, images: int, channels: int, outs: int, groups: int, lanes: int, back: bool) -> int:
    """The forward map over panels, or back from outputs to inputs; channels and outs are those of a group."""
    here, there = math.prod(w.size), w.outputs()
    if back:
        here, there = there, here
        channels, outs = outs, channels
    vectors = _up(outs, lanes)
    products = _rows(images) * meeting(w) * channels * vectors
    moved = _up(images, lanes) * here * channels + images * _up(there, lanes) * lanes * vectors
    return groups * (products + MOVED * (moved + w.taps() * channels * vectors))


def _panel_sums(w: Windows, images: int, channels: int, outs: int, groups: int, lanes: int) -> int:
    """The gradient of weights over panels."""
    vectors, rows = _up(outs, lanes), _rows(channels)
    products = images * meeting(w) * rows * vectors
    moved = images * (math.prod(w.size) * _up(channels, lanes) + w.outputs() * vectors)
    chunks = _up(images * w.outputs(), LONG)
    moved += w.taps() * rows * vectors * (1 + _SUM * chunks)
    return groups * (products + MOVED * moved)


def few_places(w: Windows, outs: int, lanes: int) -> bool:
    """Whether channels fill vectors better than places do, by enough to pay for turning the result."""
    p = plan(w)
    by_channels = outs / (_up(outs, lanes) * lanes)
    return by_channels * 0.85 > p.places / (p.vectors(lanes) * lanes)


def _in_place(w: Windows, images: int, channels: int, outs: int, groups: int, lanes: int) -> int:
    """The forward map over a padded copy."""
    p, tile = plan(w), kernels.tile
    n = channels * w.taps()
    vectors = _up(outs, lanes)
    dealt = images * channels * p.plane * (1 + _LINE * lanes / p.sizes[2]) / lanes
    if few_places(w, outs, lanes):
        products = _up(images * p.places, kernels.gemm_tile.HEIGHT) * kernels.gemm_tile.HEIGHT * n * vectors
        moved = _up(images * p.places, lanes) * lanes * vectors + n * vectors
        if p.as_it_is:
            dealt = 0
    else:
        rows = tile.fitting(outs, tile.PRODUCTS)
        tall, broad = _up(outs, rows) * rows, tile.PRODUCTS[rows]
        # A tile of one row reads a vector for each product.
        products = images * _up(p.vectors(lanes), broad) * broad * max(tall, 2) * n
        moved = images * p.vectors(lanes) * outs + tall * n // lanes
    return int(groups * (products + MOVED * (moved + dealt)))


def _in_place_back(w: Windows, images: int, channels: int, outs: int, groups: int, lanes: int) -> int:
    """The map back over padded copies, one for each residue of the stride."""
    parts = residues(w)
    total = sum(_in_place(inner, images, outs, channels, groups, lanes) for _, inner, _ in parts)
    total += _CALL * (len(parts) - 1)
    turned = channels * outs * w.taps() // 2  # weights, one by one
    if len(parts) > 1:
        turned += 4 * _up(images * channels * math.prod(w.size), lanes)
    return total + groups * MOVED * turned


def _line_sums(w: Windows, images: int, channels: int, outs: int, groups: int, lanes: int) -> int:
    """The gradient of weights over lines of outputs."""
    p, tile = plan(w), kernels.tile
    rows = tile.fitting(outs, tile.GRAMS)
    tall, broad = _up(outs, rows) * rows, tile.GRAMS[rows]
    sums = tall * _up(channels * w.taps(), broad) * broad
    vectors = images * p.vectors(lanes)
    dealt = images * channels * p.plane * (1 + _LINE * lanes / p.sizes[2]) / lanes
    moved = tall * vectors + _SUM * sums * _up(vectors, LONG)
    return int(groups * (vectors * sums + MOVED * (moved + dealt)))


# -- the choice ------------------------------------------------------------------------------------------


def _possible(w: Windows, lanes: int) -> bool:
    """Whether a tile's rows fit into the lanes of a vector, and tables are not too large."""
    return lanes >= kernels.gemm_tile.HEIGHT and meeting(w) <= _MOST


@lru_cache(maxsize=1024)
def forward(w: Windows, images: int, channels: int, outs: int, groups: int, lanes: int) -> bool:
    """Whether the forward map goes over panels; channels and outs are those of a group."""
    sizes = (w, images, channels, outs, groups, lanes)
    fits = lanes * channels * groups * math.prod(w.size) <= _LARGEST
    return fits and _possible(w, lanes) and _panels(*sizes, False) < _CLEARLY * _in_place(*sizes)


@lru_cache(maxsize=1024)
def input_adjoint(w: Windows, images: int, channels: int, outs: int, groups: int, lanes: int) -> bool:
    """Whether the map back from outputs to inputs does."""
    sizes = (w, images, channels, outs, groups, lanes)
    fits = lanes * outs * groups * w.outputs() <= _LARGEST
    return fits and _possible(w, lanes) and _panels(*sizes, True) < _CLEARLY * _in_place_back(*sizes)


@lru_cache(maxsize=1024)
def weight_adjoint(w: Windows, images: int, channels: int, outs: int, groups: int, lanes: int) -> bool:
    """Whether the gradient of weights does."""
    sizes = (w, images, channels, outs, groups, lanes)
    return _possible(w, lanes) and _panel_sums(*sizes) < _CLEARLY * _line_sums(*sizes)
