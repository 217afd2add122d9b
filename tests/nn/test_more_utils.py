"""nn.utils: fusion, calls with other parameters, skipped initialisation, orthogonal weights; beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tapegrad as tg  # noqa: E402

from .oracle import agree, load  # noqa: E402

RNG = np.random.default_rng(4)


def pair(lib, layer, norm, affine, bias):
    made = {
        "conv": lambda: (lib.nn.Conv2d(3, 4, 3, bias=bias), lib.nn.BatchNorm2d(4, affine=affine)),
        "transposed": lambda: (
            lib.nn.ConvTranspose2d(3, 4, 3, bias=bias),
            lib.nn.BatchNorm2d(4, affine=affine),
        ),
        "linear": lambda: (lib.nn.Linear(3, 4, bias=bias), lib.nn.BatchNorm1d(4, affine=affine)),
    }[layer]()
    return [m.double() for m in made]


@pytest.mark.parametrize("layer", ["conv", "transposed", "linear"])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_fusion_with_batch_norm(layer, affine, bias):
    x = RNG.normal(size=(5, 3) if layer == "linear" else (5, 3, 6, 6))
    theirs = pair(torch, layer, None, affine, bias)
    mine = pair(tg, layer, None, affine, bias)
    for a, b in zip(mine, theirs, strict=True):
        load(a, b)
    for m in (*mine, *theirs):
        m.train()
    mine[1](mine[0](tg.tensor(x)))
    theirs[1](theirs[0](torch.tensor(x)))
    fused = []
    for lib, (a, b) in ((tg, mine), (torch, theirs)):
        utils = lib.nn.utils
        more = (True,) if layer == "transposed" else ()
        fuse = utils.fuse_linear_bn_eval if layer == "linear" else utils.fuse_conv_bn_eval
        a.eval(), b.eval()
        if lib is torch and layer == "linear" and not affine:
            continue  # fails there
        made = fuse(a, b, *more)
        given = lib.tensor(x)
        np.testing.assert_allclose(
            made(given).detach().numpy(), b(a(given)).detach().numpy(), rtol=1e-9, atol=1e-12
        )
        fused.append({k: v.numpy() for k, v in made.state_dict().items()})
        assert made is not a
        assert isinstance(made.weight, lib.nn.Parameter)
    for key, value in fused[-1].items():
        np.testing.assert_allclose(fused[0][key], value, rtol=1e-9, atol=1e-12)


def test_fusion_is_for_evaluation():
    agree(lambda lib: lib.nn.utils.fuse_conv_bn_eval(lib.nn.Conv2d(1, 1, 1), lib.nn.BatchNorm2d(1)))
    agree(
        lambda lib: lib.nn.utils.fuse_linear_bn_eval(lib.nn.Linear(2, 3).eval(), lib.nn.BatchNorm1d(2).eval())
    )


def call(lib):
    return tg.nn.utils.stateless.functional_call if lib is tg else torch.func.functional_call


def tied(lib):
    net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2)).double()
    net[1].weight = net[0].weight
    with lib.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    return net


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"0.bias": [1.0, 2.0]},
        {"0.weight": [[1.0, 2.0], [3.0, 4.0]]},
        {"1.weight": [[1.0, 2.0], [3.0, 4.0]], "2.running_mean": [1.0, 1.0]},
    ],
)
def test_calls_with_other_parameters(given):
    def seen(lib):
        net = tied(lib)
        before = {k: v.tolist() for k, v in net.state_dict().items()}
        tensors = {
            k: lib.tensor(v, dtype=lib.float64, requires_grad="running" not in k) for k, v in given.items()
        }
        out = call(lib)(net, tensors, (lib.tensor([[1.0, -1.0], [2.0, 0.5]], dtype=lib.float64),))
        (out * out * lib.tensor([1.0, 3.0])).sum().backward()
        after = {k: v.tolist() for k, v in net.state_dict().items()}
        same = {k: after[k] == v for k, v in before.items()}
        grads = {k: np.round(v.grad.numpy(), 9).tolist() for k, v in tensors.items() if v.requires_grad}
        values = {k: np.round(v.detach().numpy(), 9).tolist() for k, v in tensors.items()}
        return np.round(out.detach().numpy(), 9).tolist(), same, grads, values

    agree(seen)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lib, net, f: f(net, {"nowhere": lib.ones(1)}, (lib.ones(2, 2),)),
        lambda lib, net, f: f(net, {"0.bias": lib.ones(2)}, (lib.ones(2, 2),), strict=True),
        lambda lib, net, f: f(net, {"nowhere": lib.ones(1)}, (lib.ones(2, 2),), strict=True),
        lambda lib, net, f: f(net, {"0.bias": 3}, (lib.ones(2, 2),)),
        lambda lib, net, f: f(
            net, {"0.weight": lib.ones(2, 2), "1.weight": lib.zeros(2, 2)}, (lib.ones(2, 2),)
        ),
    ],
)
def test_errors_of_such_calls(wrong):
    def seen(lib):
        net = tied(lib)
        try:
            return wrong(lib, net, call(lib)).shape
        finally:
            assert net[0].weight is net[1].weight

    agree(seen)


def test_other_parameters_go_away_after_an_error():
    net = tied(tg)
    own = net[0].bias
    with pytest.raises(RuntimeError):
        tg.nn.utils.stateless.functional_call(net, {"0.bias": tg.ones(2)}, tg.ones(2, 3, dtype=tg.float64))
    assert net[0].bias is own


def test_skipped_initialisation():
    tg.manual_seed(0)
    first = tg.rand(1).item()
    tg.manual_seed(0)
    layer = tg.nn.utils.skip_init(tg.nn.Linear, 3, 4, bias=False)
    assert repr(layer) == "Linear(in_features=3, out_features=4, bias=False)"
    assert tg.rand(1).item() == first
    agree(lambda lib: lib.nn.utils.skip_init(lib.nn.ReLU))
    agree(lambda lib: lib.nn.utils.skip_init(3))


def test_the_old_name_of_clipping():
    for lib in (tg, torch):
        w = lib.ones(4, requires_grad=True)
        w.grad = lib.ones(4)
        with pytest.warns(FutureWarning, match="clip_grad_norm_"):
            assert lib.nn.utils.clip_grad_norm([w], 1.0).item() == 2.0


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4), (2, 3, 5)])
@pytest.mark.parametrize("way", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights(shape, way):
    start, moved = RNG.normal(size=shape), RNG.normal(size=shape) * 0.3
    moved[..., range(min(shape[-2:])), range(min(shape[-2:]))] = (
        0.0  # the diagonal holds signs, which no step changes
    )
    noise = RNG.normal(size=(5, 5))

    def made(lib):
        module = lib.nn.Module()
        module.weight = lib.nn.Parameter(lib.tensor(start))
        lib.nn.utils.parametrizations.orthogonal(module, orthogonal_map=way)
        return module

    mine, theirs = made(tg), made(torch)
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    load(mine, theirs)  # where the base was completed at random, it differs
    for module, lib in ((mine, tg), (theirs, torch)):
        with lib.no_grad():
            module.parametrizations.weight.original.add_(lib.tensor(moved))
    a, b = mine.weight, theirs.weight
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-10)
    gram = a.mT @ a if shape[-2] >= shape[-1] else a @ a.mT
    np.testing.assert_allclose(
        gram.detach().numpy(), np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=1e-9
    )
    weight = np.resize(noise, shape)
    (a * tg.tensor(weight)).sum().backward()
    (b * torch.tensor(weight)).sum().backward()
    got, want = (m.parametrizations.weight.original.grad.numpy() for m in (mine, theirs))
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_an_orthogonal_weight_without_a_base(shape):
    start = RNG.normal(size=shape)

    def made(lib):
        module = lib.nn.Module()
        module.weight = lib.nn.Parameter(lib.tensor(start))
        return lib.nn.utils.parametrizations.orthogonal(
            module, orthogonal_map="householder", use_trivialization=False
        )

    mine, theirs = made(tg), made(torch)
    np.testing.assert_allclose(
        mine.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-9, atol=1e-10
    )
    again = (
        np.linalg.qr(RNG.normal(size=shape))[0]
        if shape[0] >= shape[1]
        else np.linalg.qr(RNG.normal(size=shape[::-1]))[0].T
    )
    mine.weight = tg.tensor(again)
    np.testing.assert_allclose(mine.weight.detach().numpy(), again, atol=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lib, o: o(lib.nn.Linear(2, 2), "nothing"),
        lambda lib, o: o(lib.nn.Linear(2, 2), "bias"),
        lambda lib, o: o(lib.nn.Linear(2, 2), orthogonal_map="qr"),
        lambda lib, o: o(lib.nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False),
        lambda lib, o: setattr(o(lib.nn.Linear(2, 2)), "weight", lib.ones(3, 3)),
    ],
)
def test_errors_of_orthogonal(wrong):
    def seen(lib):
        wrong(lib, lib.nn.utils.parametrizations.orthogonal)

    agree(seen)
