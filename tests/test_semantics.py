"""What people have read about PyTorch's mechanism, claim by claim, and what they trip over.

The numbers are those of SEMANTICS, the list of claims that the library was built to fulfil.
"""

from __future__ import annotations

import inspect
import itertools
import pathlib
import warnings
from collections import OrderedDict
from collections.abc import Iterator

import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.nn import functional as F

HERE = pathlib.Path(__file__).name


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    tg.manual_seed(0)
    yield
    assert tg.is_grad_enabled()


def _leaf(*values: float) -> tg.Tensor:
    return tg.tensor(values, requires_grad=True)


def _values(module: nn.Module) -> list[list[float]]:
    return [p.detach().flatten().tolist() for p in module.parameters()]


def _line(text: str) -> int:
    """The number of the line of this file that ends with a marker."""
    lines = pathlib.Path(__file__).read_text().splitlines()
    (found,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return found


# -- backward and step -----------------------------------------------------------------------------


def test_01_backward_only_computes() -> None:
    model = nn.Linear(3, 2)
    optimizer = tg.optim.SGD(model.parameters(), lr=0.1)
    before = _values(model)
    loss = model(tg.ones(4, 3)).pow(2).sum()
    loss.backward()
    assert _values(model) == before
    grads = [p.grad.flatten().tolist() for p in model.parameters()]
    optimizer.step()
    for old, g, new in zip(before, grads, _values(model), strict=True):
        assert new == pytest.approx([o - 0.1 * d for o, d in zip(old, g, strict=True)], rel=1e-5)


def test_02_only_a_scalar_needs_no_gradient() -> None:
    x = _leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad.tolist()
    x.grad = None
    (x * x).sum().backward(tg.tensor(1.0))
    assert x.grad.tolist() == first == [2.0, 4.0]
    with pytest.raises(RuntimeError, match=r"scalar outputs.*shape \[2\].*gradient="):
        (x * x).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * x).backward(gradient=tg.ones(3))
    x.grad = None
    (x * x).backward(gradient=tg.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]
    x.grad = None
    (x * x)[:1].backward()  # one element counts as a scalar
    assert x.grad.tolist() == [2.0, 0.0]


def test_03_the_graph_is_released_unless_it_is_retained() -> None:
    x = _leaf(1.0, 2.0)
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=False)
    assert x.grad.tolist() == [6.0, 12.0]
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_04_create_graph_gives_derivatives_of_any_order() -> None:
    x = tg.tensor(2.0, dtype=tg.float64, requires_grad=True)
    y = x**5
    expected = [80.0, 160.0, 240.0, 240.0, 120.0]
    for value in expected:
        (y,) = tg.autograd.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(value)
    z = x**3
    z.backward(create_graph=True)
    (second,) = tg.autograd.grad(x.grad, x)
    assert second.item() == pytest.approx(12.0)


def test_05_retain_variables_is_gone() -> None:
    loss = (_leaf(1.0) * 2).sum()
    with pytest.raises(TypeError, match=r"retain_variables.*retain_graph"):
        loss.backward(retain_variables=True)
    loss.backward()


def test_06_autograd_backward_sums_over_tensors() -> None:
    x, y = _leaf(1.0, 2.0), _leaf(3.0)
    a, b = x * 2, (x * y).sum()
    tg.autograd.backward([a, b], [tg.tensor([1.0, 10.0]), None])
    assert x.grad.tolist() == [2.0 + 3.0, 20.0 + 3.0]
    assert y.grad.tolist() == [3.0]
    tg.autograd.backward((x * x).sum())
    assert x.grad.tolist() == [7.0, 27.0]
    with pytest.raises(RuntimeError, match="2 tensors and 1 gradients"):
        tg.autograd.backward([x.sum(), x.prod()], [None])


def test_07_losses_added_or_one_by_one_are_equal() -> None:
    def gradients(together: bool) -> list[float]:
        tg.manual_seed(1)
        model = nn.Linear(3, 2).double()
        hidden = tg.tanh(model(tg.ones(2, 3, dtype=tg.float64)))
        one, two = hidden.sum(), hidden.pow(2).sum()
        if together:
            (one + two).backward()
        else:
            one.backward(retain_graph=True)
            two.backward()
        return [v for p in model.parameters() for v in p.grad.flatten().tolist()]

    assert gradients(True) == pytest.approx(gradients(False), rel=1e-14)
    for _ in range(3):  # one forward, one backward per iteration: no graph is kept
        x = _leaf(1.0)
        (x * x).sum().backward()


# -- graph, leaves, hooks --------------------------------------------------------------------------


def test_08_the_graph_is_built_as_the_code_runs() -> None:
    x = _leaf(1.0)
    y = x
    for k in range(3):
        y = y * 2 if k % 2 else y + 1
    assert [e.name() for e in y.tape()] == ["AddBackward0", "MulBackward0", "AddBackward0"]
    scope: dict[str, object] = {"tg": tg}
    for cell in ("x = tg.tensor(3.0, requires_grad=True)", "y = x * x", "z = y + x", "z.backward()"):
        exec(cell, scope)  # like a notebook, one line after the other
    assert scope["x"].grad.item() == 7.0  # type: ignore[attr-defined]


def test_09_only_leaves_keep_their_gradient() -> None:
    x = _leaf(1.0, 2.0)
    y = x * 3
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.warns(UserWarning, match=r"not a leaf Tensor.*retain_grad"):
        assert y.grad is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tg.ones(2).grad is None


def test_10_hooks_read_and_replace_and_retain_grad_keeps() -> None:
    x = _leaf(1.0, 2.0)
    y = x * 3
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    assert seen == [[1.0, 1.0]]
    assert x.grad.tolist() == [30.0, 30.0]
    assert y.grad.tolist() == [10.0, 10.0]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert y.grad.tolist() == [11.0, 11.0]


def test_11_the_articles_example() -> None:
    x2, w1, w2 = _leaf(2.0), _leaf(3.0), _leaf(5.0)
    y2 = x2**w1
    z2 = w2 * y2 + 1
    z2.backward()
    assert x2.grad.item() == pytest.approx(60.0)  # w2 * w1 * x2**2
    assert w1.grad.item() == pytest.approx(27.7258872)  # w2 * x2**3 * log(2)
    assert w2.grad.item() == pytest.approx(8.0)
    with pytest.warns(UserWarning, match="leaf"):
        assert y2.grad is None


def test_12_one_backward_through_two_networks() -> None:
    first, second = nn.Linear(3, 4), nn.Linear(4, 1)
    batch = tg.randn(5, 3)
    between = tg.relu(first(batch))
    second(between).sum().backward()
    assert all(p.grad is not None for p in itertools.chain(first.parameters(), second.parameters()))
    assert batch.grad is None
    with pytest.warns(UserWarning, match="leaf"):
        assert between.grad is None


# -- requires_grad, detach, no_grad ----------------------------------------------------------------


def test_13_requires_grad_spreads() -> None:
    assert not tg.ones(2).requires_grad
    assert nn.Parameter(tg.ones(2)).requires_grad
    a, b = tg.ones(2), _leaf(1.0, 1.0)
    assert (a + b).requires_grad
    assert not (a + a).requires_grad
    assert (a * 2 + b.exp() * a).requires_grad


def test_14_any_floating_tensor_may_ask() -> None:
    image, target = tg.ones(2, 3, requires_grad=True), tg.zeros(2, 1, requires_grad=True)
    out = nn.Linear(3, 1)(image)
    out.retain_grad()
    (out - target).pow(2).sum().backward()
    assert image.grad.shape == (2, 3)
    assert target.grad.tolist() == [[-g] for g in out.grad.flatten().tolist()]
    for dtype in (tg.float16, tg.float32, tg.float64):
        assert tg.ones(1, dtype=dtype, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="floating"):
        tg.ones(1, dtype=tg.int64).requires_grad_()


def test_15_no_grad_records_nothing() -> None:
    x = _leaf(1.0)
    with tg.no_grad():
        y = x * 2
        assert not y.requires_grad
        with tg.enable_grad():
            assert (x * 2).requires_grad
    assert y.grad_fn is None
    with pytest.raises(TypeError, match="volatile"):
        tg.tensor([1.0], volatile=True)

    @tg.no_grad()
    def quiet(t: tg.Tensor) -> tg.Tensor:
        return t * 2

    assert not quiet(x).requires_grad
    assert (x * 2).requires_grad


def test_16_detach_cuts() -> None:
    w, v = _leaf(2.0), _leaf(3.0)
    hidden = w * 5
    cut = hidden.detach()
    assert cut.data_ptr() == hidden.data_ptr()
    assert cut.is_leaf
    assert not cut.requires_grad
    (cut * v).sum().backward()
    assert w.grad is None
    assert v.grad.item() == 10.0
    same = hidden.detach_()
    assert same is hidden
    assert hidden.is_leaf
    (hidden * v).sum().backward()
    assert w.grad is None


def test_17_frozen_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    for p in model[2].parameters():
        p.requires_grad = False
    before = _values(model[2])
    optimizer = tg.optim.SGD(model.parameters(), lr=0.1)
    model(tg.ones(4, 2)).sum().backward()
    optimizer.step()
    assert all(p.grad is None for p in model[2].parameters())
    assert _values(model[2]) == before
    assert model[0].weight.grad.abs().sum().item() > 0  # gradients flow through the frozen part


def test_18_parameters_of_several_networks_in_any_order() -> None:
    def train(turned: bool) -> list[list[float]]:
        tg.manual_seed(2)
        first, second = nn.Linear(3, 4), nn.Linear(4, 1)
        nets = (second, first) if turned else (first, second)
        optimizer = tg.optim.Adam(itertools.chain(*(n.parameters() for n in nets)), lr=0.05)
        for _ in range(5):
            optimizer.zero_grad()
            second(tg.tanh(first(tg.ones(2, 3)))).pow(2).sum().backward()
            optimizer.step()
        return _values(first) + _values(second)

    assert train(False) == train(True)


# -- zero_grad and accumulation --------------------------------------------------------------------


def test_19_gradients_accumulate() -> None:
    model = nn.Linear(3, 1).double()
    batch = tg.randn(8, 3, dtype=tg.float64)
    for part in batch.split(2):
        model(part).sum().backward()
    parts = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    model(batch).sum().backward()
    for a, p in zip(parts, model.parameters(), strict=True):
        assert a.flatten().tolist() == pytest.approx(p.grad.flatten().tolist(), rel=1e-12)


# -- several losses, several networks --------------------------------------------------------------


def test_20_a_vae_gan_runs_as_written() -> None:
    encoder, decoder, critic = nn.Linear(6, 4), nn.Linear(2, 6), nn.Linear(6, 1)
    optimizers = {
        n: tg.optim.Adam(net.parameters(), lr=0.01)
        for n, net in zip("edc", (encoder, decoder, critic), strict=True)
    }
    image = tg.rand(5, 6)
    for _ in range(3):
        mean, log_var = encoder(image).chunk(2, dim=1)
        code = mean + tg.randn_like(mean) * (0.5 * log_var).exp()
        fake = tg.sigmoid(decoder(code))
        divergence = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum()
        likeness = F.mse_loss(fake, image, reduction="sum")
        real_score, fake_score = critic(image), critic(fake.detach())
        critic_loss = F.binary_cross_entropy_with_logits(real_score, tg.ones(5, 1))
        critic_loss = critic_loss + F.binary_cross_entropy_with_logits(fake_score, tg.zeros(5, 1))
        before = [_values(n) for n in (encoder, decoder, critic)]

        optimizers["c"].zero_grad()
        critic_loss.backward()
        assert all(
            p.grad is None or not p.grad.any() for p in decoder.parameters()
        )  # detached: the critic's step stays its own
        optimizers["c"].step()
        after = [_values(n) for n in (encoder, decoder, critic)]
        assert after[:2] == before[:2]
        assert after[2] != before[2]

        optimizers["e"].zero_grad()
        (divergence + likeness).backward(retain_graph=True)
        optimizers["e"].step()

        optimizers["d"].zero_grad()
        fool = F.binary_cross_entropy_with_logits(critic(tg.sigmoid(decoder(code.detach()))), tg.ones(5, 1))
        (likeness_again := F.mse_loss(tg.sigmoid(decoder(code.detach())), image, reduction="sum")).backward(
            retain_graph=True
        )
        fool.backward()
        optimizers["d"].step()
        assert likeness_again.item() > 0
        for n in (encoder, decoder, critic):
            n.zero_grad()
        assert _values(critic) == after[2]  # each optimizer updates only its own network
        assert _values(encoder) != before[0]
        assert _values(decoder) != before[1]


def test_21_a_point_makes_a_number_floating() -> None:
    a, b = tg.tensor([1.0]), tg.tensor([1])
    assert (a == b).all()
    assert a.dtype is tg.float32
    assert b.dtype is tg.int64


# -- Module and Parameter --------------------------------------------------------------------------


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(10, 20, 4)
        self.head = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
        self.scale = nn.Parameter(tg.ones(1))
        self.register_buffer("count", tg.zeros(1))

    def forward(self, x: tg.Tensor) -> tg.Tensor:
        return self.head(x) * self.scale


def test_22_calling_a_module_runs_hooks_and_forward() -> None:
    order = []

    class Double(nn.Module):
        def forward(self, x: tg.Tensor) -> tg.Tensor:
            order.append("forward")
            return x * 2

    module = Double()
    module.register_forward_pre_hook(lambda m, args: order.append("before"))
    module.register_forward_hook(lambda m, args, out: order.append("after"))
    assert module(tg.ones(1)).item() == 2.0
    assert order == ["before", "forward", "after"]
    with pytest.raises(NotImplementedError):
        nn.Module()(tg.ones(1))


def test_23_parameters() -> None:
    p = nn.Parameter(tg.tensor([1.0, 2.0]))
    assert p.requires_grad
    assert repr(p) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    assert not nn.Parameter(tg.ones(1), requires_grad=False).requires_grad
    module = nn.Module()
    module.weight = p
    module.plain = tg.ones(2)
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert next(module.parameters()) is p


def test_24_add_module_is_assignment() -> None:
    one, two = nn.Module(), nn.Module()
    one.add_module("layer", child := nn.Linear(2, 2))
    two.layer = child
    assert one.layer is two.layer is child
    assert repr(one) == repr(two)


def test_25_walking_through_a_network() -> None:
    net = _Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale",
        "conv.weight",
        "conv.bias",
        "head.0.weight",
        "head.0.bias",
    ]
    assert [n for n, _ in net.named_children()] == ["conv", "head"]
    assert list(net.children()) == [net.conv, net.head]
    assert [n for n, _ in net.named_modules()] == ["", "conv", "head", "head.0", "head.1"]
    assert next(net.modules()) is net
    net.again = net.conv
    assert len(list(net.modules())) == 5  # each once
    del net.again
    assert repr(net) == (
        "_Net(\n  (conv): Conv2d(10, 20, kernel_size=(4, 4), stride=(1, 1))\n  (head): Sequential(\n"
        "    (0): Linear(in_features=3, out_features=2, bias=True)\n    (1): ReLU()\n  )\n)"
    )


def test_26_state_dicts() -> None:
    net, other = _Net(), _Net()
    state = net.state_dict()
    assert list(state) == ["scale", "count", "conv.weight", "conv.bias", "head.0.weight", "head.0.bias"]
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert _values(net) == _values(other)
    wrong = dict(state)
    del wrong["scale"]
    wrong["extra"] = tg.ones(1)
    with pytest.raises(
        RuntimeError,
        match=r"(?s)Missing key.*scale.*Unexpected key.*extra|Unexpected key.*extra.*Missing key.*scale",
    ):
        other.load_state_dict(wrong)
    report = other.load_state_dict(wrong, strict=False)
    assert report.missing_keys == ["scale"]
    assert report.unexpected_keys == ["extra"]
    with pytest.raises(RuntimeError, match="size mismatch for scale"):
        other.load_state_dict({**state, "scale": tg.ones(2)})


def test_27_train_and_eval() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    x = tg.randn(6, 4)
    assert net.train() is net
    assert all(m.training for m in net.modules())
    assert not (net(x) == net(x)).all()
    net.eval()
    assert not any(m.training for m in net.modules())
    assert (net(x) == net(x)).all()
    layer = nn.Linear(4, 4)
    assert (layer.train()(x) == layer.eval()(x)).all()
    net(x).sum().backward()
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_28_registering() -> None:
    module = nn.Module()
    module.register_parameter("weight", nn.Parameter(tg.ones(2)))
    module.register_parameter("bias", None)
    module.register_buffer("kept", tg.ones(1))
    module.register_buffer("passing", tg.ones(1), persistent=False)
    assert module.bias is None
    assert list(module.state_dict()) == ["weight", "kept"]
    assert [n for n, _ in module.named_buffers()] == ["kept", "passing"]

    layer = nn.Linear(2, 2)
    seen: list[str] = []
    layer.register_forward_pre_hook(lambda m, args: seen.append("pre"))
    layer.register_forward_hook(lambda m, args, out: seen.append("forward"))
    layer.register_full_backward_hook(lambda m, gi, go: seen.append("backward"))
    layer(tg.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["pre", "forward", "backward"]
    old = nn.Linear(2, 2)
    try:
        old.register_backward_hook(lambda m, gi, go: seen.append("old"))
    except RuntimeError as err:
        assert "register_full_backward_hook" in str(err)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old(tg.ones(1, 2, requires_grad=True)).sum().backward()
        assert seen[-1] == "old"


def test_29_containers() -> None:
    one = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    two = nn.Sequential(OrderedDict(lin=one[0], act=one[1]))
    x = tg.randn(3, 2)
    assert (one(x) == two(x)).all()
    assert two.lin is one[0]
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    layers.append(nn.ReLU())
    assert len(layers) == 4
    assert len(list(layers.parameters())) == 6
    assert list(layers[1:3]) == [layers[1], layers[2]]
    weights = nn.ParameterList([nn.Parameter(tg.ones(1)), nn.Parameter(tg.zeros(1))])
    assert [w.item() for w in weights] == [1.0, 0.0]
    named = nn.ModuleDict({"a": nn.Linear(1, 1)})
    assert "a" in named
    assert list(nn.ParameterDict({"p": nn.Parameter(tg.ones(1))}).keys()) == ["p"]


def test_30_losses_and_activations_have_no_parameters() -> None:
    modules = [nn.ReLU(), nn.Sigmoid(), nn.Softmax(dim=0), nn.MSELoss(), nn.CrossEntropyLoss()]
    assert not [p for m in modules for p in m.parameters()]
    constant, leaf = tg.rand(3), tg.rand(3, requires_grad=True)
    for m in modules[:3]:
        assert not m(constant).requires_grad
        assert m(leaf).requires_grad
    assert not nn.MSELoss()(constant, constant).requires_grad
    assert nn.MSELoss()(leaf, constant).requires_grad
    assert nn.MSELoss()(constant, leaf).requires_grad


def test_31_an_alexnet_in_two_parts_trains_from_one_loop() -> None:
    features = nn.Sequential(
        nn.Conv2d(3, 8, kernel_size=5, stride=2, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(kernel_size=3, stride=2),
        nn.Conv2d(8, 12, kernel_size=3, padding=1), nn.BatchNorm2d(12), nn.ReLU(inplace=True), nn.MaxPool2d(2),
    )  # fmt: skip
    classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(12 * 3 * 3, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizers = [
        tg.optim.SGD(features.parameters(), lr=0.02, momentum=0.9),
        tg.optim.Adam(classifier.parameters(), lr=0.01),
    ]
    images, labels = tg.randn(12, 3, 28, 28), tg.arange(12) % 4
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(12):
        for optimizer in optimizers:
            optimizer.zero_grad()
        out = classifier(features(images).flatten(1))
        loss = criterion(out, labels)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-3:]) < 0.6 * sum(losses[:3])
    for name in (
        "BCELoss",
        "BCEWithLogitsLoss",
        "NLLLoss",
        "L1Loss",
        "SmoothL1Loss",
        "KLDivLoss",
        "HuberLoss",
    ):
        assert hasattr(nn, name)
    for name in (
        "relu",
        "conv2d",
        "max_pool2d",
        "linear",
        "dropout",
        "batch_norm",
        "cross_entropy",
        "softmax",
        "log_softmax",
    ):
        assert callable(getattr(F, name))


# -- what users trip over --------------------------------------------------------------------------


def test_a_second_backward_names_the_entry_both_lines_and_the_fix() -> None:
    x = _leaf(1.0, 2.0)
    loss = (x * x).sum()  # recorded here
    loss.backward()  # truncated here
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    text = str(caught.value)
    entry = next(e for e in loss.tape() if e.name() == "MulBackward0")
    assert "Trying to backward through the graph a second time" in text
    assert f"MulBackward0 (entry #{entry.position}" in text
    assert f"{HERE}:{_line('recorded here')}" in text
    assert f"{HERE}:{_line('truncated here')}" in text
    assert "loss.backward()" in text
    assert "retain_graph=True" in text
    assert "detach()" in text


def test_a_change_in_place_names_who_saved_who_changed_where_and_both_versions() -> None:
    x = _leaf(1.0, 2.0)
    y = x.exp()  # saved here
    z = y * 2
    y.add_(1)  # changed here
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    text = str(caught.value)
    assert "modified by an in-place operation" in text
    assert "ExpBackward0" in text
    assert f"{HERE}:{_line('saved here')}" in text
    assert f"{HERE}:{_line('changed here')}" in text
    assert "add_" in text
    assert "version 0" in text
    assert "version 1 now" in text
    assert "clone()" in text
    assert "saved 'out'" in text
    assert x.grad is None


def test_a_change_through_a_view_or_a_detached_twin_is_noticed() -> None:
    for change in (
        lambda t: t[:1].mul_(2),
        lambda t: t.detach().zero_(),
        lambda t: t.view(-1).__setitem__(0, 5.0),
    ):
        y = _leaf(1.0, 2.0).exp()
        z = y * y
        with tg.no_grad():
            change(y)
        with pytest.raises(RuntimeError, match="modified by an in-place"):
            z.sum().backward()


def test_a_missing_gradient_of_an_inner_tensor_says_why() -> None:
    y = _leaf(1.0) * 2
    with pytest.warns(UserWarning) as caught:
        assert y.grad is None
    text = str(caught[0].message)
    assert "not a leaf" in text
    assert ".retain_grad()" in text
    assert pathlib.Path(caught[0].filename).name == HERE


def test_a_constant_says_why_nothing_requires_grad() -> None:
    x = _leaf(1.0)
    with tg.no_grad():
        unrecorded = x * 2
    for tensor, word in [
        (unrecorded, "no_grad"), (x.detach() * 2, "detach"), (tg.ones(1) * 2, "requires_grad=True"), (x.long(), "int64"), (x > 0, "bool"),
    ]:  # fmt: skip
        with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad") as caught:
            tensor.sum().backward() if tensor.dtype.is_floating_point else tensor.backward()
        assert word in str(caught.value)


def test_a_retained_graph_that_grows_is_found_on_the_tape() -> None:
    weight = tg.ones(1000, requires_grad=True)
    carried = tg.ones(1000)
    before = tg.live_tape()
    for _ in range(5):
        carried = tg.tanh(carried * weight)  # grows here
        carried.sum().backward(retain_graph=True)
    grown = tg.live_tape().diff(before)
    assert grown.nbytes >= 5 * 4000
    where, (count, nbytes) = next(iter(grown.summary(by="line").items()))
    assert f"{HERE}:{_line('grows here')}" in where
    assert count == 10
    assert nbytes >= 5 * 4000
    assert "tanh" in repr(grown)
    carried = carried.detach()
    del grown
    assert len(tg.live_tape().diff(before)) == 0


def test_hooks_fire_in_the_order_of_the_replay_and_not_on_a_freed_graph() -> None:
    x = _leaf(1.0)
    a = x * 2
    b = a * 3
    order: list[str] = []
    for name, t in (("x", x), ("a", a), ("b", b)):
        t.register_hook(lambda g, name=name: order.append(name))
    b.sum().backward()
    assert order == ["b", "a", "x"]
    order.clear()
    with pytest.raises(RuntimeError, match="second time"):
        b.sum().backward()
    assert "x" not in order


def test_every_claim_has_a_test() -> None:
    names = [n for n, f in globals().items() if n.startswith("test_") and inspect.isfunction(f)]
    numbers = sorted(int(n[5:7]) for n in names if n[5:7].isdigit())
    assert numbers == list(range(1, 32))
