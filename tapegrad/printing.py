"""How tensors are printed: PyTorch's layout, from an array and the words that follow it.

All elements of a tensor share one notation (integers with a point, fixed or scientific) and one width, both
chosen from the elements that are shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import dtypes


@dataclasses.dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = _Options()
_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print; what is None stays, except ``sci_mode``, where None means automatic.

    ``precision``: digits after the point. ``threshold``: number of elements above which a tensor is
    summarised, to ``edgeitems`` at each end of each dimension. ``linewidth``: columns. ``profile``:
    "default", "short" or "full", applied before the others.
    """
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"profile must be one of {', '.join(map(repr, _PROFILES))}, got {profile!r}")
    chosen = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in (*_PROFILES.get(profile or "", {}).items(), *chosen.items()):
        if value is not None:
            setattr(_options, name, value)
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The present options, as keyword arguments of ``set_printoptions``."""
    return dataclasses.asdict(_options)


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Context with other print options; arguments as in ``set_printoptions``."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


def format_tensor(array: np.ndarray, suffixes: Sequence[str] = (), prefix: str = "tensor(") -> str:
    """The printed form of a tensor that holds ``array``.

    ``suffixes`` (``grad_fn=...``, ``requires_grad=True``) follow the size and the dtype, which are
    given where the elements do not show them.
    """
    indent = len(prefix)
    d = dtypes.of(array)
    empty = array.size == 0
    evident = (
        [dtypes.get_default_dtype()] if empty else [dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_]
    )
    facts = []
    if (empty and array.ndim != 1) or (not empty and _options.edgeitems == 0):
        facts.append(f"size={array.shape}")
    if d not in evident:
        facts.append(f"dtype={d}")
    return _with_suffixes(prefix + _elements(array, indent), [*facts, *suffixes], indent)


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int) -> str:
    """Append each suffix to the last line if it fits there, else to a line of its own."""
    # PyTorch counts the last line two columns longer than it is: the comma and the bracket to come.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def _elements(array: np.ndarray, indent: int) -> str:
    if array.size == 0:
        return "[]"
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    summarize = array.size > _options.threshold
    write, width = _notation(_shown(array) if summarize else array)
    return _block(array, indent, summarize, lambda value: write(value).rjust(width), width)


def _shown(array: np.ndarray) -> np.ndarray:
    """The elements that a summary shows: the first and last few along each dimension."""
    edge = _options.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            array = np.take(array, [*range(edge), *range(size - edge, size)], axis)
    return array


def _notation(array: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """How to write one element, and the width that all of them need."""
    if array.dtype.kind != "f":
        return str, max(map(len, map(str, array.ravel().tolist())), default=1)
    values = array[np.isfinite(array) & (array != 0)]
    if values.size == 0:
        return _whole, 1
    size = np.abs(values.astype(np.float64))
    least, most = float(size.min()), float(size.max())
    scientific = _options.sci_mode
    if scientific is None:
        scientific = most / least > 1000 or most > 1e8 or least < 1e-4
    write: Callable[[Any], str]
    if scientific:
        write = f"{{:.{_options.precision}e}}".format
    elif bool((values == np.ceil(values)).all()):
        write = _whole
    else:
        write = f"{{:.{_options.precision}f}}".format
    # 0, inf and nan do not count for the width, as in PyTorch.
    return write, max(1, *map(len, map(write, values.tolist())))


def _whole(value: float) -> str:
    """An integer among floats: a point tells the type; inf and nan need none."""
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


def _block(array: np.ndarray, indent: int, summarize: bool, write: Callable[[Any], str], width: int) -> str:
    """Brackets, line breaks and dots of one (sub)array whose first line starts at column ``indent``."""
    edge = _options.edgeitems
    if array.ndim == 0:
        return write(array.item())
    if array.ndim == 1:
        if summarize and edge == 0:
            items = ["..."]
        elif summarize and len(array) > 2 * edge:
            items = [*map(write, array[:edge].tolist()), " ...", *map(write, array[-edge:].tolist())]
        else:
            items = list(map(write, array.tolist()))
        per_line = max(1, (_options.linewidth - indent) // (width + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows: Sequence[int] = range(len(array))
    cut = summarize and len(array) > 2 * edge
    if cut:
        rows = [*rows[:edge], *rows[len(array) - edge :]]
    blocks = [_block(array[i], indent + 1, summarize, write, width) for i in rows]
    if cut:
        blocks.insert(edge, "...")
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(blocks) + "]"
