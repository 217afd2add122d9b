"""The base class of optimizers, beside PyTorch's: groups, checks, hooks, state, printing, copying."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")
LIBS = (tg, torch)


def agree(observe):
    """The same observation, or the same class of error (or a subclass), from both libraries."""
    seen = []
    for lib in LIBS:
        try:
            seen.append(observe(lib))
        except Exception as err:
            seen.append(type(err))
    if isinstance(seen[0], type) and isinstance(seen[1], type):
        assert issubclass(seen[0], seen[1]), seen
    else:
        assert seen[0] == seen[1], seen


def leaf(lib, *values):
    return lib.tensor(list(values), requires_grad=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "call",
    [
        lambda lib, w: lib.optim.SGD([], lr=0.1),
        lambda lib, w: lib.optim.SGD(w, lr=0.1),
        lambda lib, w: lib.optim.SGD([3.0], lr=0.1),
        lambda lib, w: lib.optim.SGD(["name"], lr=0.1),
        lambda lib, w: lib.optim.SGD([w * 2], lr=0.1),
        lambda lib, w: lib.optim.SGD([{"params": {w}}], lr=0.1),
        lambda lib, w: lib.optim.SGD([{"parameters": [w]}], lr=0.1),
        lambda lib, w: lib.optim.SGD([{"params": [w]}, {"params": [w]}], lr=0.1),
        lambda lib, w: len(lib.optim.SGD([w, w], lr=0.1).param_groups[0]["params"]),
        lambda lib, w: lib.optim.SGD([w], lr=0.1).add_param_group([w]),
        lambda lib, w: lib.optim.SGD([("a", w), leaf(lib, 1.0)], lr=0.1),
        lambda lib, w: lib.optim.SGD([("a", w)], lr=0.1).add_param_group({"params": [leaf(lib, 1.0)]}),
        lambda lib, w: lib.optim.SGD([w], lr=-0.1),
        lambda lib, w: lib.optim.SGD([w], lr=lib.tensor([0.1, 0.2])),
        lambda lib, w: lib.optim.SGD([w], lr=0.1, momentum=-1),
        lambda lib, w: lib.optim.SGD([w], lr=0.1, nesterov=True),
        lambda lib, w: lib.optim.SGD([w], lr=0.1, nesterov=True, momentum=0.9, dampening=0.1),
        lambda lib, w: lib.optim.Adam([w], eps=-1.0),
        lambda lib, w: lib.optim.Adam([w], betas=(0.9, 1.0)),
        lambda lib, w: lib.optim.Adam([w], weight_decay=-1.0),
        lambda lib, w: lib.optim.Adam([w], fused=True, foreach=True),
        lambda lib, w: lib.optim.NAdam([w], momentum_decay=-1.0),
        lambda lib, w: lib.optim.RAdam([w], betas=(-0.1, 0.9)),
        lambda lib, w: lib.optim.Adamax([w], lr=-1.0),
        lambda lib, w: lib.optim.Adagrad([w], lr_decay=-1.0),
        lambda lib, w: lib.optim.Adagrad([w], initial_accumulator_value=-1.0),
        lambda lib, w: lib.optim.Adadelta([w], rho=1.5),
        lambda lib, w: lib.optim.RMSprop([w], alpha=-1.0),
        lambda lib, w: lib.optim.RMSprop([w], momentum=-1.0),
        lambda lib, w: lib.optim.Rprop([w], etas=(1.5, 1.2)),
        lambda lib, w: lib.optim.LBFGS([{"params": [w]}, {"params": [leaf(lib, 1.0)]}]),
        lambda lib, w: lib.optim.SGD([w], 0.1).load_state_dict({"state": {}, "param_groups": []}),
        lambda lib, w: lib.optim.SGD([w], 0.1).load_state_dict(
            {"state": {}, "param_groups": [{"params": [0, 1], "lr": 0.1}]}
        ),
        lambda lib, w: lib.optim.Optimizer([w], {}).step(),
    ],
)
def test_checks(call):
    agree(lambda lib: call(lib, leaf(lib, 1.0)))


@pytest.mark.parametrize("option", ["differentiable", "capturable"])
def test_what_is_not_supported_is_refused(option):
    with pytest.raises(RuntimeError, match=option):
        tg.optim.Adam([leaf(tg, 1.0)], **{option: True})


def test_groups_and_printing():
    def observe(lib):
        a, b, c = (leaf(lib, v) for v in (1.0, 2.0, 3.0))
        first = {"params": a, "lr": 0.5, "note": "x"}
        opt = lib.optim.Adam([first, {"params": [b]}], lr=0.1, weight_decay=0.01)
        opt.add_param_group({"params": [c], "betas": (0.5, 0.6)})
        groups = [{k: v for k, v in g.items() if k != "params"} for g in opt.param_groups]
        named = lib.optim.SGD([("first", a), ("second", b)], lr=0.1)
        state = named.state_dict()
        return groups, repr(opt), state["param_groups"], list(opt.state_dict()), opt.defaults

    agree(observe)


def test_a_required_option():
    class Own(tg.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": tg.optim.optimizer.required})

    with pytest.raises(ValueError, match="lr"):
        Own([leaf(tg, 1.0)])
    assert Own([{"params": [leaf(tg, 1.0)], "lr": 0.1}]).param_groups[0]["lr"] == 0.1


def test_own_optimizers():
    def observe(lib):
        class Signs(lib.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, {"lr": lr})

            @lib.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is not None:
                            self.state[p]["count"] = self.state[p].get("count", 0) + 1
                            p.add_(p.grad.sign(), alpha=-group["lr"])
                return "done"

        w, log = leaf(lib, 1.0, -2.0), []
        opt = Signs([w], 0.5)
        opt.register_step_post_hook(lambda o, a, k: log.append("post"))
        (w * w).sum().backward()
        answer = opt.step()
        return answer, w.tolist(), opt.state_dict()["state"], log, repr(opt)

    agree(observe)


def test_hooks():
    import torch.optim.optimizer as theirs

    import tapegrad.optim.optimizer as mine

    def observe(lib):
        source = mine if lib is tg else theirs
        w, log = leaf(lib, 1.0), []
        opt = lib.optim.SGD([w], lr=0.1, momentum=0.9)
        handles = [
            source.register_optimizer_step_pre_hook(lambda o, a, k: log.append("all pre")),
            source.register_optimizer_step_post_hook(lambda o, a, k: log.append("all post")),
            opt.register_step_pre_hook(lambda o, a, k: log.append(("pre", len(a), sorted(k)))),
            opt.register_step_post_hook(lambda o, a, k: log.append("post")),
            opt.register_state_dict_pre_hook(lambda o: log.append("state pre")),
            opt.register_state_dict_post_hook(lambda o, s: {**s, "more": 1}),
            opt.register_state_dict_post_hook(lambda o, s: log.append(sorted(s)), prepend=True),
            opt.register_load_state_dict_pre_hook(lambda o, s: {k: v for k, v in s.items() if k != "more"}),
            opt.register_load_state_dict_post_hook(lambda o: log.append("loaded")),
        ]
        (w * w).sum().backward()
        opt.step()
        opt.step(closure=lambda: lib.tensor(3.0))
        state = opt.state_dict()
        opt.load_state_dict(state)
        for h in handles:
            h.remove()
        opt.step()
        return log, sorted(state), sorted(opt.state_dict())

    agree(observe)

    def wrong(lib):
        opt = lib.optim.SGD([leaf(lib, 1.0)], lr=0.1)
        opt.register_step_pre_hook(lambda o, a, k: 3)
        opt.step()

    agree(wrong)


def test_hooks_may_change_the_arguments():
    opt = tg.optim.SGD([leaf(tg, 1.0)], lr=0.1)
    opt.register_step_pre_hook(lambda o, a, k: ((o, lambda: tg.tensor(5.0)), {}))
    assert opt.step().item() == 5.0


def test_loaded_state_takes_the_dtype_of_its_parameter():
    def observe(lib):
        w = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
        opt = lib.optim.Adam([w], lr=0.1)
        state = {"step": lib.tensor(3.0), "exp_avg": lib.ones(2), "exp_avg_sq": lib.ones(2)}
        groups = opt.state_dict()["param_groups"]
        opt.load_state_dict({"state": {0: state}, "param_groups": groups})
        return [str(v.dtype).rpartition(".")[2] for v in opt.state[w].values()]

    agree(observe)


def test_copies_and_pickles_go_on():
    w = leaf(tg, 1.0, -2.0)
    opt = tg.optim.Adam([w], lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        (w * w).sum().backward()
        opt.step()
    for twin in (copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))):
        v = twin.param_groups[0]["params"][0]
        assert v is not w
        assert v.tolist() == w.tolist()
        assert twin.state[v]["step"].item() == 2
        v.grad = w.grad.clone()
        twin.step()
        assert twin.state[v]["step"].item() == 3
        twin.register_step_post_hook(lambda *a: None)
    assert opt.state[w]["step"].item() == 2


def test_zero_grad():
    def observe(lib):
        a, b = leaf(lib, 1.0), leaf(lib, 2.0)
        opt = lib.optim.SGD([a, b], lr=0.1)
        (a * 3).sum().backward()
        opt.zero_grad(set_to_none=False)
        first = a.grad.tolist(), b.grad
        (g,) = lib.autograd.grad((a**3).sum(), a, create_graph=True)
        a.grad = g
        opt.zero_grad(set_to_none=False)
        second = a.grad.tolist(), a.grad.requires_grad
        opt.zero_grad()
        return first, second, a.grad

    agree(observe)


def test_integer_parameters_are_refused_by_name():
    w = tg.tensor([1, 2])
    opt = tg.optim.SGD([w], lr=0.1)
    w.grad = tg.tensor([1, 1])
    with pytest.raises(RuntimeError, match="int64"):
        opt.step()


def test_lbfgs_needs_a_closure():
    with pytest.raises(TypeError, match="closure"):
        tg.optim.LBFGS([leaf(tg, 1.0)]).step()


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = tg.nn.Sequential(tg.nn.Linear(2, 2), tg.nn.Tanh())
        for cls in (tg.optim.SGD, tg.optim.AdamW, tg.optim.RMSprop):
            opt = cls(net.parameters(), lr=0.01)
            schedule = tg.optim.lr_scheduler.StepLR(opt, 2)
            for _ in range(3):
                opt.zero_grad()
                net(tg.ones(1, 2)).sum().backward()
                opt.step()
                schedule.step()
