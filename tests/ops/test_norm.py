"""Batch, group, instance, layer, RMS and local response norm."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)
SHAPES = [(4, 6), (4, 6, 5), (3, 6, 2, 5), (2, 4, 3, 2, 2), (40, 130)]
DTYPES = [("float64", 1e-8), ("float32", 1e-3)]


def _arrays(shape: tuple[int, ...], dtype: str, sizes: tuple[int, ...]) -> list[np.ndarray]:
    x = 2 * RANDOM.standard_normal(shape) + 5
    return [a.astype(dtype) for a in (x, RANDOM.standard_normal(sizes), RANDOM.standard_normal(sizes))]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_and_its_running_statistics(
    shape: tuple[int, ...], dtype: str, tolerance: float, training: bool
) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    channels = shape[1]
    running = [RANDOM.standard_normal(channels).astype(dtype), (RANDOM.random(channels) + 0.5).astype(dtype)]
    left: dict[object, list[np.ndarray]] = {}

    def run(lib, functional):
        def call(x, weight, bias):
            mean, var = (lib.tensor(r) for r in running)
            out = functional.batch_norm(x, mean, var, weight, bias, training, 0.2)
            left[lib] = [mean.numpy(), var.numpy()]
            return out

        return call

    arrays = _arrays(shape, dtype, (channels,))
    assert_same(run(torch, torch.nn.functional), run(tg, F), arrays, (0, 1, 2), tolerance)
    for a, b in zip(left[torch], left[tg], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_group_and_instance_norm(shape: tuple[int, ...], dtype: str, tolerance: float) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    arrays = _arrays(shape, dtype, (shape[1],))
    for groups in (1, 2):
        assert_same(
            lambda x, w, b, groups=groups: torch.nn.functional.group_norm(x, groups, w, b),
            lambda x, w, b, groups=groups: F.group_norm(x, groups, w, b),
            arrays,
            (0, 1, 2),
            tolerance,
        )
    if len(shape) > 2:
        assert_same(
            lambda x, w, b: torch.nn.functional.instance_norm(x, None, None, w, b),
            lambda x, w, b: F.instance_norm(x, None, None, w, b),
            arrays,
            (0, 1, 2),
            tolerance,
        )


def test_instance_norm_moves_its_statistics_by_the_mean_over_the_batch() -> None:
    torch = pytest.importorskip("torch")
    x = RANDOM.standard_normal((3, 4, 5))
    left = []
    for lib, functional in ((torch, torch.nn.functional), (tg, F)):
        mean, var = lib.zeros(4, dtype=lib.float64), lib.ones(4, dtype=lib.float64)
        functional.instance_norm(lib.tensor(x), mean, var, momentum=0.3)
        out = functional.instance_norm(lib.tensor(x), mean, var, use_input_stats=False)
        left.append([mean.numpy(), var.numpy(), out.numpy()])
    for a, b in zip(*left, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("dims", [1, 2])
def test_layer_and_rms_norm(shape: tuple[int, ...], dtype: str, tolerance: float, dims: int) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    sizes = shape[-dims:]
    x, weight, bias = _arrays(shape, dtype, sizes)
    for arrays in ([x, weight, bias], [x, weight, None], [x, None, None]):
        wrt = tuple(j for j, a in enumerate(arrays) if a is not None)
        assert_same(
            lambda x, w, b: torch.nn.functional.layer_norm(x, sizes, w, b),
            lambda x, w, b: F.layer_norm(x, sizes, w, b),
            arrays,
            wrt,
            tolerance,
        )
    for arrays in ([x, weight], [x, None]):
        wrt = tuple(j for j, a in enumerate(arrays) if a is not None)
        assert_same(
            lambda x, w: torch.nn.functional.rms_norm(x, sizes, w),
            lambda x, w: F.rms_norm(x, sizes, w),
            arrays,
            wrt,
            tolerance,
        )


@pytest.mark.parametrize("size", [2, 3])
def test_local_response_norm(size: int) -> None:
    torch = pytest.importorskip("torch")
    from .against_torch import assert_same

    assert_same(
        lambda x: torch.nn.functional.local_response_norm(x, size, 0.1),
        lambda x: F.local_response_norm(x, size, 0.1),
        [RANDOM.standard_normal((2, 5, 3, 2))],
    )


def test_derivatives_of_any_order() -> None:
    x, w, b = (tg.tensor(a, requires_grad=True) for a in _arrays((3, 4, 2), "float64", (4,)))
    for f in (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: F.batch_norm(x, tg.zeros(4).double(), tg.ones(4).double(), w, b),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda x, w, b: F.layer_norm(x.transpose(1, 2), (4,), w, b),
    ):
        assert gradcheck(f, (x, w, b))
        assert gradgradcheck(f, (x, w, b))


def test_third_derivatives() -> None:
    functional = tg.autograd.functional

    def slope(point):
        return functional.jacobian(lambda x: F.layer_norm(x, (4,))[0], point, create_graph=True)[1]

    point, step = tg.tensor(RANDOM.standard_normal(4)), 1e-5
    shift = tg.tensor([step, 0.0, 0.0, 0.0], dtype=tg.float64)
    exact = functional.hessian(slope, point)[0].numpy()
    above, below = (functional.jacobian(slope, point + s).numpy() for s in (shift, -shift))
    np.testing.assert_allclose(exact, (above - below) / (2 * step), rtol=1e-4, atol=1e-6)


def test_a_large_mean_costs_no_digits() -> None:
    x = (RANDOM.standard_normal((8, 64)) + 1e4).astype(np.float32)
    d = x.astype("d")
    rows = (d - d.mean(1, keepdims=True)) / np.sqrt(d.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.layer_norm(tg.tensor(x), (64,)).numpy(), rows, atol=2e-6)
    columns = (d - d.mean(0)) / np.sqrt(d.var(0) + 1e-5)
    np.testing.assert_allclose(
        F.batch_norm(tg.tensor(x), None, None, training=True).numpy(), columns, atol=2e-6
    )
    planes = d.reshape(2, 4, 64)
    groups = (planes - planes.mean(2, keepdims=True)) / np.sqrt(planes.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.instance_norm(tg.tensor(x.reshape(2, 4, 64))).numpy(), groups, atol=2e-6)


def test_the_same_bits_for_any_number_of_threads() -> None:
    x = tg.tensor(RANDOM.standard_normal((64, 32, 40)).astype(np.float32), requires_grad=True)
    w = tg.ones(32, requires_grad=True)
    runs = []
    for threads in (1, 2):
        before = tg.get_num_threads()
        tg.set_num_threads(threads)
        try:
            out = (
                F.batch_norm(x, None, None, w, training=True) + F.group_norm(x, 4, w) + F.layer_norm(x, (40,))
            )
            runs.append(
                [out.detach().numpy(), *(g.numpy() for g in tg.autograd.grad(out.square().sum(), (x, w)))]
            )
        finally:
            tg.set_num_threads(before)
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_empty_and_half_inputs() -> None:
    mean = tg.full((3,), 5.0)
    assert F.batch_norm(tg.ones(0, 3), mean, tg.ones(3), training=True).shape == (0, 3)
    assert mean.tolist() == [5.0] * 3
    assert F.layer_norm(tg.ones(0, 3), (3,)).shape == (0, 3)
    assert F.group_norm(tg.ones(0, 4), 2).shape == (0, 4)
    half = tg.tensor(RANDOM.standard_normal((4, 3)), dtype=tg.float16)
    assert F.batch_norm(half, None, None, tg.ones(3), training=True).dtype is tg.float16
    assert F.layer_norm(half, (3,), tg.ones(3, dtype=tg.float16)).dtype is tg.float16


def test_wrong_calls() -> None:
    x = tg.ones(2, 3)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(tg.ones(1, 3), None, None, training=True)
    with pytest.raises(RuntimeError, match="should contain 3 elements not 4"):
        F.batch_norm(x, tg.ones(4), tg.ones(4))
    with pytest.raises(RuntimeError, match="must be defined in evaluation mode"):
        F.batch_norm(x, None, None)
    with pytest.raises(RuntimeError, match="dtype"):
        F.batch_norm(x, tg.ones(3).double(), tg.ones(3))
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        F.group_norm(x, 2)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        F.group_norm(tg.ones(3), 1)
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        F.instance_norm(tg.ones(2, 3, 1))
    with pytest.raises(RuntimeError, match="expected input with shape"):
        F.layer_norm(x, (2,))
    with pytest.raises(TypeError, match="tuple of ints"):
        F.layer_norm(x, 3)
    with pytest.raises(RuntimeError, match="not implemented"):
        F.layer_norm(x.long(), (3,))
    with pytest.raises(ValueError, match="3D or higher"):
        F.local_response_norm(x, 2)


@pytest.mark.parametrize("layer", ["BatchNorm1d", "InstanceNorm1d"])
@pytest.mark.parametrize("affine", [True, False])
def test_running_statistics_in_half_precision(layer, affine):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    seen = []
    for lib in (tg, torch):
        norm = getattr(lib.nn, layer)(3, affine=affine, track_running_stats=True).half()
        x = lib.arange(24.0).reshape(2, 3, 4).half()
        norm(x)
        x.requires_grad_()
        out = norm.eval()(x)
        out.float().square().sum().backward()
        seen.append([out.tolist(), x.grad.tolist()])
        assert out.dtype is lib.float16
    np.testing.assert_allclose(*(np.array(s) for s in seen), rtol=2e-2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_default_eps_of_rms_norm(dtype):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    seen = [
        lib.nn.functional.rms_norm(
            lib.tensor([[1e-3, -2e-3, 5e-4]], dtype=getattr(lib, dtype)), (3,)
        ).tolist()
        for lib in (tg, torch)
    ]
    np.testing.assert_allclose(seen[0], seen[1], rtol=2e-3 if dtype == "float16" else 1e-6)
