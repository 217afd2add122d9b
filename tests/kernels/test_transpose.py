"""kernels/transpose.py: copies to memory in another order, square by square."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernels import arrays, launch
from tapegrad.kernels.transpose import SIDES, copied_by_squares

from ..process import finish, start


def bits(*shape: int, dtype: str = "f") -> np.ndarray:
    """An array of any bits: among them NaNs of all kinds."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    made = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    return (made & 1 if dtype == "?" else made).view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", ["?", "b", "B", "e", "h", "f", "i", "d", "l"])
@pytest.mark.parametrize("shape", [(16, 16), (17, 65), (64, 64), (63, 130), (257, 19)])
def test_two_dimensions(dtype: str, shape: tuple[int, int]) -> None:
    x = bits(*shape, dtype=dtype)
    to = np.zeros(shape[::-1], dtype)
    assert copied_by_squares(to, x.T)
    assert to.tobytes() == x.T.tobytes()


@pytest.mark.parametrize("axes", [(0, 3, 2, 1), (3, 1, 2, 0), (1, 0, 3, 2), (2, 3, 0, 1), (0, 2, 3, 1)])
def test_any_number_of_outer_dimensions(axes: tuple[int, ...]) -> None:
    x = bits(17, 18, 19, 20)
    source = x.transpose(axes)
    to = np.zeros(source.shape, "f")
    assert copied_by_squares(to, source)
    assert to.tobytes() == source.tobytes()


def test_parts_of_both_arrays() -> None:
    x, memory = bits(90, 3, 80), bits(70, 200)
    expected = memory.copy()
    expected[1:69, 50:110] = x[20:80, 1, 5:73].T
    assert copied_by_squares(memory[1:69, 50:110], x[20:80, 1, 5:73].T)
    assert memory.tobytes() == expected.tobytes()


def test_what_is_left_to_others() -> None:
    x = bits(400, 400)
    row = np.broadcast_to(x[:1], (400, 400))
    few = SIDES[4] - 1
    for source in (x, x[::-1].T, x[:, ::-1].T, row, row.T, x.T[:few], x.T[:, :few], x[::2, ::2].T):
        assert not copied_by_squares(np.empty(source.shape, "f"), source)
        to = np.empty(source.shape, "f")
        arrays.copy(to, source)
        assert to.tobytes() == source.tobytes()
    for to in (
        np.empty((400, 800), "f")[:, ::2],
        np.empty((400, 400), "f")[::-1],
        np.empty((400, 400), "f")[:, ::-1],
    ):
        assert not copied_by_squares(to, x.T)
        arrays.copy(to, x.T)
        assert to.tobytes() == x.T.tobytes()
    assert not copied_by_squares(np.empty((40, 40), "D"), np.ones((40, 40), "D").T)


def test_a_copy_within_one_memory() -> None:
    x = np.arange(400 * 400, dtype="f").reshape(400, 400)
    expected = x.T.copy()
    arrays.copy(x, x.T)
    assert (x == expected).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_copies_of_tensors_use_it(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tg.randn(900, 700)
    labels = []
    run = launch.run
    monkeypatch.setattr(
        launch, "run", lambda kernel, *args: (labels.append(kernel.label), run(kernel, *args))
    )
    before = tg.get_num_threads()
    tg.set_num_threads(threads)
    try:
        copy = x.t().contiguous()
    finally:
        tg.set_num_threads(before)
    assert labels == ["transpose.transposed"]
    assert (copy.numpy() == x.numpy().T).all()


def test_in_a_compiled_function() -> None:
    def function(x: tg.Tensor, y: tg.Tensor) -> tuple[tg.Tensor, ...]:
        turned = x.t().contiguous()
        (gradient,) = tg.autograd.grad((turned * y).sum(), [x])
        return turned, turned * 2 + y, gradient

    compiled = tg.compile(function)
    for seed in range(3):
        tg.manual_seed(seed)
        x, y = tg.randn(300, 301, requires_grad=True), tg.randn(301, 300)
        for a, b in zip(compiled(x, y), function(x, y), strict=True):
            assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def test_in_plain_python() -> None:
    program = """
        import numpy as np
        from tapegrad.kernels.transpose import copied_by_squares
        for char in "BHIL":
            x = np.arange(50 * 70 * 3).astype(char).reshape(50, 3, 70)
            source = x.transpose(1, 2, 0)
            to = np.zeros(source.shape, char)
            assert copied_by_squares(to, source)
            assert (to == source).all()
        print("done")
    """
    out, err = finish(start(program, env={"NUMBA_DISABLE_JIT": "1"}))
    assert out.strip() == "done", err


@pytest.mark.parametrize("compiled", [False, True])
def test_operands_of_large_elementwise_results(compiled: bool) -> None:
    def function(x: tg.Tensor, y: tg.Tensor) -> tuple[tg.Tensor, ...]:
        made = (x.t() * y).tanh() + x.t().exp()
        return made, *tg.autograd.grad(made.sum(), [x, y])

    x, y = tg.randn(300, 301, requires_grad=True), tg.randn(301, 300, requires_grad=True)
    results = (tg.compile(function) if compiled else function)(x, y)
    straight = x.detach().t().clone().requires_grad_()
    made = (straight * y).tanh() + straight.exp()
    by_x, by_y = tg.autograd.grad(made.sum(), [straight, y])
    for a, b in zip(results, (made, by_x.t(), by_y), strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def test_an_operand_that_is_written_over_stays_where_it_is() -> None:
    x, y = tg.randn(300, 301), tg.randn(300, 301)
    expected = (x.numpy() + y.numpy()).T.copy()
    x.t().add_(y.t())
    assert (x.t().numpy() == expected).all()
    z = tg.zeros(301, 300)
    z += x.t()
    assert (z.numpy() == expected).all()


def test_operands_are_copied_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    x, row = tg.randn(300, 301), tg.randn(301)
    labels = []
    run = launch.run
    monkeypatch.setattr(
        launch, "run", lambda kernel, *args: (labels.append(kernel.label), run(kernel, *args))
    )
    for operand, copied in ((x.t(), 1), (x, 0), (x[::2], 0), (row.expand(300, 301), 0), (x[:20].t(), 0)):
        labels.clear()
        operand.exp()
        assert labels.count("transpose.transposed") == copied
