"""Convolution and ReLU as one layer: the same bits, names and printed form as a Sequential of both."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.nn import intrinsic
from tapegrad.nn.utils import parametrize, weight_norm
from tapegrad.ops import conv_arrays


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The bounds that convolutions were asked for."""
    found: list[float] = []
    forward = conv_arrays.forward

    def noted(*args: Any) -> np.ndarray:
        found.append(args[5])
        return forward(*args)

    monkeypatch.setattr(conv_arrays, "forward", noted)
    return found


def bits(x: Any) -> bytes:
    return bytes(x.detach().numpy().tobytes())


def make(lib: Any, n: int = 2, **options: Any) -> Any:
    conv = getattr(lib.nn, f"Conv{n}d")(3, 4, 3, **options)
    return (lib.nn.intrinsic if lib is tg else lib.ao.nn.intrinsic).__dict__[f"ConvReLU{n}d"](
        conv, lib.nn.ReLU()
    )


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("mode", ["zeros", "reflect", "circular"])
def test_one_pass(bounds: list[float], n: int, mode: str) -> None:
    fused = make(tg, n, padding=1, padding_mode=mode)
    x = tg.randn(2, 3, *[6] * n)
    a = fused(x)
    assert bounds == [0.0]
    assert bits(a) == bits(fused[1](fused[0](x)))
    grads = [
        [bits(g) for g in tg.autograd.grad(made.sum(), list(fused.parameters()))]
        for made in (a, nn.Sequential(*fused)(x))
    ]
    assert grads[0] == grads[1]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_beside_pytorch(n: int) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = make(tg, n, padding=1), make(torch, n, padding=1)
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    mine.load_state_dict({k: tg.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((2, 3, *[5] * n), dtype="f")
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(mine(tg.from_numpy(x)).detach().numpy(), expected, atol=1e-5)
    assert isinstance(mine, nn.Sequential)
    for wrong in ((nn.Conv2d(1, 1, 1), nn.ReLU6()), (nn.Linear(1, 1), nn.ReLU())):
        with pytest.raises(AssertionError, match="Incorrect types for input modules: "):
            intrinsic.ConvReLU2d(*wrong)


def test_hooks_of_the_layers_inside_run(bounds: list[float]) -> None:
    fused, x, seen = make(tg), tg.randn(2, 3, 5, 5), []
    plain = bits(fused(x))
    handles = [
        fused[0].register_forward_hook(lambda m, a, out: seen.append((out < 0).any().item())),
        fused[1].register_forward_pre_hook(lambda m, a: seen.append("pre")),
        fused[1].register_full_backward_hook(lambda m, a, b: seen.append("back")),
    ]
    made = fused(x)
    made.sum().backward()
    assert seen == [True, "pre", "back"]
    assert bits(made) == plain
    for handle in handles:
        handle.remove()
    with nn.modules.module.register_module_forward_hook(lambda m, a, out: seen.append(type(m).__name__)):
        fused(x)
    assert seen[3:] == ["Conv2d", "ReLU", "ConvReLU2d"]
    with fused.register_forward_hook(lambda m, a, out: out + 1):  # its own hook changes nothing inside
        del bounds[:]
        fused(x)
    assert bounds == [0.0]


def test_layers_that_were_changed(bounds: list[float]) -> None:
    x = tg.randn(2, 3, 5, 5)
    for change, bound in (
        (lambda m: m.__setitem__(1, nn.GELU()), -np.inf),
        (lambda m: m.append(nn.Tanh()), -np.inf),
        (lambda m: m.__setitem__(0, nn.Sequential(m[0])), -np.inf),
        (lambda m: setattr(m[1], "forward", F.sigmoid), -np.inf),
        (lambda m: weight_norm(m[0]), -np.inf),
        (lambda m: parametrize.register_parametrization(m[0], "weight", nn.Tanh()), 0.0),
    ):
        fused = make(tg)
        change(fused)
        expected = bits(nn.Sequential(*fused)(x))
        del bounds[:]
        assert bits(fused(x)) == expected
        assert bounds == [bound]
    assert intrinsic.ConvReLU2d(copy.deepcopy(fused[0]), nn.ReLU())[0].weight.shape == (4, 3, 3, 3)


def test_compiled_steps_notice_a_hook() -> None:
    fused, x, seen = make(tg), tg.randn(2, 3, 5, 5), []
    compiled = tg.compile(fused.forward)
    for _ in range(2):
        assert bits(compiled(x)) == bits(fused(x))
    with fused[1].register_forward_hook(lambda m, a, out: seen.append(1) or out * 2):
        assert bits(compiled(x)) == bits(2 * F.relu(fused[0](x)))
    assert seen
    assert bits(compiled(x)) == bits(fused(x))


# -- fusing a network ------------------------------------------------------------------------------------


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu1 = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.rest = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1), nn.BatchNorm2d(2))

    def forward(self, x: Any) -> Any:
        return self.rest(self.relu1(self.bn1(self.conv1(x))))


def test_fuse_modules() -> None:
    model, x = Network(), tg.randn(4, 3, 8, 8)
    model(x)
    model.eval()
    fused = intrinsic.fuse_modules(
        model, [["conv1", "bn1", "relu1"], ["rest.0", "rest.1"], ["rest.2", "rest.3"]]
    )
    kinds = [type(m).__name__ for m in (fused.conv1, fused.bn1, fused.relu1, *fused.rest)]
    assert kinds == ["ConvReLU2d", "Identity", "Identity", "ConvReLU2d", "Identity", "Conv2d", "Identity"]
    assert not any(m.training for m in fused.modules())
    assert tg.allclose(fused(x), model(x), atol=1e-5)
    assert isinstance(model.conv1, nn.Conv2d)
    assert intrinsic.fuse_modules(model, ["rest.0", "rest.1"], inplace=True) is model
    assert bits(model.rest[0](x.new_ones(1, 8, 4, 4))) == bits(fused.rest[0](x.new_ones(1, 8, 4, 4)))


def test_what_cannot_be_fused() -> None:
    model = Network()
    for names in (["bn1", "relu1"], ["conv1", "relu1", "bn1"], ["conv1"], ["relu1", "conv1"]):
        with pytest.raises(NotImplementedError, match="did not find fuser method for "):
            intrinsic.fuse_modules(model, names)
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        intrinsic.fuse_modules(model, ["conv1", "bn1"])
    training = intrinsic.fuse_modules(model, ["rest.0", "rest.1"])
    assert all(m.training for m in training.modules())
