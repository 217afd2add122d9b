"""A line search for the strong Wolfe conditions, by cubic interpolation.

Along a direction, f(t) has to fall by at least c1 * t * slope(0), and its slope has to
shrink to at most c2 of the initial one. First t grows until an interval must contain such a point,
then the interval shrinks around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

C1, C2 = 1e-4, 0.9
LEAST_WIDTH = 1e-9


class Point(NamedTuple):
    """A step length with the function's value, gradient and slope there."""

    t: float
    value: float
    grad: np.ndarray
    slope: float


def strong_wolfe(
    at: Callable[[float], Point], start: Point, t: float, reach: float, limit: int
) -> tuple[Point, int]:
    """The best point found and the number of evaluations.

    ``reach`` is the largest element of the direction; ``limit`` bounds the iterations.
    """

    def too_high(point: Point) -> bool:
        return point.value > start.value + C1 * point.t * start.slope

    def flat_enough(point: Point) -> bool:
        return abs(point.slope) <= -C2 * start.slope

    before, now = start, at(t)
    evaluations, rounds = 1, 0
    while rounds < limit:
        if (
            too_high(now)
            or (rounds > 1 and now.value >= before.value)
            or (now.slope >= 0 and not flat_enough(now))
        ):
            break
        if flat_enough(now):
            return now, evaluations
        least, most = now.t + 0.01 * (now.t - before.t), now.t * 10
        before, now = now, at(_cubic_minimum(before, now, least, most))
        evaluations += 1
        rounds += 1
    low, high = (start, now) if rounds == limit else (before, now)
    ends = [low, high]
    return _zoom(at, ends, too_high, flat_enough, reach, evaluations, rounds, limit)


def _zoom(
    at: Callable[[float], Point],
    ends: list[Point],
    too_high: Callable[[Point], bool],
    flat_enough: Callable[[Point], bool],
    reach: float,
    evaluations: int,
    rounds: int,
    limit: int,
) -> tuple[Point, int]:
    """Shrink an interval that contains a point as wanted."""
    low = 0 if ends[0].value <= ends[1].value else 1
    hesitated = False
    while rounds < limit:
        left, right = min(p.t for p in ends), max(p.t for p in ends)
        if (right - left) * reach < LEAST_WIDTH:
            break
        t = _cubic_minimum(ends[0], ends[1], left, right)
        # Close to an end twice, or at it: go a tenth of the interval inwards instead.
        margin = 0.1 * (right - left)
        close = min(right - t, t - left) < margin
        if close and (hesitated or t >= right or t <= left):
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            hesitated = False
        else:
            hesitated = close
        now = at(t)
        evaluations += 1
        rounds += 1
        high = 1 - low
        if too_high(now) or now.value >= ends[low].value:
            ends[high] = now
            low = 0 if ends[0].value <= ends[1].value else 1
            continue
        done = flat_enough(now)
        if not done and now.slope * (ends[high].t - ends[low].t) >= 0:
            ends[high] = ends[low]
        ends[low] = now
        if done:
            break
    return ends[low], evaluations


def _cubic_minimum(a: Point, b: Point, least: float, most: float) -> float:
    """Where the cubic through two values and slopes is smallest, within bounds; their middle if nowhere."""
    if a.t > b.t:
        a, b = b, a
    bend = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = bend * bend - a.slope * b.slope
    if square < 0:
        return (least + most) / 2.0
    root = math.sqrt(square)
    bottom = b.slope - a.slope + 2 * root
    if bottom == 0:
        return (least + most) / 2.0
    return min(max(b.t - (b.t - a.t) * ((b.slope + root - bend) / bottom), least), most)
