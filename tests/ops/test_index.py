"""x[key] and x[key] = value: every form of key, against NumPy where it agrees and against PyTorch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import gradcheck, gradgradcheck

BASE = np.arange(24.0).reshape(2, 3, 4)

# Where both libraries agree, NumPy is the oracle.
LIKE_NUMPY: list[Any] = [
    0,
    -1,
    (1, 2),
    (0, -1, 3),
    slice(None),
    slice(1, None),
    slice(0, 2, 2),
    (slice(None), 1),
    (Ellipsis, 2),
    Ellipsis,
    None,
    (None, 0),
    (slice(None), None, 1),
    (Ellipsis, None),
    (),
    (0, Ellipsis, 1),
    True,
    False,
    (slice(-2, None), slice(0, 9, 3)),
    [0, 1, 0],
    ([0, 1], [2, 0]),
    (slice(None), [2, 0]),
    (slice(None), slice(None), [3, 3, 0]),
    ([[0, 1], [1, 0]],),
    ([0, 1], slice(None), [1, 2]),
    (slice(None), [1, 2], [0, 3]),
    (Ellipsis, [0, 1]),
    np.array([1, 0, 1]),
    [-1, 0],
    BASE > 7,
    (slice(None), BASE[0] > 5),
    (slice(None), [True, False, True]),
    np.array([], np.int64),
    (0, BASE[0] > 5),
    ([True, False], slice(1, 3)),
    np.zeros((2, 3, 4), bool),
    (np.array(1), slice(1, 2)),
    np.int64(1),
    range(2),
]


def _as_tensors(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_as_tensors(k) for k in key)
    return tg.from_numpy(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", LIKE_NUMPY, ids=lambda k: repr(k)[:40].replace("\n", ""))
@pytest.mark.parametrize("transposed", [False, True])
def test_reading_and_its_gradient(key: Any, transposed: bool) -> None:
    source = BASE.transpose(1, 0, 2).copy() if transposed else BASE
    x = tg.from_numpy(source.copy()).requires_grad_()
    y = x * 1
    if transposed:
        y = y.transpose(0, 1)
    expected = BASE[key]
    picked = y[_as_tensors(key)]
    assert picked.shape == expected.shape
    np.testing.assert_array_equal(picked.detach().numpy(), expected)
    weights = np.arange(1.0, expected.size + 1).reshape(expected.shape)
    (picked * tg.from_numpy(weights)).sum().backward()
    grad = np.zeros_like(BASE)
    np.add.at(grad, key, weights)
    np.testing.assert_array_equal(x.grad.numpy(), grad.transpose(1, 0, 2) if transposed else grad)


@pytest.mark.parametrize("key", LIKE_NUMPY, ids=lambda k: repr(k)[:40].replace("\n", ""))
@pytest.mark.parametrize("recorded", [False, True])
def test_writing(key: Any, recorded: bool) -> None:
    expected = BASE.copy()
    expected[key] = 7
    x = tg.from_numpy(BASE.copy())
    y = x.requires_grad_() * 1 if recorded else x
    y[_as_tensors(key)] = 7
    np.testing.assert_array_equal(y.detach().numpy(), expected)
    shape = BASE[key].shape
    values = np.random.default_rng(0).normal(size=shape)
    v = tg.from_numpy(values).requires_grad_(recorded)
    y[_as_tensors(key)] = v
    if recorded:
        (y * y).sum().backward()
        kept = np.ones(BASE.shape)
        kept[key] = 0
        np.testing.assert_array_equal(x.grad.numpy(), 2 * BASE * kept)
        assert v.grad.shape == shape


def test_ints_come_before_a_separated_tensor_index() -> None:
    x = tg.from_numpy(BASE)
    assert x[0, :, [0, 1, 2]].shape == (3, 3)  # NumPy moves the index dimension to the front
    np.testing.assert_array_equal(x[0, :, [0, 1, 2]].numpy(), BASE[0][:, [0, 1, 2]])


def test_basic_keys_give_views_and_tensor_keys_copies() -> None:
    x = tg.zeros(3, 4)
    for view in (x[1], x[:, 2], x[..., 1:], x[None], x[tg.tensor(2)], x[0, 1]):
        assert view._base is x
        view += 1
    assert x.sum() == 4 + 3 + 9 + 12 + 4 + 1
    copy = x[[0, 1]]
    copy += 1
    assert copy._base is None
    assert x.sum() == 4 + 3 + 9 + 12 + 4 + 1


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, -4), IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
        ([0, 2], IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (slice(0, 1.5), TypeError, "slice indices must be integers"),
        (1.5, IndexError, "only integers, slices"),
        ("a", TypeError, "invalid data type"),
        (tg.tensor([1.0]), IndexError, "must be long, int, byte or bool"),
        (tg.tensor([1], dtype=tg.int16), IndexError, "must be long, int, byte or bool"),
        (tg.tensor([True, False, True]), IndexError, r"shape of the mask \[3\] at index 0"),
        (([0, 1], [0, 1, 2]), IndexError, "could not be broadcast together with shapes"),
    ],
)
def test_keys_that_do_not_fit(key: Any, error: type[Exception], words: str) -> None:
    x = tg.from_numpy(BASE.copy())
    with pytest.raises(error, match=words):
        x[key]
    with pytest.raises(error, match=words):
        x[key] = 0.0


def test_numbers_have_no_dimensions_to_index() -> None:
    x = tg.tensor(1.0)
    with pytest.raises(IndexError, match="0-dim tensor"):
        x[0]
    assert x[...].shape == ()
    assert x[None].shape == (1,)
    assert x[True].shape == (1,)
    x[()] = 3
    assert x.item() == 3


def test_values_that_do_not_fit() -> None:
    x = tg.zeros(2, 3)
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        x[0] = tg.zeros(2)
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        x[[0]] = tg.zeros(2)
    with pytest.raises(TypeError, match="can't assign a list"):
        x[0] = [1, 2, 3]
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[[0]] = tg.zeros(3, dtype=tg.float64)
    with pytest.raises(RuntimeError, match="without overflow"):
        tg.zeros(2, dtype=tg.uint8)[0] = 300
    with pytest.raises(RuntimeError, match="without overflow"):
        tg.zeros(2, dtype=tg.int64)[0] = float("nan")
    x[0] = tg.zeros(3, dtype=tg.float64)  # through a view: converted, as copy_ does
    x[x > 1] = tg.tensor(2.0, dtype=tg.float64)  # one number for a mask too
    x[0] = np.ones(3)
    x[:] = tg.ones(1, 1, 2, 3)
    assert x.sum() == 6
    whole = tg.zeros(2, dtype=tg.int64)
    whole[0] = 2.7
    assert whole.tolist() == [2, 0]


def test_the_last_of_equal_indices_wins_and_memory_may_overlap() -> None:
    x = tg.arange(4.0)
    x[[1, 1, 1]] = tg.tensor([5.0, 6.0, 7.0])
    assert x.tolist() == [0, 7, 2, 3]
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 7, 2]
    x[[0, 1, 2, 3]] = x.flip(0)
    assert x.tolist() == [2, 7, 0, 0]


def test_leaves_and_expanded_tensors_refuse_writes() -> None:
    leaf = tg.zeros(3, requires_grad=True)
    for key in (0, [0, 1], leaf > 1):
        with pytest.raises(RuntimeError, match="leaf"):
            leaf[key] = 1.0
    with tg.no_grad():
        leaf[0] = 1.0
    assert leaf.tolist() == [1, 0, 0]
    wide = tg.zeros(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="single memory"):
        wide[:, 1] = 1.0
    with pytest.raises(RuntimeError, match="single memory"):
        wide[[0, 1]] = 1.0
    wide[0, 1] = 1.0  # each of these elements is there once


def test_a_write_is_noticed_by_what_saved_the_old_values() -> None:
    x = tg.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    y[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        z.backward()
    x = tg.ones(3, requires_grad=True)
    index = tg.tensor([0, 1])
    z = x[index].sum()
    index[0] = 2
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        z.backward()


REPEATED = [[0, 1, 1], (slice(None), [2, 0, 2]), ([0, 1, 1], slice(None), [1, 1, 1])]
UNIQUE = [1, (slice(None), 1), [1, 0], (slice(None), [2, 0]), ([0, 1], slice(None), [1, 1]), BASE > 10]


@pytest.mark.parametrize("key", UNIQUE + REPEATED)
def test_second_order_of_reading(key: Any) -> None:
    x = tg.from_numpy(np.random.default_rng(1).normal(size=BASE.shape)).requires_grad_()
    key = _as_tensors(key)
    assert gradcheck(lambda a: a[key] ** 2, (x,))
    assert gradgradcheck(lambda a: a[key] ** 2, (x,))


@pytest.mark.parametrize("key", UNIQUE)
def test_second_order_of_writing(key: Any) -> None:
    rng = np.random.default_rng(1)
    x = tg.from_numpy(rng.normal(size=BASE.shape)).requires_grad_()
    values = tg.from_numpy(rng.normal(size=BASE[key].shape)).requires_grad_()
    key = _as_tensors(key)

    def written(a: Any, v: Any) -> Any:
        b = a * 1
        b[key] = v * v
        return b * b

    assert gradcheck(written, (x, values))
    assert gradgradcheck(written, (x, values))


def test_index_put_adds_up_equal_indices() -> None:
    x = tg.zeros(3, dtype=tg.float64, requires_grad=True)
    v = tg.arange(4.0, dtype=tg.float64).requires_grad_()
    index = (tg.tensor([0, 2, 0, -1]),)
    y = x.index_put(index, v, accumulate=True)
    assert y.tolist() == [2, 0, 4]
    (y * tg.tensor([1.0, 2.0, 3.0], dtype=tg.float64)).sum().backward()
    assert v.grad.tolist() == [1, 3, 1, 3]
    assert gradgradcheck(lambda a, b: (a * a).index_put(index, b * b, accumulate=True), (x, v))
    z = tg.zeros(3)
    z.index_put_((tg.tensor([True, False, True]),), tg.tensor(5.0))
    assert z.tolist() == [5, 0, 5]
    with pytest.raises(TypeError, match="values"):
        z.index_put_((tg.tensor([0]),), 1.0)
    with pytest.raises(IndexError, match="out of bounds"):
        z.index_put_((tg.tensor([3]),), tg.tensor(1.0))


# -- random keys against PyTorch ---------------------------------------------------------------------------


def _random_key(draw: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = []
    for d in range(draw.randrange(1, len(shape) + 2)):
        n = shape[d] if d < len(shape) else 1
        kind = draw.choice(["int", "slice", "none", "ellipsis", "list", "list", "grid", "mask", "bool", "0d"])
        if kind == "int":
            key.append(draw.randrange(-n, n))
        elif kind == "slice":
            key.append(
                slice(*(draw.choice([None, *range(-3, 4)]) for _ in range(2)), draw.choice([None, 1, 2]))
            )
        elif kind == "none":
            key.append(None)
        elif kind == "ellipsis" and Ellipsis not in [k for k in key if not isinstance(k, np.ndarray)]:
            key.append(Ellipsis)
        elif kind == "list":
            key.append(np.array([draw.randrange(-n, n) for _ in range(2)]))
        elif kind == "grid":
            key.append(np.array([[draw.randrange(-n, n)] for _ in range(2)]))
        elif kind == "mask":
            key.append(np.array([draw.random() < 0.5 for _ in range(n)]))
        elif kind == "bool":
            key.append(draw.random() < 0.8)
        else:
            key.append(np.array(draw.randrange(-n, n)))
    return tuple(key)


@pytest.mark.parametrize("seed", range(4))
def test_random_keys_as_pytorch(seed: int) -> None:
    torch = pytest.importorskip("torch")
    draw = random.Random(seed)

    def run(library: Any, source: np.ndarray, key: tuple[Any, ...], mode: str) -> list[np.ndarray]:
        key = tuple(library.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)
        x = library.from_numpy(source.copy()).requires_grad_()
        y = (x * 1).transpose(0, -1)
        if mode == "read":
            out = y[key]
            (out * out * out).sum().backward()
        elif mode == "number":
            y[key] = 2.5
            out = y
            (y * y).sum().backward()
        else:
            y[key] += y[key] * 2
            out = y
            (y * y).sum().backward()
        return [out.detach().numpy(), x.grad.numpy()]

    compared = 0
    for _ in range(150):
        shape = tuple(draw.choice([1, 2, 3, 4]) for _ in range(draw.randrange(1, 4)))
        source = np.random.default_rng(compared).normal(size=shape)
        key, mode = _random_key(draw, shape[::-1]), draw.choice(["read", "number", "add"])
        results, errors = [], []
        for library in (torch, tg):
            try:
                results.append(run(library, source, key, mode))
                errors.append(None)
            except (IndexError, ValueError, RuntimeError, AttributeError) as err:
                errors.append(type(err))
        if errors[0] is AttributeError:
            continue  # nothing was picked, and PyTorch gave no gradient
        if errors[0] is None and errors[1] is IndexError and not run_is_nonempty(torch, source, key):
            continue  # PyTorch does not look at indices that pick nothing
        assert errors[0] is errors[1], (shape, key, mode, errors)
        if errors[0] is None:
            compared += 1
            for theirs, ours in zip(*results, strict=True):
                assert theirs.shape == ours.shape, (shape, key, mode)
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, err_msg=f"{shape} {key} {mode}")
    assert compared > 40


def run_is_nonempty(torch: Any, source: np.ndarray, key: tuple[Any, ...]) -> bool:
    x = torch.from_numpy(source).transpose(0, -1)
    return bool(x[tuple(torch.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)].numel())
