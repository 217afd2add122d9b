"""Every optimizer against PyTorch: same start, same function, same trajectory and state."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")

CONFIGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.01, "maximize": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1, "betas": (0.8, 0.95)}),
    ("Adam", {"lr": 0.05, "maximize": True, "eps": 1e-3}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.2}),
    ("AdamW", {"lr": 0.05, "amsgrad": True}),
    ("NAdam", {"lr": 0.05}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"lr": 0.05}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adamax", {"lr": 0.05}),
    ("Adamax", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("Adadelta", {"lr": 0.5}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"lr": 0.02}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.5}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.02, "centered": True, "maximize": True}),
    ("Rprop", {"lr": 0.02}),
    ("Rprop", {"lr": 0.02, "etas": (0.4, 1.5), "step_sizes": (1e-3, 0.1)}),
    ("ASGD", {"lr": 0.05}),
    ("ASGD", {"lr": 0.05, "t0": 5, "lambd": 0.1, "weight_decay": 0.1}),
]
IDS = [f"{name}-{'-'.join(options)}" for name, options in CONFIGS]


def start(lib, dtype):
    rng = np.random.default_rng(0)
    return [
        lib.tensor(rng.normal(size=s).tolist(), dtype=dtype, requires_grad=True) for s in [(3, 4), (5,), ()]
    ]


def loss_of(params, k):
    """Neither convex nor constant over the steps, so that every sign and branch occurs."""
    total = 0.0
    for i, p in enumerate(params):
        total = (
            total + ((p * p - 0.3 * (i + 1)) ** 2).sum() * (1 + 0.1 * k) + (p * (2.0 * (k % 3) - 2.0)).sum()
        )
    return total


def walk(lib, name, options, steps=20, dtype=None):
    params = start(lib, dtype or lib.float64)
    opt = getattr(lib.optim, name)([{"params": params[:2]}, {"params": params[2:], "lr": 0.03}], **options)
    seen = []
    for k in range(steps):
        opt.zero_grad()
        loss_of(params, k).backward()
        opt.step()
        seen.append(np.concatenate([p.detach().numpy().reshape(-1).copy() for p in params]))
    return np.array(seen), opt


def plain(value):
    if hasattr(value, "detach"):
        return np.asarray(value.detach().tolist())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def assert_same(a, b, rtol=1e-9):
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key], rtol)
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y, rtol)
    elif isinstance(a, (np.ndarray, float)):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)
    else:
        assert a == b


@pytest.mark.parametrize(("name", "options"), CONFIGS, ids=IDS)
def test_trajectory_state_and_printed_form(name, options):
    got, mine = walk(tg, name, options)
    want, theirs = walk(torch, name, options)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    a, b = mine.state_dict(), theirs.state_dict()
    assert_same(plain(a["param_groups"]), plain(b["param_groups"]))
    assert a["state"].keys() == b["state"].keys()
    for key in a["state"]:
        assert a["state"][key].keys() == b["state"][key].keys()
        # The step counts and their relatives are float32, here and there.
        assert_same(
            plain(dict(sorted(a["state"][key].items()))), plain(dict(sorted(b["state"][key].items()))), 1e-6
        )
    assert repr(mine) == repr(theirs)


@pytest.mark.parametrize(("name", "options"), CONFIGS, ids=IDS)
def test_float32_stays_close(name, options):
    got, _ = walk(tg, name, options, steps=5, dtype=tg.float32)
    want, _ = walk(torch, name, options, steps=5, dtype=torch.float32)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=3e-4, atol=3e-5)


@pytest.mark.parametrize(("name", "options"), CONFIGS, ids=IDS)
def test_saved_state_continues_the_same_way(name, options):
    params = start(tg, tg.float64)
    opt = getattr(tg.optim, name)(params, **options)

    def steps(params, opt, first):
        for k in range(first, first + 4):
            opt.zero_grad()
            loss_of(params, k).backward()
            opt.step()

    steps(params, opt, 0)
    twins = [p.detach().clone().requires_grad_() for p in params]
    again = getattr(tg.optim, name)(twins, lr=0.7)
    again.load_state_dict(copy.deepcopy(opt.state_dict()))
    steps(params, opt, 4)
    steps(twins, again, 4)
    # Scalars of the state other than the step take the parameters' dtype when they are loaded, as in PyTorch.
    tolerance = 1e-6 if name in ("NAdam", "ASGD") else 0
    for p, q in zip(params, twins, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=tolerance, atol=0)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("history", [3, 100])
def test_lbfgs_trajectory(search, history):
    def run(lib):
        x = lib.tensor([-1.5, 2.0, 0.5, -0.3], dtype=lib.float64, requires_grad=True)
        opt = lib.optim.LBFGS(
            [x], lr=1.0 if search else 0.02, max_iter=5, history_size=history, line_search_fn=search
        )
        calls = []

        def closure():
            opt.zero_grad()
            a, b = x[1:], x[:-1]
            loss = (100 * (a - b * b) ** 2 + (1 - b) ** 2).sum()
            loss.backward()
            calls.append(1)
            return loss

        seen = []
        for _ in range(8):
            loss = opt.step(closure)
            seen.append([float(loss), *x.tolist()])
        return seen, len(calls), opt

    got, calls, mine = run(tg)
    want, reference, theirs = run(torch)
    assert calls == reference
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert repr(mine) == repr(theirs)
    mine_state, their_state = (o.state_dict()["state"][0] for o in (mine, theirs))
    assert {k for k in their_state if k != "al"} == set(mine_state)


def test_non_contiguous_and_half_parameters():
    base = tg.tensor(np.arange(12.0).reshape(3, 4))
    w = base.t()
    w.requires_grad_()
    opt = tg.optim.Adam([w], lr=0.5)
    w.grad = tg.tensor(np.ones((4, 3)))
    opt.step()
    np.testing.assert_allclose(w.detach().numpy(), np.arange(12.0).reshape(3, 4).T - 0.5, rtol=1e-6)
    h = tg.tensor([1.0, 2.0], dtype=tg.float16, requires_grad=True)
    opt = tg.optim.SGD([h], lr=0.5, momentum=0.9)
    h.grad = tg.tensor([1.0, 1.0], dtype=tg.float16)
    opt.step()
    assert h.tolist() == [0.5, 1.5]


def test_large_arrays_use_the_threads_and_agree():
    rng = np.random.default_rng(1)
    start, grad = rng.normal(size=300_000), rng.normal(size=300_000)
    results = []
    for n in (300_000, 1000):
        parts = [tg.tensor(start[i : i + n].copy(), requires_grad=True) for i in range(0, len(start), n)]
        opt = tg.optim.AdamW(parts, lr=0.1)
        for _ in range(2):
            for i, p in enumerate(parts):
                p.grad = tg.tensor(grad[i * n : (i + 1) * n].copy())
            opt.step()
        results.append(np.concatenate([p.detach().numpy() for p in parts]))
    assert (results[0] == results[1]).all()


def test_a_step_is_noticed_by_what_saved_the_parameter():
    w = tg.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    opt = tg.optim.SGD([w], lr=0.1)
    loss.backward(retain_graph=True)
    opt.step()
    with pytest.raises(RuntimeError, match="SGD.step"):
        loss.backward()


def test_groups_that_are_added_while_training():
    """With options of their own, under a changed rate, with gradients that come and go."""

    def run(lib, name, options):
        params = start(lib, lib.float64)
        opt = getattr(lib.optim, name)(params[:1], lr=0.05, **options)
        for k in range(12):
            if k == 3:
                opt.add_param_group(
                    {"params": params[1:2], "lr": 0.02, **{key: options[key] for key in list(options)[:1]}}
                )
            if k == 6:
                opt.add_param_group(
                    {"params": params[2:], "weight_decay": 0.2, "initial_accumulator_value": 0.5}
                )
                opt.param_groups[0]["lr"] *= 0.5
            opt.zero_grad(set_to_none=k % 2 == 0)
            loss_of(params[k % 2 :] if k % 3 else params, k).backward()
            opt.step()
        return np.concatenate([p.detach().numpy().reshape(-1) for p in params]), repr(opt)

    for name, options in CONFIGS:
        options = {key: value for key, value in options.items() if key != "lr"}
        (a, printed), (b, expected) = (run(lib, name, options) for lib in (tg, torch))
        assert printed == expected
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=f"{name} {options}")
