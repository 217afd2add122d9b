"""gather, scatter, rows by number, masks, diagonals, embeddings: against PyTorch and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4))
V = RNG.normal(size=(2, 4))
INDEX = np.array([[0, 2, 0, 1], [2, 2, 0, 0]])
DISTINCT = np.array([[0, 2, 0, 1], [2, 1, 1, 0]])
ROWS = np.array([2, 0])
MASK = X > 0


def t(array: Any, requires_grad: bool = False) -> Any:
    return tg.from_numpy(np.array(array)).requires_grad_(requires_grad)


# name -> (function of the library and of tensors, tensors that are differentiated)
CASES: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "gather": (lambda m, x: x.gather(0, m.from_numpy(INDEX)), (X,)),
    "gather, smaller index": (lambda m, x: x.gather(1, m.from_numpy(INDEX[:, :2])), (X,)),
    "scatter": (lambda m, x, v: x.scatter(0, m.from_numpy(DISTINCT), v), (X, V)),
    "scatter number": (lambda m, x: x.scatter(0, m.from_numpy(INDEX), 2.5), (X,)),
    "scatter, larger source": (lambda m, x, v: x.scatter(0, m.from_numpy(DISTINCT[:1, :2]), v), (X, V)),
    "scatter multiply": (lambda m, x: x.scatter(0, m.from_numpy(DISTINCT), 2.5, reduce="multiply"), (X,)),
    "scatter_add": (lambda m, x, v: x.scatter_add(0, m.from_numpy(INDEX), v), (X, V)),
    "scatter_add, last dim": (lambda m, x, v: x.scatter_add(1, m.from_numpy(INDEX), v), (X, V)),
    **{
        f"scatter_reduce {how} {alone}": (
            lambda m, x, v, how=how, alone=alone: x.scatter_reduce(
                0, m.from_numpy(INDEX), v, how, include_self=alone
            ),
            (X, V),
        )
        for how in ("sum", "prod", "mean", "amax", "amin")
        for alone in (True, False)
    },
    **{
        f"index_reduce {how}": (
            lambda m, x, v, how=how: x.index_reduce(0, m.from_numpy(np.array([1, 1])), v, how),
            (X, V),
        )
        for how in ("prod", "mean", "amax", "amin")
    },
    "take_along_dim": (lambda m, x: m.take_along_dim(x, m.from_numpy(INDEX[:, :1]), 1), (X[:2],)),
    "take_along_dim flat": (lambda m, x: m.take_along_dim(x, m.from_numpy(INDEX)), (X,)),
    "take": (lambda m, x: x.take(m.from_numpy(np.array([[0, -1], [5, 5]]))), (X,)),
    "put": (lambda m, x, v: x.put(m.from_numpy(np.array([[0, -1, 3, 4], [5, 6, 7, 8]])), v), (X, V)),
    "put adding": (lambda m, x, v: x.put(m.from_numpy(INDEX), v, accumulate=True), (X, V)),
    "index_select": (lambda m, x: x.index_select(1, m.from_numpy(np.array([3, 0, 3]))), (X,)),
    "index_add": (lambda m, x, v: x.index_add(0, m.from_numpy(np.array([1, 1])), v, alpha=2), (X, V)),
    "index_copy": (lambda m, x, v: x.index_copy(0, m.from_numpy(ROWS), v), (X, V)),
    "index_fill": (lambda m, x, v: x.index_fill(0, m.from_numpy(np.array([1, 2, 1])), v), (X, V[0, 0])),
    "masked_fill": (lambda m, x: x.masked_fill(m.from_numpy(MASK), 3), (X,)),
    "masked_fill tensor": (lambda m, x, v: x.masked_fill(m.from_numpy(MASK), v), (X, V[0, 0])),
    "masked_fill, both broadcast": (lambda m, x: x.masked_fill(m.from_numpy(MASK[:, :1]), 3), (X[:1],)),
    "masked_select": (lambda m, x: x.masked_select(m.from_numpy(MASK)), (X,)),
    "masked_select, broadcast": (lambda m, x: x.masked_select(m.from_numpy(MASK[0])), (X,)),
    "masked_scatter": (lambda m, x, v: x.masked_scatter(m.from_numpy(MASK), v), (X, X[::-1].copy())),
    "where": (lambda m, x, v: m.where(m.from_numpy(MASK), x, v), (X, V[:1])),
    "repeat_interleave": (lambda m, x: x.repeat_interleave(m.from_numpy(np.array([2, 0, 1])), 0), (X,)),
    "repeat_interleave flat": (lambda m, x: x.repeat_interleave(2), (X,)),
    "diag": (lambda m, x: m.diag(x, 1), (X,)),
    "diag of a vector": (lambda m, x: m.diag(x, -1), (X[0],)),
    "diag_embed": (lambda m, x: m.diag_embed(x, 1, 0, 2), (X,)),
    "diagflat": (lambda m, x: m.diagflat(x), (X[:2, :2],)),
    "tril": (lambda m, x: x.tril(-1), (RNG.normal(size=(2, 3, 4)),)),
    "triu": (lambda m, x: x.transpose(0, 1).triu(1), (X,)),
    "select_scatter": (lambda m, x, v: x.select_scatter(v, 0, -1), (X, V[0])),
    "slice_scatter": (lambda m, x, v: x.slice_scatter(v, 0, 0, None, 2), (X, V)),
    "diagonal_scatter": (lambda m, x, v: x.diagonal_scatter(v, 1), (X, V[0, :3])),
    "narrow_copy": (lambda m, x: x.narrow_copy(1, 1, 2), (X,)),
    "block_diag": (lambda m, x, v: m.block_diag(x, v), (X, V)),
    "embedding": (lambda m, w: m.nn.functional.embedding(m.from_numpy(INDEX), w, padding_idx=2), (X,)),
    "embedding by frequency": (
        lambda m, w: m.nn.functional.embedding(m.from_numpy(INDEX), w, scale_grad_by_freq=True),
        (X,),
    ),
    "embedding_bag sum": (
        lambda m, w, s: m.nn.functional.embedding_bag(
            m.from_numpy(INDEX), w, mode="sum", per_sample_weights=s
        ),
        (X, V),
    ),
    "embedding_bag mean": (
        lambda m, w: m.nn.functional.embedding_bag(
            m.from_numpy(INDEX[0]), w, m.from_numpy(np.array([0, 1, 1])), mode="mean", padding_idx=2
        ),
        (X,),
    ),
    "embedding_bag max": (
        lambda m, w: m.nn.functional.embedding_bag(m.from_numpy(INDEX), w, mode="max"),
        (X,),
    ),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    if name in ("scatter, larger source", "scatter multiply"):
        pytest.skip("PyTorch has no gradient for it")
    function, arrays = CASES[name]
    found = []
    for library in (torch, tg):
        for dtype in (np.float64, np.float32):
            inputs = [library.from_numpy(np.array(a, dtype)).requires_grad_() for a in arrays]
            out = function(library, *inputs)
            weights = library.from_numpy(np.linspace(-1, 2, out.numel()).reshape(out.shape).astype(dtype))
            (out * weights).sum().backward()
            found.append([out.detach().numpy(), *(i.grad.numpy() for i in inputs)])
    for theirs, ours in zip(found[:2], found[2:], strict=True):
        for a, b in zip(theirs, ours, strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            np.testing.assert_allclose(b, a, rtol=1e-6 if a.dtype == np.float32 else 1e-13, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    function, arrays = CASES[name]
    if name in ("embedding", "embedding by frequency", "embedding_bag mean"):
        pytest.skip("the gradient leaves rows out or scales them, on purpose")
    inputs = tuple(t(a, True) for a in arrays)
    assert gradcheck(lambda *xs: function(tg, *xs), inputs)
    assert gradgradcheck(lambda *xs: function(tg, *[x * x for x in xs]), inputs)


def test_products_with_zeros_among_the_factors() -> None:
    x, v = t([0.0, 2.0, 3.0, 0.0], True), t([5.0, 0.0, 7.0, 0.5], True)
    index = tg.tensor([0, 1, 2, 0])

    def product(a: Any, b: Any) -> Any:
        return a.scatter_reduce(0, index, b, "prod")

    assert product(x, v).tolist() == [0, 0, 21, 0]
    assert gradcheck(product, (x, v))
    assert gradgradcheck(product, (x, v))


def test_equal_extremes_share_the_gradient() -> None:
    x, v = t([1.0, 5.0], True), t([1.0, 1.0, 2.0], True)
    x.scatter_reduce(0, tg.tensor([0, 0, 1]), v, "amax").sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1 / 3, 1])
    np.testing.assert_allclose(v.grad.numpy(), [1 / 3, 1 / 3, 0])


INPLACE = {
    "scatter_": lambda x: x.scatter_(0, t(DISTINCT), t(V)),
    "scatter_add_": lambda x: x.scatter_add_(0, t(INDEX), t(V)),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, t(INDEX), t(V), "mean"),
    "index_add_": lambda x: x.index_add_(0, t(ROWS), t(V), alpha=3),
    "index_copy_": lambda x: x.index_copy_(0, t(ROWS), t(V)),
    "index_fill_": lambda x: x.index_fill_(1, t(ROWS), 2.0),
    "index_reduce_": lambda x: x.index_reduce_(0, t(ROWS), t(V), "prod"),
    "index_put_": lambda x: x.index_put_((t(ROWS), t(ROWS)), t(V[:, 0])),
    "put_": lambda x: x.put_(t(INDEX), t(V), accumulate=True),
    "masked_fill_": lambda x: x.masked_fill_(t(MASK), 2.0),
    "masked_scatter_": lambda x: x.masked_scatter_(t(MASK), t(X)),
    "tril_": lambda x: x.tril_(),
    "triu_": lambda x: x.triu_(1),
    "fill_diagonal_": lambda x: x.fill_diagonal_(9.0),
}


@pytest.mark.parametrize("name", INPLACE)
@pytest.mark.parametrize("layout", ["plain", "transposed", "recorded", "recorded view"])
def test_in_place(name: str, layout: str) -> None:
    change = INPLACE[name]
    plain = t(X)
    assert change(plain) is plain
    if layout == "plain":
        assert plain._version[0] > 0
        return
    if layout == "transposed":
        memory = t(X.T.copy())
        x = memory.T
        change(x)
        np.testing.assert_allclose(memory.numpy().T, plain.numpy())
        return
    leaf = t(X, True)
    if layout == "recorded":
        base = x = leaf * 1
    else:
        base = (leaf * 1)[None]
        x = base[0]
    change(x)
    np.testing.assert_allclose(base.detach().numpy().reshape(X.shape), plain.numpy())
    # The gradient is that of the out-of-place form, which writes into a clone.
    (base * base).sum().backward()
    other = t(X, True)
    y = change(other.clone())
    (y * y).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), other.grad.numpy())
    with pytest.raises(RuntimeError, match="leaf"):
        change(leaf)


def test_equal_indices_add_up_in_order_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(3)
    index, values = rng.integers(0, 50, 5000), rng.normal(size=(5000, 70)).astype(np.float32)
    expected = np.zeros((50, 70), np.float32)
    np.add.at(expected, index, values)
    for n in (1, 2):
        with tg.threads(n):
            got = tg.zeros(50, 70).index_add_(0, t(index), t(values))
        np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16])
def test_every_dtype_is_moved(dtype: Any) -> None:
    x = t(np.arange(12).reshape(3, 4).astype(dtype))
    np.testing.assert_array_equal(x[[2, 0]].numpy(), x.numpy()[[2, 0]])
    np.testing.assert_array_equal(x.gather(0, t(INDEX)).numpy(), np.take_along_axis(x.numpy(), INDEX, 0))
    np.testing.assert_array_equal(x.tril().numpy(), np.tril(x.numpy()))
    expected = x.numpy().copy()
    expected[[0, 2]] = expected[[1, 1]]
    x[[0, 2]] = x[[1, 1]]
    np.testing.assert_array_equal(x.numpy(), expected)
    added = t(np.zeros((2, 4), dtype)).index_add(0, tg.tensor([1, 1, 1]), x)
    total = expected.any(0) if dtype is np.bool_ else expected.sum(0, dtype=dtype)
    np.testing.assert_array_equal(added[1].numpy(), total)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: x.gather(0, tg.tensor([[3]])),
            RuntimeError,
            "index 3 is out of bounds for dimension 0 with size 3",
        ),
        (lambda x: x.gather(0, tg.tensor([[-1]])), RuntimeError, "index -1 is out of bounds"),
        (lambda x: x.gather(0, tg.tensor([0])), RuntimeError, "same number of dimensions"),
        (lambda x: x.gather(1, tg.tensor([[0]] * 4)), RuntimeError, "Size does not match at dimension 0"),
        (lambda x: x.gather(0, tg.tensor([[0.0]])), RuntimeError, "int64"),
        (lambda x: x.gather(2, tg.tensor([[0]])), IndexError, "Dimension out of range"),
        (lambda x: x.scatter(0, tg.tensor([[7]]), 1.0), RuntimeError, "out of bounds"),
        (lambda x: x.scatter(0, tg.tensor([[0]]), x.float()), RuntimeError, "dtype"),
        (lambda x: x.scatter(0, tg.tensor([[0, 1]]), x[:1, :1]), RuntimeError, "no larger"),
        (lambda x: x.scatter(0, tg.tensor([[0]]), x, reduce="max"), RuntimeError, "reduce argument"),
        (lambda x: x.scatter_reduce(0, tg.tensor([[0]]), x, "max"), RuntimeError, "reduce argument"),
        (lambda x: x.index_select(0, tg.tensor([3])), IndexError, "out of range"),
        (lambda x: x.index_select(0, tg.tensor([[0]])), IndexError, "vector"),
        (lambda x: x.index_add(0, tg.tensor([0]), x), RuntimeError, "Number of indices"),
        (lambda x: x.index_add(0, tg.tensor([5]), x[:1]), RuntimeError, "out of bounds"),
        (lambda x: x.index_copy(0, tg.tensor([5]), x[:1]), IndexError, "out of bounds"),
        (lambda x: x.index_fill(0, tg.tensor([0]), tg.tensor([1.0])), RuntimeError, "0-dimensional"),
        (lambda x: x.index_reduce(0, tg.tensor([0]), x[:1], "sum"), RuntimeError, "Expected reduce"),
        (
            lambda x: x.take(tg.tensor([12])),
            IndexError,
            "tried to access index 12 on a tensor of 12 elements",
        ),
        (lambda x: x.put(tg.tensor([0]), x), IndexError, "same number of elements"),
        (lambda x: x.masked_fill(x, 1), RuntimeError, "boolean masks"),
        (lambda x: x.masked_fill(x > 0, tg.tensor([1.0])), RuntimeError, "0-dimensional"),
        (lambda x: x.long().masked_fill(x > 0, float("inf")), RuntimeError, "overflow"),
        (lambda x: x.masked_select(x), RuntimeError, "BoolTensor"),
        (lambda x: x.masked_select(x[:2] > 0), RuntimeError, "must match"),
        (lambda x: x.masked_scatter(x == x, x[0]), RuntimeError, "Number of elements of source"),
        (lambda x: tg.where(x, x, x), RuntimeError, "boolean"),
        (lambda x: tg.where(True, x, x), TypeError, "condition"),
        (lambda x: tg.diag(tg.zeros(2, 2, 2)), RuntimeError, "1D or 2D"),
        (lambda x: tg.tril(x[0]), RuntimeError, "at least 2 dimensions"),
        (lambda x: x.select_scatter(x[0], 1, 0), RuntimeError, "slice of self"),
        (lambda x: x.repeat_interleave(tg.tensor([1, 2]), 0), RuntimeError, "same size as input along dim"),
        (lambda x: x.repeat_interleave(-1), RuntimeError, "non-negative"),
        (lambda x: F.embedding(tg.tensor([3]), x), IndexError, "out of range"),
        (lambda x: F.embedding(tg.tensor([-1]), x), IndexError, "out of range"),
        (lambda x: F.embedding(tg.tensor([0.0]), x), RuntimeError, "Long, Int"),
        (lambda x: F.embedding(tg.tensor([0]), x, sparse=True), RuntimeError, "sparse"),
        (lambda x: F.one_hot(tg.tensor([0, 3]), 3), RuntimeError, "smaller than num_classes"),
        (lambda x: F.one_hot(tg.tensor([-1])), RuntimeError, "non-negative"),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(t(X))


def test_empty_and_zero_dimensional() -> None:
    none = tg.zeros(0, dtype=tg.int64)
    x = t(X)
    assert x.index_select(0, none).shape == (0, 4)
    assert x.gather(0, none.reshape(0, 4)).shape == (0, 4)
    np.testing.assert_array_equal(x.index_add(0, none, x[:0]).numpy(), X)
    np.testing.assert_array_equal(x.scatter(0, none.reshape(0, 4), x).numpy(), X)
    assert x.masked_select(tg.zeros(3, 4, dtype=tg.bool)).shape == (0,)
    assert tg.zeros(0, 3)[none].shape == (0, 3)
    number = t(2.0, True)
    assert number.gather(0, tg.tensor(0)).shape == ()
    assert number.index_select(0, tg.tensor([0])).shape == ()
    assert number.index_add(0, tg.tensor(0), tg.tensor(3.0, dtype=tg.float64)).item() == 5
    assert number.masked_fill(tg.tensor(True), 7).item() == 7
    assert number.take(tg.tensor([0, 0])).shape == (2,)
    assert F.embedding(none, x).shape == (0, 4)


def test_where_follows_the_promotion_of_its_operands() -> None:
    mask = tg.tensor([True, False])
    assert tg.where(mask, 1, 2).dtype == tg.int64
    assert tg.where(mask, 1.0, 2).dtype == tg.float32
    assert tg.where(mask, tg.tensor([1, 2]), 2.5).dtype == tg.float32
    assert tg.where(mask, tg.zeros(2, dtype=tg.float64), 2.5).dtype == tg.float64
    rows, columns = tg.where(tg.tensor([[0, 1], [2, 0]]))
    assert rows.tolist() == [0, 1]
    assert columns.tolist() == [1, 0]


@pytest.mark.parametrize("shape", [(0,), (5,), (3, 4), (2, 0, 3), (2, 3, 4), (1, 1, 1, 1)])
def test_nonzero(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape)
    np.testing.assert_array_equal(tg.nonzero(t(array)).numpy(), np.argwhere(array))
    for ours, theirs in zip(t(array).nonzero(as_tuple=True), np.nonzero(array), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
    assert tg.nonzero(tg.tensor(3)).shape == (1, 0)
    assert tg.nonzero(tg.tensor(0)).shape == (0, 0)
    assert [i.tolist() for i in tg.unravel_index(tg.tensor([0, 5, 11]), (3, 4))] == [[0, 1, 2], [0, 1, 3]]


def test_embedding_scales_long_rows_down_in_place() -> None:
    weight = t(np.array([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]), True)
    F.embedding(tg.tensor([0, 1, 0]), weight, max_norm=1.0).sum().backward()
    np.testing.assert_allclose(weight.detach().numpy(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-6)
    assert weight.grad.tolist() == [[2, 2], [1, 1], [0, 0]]


def test_one_hot() -> None:
    assert F.one_hot(tg.tensor([[0, 2]])).tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert F.one_hot(tg.tensor(1), 4).tolist() == [0, 1, 0, 0]
    assert F.one_hot(tg.zeros(0, dtype=tg.int64), 3).shape == (0, 3)


def test_fill_diagonal_wraps() -> None:
    torch = pytest.importorskip("torch")
    for shape, wrap in (((7, 3), True), ((7, 3), False), ((3, 7), True), ((3, 3, 3), False)):
        ours, theirs = tg.zeros(*shape).fill_diagonal_(4, wrap), torch.zeros(*shape).fill_diagonal_(4, wrap)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_in_place_views_keep_their_gradient() -> None:
    x = t(X, True)
    y = x * 2
    y.t_().unsqueeze_(0).squeeze_(0).transpose_(0, 1)
    (y * t(X)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)
    view = y[0]
    with pytest.raises(RuntimeError, match="views of this tensor"):
        y.t_()
    assert view.shape == (4,)
