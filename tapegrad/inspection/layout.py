"""A layered layout: every box on a layer below those that it depends on, few crossings, straight long arrows.

In the manner of Sugiyama, Tagawa and Toda (1981): layers by longest path; arrows over several layers get a bend point in each;
order within the layers by sweeps of barycentres; positions by alternating projections onto "as near to the neighbours as the
gaps allow", each of which is an isotonic regression. A label is a box of its own between the layers, so it cannot
overlap anything.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

GAP_X = 22.0
GAP_Y = 36.0
BEND = 8.0  # width kept free around an arrow that passes a layer
SWEEPS = 12
MOST_BENDS = 4000
FEW = 1500  # items up to which the places are worked out with patience


@dataclass
class Placed:
    """Top left corner and size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The horizontal middle."""
        return self.x + self.width / 2


@dataclass
class Layout:
    """Where boxes, labels (None where an arrow has none) and the points of arrows lie; lines run from top to bottom."""

    boxes: list[Placed]
    labels: list[Placed | None]
    lines: list[list[tuple[float, float]]]
    width: float
    height: float


@dataclass
class _Item:
    """Something on a layer: a box, a label, or a bend of an arrow."""

    width: float
    height: float
    layer: int
    box: int = -1
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    x: float = 0.0  # of the middle
    order: float = 0.0


def layout(
    sizes: Sequence[tuple[float, float]],
    arrows: Sequence[tuple[int, int]],
    labels: Sequence[tuple[float, float] | None],
    order: Sequence[float],
) -> Layout:
    """Place boxes of given sizes.

    ``arrows`` are (tail, head) with ``order[tail] < order[head]``; ``labels`` their labels' sizes or None.
    """
    layers = _layers(len(sizes), arrows, order)
    if any(label is not None for label in labels):
        layers = [2 * k for k in layers]
    items = [_Item(w, h, layers[j], j) for j, (w, h) in enumerate(sizes)]
    chains = _chains(items, arrows, labels)
    rows = _rows(items)
    _untangle(items, rows)
    _spread(items, rows)
    return _result(items, rows, len(sizes), chains, labels)


# -- layers -----------------------------------------------------------------------------------------


def _layers(count: int, arrows: Sequence[tuple[int, int]], order: Sequence[float]) -> list[int]:
    """The longest path to each box; what nothing leads to stands right above its first user."""
    heads: list[list[int]] = [[] for _ in range(count)]
    tails: list[list[int]] = [[] for _ in range(count)]
    for tail, head in arrows:
        heads[tail].append(head)
        tails[head].append(tail)
    layers = [0] * count
    for j in sorted(range(count), key=lambda k: order[k]):
        layers[j] = max((layers[t] + 1 for t in tails[j]), default=0)
    for j in range(count):
        if not tails[j] and heads[j]:
            layers[j] = min(layers[h] for h in heads[j]) - 1
    lowest = min(layers, default=0)
    return [k - lowest for k in layers]


def _chains(
    items: list[_Item],
    arrows: Sequence[tuple[int, int]],
    labels: Sequence[tuple[float, float] | None],
) -> list[tuple[list[int], int]]:
    """Per arrow: the items it passes from tail to head, and which of them is its label (-1 for none)."""
    spans = sum(max(0, items[h].layer - items[t].layer - 1) for t, h in arrows)
    chains = []
    for (tail, head), label in zip(arrows, labels, strict=True):
        first, last = items[tail].layer + 1, items[head].layer
        chain, at = [tail], -1
        for layer in range(first, last):
            labelled = label is not None and layer == last - 1
            if not labelled and spans > MOST_BENDS and last - first > 8:
                continue  # so many bends that the arrow is better drawn straight
            width, height = label if labelled and label is not None else (BEND, 0.0)
            if labelled:
                at = len(items)
            chain.append(len(items))
            items.append(_Item(width, height, layer))
        chain.append(head)
        for a, b in zip(chain, chain[1:], strict=False):
            items[a].below.append(b)
            items[b].above.append(a)
        chains.append((chain, at))
    return chains


def _rows(items: list[_Item]) -> list[list[int]]:
    """Items per layer, in the order of a walk from the top, which keeps families together."""
    rows: list[list[int]] = [[] for _ in range(max((i.layer for i in items), default=-1) + 1)]
    seen: set[int] = set()
    for start in sorted(range(len(items)), key=lambda j: (items[j].layer, j)):
        stack = [start]
        while stack:
            j = stack.pop()
            if j not in seen:
                seen.add(j)
                rows[items[j].layer].append(j)
                stack += reversed(items[j].below)
    return rows


# -- order within layers ------------------------------------------------------------------------------


def _untangle(items: list[_Item], rows: list[list[int]]) -> None:
    """Sort the layers by the mean place of their neighbours, up and down, and keep the best order seen."""
    _number(items, rows)
    best, fewest = [list(row) for row in rows], _crossings(items, rows)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            means = {}
            for place, j in enumerate(row):
                near = items[j].above if down else items[j].below
                means[j] = sum(items[k].order for k in near) / len(near) if near else float(place)
            row.sort(key=means.__getitem__)
            for place, j in enumerate(row):
                items[j].order = place
        count = _crossings(items, rows)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
    rows[:] = best
    _number(items, rows)


def _number(items: list[_Item], rows: list[list[int]]) -> None:
    for row in rows:
        for place, j in enumerate(row):
            items[j].order = place


def _crossings(items: list[_Item], rows: list[list[int]]) -> int:
    """How many pairs of arrows cross between neighbouring layers."""
    total = 0
    for row in rows:
        ends: list[float] = []
        for j in row:
            near = sorted(items[k].order for k in items[j].below)
            total += sum(len(ends) - bisect.bisect_right(ends, e) for e in near)
            for e in near:
                bisect.insort(ends, e)
    return total


# -- positions ----------------------------------------------------------------------------------------


def _spread(items: list[_Item], rows: list[list[int]]) -> None:
    for row in rows:
        left = 0.0
        for j in row:
            items[j].x = left + items[j].width / 2
            left += items[j].width + GAP_X
    turns = (8 if len(items) < FEW else 2) * SWEEPS
    for turn in range(turns):
        down = turn % 2 == 0
        for row in rows if down else reversed(rows):
            _pull(items, row, both=turn >= turns // 3, down=down)


def _pull(items: list[_Item], row: list[int], both: bool, down: bool) -> None:
    """Move a layer as near to its neighbours as the gaps allow."""
    wanted, weights, offsets = [], [], []
    offset = 0.0
    for place, j in enumerate(row):
        item = items[j]
        if place:
            before = items[row[place - 1]]
            offset += (before.width + item.width) / 2 + GAP_X
        near = (item.above if down else item.below) or (item.below if down else item.above)
        if both:
            near = item.above + item.below
        pulls = [(items[k].x, _pull_of(item, items[k])) for k in near]
        weight = sum(w for _, w in pulls)
        wanted.append(sum(x * w for x, w in pulls) / weight if weight else item.x)
        weights.append(weight or 0.1)
        offsets.append(offset)
    places = isotonic([w - o for w, o in zip(wanted, offsets, strict=True)], weights)
    for j, x, o in zip(row, places, offsets, strict=True):
        items[j].x = x + o


def _pull_of(a: _Item, b: _Item) -> float:
    """Long arrows shall be straight, so their bends hold each other firmly."""
    return (8.0 if b.box < 0 else 2.0) if a.box < 0 else (2.0 if b.box < 0 else 1.0)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nondecreasing sequence with the smallest weighted squared distance to ``values``."""
    blocks: list[list[float]] = []  # mean, weight, count
    for value, weight in zip(values, weights, strict=True):
        blocks.append([value, weight, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, w, n = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + mean * w) / (last[1] + w)
            last[1] += w
            last[2] += n
    return [mean for mean, _, n in blocks for _ in range(int(n))]


def _result(
    items: list[_Item],
    rows: list[list[int]],
    count: int,
    chains: list[tuple[list[int], int]],
    labels: Sequence[tuple[float, float] | None],
) -> Layout:
    left = min((i.x - i.width / 2 for i in items), default=0.0)
    width = max((i.x + i.width / 2 - left for i in items), default=0.0)
    tops, heights, top = [], [], 0.0
    for row in rows:
        height = max(items[j].height for j in row)
        tops.append(top)
        heights.append(height)
        only_small = all(items[j].box < 0 for j in row)
        top += height + (GAP_Y / 2 if only_small else GAP_Y)
    height = tops[-1] + heights[-1] if rows else 0.0
    placed = []
    for i in items:
        i.x -= left
        y = tops[i.layer] + (heights[i.layer] - i.height) / 2
        placed.append(Placed(i.x - i.width / 2, y, i.width, i.height))
    lines = []
    ports = _ports(items, placed, chains)
    for number, (chain, _) in enumerate(chains):
        start, end = ports[number]
        # Past the taller boxes beside the two ends an arrow goes straight.
        first, last = items[chain[0]].layer, items[chain[-1]].layer
        points = [(start, placed[chain[0]].y + placed[chain[0]].height)]
        if points[0][1] < tops[first] + heights[first]:
            points.append((start, tops[first] + heights[first]))
        for j in chain[1:-1]:
            points += [
                (items[j].x, tops[items[j].layer]),
                (items[j].x, tops[items[j].layer] + heights[items[j].layer]),
            ]
        if tops[last] < placed[chain[-1]].y:
            points.append((end, tops[last]))
        points.append((end, placed[chain[-1]].y))
        lines.append(points)
    shown = [
        placed[at] if at >= 0 and label is not None else None
        for (_, at), label in zip(chains, labels, strict=True)
    ]
    return Layout(placed[:count], shown, lines, width, height)


def _ports(
    items: list[_Item], placed: list[Placed], chains: list[tuple[list[int], int]]
) -> list[tuple[float, float]]:
    """Where arrows leave and enter boxes: side by side, in the order of where they go."""
    ends: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for number, (chain, _) in enumerate(chains):
        ends.setdefault((chain[0], True), []).append((items[chain[1]].x, number))
        ends.setdefault((chain[-1], False), []).append((items[chain[-2]].x, number))
    starts, stops = [0.0] * len(chains), [0.0] * len(chains)
    for (box, out), found in ends.items():
        found.sort()
        step = min(26.0, placed[box].width * 0.7 / len(found))
        for place, (_, number) in enumerate(found):
            x = placed[box].middle + (place - (len(found) - 1) / 2) * step
            (starts if out else stops)[number] = x
    return list(zip(starts, stops, strict=True))
