"""tapegrad.compile(module) is a module, as torch.compile's is."""

from __future__ import annotations

import copy
import pickle

import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")

from .oracle import agree  # noqa: E402


def compiled(lib):
    net = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.ReLU(), lib.nn.Linear(4, 2))
    return net, lib.compile(net) if lib is tg else torch.compile(net, backend="eager")


def test_as_pytorch():
    def seen(lib):
        net, fast = compiled(lib)
        first = (
            *(
                repr(fast),
                list(fast.state_dict()),
                [n for n, _ in fast.named_parameters()],
                fast._orig_mod is net,
            ),
            *(type(fast).__name__, isinstance(fast, lib.nn.Module), fast.training, len(list(fast.modules()))),
        )
        fast.eval()
        modes = fast.training, net.training, net[1].training
        fast.train()
        modes += fast.training, net[1].training
        net.note = 3
        fast.other = 5
        attributes = fast.note, net.other, hasattr(fast, "nothing")
        fast.load_state_dict({k: v * 0 + 1 for k, v in fast.state_dict().items()})
        return first, modes, attributes, net[0].bias.tolist(), tuple(fast(lib.ones(2, 3)).shape)

    agree(seen)


def test_it_trains_as_the_module_itself():
    ends = []
    for fast in (False, True):
        tg.manual_seed(0)
        net, program = compiled(tg)
        model = program if fast else net
        optimizer = tg.optim.SGD(model.parameters(), lr=0.1)
        x = tg.linspace(-1, 1, 24).reshape(8, 3)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = (model(x) - x[:, :2]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        ends.append([*losses, *model(x).flatten().tolist()])
    assert ends[0] == pytest.approx(ends[1], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_compile_their_own(twin):
    net, fast = compiled(tg)
    x = tg.ones(2, 3)
    fast(x)
    other = twin(fast)
    assert type(other).__name__ == "OptimizedModule"
    assert other._orig_mod is not net
    with tg.no_grad():
        net[0].weight.zero_()
        other.eval()
        assert tg.allclose(other(x), other._orig_mod(x))
        assert not (other._orig_mod[0].weight == 0).all()


def test_the_program_is_there():
    net, fast = compiled(tg)
    with pytest.raises(RuntimeError, match=r"model = tapegrad.compile\(model\)"):
        net.compile()
    fast(tg.ones(2, 3))
    assert isinstance(str(fast.report()), str)
    with pytest.raises(AttributeError, match="nothing"):
        _ = fast.nothing
