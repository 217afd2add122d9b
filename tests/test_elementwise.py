"""Each elementwise op: forward against its twin, derivatives against finite differences, kernels against rules."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import gradcheck, gradgradcheck
from tapegrad.elementwise import Elementwise
from tapegrad.op import registry

from .samples import SAMPLES

OPS = sorted(name for name in SAMPLES if name in registry)
DIFFERENTIABLE = [name for name in OPS if registry[name].rules]


def _draw(name: str, shape: tuple[int, ...], dtype: str, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    sample, op = SAMPLES[name], registry[name]
    domains = sample.domains if len(sample.domains) == len(op.inputs) else sample.domains * len(op.inputs)
    return [random.uniform(low, high, shape).astype(dtype) for low, high in domains]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPS)
def test_forward_equals_the_twin(name: str, dtype: str) -> None:
    op, sample = registry[name], SAMPLES[name]
    tolerance = 2e-6 if dtype == "float32" else 1e-12
    for shape in ((), (0,), (7,), (3, 5)):
        arrays = _draw(name, shape, dtype)
        out = op.function(*map(tg.from_numpy, arrays), **sample.params)
        expected = sample.twin(*[a.astype(np.float64) for a in arrays], **sample.params)
        assert out.shape == shape
        if name.startswith(("floor", "div_trunc", "trunc_", "remainder", "fmod")) and dtype == "float32":
            continue  # jumps: rounding of the quotient decides; covered in float64
        np.testing.assert_allclose(out.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPS)
def test_layouts_and_broadcasting_give_the_same_numbers(name: str) -> None:
    op, sample = registry[name], SAMPLES[name]
    arrays = _draw(name, (4, 6), "float64")
    plain = op.function(*map(tg.from_numpy, arrays), **sample.params).numpy()
    fortran = [np.asfortranarray(a) for a in arrays]
    np.testing.assert_array_equal(op.function(*map(tg.from_numpy, fortran), **sample.params).numpy(), plain)
    strided = [np.repeat(a, 2, axis=1)[:, ::2] for a in arrays]
    np.testing.assert_array_equal(op.function(*map(tg.from_numpy, strided), **sample.params).numpy(), plain)
    rows = [arrays[0], *[a[:1] for a in arrays[1:]]]
    got = op.function(*map(tg.from_numpy, rows), **sample.params).numpy()
    full = op.function(
        *[tg.from_numpy(np.broadcast_to(a, (4, 6)).copy()) for a in rows], **sample.params
    ).numpy()
    np.testing.assert_array_equal(got, full)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_first_and_second_derivatives(name: str) -> None:
    op, sample = registry[name], SAMPLES[name]
    inputs = [tg.from_numpy(a).requires_grad_() for a in _draw(name, (2, 3), "float64", seed=3)]

    def run(*xs: tg.Tensor) -> tg.Tensor:
        return op.function(*xs, **sample.params)

    assert gradcheck(run, inputs)
    assert gradgradcheck(run, inputs)
    if len(inputs) > 1:  # broadcasting, and one operand constant
        mixed = [inputs[0], *[x[:, :1].detach().requires_grad_() for x in inputs[1:]]]
        assert gradcheck(run, mixed)
        assert gradcheck(run, [inputs[0].detach(), *mixed[1:]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_fused_kernel_equals_the_rule_run_op_by_op(name: str, dtype: str) -> None:
    op, sample = registry[name], SAMPLES[name]
    assert isinstance(op, Elementwise)
    inputs = [tg.from_numpy(a).requires_grad_() for a in _draw(name, (5, 4), dtype, seed=5)]
    weight = tg.from_numpy(np.random.default_rng(6).standard_normal((5, 4)).astype(dtype))
    out = op.function(*inputs, **sample.params)
    fused = tg.autograd.grad(out, inputs, weight, retain_graph=True, allow_unused=True)
    by_rule = tg.autograd.grad(out, inputs, weight, create_graph=True, allow_unused=True)
    for a, b in zip(fused, by_rule, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            tolerance = 1e-5 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [n for n in OPS if len(registry[n].inputs) == 2])
def test_an_operand_may_overlap_another_one(name: str) -> None:
    op = registry[name]
    base = np.abs(_draw(name, (9,), "float64")[1]) + 0.1
    x, y = tg.from_numpy(base[:-1]), tg.from_numpy(base[1:])
    expected = SAMPLES[name].twin(base[:-1].copy(), base[1:].copy())
    np.testing.assert_allclose(op.function(x, y).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_every_elementwise_op_has_samples() -> None:
    covered_elsewhere = {  # ops with parameters or masks, tested beside their family
        n
        for n, op in registry.items()
        if isinstance(op, Elementwise) and (op.params or op.masks or op.kind == "integral")
    }
    missing = [
        n
        for n, op in registry.items()
        if isinstance(op, Elementwise) and n not in SAMPLES and n not in covered_elsewhere
    ]
    assert not missing, f"no samples for {missing}: add a line each to tests/samples.py"


def test_a_users_formula_gets_kernels_and_derivatives_of_any_order() -> None:
    @tg.elementwise
    def bump(x, y, *, width):
        return tg.exp(-x * x / width) * tg.where(y > 0, y, tg.sin(y))

    x = tg.tensor([0.3, -0.8, 1.2], dtype=tg.float64, requires_grad=True)
    y = tg.tensor([[0.5], [-0.4]], dtype=tg.float64, requires_grad=True)
    assert gradcheck(lambda a, b: bump(a, b, width=0.7), (x, y))
    assert gradgradcheck(lambda a, b: bump(a, b, width=0.7), (x, y))
    assert "exp_f4" in tg.kernel_source(bump)
    (third,) = [tg.autograd.functional.hessian(lambda a: bump(a, y[0], width=2.0).sum(), x)]
    assert third.shape == (3, 3)


def test_a_users_formula_with_a_given_rule() -> None:
    @tg.elementwise(x=lambda g, out: g * (1 - out * out))
    def squash(x):
        return tg.tanh(x)

    x = tg.tensor([0.1, 2.0], requires_grad=True)
    y = squash(x)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx((1 - y.detach() ** 2).tolist())


def test_formulas_that_cannot_be_emitted_say_what_to_write_instead() -> None:
    with pytest.raises(TypeError, match="where"):

        @tg.elementwise
        def branching(x):
            return x if x > 0 else -x

    with pytest.raises(TypeError, match=r"tapegrad\.sin"):
        import math

        @tg.elementwise
        def plain(x):
            return math.sin(x)

    with pytest.raises(TypeError, match="names 'z'"):

        @tg.elementwise(x=lambda g, z: g * z)
        def misnamed(x):
            return x
