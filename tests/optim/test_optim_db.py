"""Every optimizer with PyTorch's own table of options (torch.testing's optim_db), 20 steps in float64 beside PyTorch."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tapegrad as tg  # noqa: E402

common = pytest.importorskip(
    "torch.testing._internal.common_optimizers", reason="PyTorch's samples need the package expecttest"
)

STEPS = 20
SHAPES = [(3, 4), (5, 2), (1, 1)]  # matrices, since Muon takes nothing else
INFOS = [i for i in common.optim_db if i.optim_cls.__name__ != "SparseAdam"]
# Muon orthogonalises in bfloat16 there, which has 8 bits.
ROUGH = {"Muon": (0.05, 0.05)}
# Options of PyTorch that are refused, with what the message names.
REFUSED = ("capturable", "differentiable")


def options_of(info):
    """All options of the table, also foreach and fused, which choose between equal implementations."""
    made = {}
    for sample in info.optim_inputs_func(device="cpu"):
        if any(sample.kwargs.get(name) for name in REFUSED):
            continue
        made[sample.desc] = sample.kwargs
    for impl in info.supported_impls:
        if impl not in REFUSED:
            made[impl] = {impl: True}
    return made


CASES = [
    pytest.param(info, options, id=f"{info.optim_cls.__name__}-{desc}")
    for info in INFOS
    for desc, options in options_of(info).items()
]


# Every optimizer with its first options; the others on request.
FIRST = [case for j, case in enumerate(CASES) if j == 0 or case.values[0] is not CASES[j - 1].values[0]]
REST = [pytest.param(*case.values, id=case.id, marks=pytest.mark.slow) for case in CASES if case not in FIRST]


def mine_of(value):
    if isinstance(value, torch.Tensor):
        return tg.tensor(value.numpy().copy())
    if isinstance(value, (list, tuple)):
        return type(value)(mine_of(v) for v in value)
    if isinstance(value, dict):
        return {k: mine_of(v) for k, v in value.items()}
    return value


def torch_of(value):
    if isinstance(value, tg.Tensor):
        return torch.tensor(value.detach().numpy().copy())
    if isinstance(value, (list, tuple)):
        return type(value)(torch_of(v) for v in value)
    if isinstance(value, dict):
        return {k: torch_of(v) for k, v in value.items()}
    return value


def start(lib):
    rng = np.random.default_rng(5)
    return [lib.tensor(rng.normal(size=s), requires_grad=True) for s in SHAPES]


def loss_of(params, k):
    """Neither convex nor constant over the steps, so that every sign and branch occurs; bounded either way."""
    total = 0.0
    for i, p in enumerate(params):
        total = total + (p * (1 + 0.2 * i)).sin().sum() * (1 + 0.1 * k) + (p * (k % 3) - 0.4).cos().sum()
    return total


def bowl(params, k):
    """For LBFGS, whose line searches would blow rounding errors up where there are several minima."""
    return sum(((p - 0.3 * i) ** 2 * (1 + 0.5 * i) + 0.1 * p**4).sum() for i, p in enumerate(params))


def walk(params, opt, first=0, last=STEPS):
    loss_at = bowl if type(opt).__name__ == "LBFGS" else loss_of
    seen = []
    for k in range(first, last):

        def closure(k=k):
            opt.zero_grad()
            loss = loss_at(params, k)
            loss.backward()
            return loss

        opt.step(closure)
        seen.append(np.concatenate([p.detach().numpy().reshape(-1).copy() for p in params]))
    return np.array(seen)


def made(lib, info, params, options, groups=True):
    given = options if lib is torch else mine_of(options)
    several = groups and not info.step_requires_closure
    if several:
        params = [{"params": params[:2]}, {"params": params[2:], "lr": 0.03}]
    return getattr(lib.optim, info.optim_cls.__name__)(params, **copy.deepcopy(given))


@pytest.mark.parametrize(("info", "options"), CASES)
def test_trajectory_and_state(info, options):
    rtol, atol = ROUGH.get(info.optim_cls.__name__, (1e-9, 1e-12))
    if info.optim_cls.__name__ == "ASGD" and options.get("foreach"):
        rtol, atol = 1e-6, 1e-7  # PyTorch's two ways differ: one keeps eta in float32
    params = {lib: start(lib) for lib in (tg, torch)}
    opts = {lib: made(lib, info, params[lib], options) for lib in (tg, torch)}
    assert repr(opts[tg]) == repr(opts[torch]).replace("torch.", "tapegrad.")
    np.testing.assert_allclose(*(walk(params[lib], opts[lib]) for lib in (tg, torch)), rtol=rtol, atol=atol)
    mine, theirs = torch_of(opts[tg].state_dict()), opts[torch].state_dict()
    assert mine["param_groups"] == theirs["param_groups"]
    assert mine["state"].keys() == theirs["state"].keys()
    for key, state in theirs["state"].items():
        # al is scratch memory of LBFGS.
        assert mine["state"][key].keys() == state.keys() - {"al"}
        for name in mine["state"][key]:
            a, b = mine["state"][key][name], state[name]
            if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
                assert_close(a, b)
            elif name in ("step", "eta", "mu", "mu_product"):
                assert a.dtype == b.dtype
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
            else:
                torch.testing.assert_close(a, b, rtol=max(rtol, 1e-6), atol=max(atol, 1e-9))


@pytest.mark.parametrize(("info", "options"), FIRST + REST)
def test_state_goes_to_pytorch_and_back(info, options):
    """A run that is begun by one library and finished by the other is that of either."""
    rtol, atol = ROUGH.get(info.optim_cls.__name__, (1e-9, 1e-12))
    if info.optim_cls.__name__ in ("NAdam", "ASGD"):
        rtol = 1e-6  # mu_product, eta and mu are float32 before, float64 after loading
    whole = walk(params := start(torch), made(torch, info, params, options))[-1]
    for first, second in ((tg, torch), (torch, tg)):
        params = start(first)
        opt = made(first, info, params, options)
        walk(params, opt, 0, STEPS // 2)
        moved = [second.tensor(p.detach().numpy().copy(), requires_grad=True) for p in params]
        state = opt.state_dict()
        state = torch_of(state) if first is tg else mine_of(state)
        if info.step_requires_closure and second is torch:
            for own in state["state"].values():
                own["al"] = [None] * state["param_groups"][0]["history_size"]
        other = made(second, info, moved, options)
        other.load_state_dict(state)
        end = walk(moved, other, STEPS // 2, STEPS)[-1]
        np.testing.assert_allclose(end, whole, rtol=rtol, atol=atol)


WRONG = [
    pytest.param(info, wrong, id=f"{info.optim_cls.__name__}-{wrong.optimizer_error_input.desc}")
    for info in INFOS
    for wrong in info.optim_error_inputs_func(device="cpu", dtype=torch.float64)
    if "complex" not in wrong.optimizer_error_input.desc  # there are no complex tensors
]


@pytest.mark.parametrize(("info", "wrong"), WRONG)
def test_errors(info, wrong):
    given, name = wrong.optimizer_error_input, info.optim_cls.__name__
    params = start(tg) if given.params is None else parameters_of(given.params)
    cls = getattr(tg.optim, name)
    if wrong.error_type is UserWarning:
        with pytest.warns(UserWarning, match=wrong.error_regex):
            cls(params, **mine_of(given.kwargs))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if wrong.error_on is common.OptimizerErrorEnum.CONSTRUCTION_ERROR:
            with pytest.raises(wrong.error_type):
                cls(params, **mine_of(given.kwargs))
        else:
            opt = cls(params, **mine_of(given.kwargs))
            with pytest.raises(wrong.error_type):
                walk(params, opt, 0, 1)


def assert_close(a, b):
    """Numbers and lists of an optimizer's state."""
    if isinstance(b, list):
        for x, y in zip(a, b, strict=True):
            assert_close(x, y)
    elif isinstance(b, (int, bool, type(None))):
        assert a == b
    else:
        torch.testing.assert_close(
            torch.as_tensor(a, dtype=torch.float64),
            torch.as_tensor(b, dtype=torch.float64),
            rtol=1e-6,
            atol=1e-9,
        )


def parameters_of(value):
    known = {}

    def one(x):
        if isinstance(x, torch.Tensor):
            return known.setdefault(id(x), tg.tensor(x.detach().numpy().copy(), requires_grad=True))
        if isinstance(x, (list, tuple)):
            return type(x)(one(v) for v in x)
        if isinstance(x, dict):
            return {k: one(v) for k, v in x.items()}
        return x

    return one(value)


def test_sparse_adam_says_what_to_use():
    with pytest.raises(RuntimeError, match="use Adam"):
        tg.optim.SparseAdam([tg.ones(1, requires_grad=True)])
