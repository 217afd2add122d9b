"""Linear algebra against PyTorch and NumPy: values, derivatives of every order, batches, errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


def square(*batch: int, n: int = 4) -> np.ndarray:
    """Well-conditioned matrices."""
    return normal(*batch, n, n) + 3 * np.eye(n)


def definite(*batch: int, n: int = 4) -> np.ndarray:
    x = normal(*batch, n, n)
    return x @ x.swapaxes(-1, -2) + n * np.eye(n)


def both(name: str) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    theirs: Any = torch
    ours: Any = tg
    for part in name.split("."):
        theirs, ours = getattr(theirs, part), getattr(ours, part)
    return theirs, ours


BATCHES = [(), (3,), (2, 1), (0,)]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(
    "name",
    [
        "linalg.inv",
        "linalg.det",
        "linalg.matrix_exp",
        "logdet",
        "inverse",
        "linalg.pinv",
        "linalg.svdvals",
        "pinverse",
    ],
)
def test_functions_of_a_square_matrix(name: str, batch: tuple[int, ...]) -> None:
    theirs, ours = both(name)
    from .against_torch import assert_same

    x = definite(*batch) if name == "logdet" else square(*batch)
    assert_same(theirs, ours, [x], tolerance=1e-8)
    assert_same(theirs, ours, [x.astype("f")], tolerance=2e-3)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(batch: tuple[int, ...], upper: bool) -> None:
    theirs, ours = both("linalg.cholesky")
    from .against_torch import assert_same

    assert_same(lambda a: theirs(a, upper=upper), lambda a: ours(a, upper=upper), [definite(*batch)])
    theirs, ours = both("linalg.cholesky_ex")
    assert_same(lambda a: theirs(a)[0], lambda a: ours(a)[0], [definite(*batch)])


@pytest.mark.parametrize(
    ("a", "b"), [((), ()), ((3,), (3,)), ((3,), ()), ((), (2,)), ((2, 1), (3,)), ((0,), (0,))]
)
@pytest.mark.parametrize("left", [True, False])
def test_solutions(a: tuple[int, ...], b: tuple[int, ...], left: bool) -> None:
    from .against_torch import assert_same

    x, y = square(*a), normal(*b, 4, 2) if left else normal(*b, 2, 4)
    theirs, ours = both("linalg.solve")
    assert_same(lambda p, q: theirs(p, q, left=left), lambda p, q: ours(p, q, left=left), [x, y], wrt=(0, 1))
    theirs, ours = both("linalg.solve_triangular")
    for options in ({"upper": True}, {"upper": False}, {"upper": False, "unitriangular": True}):
        assert_same(
            partial(theirs, left=left, **options),
            partial(ours, left=left, **options),
            [x, y],
            wrt=(0, 1),
        )


def test_solutions_for_vectors() -> None:
    theirs, ours = both("linalg.solve")
    from .against_torch import assert_same

    for batch in ((), (3,)):
        assert_same(theirs, ours, [square(*batch), normal(*batch, 4)], wrt=(0, 1))
    assert_same(theirs, ours, [square(3), normal(4)], wrt=(0, 1))


@pytest.mark.parametrize("upper", [False, True])
def test_solutions_from_cholesky_factors(upper: bool) -> None:
    from .against_torch import assert_same

    factor = np.linalg.cholesky(definite(3))
    factor = factor.swapaxes(-1, -2).copy() if upper else factor
    theirs, ours = both("cholesky_solve")
    # Only one triangle is read, and so only one has a gradient.
    keep = (lambda x: x.triu()) if upper else (lambda x: x.tril())
    assert_same(
        lambda b, f: theirs(b, keep(f), upper),
        lambda b, f: ours(b, keep(f), upper),
        [normal(3, 4, 2), factor],
        wrt=(0, 1),
    )
    theirs, ours = both("cholesky_inverse")
    assert_same(lambda f: theirs(keep(f), upper), lambda f: ours(keep(f), upper), [factor])


def test_determinants_of_singular_matrices() -> None:
    x = square(n=3)
    x[2] = x[0] + x[1]
    a = tg.tensor(x, requires_grad=True)
    assert gradcheck(tg.linalg.det, (a,))
    sign, logabs = tg.linalg.slogdet(tg.zeros(2, 3, 3))
    assert sign.tolist() == [0.0, 0.0]
    assert logabs.tolist() == [float("-inf")] * 2
    assert tg.logdet(-tg.eye(3)).isnan().item()
    assert tg.logdet(tg.zeros(3, 3)).item() == float("-inf")


def test_slogdet() -> None:
    from .against_torch import assert_same

    for name in ("slogdet", "linalg.slogdet"):
        theirs, ours = both(name)
        assert_same(lambda a, f=theirs: f(a)[1], lambda a, f=ours: f(a)[1], [square(3)])


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("side", ["L", "U"])
def test_eigenvalues(batch: tuple[int, ...], side: str) -> None:
    from .against_torch import assert_same

    x = definite(*batch)
    theirs, ours = both("linalg.eigvalsh")
    assert_same(lambda a: theirs(a, side), lambda a: ours(a, side), [x])
    theirs, ours = both("linalg.eigh")
    # Eigenvectors have no sign of their own: what is compared does not see it.
    assert_same(lambda a: theirs(a, side)[1] ** 2, lambda a: ours(a, side)[1] ** 2, [x], tolerance=1e-7)


def test_equal_eigenvalues_have_a_gradient() -> None:
    a = tg.eye(3, dtype=tg.float64).requires_grad_()
    tg.linalg.eigvalsh(a).sum().backward()
    assert a.grad.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (0, 3), (2, 0, 3)])
@pytest.mark.parametrize("full", [True, False])
def test_svd(shape: tuple[int, ...], full: bool) -> None:
    from .against_torch import assert_same

    x = normal(*shape)
    theirs, ours = both("linalg.svd")
    u, s, vh = ours(tg.tensor(x), full)
    k = min(shape[-2:])
    made = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    np.testing.assert_allclose(made.numpy(), x, atol=1e-12)
    assert tuple(u.shape[-2:]) == ((shape[-2], shape[-2]) if full else (shape[-2], k))

    def seen(f: Any) -> Any:
        def run(a: Any) -> Any:
            u, s, vh = f(a, full)
            return (u[..., :k] @ vh[..., :k, :]) * 2 + s.sum()

        return run

    assert_same(seen(theirs), seen(ours), [x], tolerance=1e-6)
    theirs, ours = both("svd")
    assert_same(lambda a: theirs(a, not full)[1], lambda a: ours(a, not full)[1], [x], tolerance=1e-7)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (0, 3)])
def test_qr(shape: tuple[int, ...]) -> None:
    from .against_torch import assert_same, torch

    x = normal(*shape)
    theirs, ours = both("linalg.qr")

    def seen(f: Any) -> Any:
        def run(a: Any) -> Any:
            q, r = f(a)
            return (q**2).sum() + (r**2) * 0.5  # signs are not compared

        return run

    assert_same(seen(theirs), seen(ours), [x], tolerance=1e-7)
    for mode in ("complete", "r"):
        for a, b in zip(theirs(torch.tensor(x), mode), ours(tg.tensor(x), mode), strict=True):
            np.testing.assert_allclose(abs(b.numpy()), abs(a.numpy()), atol=1e-10)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (0, 3), (3, 0)])
def test_pinv(shape: tuple[int, ...]) -> None:
    theirs, ours = both("linalg.pinv")
    from .against_torch import assert_same

    assert_same(theirs, ours, [normal(*shape)], tolerance=1e-8)
    low = normal(*shape[:-1], 1), normal(*shape[:-2], 1, shape[-1])
    assert_same(lambda a, b: theirs(a @ b), lambda a, b: ours(a @ b), low, wrt=(0, 1), tolerance=1e-7)
    if shape[-1] == shape[-2]:
        assert_same(
            lambda a: theirs(a + a.mT, hermitian=True),
            lambda a: ours(a + a.mT, hermitian=True),
            [square()],
            tolerance=1e-7,
        )


@pytest.mark.parametrize("driver", [None, "gels", "gelsd", "gelss", "gelsy"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (2, 5, 3), (3, 5)])
def test_lstsq(driver: str | None, shape: tuple[int, ...]) -> None:
    theirs, ours = both("linalg.lstsq")
    from .against_torch import assert_same

    torch = pytest.importorskip("torch")
    x, y = normal(*shape), normal(*shape[:-1], 2)
    assert_same(
        lambda a, b: theirs(a, b, driver=driver)[0],
        lambda a, b: ours(a, b, driver=driver)[0],
        [x, y],
        wrt=(0, 1),
        tolerance=1e-8,
    )
    a, b = (
        theirs(torch.tensor(x), torch.tensor(y), driver=driver),
        ours(tg.tensor(x), tg.tensor(y), driver=driver),
    )
    for p, q in zip(a, b, strict=True):
        assert tuple(p.shape) == tuple(q.shape)
        np.testing.assert_allclose(q.numpy(), p.numpy(), atol=1e-9)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4)])
def test_lu(shape: tuple[int, ...]) -> None:
    from .against_torch import assert_same

    torch = pytest.importorskip("torch")
    x = normal(*shape)
    theirs, ours = both("linalg.lu")
    for part in (1, 2):
        assert_same(lambda a, j=part: theirs(a)[j], lambda a, j=part: ours(a)[j], [x], tolerance=1e-8)
    p, left, right = ours(tg.tensor(x))
    np.testing.assert_allclose((p @ left @ right).numpy(), x, atol=1e-12)
    packed, pivots = tg.linalg.lu_factor(tg.tensor(x))
    expected = torch.linalg.lu_factor(torch.tensor(x))
    np.testing.assert_allclose(packed.numpy(), expected[0].numpy(), atol=1e-12)
    np.testing.assert_array_equal(pivots.numpy(), expected[1].numpy())
    for a, b in zip(tg.lu_unpack(packed, pivots), (p, left, right), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    if shape[-1] == shape[-2]:
        y = tg.tensor(normal(*shape[:-1], 2))
        for adjoint in (False, True):
            made = tg.linalg.lu_solve(packed, pivots, y, adjoint=adjoint)
            back = (tg.tensor(x).mT if adjoint else tg.tensor(x)) @ made
            np.testing.assert_allclose(back.numpy(), y.numpy(), atol=1e-10)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [(-2, -1), (0, 2), (1, 0)])
def test_matrix_norms(ord: Any, keepdim: bool, dim: tuple[int, int]) -> None:
    theirs, ours = both("linalg.matrix_norm")
    from .against_torch import assert_same

    assert_same(
        lambda a: theirs(a, ord, dim, keepdim),
        lambda a: ours(a, ord, dim, keepdim),
        [normal(3, 4, 3)],
        tolerance=1e-7,
    )
    theirs, ours = both("linalg.norm")
    assert_same(
        lambda a: theirs(a, ord, dim, keepdim),
        lambda a: ours(a, ord, dim, keepdim),
        [normal(3, 4, 3)],
        tolerance=1e-7,
    )


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((4,), {}),
        ((2, 3, 4), {}),
        ((4,), {"ord": 3}),
        ((3, 4), {"ord": 1}),
        ((2, 3), {"dim": 1, "ord": 0.5}),
        ((), {}),
    ],
)
def test_norm(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    theirs, ours = both("linalg.norm")
    from .against_torch import assert_same

    assert_same(
        lambda a: theirs(a, **options), lambda a: ours(a, **options), [normal(*shape)], tolerance=1e-8
    )


@pytest.mark.parametrize("p", [None, 2, -2, "fro", "nuc", 1, float("inf")])
def test_cond(p: Any) -> None:
    theirs, ours = both("linalg.cond")
    from .against_torch import assert_same

    x = square(2)
    if p in (None, 2, -2):
        assert_same(lambda a: theirs(a, p), lambda a: ours(a, p), [x], tolerance=1e-6)
    else:  # PyTorch cannot differentiate these
        a = tg.tensor(x, requires_grad=True)
        np.testing.assert_allclose(
            ours(a, p).detach().numpy(), theirs(pytest.importorskip("torch").tensor(x), p).numpy()
        )
        assert gradcheck(lambda m: ours(m, p), (a,))
        assert gradgradcheck(lambda m: ours(m, p), (a,))
    assert ours(tg.zeros(2, 2), "fro").item() == float("inf")


def test_matrix_rank() -> None:
    x = np.diag([1.0, 1e-3, 1e-9, 0])
    rank = tg.linalg.matrix_rank
    assert rank(tg.tensor(x)).item() == 3
    assert rank(tg.tensor(x), atol=1e-6).item() == 2
    assert rank(tg.tensor(x), rtol=1e-2).item() == 1
    assert rank(tg.tensor(x), hermitian=True).item() == 3
    assert rank(tg.zeros(2, 0, 3)).tolist() == [0, 0]
    assert rank(tg.tensor(x)).dtype is tg.int64


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, -1, -3])
def test_matrix_power(n: int) -> None:
    theirs, ours = both("linalg.matrix_power")
    from .against_torch import assert_same

    assert_same(lambda a: theirs(a, n), lambda a: ours(a, n), [square(2, n=3)], tolerance=1e-6)


def test_products_of_vectors() -> None:
    from .against_torch import assert_same

    theirs, ours = both("linalg.cross")
    assert_same(theirs, ours, [normal(2, 1, 3), normal(1, 4, 3)], wrt=(0, 1))
    assert_same(
        lambda a, b: theirs(a, b, dim=0),
        lambda a, b: ours(a, b, dim=0),
        [normal(3, 2), normal(3, 2)],
        wrt=(0, 1),
    )
    theirs, ours = both("cross")
    assert_same(
        lambda a, b: theirs(a, b, dim=1),
        lambda a, b: ours(a, b, dim=1),
        [normal(2, 3), normal(2, 3)],
        wrt=(0, 1),
    )
    theirs, ours = both("linalg.vecdot")
    assert_same(theirs, ours, [normal(2, 3), normal(2, 3)], wrt=(0, 1))
    theirs, ours = both("linalg.vander")
    assert_same(theirs, ours, [normal(2, 3)], tolerance=1e-8)
    assert_same(lambda a: theirs(a, N=5), lambda a: ours(a, N=5), [normal(3)], tolerance=1e-8)


def test_tensors_as_matrices() -> None:
    from .against_torch import assert_same

    theirs, ours = both("linalg.tensorsolve")
    assert_same(theirs, ours, [normal(2, 3, 6), normal(2, 3)], wrt=(0, 1), tolerance=1e-6)
    theirs, ours = both("linalg.tensorinv")
    assert_same(lambda a: theirs(a, ind=1), lambda a: ours(a, ind=1), [normal(6, 2, 3)], tolerance=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda z, n: n.inv(z(3, 3)), "LinAlgError", "diagonal element 1 is zero"),
        (lambda z, n: n.inv(z(2, 3, 3)), "LinAlgError", r"\(Batch element 0\)"),
        (lambda z, n: n.inv(z(3, 2)), "RuntimeError", "square matrices, but they are 3 by 2"),
        (lambda z, n: n.inv(z(3)), "RuntimeError", "at least 2 dimensions"),
        (lambda z, n: n.inv(z(3, 3).long()), "RuntimeError", "Expected a floating point"),
        (lambda z, n: n.inv(z(3, 3).half()), "RuntimeError", "Low precision"),
        (lambda z, n: n.inv(3), "TypeError", "must be Tensor"),
        (
            lambda z, n: n.cholesky(z(3, 3)),
            "LinAlgError",
            "leading minor of order 1 is not positive-definite",
        ),
        (lambda z, n: n.solve(z(3, 3), z(3)), "LinAlgError", "singular"),
        (lambda z, n: n.solve(z(3, 3), z(2, 2)), "RuntimeError", "Incompatible shapes of A and B"),
        (lambda z, n: n.solve(z(3, 3), z(3).double()), "RuntimeError", "same dtype"),
        (lambda z, n: n.eigh(z(3, 3), "X"), "RuntimeError", "UPLO"),
        (lambda z, n: n.qr(z(3, 3), "full"), "RuntimeError", "unrecognized mode"),
        (lambda z, n: n.qr(z(4, 3).requires_grad_(), "complete"), "RuntimeError", "not differentiable"),
        (lambda z, n: n.lu_factor(z(3, 3)), "LinAlgError", "is zero"),
        (lambda z, n: n.matrix_norm(z(3, 3), 3), "RuntimeError", "Order 3 not supported"),
        (lambda z, n: n.matrix_norm(z(3)), "RuntimeError", "at least 2 dimensions"),
        (lambda z, n: n.norm(z(2, 3, 3), 2), "RuntimeError", "must be 1D or 2D"),
        (lambda z, n: n.cross(z(2, 2), z(2, 2)), "RuntimeError", "must have length 3"),
        (lambda z, n: n.matrix_power(z(3, 2), 2), "RuntimeError", "square"),
        (lambda z, n: n.lstsq(z(3, 2), z(3, 2), driver="best"), "RuntimeError", "driver"),
    ],
)
def test_errors(call: Any, error: str, words: str) -> None:
    kind = {"LinAlgError": tg.linalg.LinAlgError, "RuntimeError": RuntimeError, "TypeError": TypeError}[error]
    with pytest.raises(kind, match=words):
        call(tg.zeros, tg.linalg)


def test_results_that_report_instead_of_raising() -> None:
    info = tg.linalg.inv_ex(tg.zeros(2, 2)).info
    assert info.item() == 1
    assert info.dtype is tg.int32
    assert tg.linalg.cholesky_ex(tg.eye(3) - 2).info.item() == 1
    assert tg.linalg.solve_ex(tg.eye(2), tg.ones(2)).info.item() == 0
    assert tg.linalg.lu_factor_ex(tg.zeros(2, 2)).info.item() == 1
    with pytest.raises(tg.linalg.LinAlgError):
        tg.linalg.inv_ex(tg.zeros(2, 2), check_errors=True)
    printed = repr(tg.linalg.slogdet(tg.eye(2)))
    assert printed == "tapegrad.return_types.linalg_slogdet(\nsign=tensor(1.),\nlogabsdet=tensor(0.))"


def test_second_order_by_differences() -> None:
    a = tg.tensor(square(n=3), requires_grad=True)
    b = tg.tensor(definite(n=3), requires_grad=True)
    for fn in (tg.linalg.inv, tg.linalg.det, tg.linalg.svdvals, tg.linalg.matrix_exp):
        assert gradgradcheck(fn, (a,))
    assert gradgradcheck(lambda x: tg.linalg.cholesky((x + x.mT) / 2), (b,))
    assert gradgradcheck(lambda x: tg.linalg.eigvalsh((x + x.mT) / 2), (b,))


def test_out() -> None:
    x = tg.tensor(square())
    out = tg.empty(0, dtype=tg.float64)
    assert tg.linalg.inv(x, out=out) is out
    assert tg.allclose(out @ x, tg.eye(4, dtype=tg.float64))
    q, r = tg.empty(4, 4, dtype=tg.float64), tg.empty(4, 4, dtype=tg.float64)
    tg.linalg.qr(x, out=(q, r))
    assert tg.allclose(q @ r, x)
