"""All parameters in one kernel call: whatever they are like, each is stepped as if it were alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import kernels

CASES = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Rprop", {}),
    ("ASGD", {}),
]
IDS = [f"{name}-{'-'.join(options)}" for name, options in CASES]


def parameters():
    rng = np.random.default_rng(3)
    made = [rng.normal(size=s).astype(np.float32) for s in [(3, 4), (), (0, 3), (7,), (1, 1, 2)]]
    made.insert(1, rng.normal(size=(2, 3)))  # float64
    made.insert(3, rng.normal(size=(3, 2)).astype(np.float16))
    params = [tg.tensor(a) for a in made]
    params.append(tg.tensor(rng.normal(size=(4, 5)).astype(np.float32)).t())  # strided
    params.append(tg.tensor(rng.normal(size=(6, 5)).astype(np.float32))[::2])
    return [p.requires_grad_() for p in params]


def gradients(params, k):
    rng = np.random.default_rng(k)
    for i, p in enumerate(params):
        values = rng.normal(size=tuple(p.shape))
        # Some come late, so that the counts of steps differ.
        p.grad = None if (i == 2 and k < 2) or (i == 4 and k == 1) else tg.tensor(values, dtype=p.dtype)


def same(a, b):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_each_as_if_alone(name, options):
    together, alone = parameters(), parameters()
    whole = getattr(tg.optim, name)(together, lr=0.1, **options)
    single = [getattr(tg.optim, name)([p], lr=0.1, **options) for p in alone]
    for k in range(4):
        gradients(together, k)
        gradients(alone, k)
        whole.step()
        for opt in single:
            opt.step()
        for p, q, opt in zip(together, alone, single, strict=True):
            same(p, q)
            assert whole.state[p].keys() == opt.state[q].keys()
            for key, value in whole.state[p].items():
                same(value, opt.state[q][key])


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_the_number_of_threads_does_not_matter(name, options, monkeypatch):
    ends = []
    for threads in (1, 3):
        monkeypatch.setattr(tg.config, "threads", threads)
        monkeypatch.setattr(tg.config, "grain", 64)
        rng = np.random.default_rng(0)
        params = [tg.tensor(rng.normal(size=n), requires_grad=True) for n in (5, 1000, 0, 1, 333, 64)]
        opt = getattr(tg.optim, name)(params, lr=0.1, **options)
        for _ in range(3):
            for p in params:
                p.grad = tg.tensor(rng.normal(size=tuple(p.shape)))
            opt.step()
        ends.append(np.concatenate([p.detach().numpy() for p in params]))
    np.testing.assert_array_equal(*ends)


def test_a_parameter_given_twice_is_stepped_twice():
    w = tg.tensor([1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="duplicate"):
        opt = tg.optim.SGD([w, w], lr=0.25)
    w.grad = tg.tensor([1.0])
    opt.step()
    assert w.item() == 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adam = tg.optim.Adam([w, w], lr=0.25)
    adam.step()
    assert adam.state[w]["step"].item() == 2


def test_one_call_for_all(monkeypatch):
    calls = []
    original = kernels.rows.Rows.run

    def counting(self, *args):
        calls.append(self.count)
        original(self, *args)

    monkeypatch.setattr(kernels.rows.Rows, "run", counting)
    params = [tg.ones(3, requires_grad=True) for _ in range(50)]
    for p in params:
        p.grad = tg.ones(3)
    tg.optim.Adam(params).step()
    if not kernels.rows.PLAIN:
        assert calls == [50]


@pytest.mark.parametrize("spoil", ["state", "data", "gradient"])
def test_shapes_that_do_not_fit(spoil):
    params = [tg.ones(2, 3, requires_grad=True) for _ in range(3)]
    opt = tg.optim.Adam(params)
    for p in params:
        p.grad = tg.ones(2, 3)
    opt.step()
    if spoil == "state":
        opt.state[params[1]]["exp_avg"] = tg.ones(3, 2)
    elif spoil == "data":
        params[1].data = tg.ones(6)
    else:
        params[1]._grad = tg.ones(3, 2)
    with pytest.raises(RuntimeError, match=r"Adam\.step: a parameter of shape"):
        opt.step()


def test_old_counts_that_are_numbers():
    """States saved by PyTorch before 1.12 have plain numbers for steps."""
    w = tg.ones(2, requires_grad=True)
    opt = tg.optim.Adam([w])
    state = {"step": 3, "exp_avg": tg.zeros(2), "exp_avg_sq": tg.zeros(2)}
    opt.load_state_dict({"state": {0: state}, "param_groups": opt.state_dict()["param_groups"]})
    w.grad = tg.ones(2)
    opt.step()
    assert opt.state[w]["step"].item() == 4


def test_a_momentum_that_is_not_there_yet():
    w = tg.ones(2, requires_grad=True)
    opt = tg.optim.SGD([w], lr=0.5, momentum=0.9)
    groups = opt.state_dict()["param_groups"]
    opt.load_state_dict({"state": {0: {"momentum_buffer": None}}, "param_groups": groups})
    opt.state[w]["note"] = "of the user"
    w.grad = tg.ones(2)
    opt.step()
    assert opt.state[w]["momentum_buffer"].tolist() == [1.0, 1.0]
    assert opt.state[w]["note"] == "of the user"
    assert w.tolist() == [0.5, 0.5]
