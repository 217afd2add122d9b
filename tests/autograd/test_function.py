"""autograd.Function: what users write by hand, with every flag that forward may set."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import Function, gradcheck, gradgradcheck
from tapegrad.autograd.function import once_differentiable


def _leaf(*values: float) -> tg.Tensor:
    return tg.tensor(values, dtype=tg.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def test_forward_and_backward() -> None:
    x = _leaf(1.0, 2.0)
    y = Cube.apply(x)
    assert y.tolist() == [1.0, 8.0]
    assert y.grad_fn.name() == "CubeBackward"
    assert repr(y).endswith("grad_fn=<CubeBackward>)")
    y.backward(tg.tensor([1.0, 10.0], dtype=tg.float64))
    assert x.grad.tolist() == [3.0, 120.0]
    assert gradcheck(Cube.apply, (x,))
    assert gradgradcheck(Cube.apply, (x,))


def test_forward_is_not_recorded_and_runs_once() -> None:
    seen = []

    class Watched(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            y = x * 2
            seen.append((tg.is_grad_enabled(), y.requires_grad, ctx.needs_input_grad))
            return y

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            seen.append(tg.is_grad_enabled())
            return g * 2

    x = _leaf(1.0)
    y = Watched.apply(x).sum()
    y.backward(retain_graph=True)
    tg.autograd.grad(y, x, create_graph=True)
    assert seen == [(False, False, (True,)), False, True]


def test_constants_and_no_grad_record_nothing() -> None:
    assert Cube.apply(tg.ones(2)).grad_fn is None
    with tg.no_grad():
        assert Cube.apply(_leaf(1.0)).grad_fn is None


def test_needs_input_grad_and_arguments_that_are_no_tensors() -> None:
    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor, factor: float, y: tg.Tensor, *, label: str = "") -> tg.Tensor:
            ctx.factor = factor
            assert ctx.needs_input_grad == (True, False, False)
            return x * factor + y

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> Any:
            return g * ctx.factor, None, None

    x = _leaf(1.0, 2.0)
    Scale.apply(x, 3.0, tg.ones(2, dtype=tg.float64)).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_setup_context_apart_from_forward() -> None:
    class Product(Function):
        @staticmethod
        def forward(a: tg.Tensor, b: tg.Tensor) -> tg.Tensor:
            return a * b

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs, output)

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> Any:
            a, b, out = ctx.saved_tensors
            assert out.tolist() == (a * b).tolist()
            return g * b, g * a

    a, b = _leaf(2.0, 3.0), _leaf(5.0, 7.0)
    assert gradcheck(Product.apply, (a, b))
    assert gradgradcheck(Product.apply, (a, b))


def test_several_outputs_and_missing_cotangents() -> None:
    seen: list[Any] = []

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor, materialize: bool) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 2, "not a tensor", x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, nothing: Any, h: Any) -> Any:
            seen.append((None if g is None else g.tolist(), nothing, None if h is None else h.tolist()))
            return (0 if g is None else g * 2) + (0 if h is None else h * 3), None

    x = _leaf(1.0, 2.0)
    a, text, b = Two.apply(x, True)
    assert text == "not a tensor"
    assert (a.output_nr, b.output_nr) == (0, 2)
    a.sum().backward()
    _, _, b = Two.apply(x, False)
    b.sum().backward()
    assert seen == [([1.0, 1.0], None, [0.0, 0.0]), (None, None, [1.0, 1.0])]
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_single_tuple_is_a_tuple() -> None:
    class One(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> Any:
            return (x * 2,)

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            return g * 2

    out = One.apply(_leaf(1.0))
    assert isinstance(out, tuple)
    assert out[0].requires_grad


def test_outputs_that_are_constants() -> None:
    class Sorted(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> Any:
            order = tg.from_numpy(np.argsort(x.numpy(force=True)))
            weight = x * 0 + 5
            ctx.mark_non_differentiable(weight)
            ctx.save_for_backward(order)
            return x[order], order, weight

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor, order_g: Any, weight_g: Any) -> tg.Tensor:
            (order,) = ctx.saved_tensors
            return tg.zeros_like(g).index_put((order,), g)

    x = _leaf(3.0, 1.0, 2.0)
    values, order, weight = Sorted.apply(x)
    assert values.requires_grad
    assert not order.requires_grad
    assert not weight.requires_grad
    (values * tg.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [100.0, 1.0, 10.0]


def test_an_input_changed_in_place() -> None:
    class Double_(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            return g * 2

    x = _leaf(1.0, 2.0)
    y = x * 3
    out = Double_.apply(y)
    assert out is y
    assert y.tolist() == [6.0, 12.0]
    assert y.grad_fn.name() == "Double_Backward"
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]

    base = x * 1
    Double_.apply(base[:1])
    base.sum().backward()
    assert x.grad.tolist() == [8.0, 7.0]

    with pytest.raises(RuntimeError, match="leaf"):
        Double_.apply(_leaf(1.0))
    z = (x * 1).exp()
    kept = z * z
    Double_.apply(z)
    with pytest.raises(RuntimeError, match=r"modified by an in-place operation.*Double_"):
        kept.sum().backward()


def test_one_of_several_outputs_is_a_changed_view() -> None:
    class Both(Function):
        @staticmethod
        def forward(ctx: Any, a: tg.Tensor, b: tg.Tensor) -> Any:
            b.mul_(3)
            ctx.mark_dirty(b)
            return a * 2, b

        @staticmethod
        def backward(ctx: Any, ga: tg.Tensor, gb: tg.Tensor) -> Any:
            return ga * 2, gb * 3

    x, y = _leaf(1.0, 2.0), _leaf(1.0, 1.0, 1.0)
    base = y * 1
    out, part = Both.apply(x, base[:2])
    (out.sum() + (part * tg.tensor([1.0, 10.0])).sum() + (base * base).sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert y.grad.tolist() == [3.0 + 18.0, 30.0 + 18.0, 2.0]


def test_marking_dirty_what_is_not_returned() -> None:
    class Forgets(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            x.add_(1)
            ctx.mark_dirty(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            return g * 2

    with pytest.raises(RuntimeError, match="must all be outputs"):
        Forgets.apply(_leaf(1.0) * 1)


def test_an_input_handed_through() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            return g * 10

    x = _leaf(1.0)
    y = Same.apply(x)
    assert y is not x
    assert x.is_leaf
    assert not y.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [10.0]


def test_what_is_saved_is_guarded_and_given_up() -> None:
    x = _leaf(1.0, 2.0)
    h = x * 1
    y = Cube.apply(h).sum()
    h.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an in-place.*CubeBackward"):
        y.backward()
    y = Cube.apply(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_what_is_saved_is_freed_with_the_graph() -> None:
    gc.collect()
    gc.disable()
    try:
        x = _leaf(1.0, 2.0)
        y = Cube.apply(x * 2)
        entry = weakref.ref(y.grad_fn)
        del y
        assert entry() is None
    finally:
        gc.enable()


def test_only_tensors_can_be_saved() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            ctx.save_for_backward(x, 3.0)
            return x

    with pytest.raises(TypeError, match="attributes of ctx"):
        Wrong.apply(_leaf(1.0))

    class Optional(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            ctx.save_for_backward(None, x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            nothing, x = ctx.saved_tensors
            assert nothing is None
            return g * x

    x = _leaf(3.0)
    Optional.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0]


class Answers(Function):
    """A function whose backward returns what it was given."""

    @staticmethod
    def forward(ctx: Any, x: tg.Tensor, answer: Any) -> tg.Tensor:
        ctx.answer = answer
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: tg.Tensor) -> Any:
        return ctx.answer


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((), RuntimeError, "incorrect number of gradients"),
        ((1, 2, 3), RuntimeError, "incorrect number of gradients"),
        ((tg.ones(2), tg.ones(2)), RuntimeError, "not a Variable"),
        ((np.ones(2), None), TypeError, "ndarray"),
        ((2.0, None), TypeError, "float"),
        ((tg.ones(3), None), RuntimeError, r"invalid gradient at index 0.*\[3\].*\[2\]"),
    ],
)
def test_what_backward_must_not_return(answer: Any, error: type[Exception], words: str) -> None:
    x = _leaf(1.0, 2.0)
    with pytest.raises(error, match=words):
        Answers.apply(x, answer).sum().backward()
    assert x.grad is None
    assert tg.is_grad_enabled()


def test_what_backward_may_return() -> None:
    for answer, expected in [
        ((None, None), None),
        ((tg.ones(2, dtype=tg.float32), None), [1.0, 1.0]),  # converted
        ((tg.ones(1, 2), None, None), [1.0, 1.0]),  # summed, and superfluous Nones are dropped
        ((tg.ones(2), None), [1.0, 1.0]),
    ]:
        x = _leaf(1.0, 2.0)
        Answers.apply(x, answer).sum().backward()
        assert (None if x.grad is None else x.grad.tolist()) == expected
        assert x.grad is None or x.grad.dtype is tg.float64


def test_functions_are_not_made_and_need_both_parts() -> None:
    with pytest.raises(RuntimeError, match=r"Cube\.apply"):
        Cube()

    class NoBackward(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            return x * 2

    with pytest.raises(NotImplementedError, match="backward"):
        NoBackward.apply(_leaf(1.0)).sum().backward()
    with pytest.raises(NotImplementedError, match="forward"):
        Function.apply(_leaf(1.0))


def test_errors_in_forward_and_backward_pass_through() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor, when: str) -> tg.Tensor:
            ctx.when = when
            if when == "forward":
                raise KeyError("deliberate")
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> Any:
            raise KeyError("deliberate")

    x = _leaf(1.0)
    for when in ("forward", "backward"):
        with pytest.raises(KeyError, match="deliberate") as caught:
            Fails.apply(x * 2, when).sum().backward()
        assert tg.is_grad_enabled()
        if when == "backward":
            assert any("FailsBackward" in note for note in caught.value.__notes__)
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_a_backward_that_leaves_the_tape_says_so() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            (x,) = ctx.saved_tensors
            return tg.from_numpy(2 * x.detach().numpy() * g.detach().numpy())

    x = _leaf(3.0)
    Once.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]
    (first,) = tg.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_a_users_numba_kernels() -> None:
    @numba.njit
    def forward(x, out):
        for i in range(x.size):
            out[i] = np.exp(-x[i] * x[i])

    @numba.njit
    def vjp(g, x, out):
        for i in range(x.size):
            out[i] = -2 * x[i] * np.exp(-x[i] * x[i]) * g[i]

    class Bell(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            ctx.save_for_backward(x)
            out = tg.empty_like(x)
            forward(x.detach().numpy(), out.numpy())
            return out

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            (x,) = ctx.saved_tensors
            out = tg.empty_like(x)
            vjp(g.detach().contiguous().numpy(), x.detach().numpy(), out.numpy())
            return out

    x = _leaf(0.3, -0.7, 1.2)
    assert gradcheck(Bell.apply, (x,))
    (Bell.apply(x * 2) * 3).sum().backward()
    expected = [-2 * 2 * v * np.exp(-4 * v * v) * 2 * 3 for v in (0.3, -0.7, 1.2)]
    assert x.grad.tolist() == pytest.approx(expected)


def test_functions_within_functions() -> None:
    class Outer(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            with tg.enable_grad():
                inner = x.detach().requires_grad_()
                out = Cube.apply(inner) * 2
            ctx.inner, ctx.out = inner, out
            return out.detach()

        @staticmethod
        def backward(ctx: Any, g: tg.Tensor) -> tg.Tensor:
            (found,) = tg.autograd.grad(ctx.out, ctx.inner, g)
            return found

    x = _leaf(1.0, 2.0)
    Outer.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0, 24.0]


def test_the_same_observations_as_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")

    def observe(lib: Any) -> list[Any]:
        class Mixed(lib.autograd.Function):  # type: ignore[misc,name-defined]
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any, k: int) -> Any:
                ctx.save_for_backward(a, b)
                ctx.k = k
                ctx.mark_non_differentiable(count := (a > 1).sum())
                return a * b * k, a + b, count

            @staticmethod
            def backward(ctx: Any, g: Any, h: Any, n: Any) -> Any:
                a, b = ctx.saved_tensors
                return g * b * ctx.k + h, (g * a * ctx.k + h if ctx.needs_input_grad[1] else None), None

        a = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
        b = lib.tensor([3.0, 4.0], dtype=lib.float64, requires_grad=True)
        p, s, count = Mixed.apply(a, b, 2)
        seen: list[Any] = [
            p.tolist(),
            s.requires_grad,
            count.requires_grad,
            count.item(),
            p.grad_fn.name(),
            s.is_leaf,
        ]
        first = lib.autograd.grad((p * s).sum(), (a, b), create_graph=True)
        seen += [g.tolist() for g in first]
        seen += [g.tolist() for g in lib.autograd.grad(sum((g * g).sum() for g in first), (a, b))]
        p, s, _ = Mixed.apply(a, b.detach(), 3)
        p.sum().backward()
        seen += [a.grad.tolist(), b.grad]
        return seen

    assert observe(tg) == observe(torch)
