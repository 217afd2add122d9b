"""default_collate and default_convert; the same cases against PyTorch where it is installed."""

from __future__ import annotations

import collections
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.data import collate, default_collate, default_collate_fn_map, default_convert

Point = collections.namedtuple("Point", ["x", "y"])


class TaggedDict(dict):  # type: ignore[type-arg]
    tag = "kept"


class TaggedList(list):  # type: ignore[type-arg]
    tag = "kept"


def plain(value: Any, tensor: type) -> Any:
    """A collated batch with its tensors as dtype and list, so that two libraries can be compared."""
    if isinstance(value, tensor):
        return str(value.dtype).split(".")[1], value.tolist()
    if isinstance(value, Mapping):
        return type(value), {key: plain(item, tensor) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [plain(item, tensor) for item in value]
    return value


BATCHES: dict[str, Any] = {
    "ints": [1, 2, 3],
    "floats": [1.0, 2.5],
    "bools": [True, False],
    "strings": ["a", "b"],
    "bytes": [b"a", b"b"],
    "float32 arrays": [np.arange(3, dtype=np.float32), np.zeros(3, np.float32)],
    "int16 matrices": [np.ones((2, 2), np.int16)] * 2,
    "numpy numbers": [np.float32(1.5), np.float32(2)],
    "numpy integers": [np.int8(1), np.int8(2)],
    "0-d arrays": [np.array(1.0), np.array(2.0)],
    "tuples": [(1, 2.0), (3, 4.0)],
    "lists": [[1, 2], [3, 4]],
    "nested": [([1, (2.0, "a")], {"k": np.zeros(2)}), ([3, (4.0, "b")], {"k": np.ones(2)})],
    "mappings": [{"a": 0, "b": "x"}, {"a": 5, "b": "y"}],
    "ordered": [collections.OrderedDict(z=1, a=2), collections.OrderedDict(z=3, a=4)],
    "named tuples": [Point(0, 0.5), Point(1, 1.5)],
    "ranges": [range(2), range(2)],
    "tagged dict": [TaggedDict(a=1), TaggedDict(a=2)],
    "tagged list": [TaggedList([1]), TaggedList([2])],
    "read-only mapping": [types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})],
}


@pytest.mark.parametrize("name", BATCHES)
def test_against_torch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    batch = BATCHES[name]
    theirs = torch.utils.data.default_collate(batch)
    assert plain(default_collate(batch), tg.Tensor) == plain(theirs, torch.Tensor)
    theirs = torch.utils.data.default_convert(batch)
    assert plain(default_convert(batch), tg.Tensor) == plain(theirs, torch.Tensor)


def test_numbers_and_arrays() -> None:
    assert plain(default_collate(BATCHES["floats"]), tg.Tensor) == ("float64", [1.0, 2.5])
    assert plain(default_collate(BATCHES["ints"]), tg.Tensor) == ("int64", [1, 2, 3])
    assert plain(default_collate(BATCHES["bools"]), tg.Tensor) == ("bool", [True, False])
    assert plain(default_collate(BATCHES["float32 arrays"]), tg.Tensor) == ("float32", [[0, 1, 2], [0, 0, 0]])
    assert default_collate(BATCHES["strings"]) == ["a", "b"]


def test_containers() -> None:
    batch = default_collate([{"x": tg.ones(2), "at": Point(1, 2.0)}, {"x": tg.zeros(2), "at": Point(3, 4.0)}])
    assert batch["x"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert type(batch["at"]) is Point
    assert batch["at"].y.dtype is tg.float64
    tagged = default_collate(BATCHES["tagged dict"])
    assert type(tagged) is TaggedDict
    assert tagged["a"].tolist() == [1, 2]


def test_tensors_are_stacked_with_their_history() -> None:
    w = tg.ones(3, requires_grad=True)
    batch = default_collate([w * 1, w * 2])
    batch.sum().backward()
    assert w.grad.tolist() == [3.0, 3.0, 3.0]


def test_functions_of_ones_own() -> None:
    class Graph:
        pass

    def keep(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return list(batch)

    one, two = Graph(), Graph()
    assert collate([(1, one), (2, two)], collate_fn_map={**default_collate_fn_map, Graph: keep})[1] == [
        one,
        two,
    ]
    with pytest.raises(TypeError, match=r"found <class .*Graph"):
        default_collate([one, two])


def test_errors() -> None:
    with pytest.raises(RuntimeError, match=r"equal size, got sizes \[1, 2\]"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"])])
    with pytest.raises(TypeError, match="found object"):
        default_collate([np.array([None])])
    with pytest.raises(RuntimeError):
        default_collate([tg.ones(2), tg.ones(3)])


def test_convert() -> None:
    converted = default_convert({"a": np.arange(2), "b": ["text", np.float32(1)], "c": Point(1, np.ones(1))})
    assert converted["a"].dtype is tg.int64
    assert converted["b"][0] == "text"
    assert converted["b"][1].dtype is tg.float32
    assert type(converted["c"]) is Point
    words = np.array(["a"])
    assert default_convert(words) is words
    t = tg.ones(1)
    assert default_convert(t) is t
