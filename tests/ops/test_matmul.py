"""Products of matrices and vectors against PyTorch: every pair of ranks, layouts, dtypes, and errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradgradcheck
from tapegrad.ops.gemm import mm_op

RANDOM = np.random.default_rng(0)
PAIRS = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 5, 3), (3, 4)),
    ((2, 5, 3), (3,)),
    ((3,), (2, 3, 4)),
    ((2, 5, 3), (2, 3, 4)),
    ((1, 5, 3), (2, 3, 4)),
    ((5, 3), (2, 3, 4)),
    ((7, 1, 5, 3), (2, 3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 5, 0), (0, 4)),
    ((2, 5, 3), (2, 3, 0)),
]


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


def turned(x: np.ndarray) -> np.ndarray:
    """The same values with the last two dimensions laid out the other way round."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.ndim > 1 else x


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_matmul_of_all_ranks(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    x, y = normal(*a), normal(*b)
    assert_same(torch.matmul, tg.matmul, [x, y], wrt=(0, 1))
    assert_same(lambda p, q: p @ q, lambda p, q: p @ q, [turned(x), turned(y)], wrt=(0, 1))
    assert_same(torch.matmul, tg.matmul, [x.astype("f"), y.astype("f")], wrt=(0, 1), tolerance=1e-4)


@pytest.mark.parametrize(("a", "b"), [p for p in PAIRS if len(p[0]) > 1 and len(p[1]) > 1])
def test_transposed_views(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    x, y = normal(*a[:-2], a[-1], a[-2]), normal(*b[:-2], b[-1], b[-2])
    assert_same(lambda p, q: torch.matmul(p.mT, q.mT), lambda p, q: p.mT @ q.mT, [x, y], wrt=(0, 1))


def test_expanded_and_strided_operands() -> None:
    x = tg.tensor(normal(1, 4, 3)).expand(5, 4, 3)
    y = tg.tensor(normal(5, 6, 8))[:, ::2, ::2].expand(5, 3, 4)
    z = tg.tensor(normal(3, 1)).expand(3, 4)
    np.testing.assert_allclose((x @ y).numpy(), np.matmul(x.numpy(), y.numpy()))
    np.testing.assert_allclose((x @ z).numpy(), np.matmul(x.numpy(), z.numpy()))
    np.testing.assert_allclose((x[0] @ z).numpy(), np.matmul(x.numpy()[0], z.numpy()))


@pytest.mark.parametrize(
    ("x", "w", "b"),
    [
        ((2, 3), (4, 3), (4,)),
        ((2, 3), (4, 3), None),
        ((5, 2, 3), (4, 3), (4,)),
        ((5, 2, 3), (4, 3), None),
        ((3,), (4, 3), (4,)),
        ((3,), (4, 3), None),
        ((3,), (3,), None),
        ((2, 3), (3,), None),
        ((2, 3), (4, 3), (1,)),
        ((2, 3), (4, 3), ()),
        ((5, 2, 3), (4, 3), (1, 4)),
        ((2, 3), (4, 3), (2, 4)),
        ((2, 0, 3), (4, 3), (4,)),
        ((2, 0), (4, 0), (4,)),
    ],
)
def test_linear(x: tuple[int, ...], w: tuple[int, ...], b: tuple[int, ...] | None) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    arrays = [normal(*x), normal(*w), None if b is None else normal(*b)]
    wrt = (0, 1) if b is None else (0, 1, 2)
    assert_same(torch.nn.functional.linear, F.linear, arrays, wrt=wrt)


def test_a_large_linear_adds_the_bias_on_several_threads() -> None:
    x, w, b = normal(700, 40), normal(300, 40), normal(300)
    np.testing.assert_allclose(F.linear(*map(tg.tensor, (x, w, b))).numpy(), x @ w.T + b, rtol=1e-10)


CALLS: dict[str, tuple[list[Any], tuple[int, ...], dict[str, Any]]] = {
    "mm": ([normal(2, 3), normal(3, 4)], (0, 1), {}),
    "bmm": ([normal(5, 2, 3), normal(5, 3, 4)], (0, 1), {}),
    "mv": ([normal(2, 3), normal(3)], (0, 1), {}),
    "dot": ([normal(3), normal(3)], (0, 1), {}),
    "vdot": ([normal(3), normal(3)], (0, 1), {}),
    "outer": ([normal(3), normal(4)], (0, 1), {}),
    "inner": ([normal(2, 3), normal(4, 5, 3)], (0, 1), {}),
    "addmm": ([normal(4), normal(2, 3), normal(3, 4)], (0, 1, 2), {}),
    "addmv": ([normal(2), normal(2, 3), normal(3)], (0, 1, 2), {"beta": 0.5, "alpha": 2}),
    "addr": ([normal(2, 3), normal(2), normal(3)], (0, 1, 2), {"beta": 0.5, "alpha": 2}),
    "baddbmm": ([normal(2, 4), normal(5, 2, 3), normal(5, 3, 4)], (0, 1, 2), {"beta": 0.5, "alpha": 2}),
    "addbmm": ([normal(2, 4), normal(5, 2, 3), normal(5, 3, 4)], (0, 1, 2), {"beta": 0.5, "alpha": 2}),
    "kron": ([normal(2, 3), normal(4, 2, 2)], (0, 1), {}),
    "trace": ([normal(3, 5)], (0,), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_products_and_their_methods(name: str) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    arrays, wrt, options = CALLS[name]
    theirs, ours = getattr(torch, name), getattr(tg, name)
    assert_same(lambda *x: theirs(*x, **options), lambda *x: ours(*x, **options), arrays, wrt=wrt)
    method = getattr(tg.Tensor, name)
    assert_same(lambda *x: theirs(*x, **options), lambda *x: method(*x, **options), arrays, wrt=wrt)


def test_beta_zero_leaves_the_input_out() -> None:
    nan = tg.full((2, 4), float("nan"), requires_grad=True)
    a, b = tg.tensor(normal(2, 3), dtype=tg.float32), tg.tensor(normal(3, 4), dtype=tg.float32)
    made = tg.addmm(nan, a, b, beta=0)
    assert not made.isnan().any()
    made.sum().backward()
    assert nan.grad.abs().sum().item() == 0


@pytest.mark.parametrize("n", [3, 45, 64, 70])
@pytest.mark.parametrize("layouts", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("needs", [(True, False), (False, True), (True, True), (False, False)])
def test_the_operator_does_what_the_operation_does(
    n: int, layouts: tuple[bool, bool], needs: tuple[bool, bool]
) -> None:
    a, b = (tg.tensor(turned(normal(n, n)) if t else normal(n, n)) for t in layouts)
    a, b = (x.detach().requires_grad_(need) for x, need in zip((a, b), needs, strict=True))
    made, expected = a @ b, mm_op(a, b, ta=False, tb=False)
    assert made.numpy(force=True).tobytes() == expected.numpy(force=True).tobytes()
    assert type(made) is type(expected)
    assert made.requires_grad == any(needs)
    if not any(needs):
        assert made.grad_fn is None
        return
    entry, other = made.grad_fn, expected.grad_fn
    for name in ("op", "indices", "params", "shape", "dtype", "several", "code"):
        assert getattr(entry, name) == getattr(other, name)
    for name in ("edges", "saved", "stamps"):
        found, wanted = getattr(entry, name), getattr(other, name)
        assert len(found) == len(wanted)
        assert all(x is y for x, y in zip(found, wanted, strict=True))


def test_the_operator_keeps_to_modes_hooks_and_versions() -> None:
    a, b = tg.tensor(normal(3, 3), requires_grad=True), tg.tensor(normal(3, 3))
    with tg.no_grad():
        assert (a @ b).grad_fn is None
    packed: list[Any] = []

    def pack(x: Any) -> Any:
        packed.append(x)
        return x

    with tg.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        c = a @ b
    assert [x.tolist() for x in packed] == [b.tolist()]
    row = (a * 2)[0:1]  # a view of something recorded
    ((row @ b).sum() + c.sum()).backward()
    np.testing.assert_allclose(a.grad[1].numpy(), b.sum(1).numpy())
    np.testing.assert_allclose(a.grad[0].numpy(), 3 * b.sum(1).numpy())
    c = a @ b
    b.add_(1)
    with pytest.raises(RuntimeError, match="in place|inplace|in-place"):
        c.sum().backward()
    assert type(tg.nn.Parameter(tg.tensor(normal(2, 2))) @ tg.tensor(normal(2, 2))) is tg.Tensor
    with pytest.raises(TypeError):
        a @ 2.0


def test_second_order_of_a_matrix_product() -> None:
    a, b = (tg.tensor(normal(*s), requires_grad=True) for s in ((3, 2), (2, 4)))
    assert gradgradcheck(lambda x, y: (x @ y) @ (x @ y).mT, (a, b))


def test_other_dtypes() -> None:
    for dtype in (tg.int64, tg.int32, tg.int16, tg.int8, tg.uint8):
        x = tg.tensor([[1, 2], [3, 4]], dtype=dtype)
        assert (x @ x).dtype is dtype
        assert (x @ x).tolist() == [[7, 10], [15, 22]]
        assert tg.mv(x, x[0]).tolist() == [5, 11]
    half = tg.tensor([[60000.0, 60000.0]], dtype=tg.float16)
    assert (half @ tg.ones(2, 1, dtype=tg.float16)).item() == float("inf")
    assert (half @ tg.tensor([[1.0], [-1.0]], dtype=tg.float16)).item() == 0
    assert tg.trace(tg.ones(3, 3, dtype=tg.int32)).dtype is tg.int64
    assert tg.outer(tg.tensor([1, 2]), tg.tensor([0.5])).dtype is tg.float32


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda z: z(2, 3) @ z(2, 4),
            RuntimeError,
            r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x4\)",
        ),
        (lambda z: z(200, 300) @ z(400, 100), RuntimeError, r"multiplied \(200x300 and 400x100\)"),
        (lambda z: z(80, 90) @ z(70, 60).T, RuntimeError, r"multiplied \(80x90 and 60x70\)"),
        (lambda z: z(3, 2).T @ z(2, 4), RuntimeError, r"multiplied \(2x3 and 2x4\)"),
        (lambda z: z(5, 2, 3) @ z(2, 4), RuntimeError, r"cannot be multiplied \(10x3 and 2x4\)"),
        (lambda z: z(2, 3) @ z(3, 4).double(), RuntimeError, "expected m1 and m2 to have the same dtype"),
        (lambda z: z(2, 3) @ z(4), RuntimeError, r"size mismatch, got input \(2\), mat \(2x3\), vec \(4\)"),
        (lambda z: z(3) @ z(4), RuntimeError, "inconsistent tensor size"),
        (lambda z: z(2, 3, 4) @ z(3, 4, 5), RuntimeError, r"size of tensor a \(2\) must match"),
        (lambda z: z(2, 3, 4) @ z(2, 5, 6), RuntimeError, r"\[2, 4\] but got: \[2, 5\]"),
        (lambda z: z(2, 3) @ tg.tensor(1.0), RuntimeError, "at least 1D"),
        (lambda z: z(2, 3) @ 3, TypeError, "unsupported operand"),
        (lambda z: 3 @ z(2, 3), TypeError, "unsupported operand"),
        (lambda z: tg.mm(z(2), z(2, 3)), RuntimeError, "self must be a matrix"),
        (lambda z: tg.mm(z(2, 3), 3), TypeError, "must be Tensor"),
        (lambda z: tg.bmm(z(2, 3), z(2, 3, 4)), RuntimeError, "batch1 must be a 3D tensor"),
        (lambda z: tg.mm(z(2, 2).bool(), z(2, 2).bool()), NotImplementedError, "Bool"),
        (lambda z: tg.dot(z(2, 2), z(2)), RuntimeError, "1D tensors expected"),
        (lambda z: tg.addmm(z(5, 3), z(2, 4), z(4, 3)), RuntimeError, "expanded size"),
        (lambda z: tg.addmm(z(2, 3).double(), z(2, 4), z(4, 3)), RuntimeError, "same dtype"),
        (lambda z: F.linear(z(2, 3), z(4, 4)), RuntimeError, r"\(2x3 and 4x4\)"),
        (lambda z: F.linear(z(2, 3), z(4, 3), z(5)), RuntimeError, "expanded size"),
        (lambda z: tg.chain_matmul(z(3), z(3, 4)), RuntimeError, "expected 2"),
        (lambda z: tg.linalg.multi_dot([z(3)]), RuntimeError, "at least 2"),
        (lambda z: tg.trace(z(3)), RuntimeError, "expected a matrix"),
    ],
)
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tg.zeros)


def test_out() -> None:
    a, b = tg.ones(2, 3), tg.ones(3, 4)
    out = tg.empty(2, 4)
    assert tg.mm(a, b, out=out) is out
    assert out.tolist() == [[3.0] * 4] * 2
    assert tg.matmul(a, b, out=tg.empty(0)).shape == (2, 4)
    with pytest.raises(RuntimeError, match="requires grad"):
        tg.mm(a.requires_grad_(), b, out=out)


EQUATIONS = [
    ("i,j->ij", [(3,), (4,)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ki", [(2, 3), (3, 4)]),
    ("ji,kj->ik", [(3, 2), (4, 3)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bkj->kib", [(2, 3, 4), (2, 5, 4)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("iij,jkk->ik", [(2, 2, 3), (3, 4, 4)]),
    ("...ij,...jk->...ik", [(5, 1, 2, 3), (4, 3, 2)]),
    ("...i->...", [(2, 3, 4)]),
    ("ij->", [(2, 3)]),
    ("ij,jk", [(2, 1), (3, 4)]),
    ("i j , j k -> i k", [(2, 3), (3, 4)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ij,ik,il->jkl", [(2, 3), (2, 4), (2, 5)]),
    ("abc,cd,def,fa->be", [(2, 3, 4), (4, 5), (5, 3, 2), (2, 2)]),
    ("ij,kl->", [(2, 3), (4, 5)]),
    ("ij,j->i", [(2, 3), (3,)]),
    (",ij->ij", [(), (2, 3)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    arrays = [normal(*s) for s in shapes]
    assert_same(
        lambda *x: torch.einsum(equation, *x),
        lambda *x: tg.einsum(equation, *x),
        arrays,
        wrt=tuple(range(len(arrays))),
    )


def test_einsum_with_lists_of_indices() -> None:
    a, b = tg.tensor(normal(2, 3)), tg.tensor(normal(3, 4))
    assert tg.allclose(tg.einsum(a, [0, 1], b, [1, 2], [2, 0]), (a @ b).T)
    assert tg.allclose(tg.einsum(a, [..., 1], b, [1, 2]), a @ b)


@pytest.mark.parametrize(
    ("equation", "shapes", "words"),
    [
        ("ij,jk->ik", [(2, 3)], "fewer operands"),
        ("ij", [(2, 3), (3, 4)], "more operands"),
        ("ij,jk->ik", [(2, 3), (4, 4)], "subscript j has size 4 for operand 1"),
        ("ij->iz", [(2, 3)], "output subscript z does not appear"),
        ("i1->i", [(2, 3)], "invalid subscript given at index 1"),
        ("ijk->i", [(2, 3)], "does not match the number of dimensions"),
        ("ii->i", [(2, 3)], "3 != 2"),
        ("ij->ii", [(2, 3)], "more than once in the output"),
        ("i.j", [(2, 3)], "not part of any ellipsis"),
    ],
)
def test_einsum_errors(equation: str, shapes: list[tuple[int, ...]], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        tg.einsum(equation, *[tg.zeros(*s) for s in shapes])


def test_einsum_takes_the_cheap_order() -> None:
    # From the left this would make a 300 x 300 x 300 intermediate.
    from tapegrad.ops.einsum import _greedy_path

    terms = [frozenset("ab"), frozenset("cd"), frozenset("bc")]
    sizes = dict.fromkeys("abcd", 300)
    path = _greedy_path(terms, list("ad"), sizes)  # type: ignore[arg-type]
    assert path[0] in ((0, 2), (1, 2))


@pytest.mark.parametrize("dims", [0, 1, 2, ([0], [2]), ([2, 0], [0, 1])])
def test_tensordot(dims: Any) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    a, b = normal(2, 3, 4), normal(4, 2, 2)
    if dims == 2:
        b = normal(3, 4, 5)
    assert_same(
        lambda x, y: torch.tensordot(x, y, dims), lambda x, y: tg.tensordot(x, y, dims), [a, b], wrt=(0, 1)
    )


def test_multi_dot_with_vectors_at_the_ends() -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    for shapes in ([(3,), (3, 4), (4,)], [(2, 3), (3, 9), (9, 4), (4,)], [(3,), (3, 2), (2, 7)]):
        assert_same(
            lambda *x: torch.linalg.multi_dot(x),
            lambda *x: tg.linalg.multi_dot(x),
            [normal(*s) for s in shapes],
            wrt=tuple(range(len(shapes))),
        )


def test_a_chain_of_matrices() -> None:
    chain = [tg.tensor(normal(*s)) for s in ((2, 3), (3, 7), (7, 2), (2, 5))]
    a, b, c, d = chain
    assert tg.allclose(tg.chain_matmul(*chain), a @ b @ c @ d)
    assert tg.chain_matmul(a) is a


def test_in_place_forms() -> None:
    base = tg.tensor(normal(2, 4), requires_grad=True)
    a, b = (tg.tensor(normal(*s), requires_grad=True) for s in ((2, 3), (3, 4)))
    x = base * 1
    assert x.addmm_(a, b, beta=0.5, alpha=2) is x
    expected = tg.autograd.grad(tg.addmm(base * 1, a, b, beta=0.5, alpha=2).sum(), (base, a, b))
    for g, e in zip(tg.autograd.grad(x.sum(), (base, a, b)), expected, strict=True):
        assert tg.allclose(g, e)


def test_batched_products_agree_for_any_layout() -> None:
    base = normal(4, 6, 5, 3)
    for order in itertools.permutations(range(2)):
        x = tg.tensor(base).permute(*order, 2, 3)
        y = tg.tensor(base).permute(*order, 3, 2)
        np.testing.assert_allclose((x @ y).numpy(), np.matmul(x.numpy().copy(), y.numpy().copy()))
