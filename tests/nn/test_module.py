"""Module: registration, iteration, state, hooks, copying and printing, beside PyTorch's."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")

from .oracle import agree, names  # noqa: E402 - it needs torch


def net(lib):
    class Block(lib.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.fc = lib.nn.Linear(n, n)
            self.scale = lib.nn.Parameter(lib.ones(n))
            self.register_buffer("seen", lib.zeros(1))
            self.register_buffer("scratch", lib.zeros(1), persistent=False)

        def forward(self, x):
            return self.fc(x) * self.scale

    model = lib.nn.Sequential(OrderedDict(a=Block(2), b=lib.nn.Sequential(Block(2), lib.nn.ReLU())))
    model.tied = model.a.fc
    model.extra = None
    return model


def test_iterators():
    def observe(lib):
        m = net(lib)
        return [
            names(m.named_parameters()),
            names(m.named_parameters(prefix="p", recurse=False)),
            names(m.named_parameters(remove_duplicate=False)),
            names(m.named_buffers()),
            names(m.named_children()),
            names(m.named_modules()),
            names(m.named_modules(remove_duplicate=False)),
            names(m.named_modules(prefix="x")),
            len(list(m.parameters())),
            len(list(m.buffers(recurse=False))),
            [type(c).__name__ for c in m.modules()],
            list(m.state_dict()),
            list(m.state_dict(prefix="q.")),
            dict(m.state_dict()._metadata),
            "a" in dir(m),
        ]

    agree(observe)


def test_printed_forms():
    def observe(lib):
        class Odd(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = lib.nn.ModuleDict({"x": lib.nn.Linear(1, 2), "y": lib.nn.ReLU()})
                self.list = lib.nn.ModuleList([lib.nn.Linear(2, 2) for _ in range(3)] + [lib.nn.Tanh()])

            def extra_repr(self):
                return "first=1\nsecond=2"

        ps = lib.nn.ParameterList([lib.nn.Parameter(lib.ones(2, 3)), "text"])
        pd = lib.nn.ParameterDict({"b": lib.nn.Parameter(lib.ones(2)), "a": lib.nn.Parameter(lib.ones(()))})
        items = [
            net(lib),
            Odd(),
            lib.nn.Sequential(),
            lib.nn.ModuleList(),
            lib.nn.Module(),
            ps,
            pd,
            lib.nn.ModuleDict(),
        ]
        p = repr(lib.nn.Parameter(lib.tensor([1.0, 2.0])))
        return [repr(m).replace("torch.", "tapegrad.") for m in items] + [p]

    agree(observe)


def test_registration_errors():
    def attempt(action):
        return lambda lib: action(lib, net(lib))

    def assign(module, name, value):
        setattr(module, name, value)
        return names(module.named_parameters(recurse=False)), names(module.named_children())

    for action in [
        lambda lib, m: assign(m.a, "scale", lib.ones(2)),
        lambda lib, m: assign(m.a, "scale", None),
        lambda lib, m: assign(m.a, "scale", lib.nn.ReLU()),
        lambda lib, m: assign(m.a, "fc", 3),
        lambda lib, m: assign(m.a, "fc", None),
        lambda lib, m: assign(m.a, "fc", lib.nn.Parameter(lib.ones(1))),
        lambda lib, m: assign(m.a, "seen", 3),
        lambda lib, m: assign(m.a, "seen", None),
        lambda lib, m: assign(m.a, "seen", lib.nn.Parameter(lib.ones(1))),
        lambda lib, m: assign(m.a, "new", lib.ones(1)),
        lambda lib, m: (
            m.a.register_parameter("scale", lib.nn.Parameter(lib.ones(1))) or list(m.a.state_dict())
        ),
        lambda lib, m: m.a.register_parameter("forward", lib.nn.Parameter(lib.ones(1))),
        lambda lib, m: m.a.register_parameter("x.y", None),
        lambda lib, m: m.a.register_parameter("", None),
        lambda lib, m: m.a.register_parameter(3, None),
        lambda lib, m: m.a.register_parameter("w", lib.ones(1)),
        lambda lib, m: m.a.register_parameter("w", lib.nn.Parameter(lib.ones(1)) * 2),
        lambda lib, m: m.a.register_buffer("fc", lib.ones(1)),
        lambda lib, m: m.a.register_buffer("x.y", lib.ones(1)),
        lambda lib, m: m.a.register_buffer("x", 3),
        lambda lib, m: m.a.add_module("x", 3),
        lambda lib, m: m.a.add_module(3, None),
        lambda lib, m: m.a.add_module("x.y", lib.nn.ReLU()),
        lambda lib, m: m.a.add_module("scale", lib.nn.ReLU()),
        lambda lib, m: m.a.missing,
        lambda lib, m: delattr(m.a, "missing"),
        lambda lib, m: delattr(m.a, "fc") or names(m.a.named_modules()),
        lambda lib, m: delattr(m.a, "seen") or list(m.a.state_dict()),
        lambda lib, m: m.get_submodule("b.0.fc").in_features,
        lambda lib, m: m.get_submodule("b.7"),
        lambda lib, m: m.get_submodule("a.scale"),
        lambda lib, m: m.get_submodule("") is m,
        lambda lib, m: m.get_parameter("a.scale").shape[0],
        lambda lib, m: m.get_parameter("a.fc"),
        lambda lib, m: m.get_parameter("a.nothing"),
        lambda lib, m: m.get_buffer("a.seen").shape[0],
        lambda lib, m: m.get_buffer("a.scale"),
        lambda lib, m: m.set_submodule("b.0.fc", lib.nn.ReLU()) or repr(m),
        lambda lib, m: m.set_submodule("", lib.nn.ReLU()),
        lambda lib, m: m.set_submodule("b.new", lib.nn.ReLU()) or names(m.named_modules()),
        lambda lib, m: m.set_submodule("b.new", lib.nn.ReLU(), strict=True),
        lambda lib, m: m.train("yes"),
        lambda lib, m: m.to(lib.int64),
        lambda lib, m: m.to(surprise=1),
        lambda lib, m: lib.nn.Module()(1),
        lambda lib, m: lib.nn.Module(3),
        lambda lib, m: type(m.to("cpu", lib.float64).a.scale.dtype).__name__,
    ]:
        agree(attempt(action))


def test_names_move_between_kinds():
    def observe(lib):
        m = lib.nn.Module()
        m.x = 3
        m.x = lib.nn.Parameter(lib.ones(1))
        first = names(m.named_parameters())
        del m.x
        m.x = lib.nn.ReLU()
        second = names(m.named_parameters()), names(m.named_children())
        m.x = lib.nn.Parameter(lib.ones(1))
        second += names(m.named_parameters()), names(m.named_children())
        m.y = lib.nn.Buffer(lib.ones(1), persistent=False)
        m.z = lib.nn.Buffer(lib.ones(1))
        return first, second, names(m.named_buffers()), list(m.state_dict()), isinstance(m.z, lib.nn.Buffer)

    agree(observe)


def test_state_dicts():
    def loaded(lib, change, **options):
        m = net(lib)
        state = OrderedDict((k, v.clone() + 1) for k, v in m.state_dict().items())
        change(lib, state)
        result = m.load_state_dict(state, **options)
        return repr(result), [
            k for k, v in m.state_dict().items() if k in state and bool((v == state[k]).all())
        ]

    for change in [
        lambda lib, s: None,
        lambda lib, s: s.pop("a.scale"),
        lambda lib, s: s.update(surprise=lib.ones(1)),
        lambda lib, s: s.update({"b.0.surprise.x": lib.ones(1)}),
        lambda lib, s: s.update({"a.scale": lib.ones(3)}),
        lambda lib, s: s.update({"a.scale": 3.0}),
        lambda lib, s: s.update({"a.seen": lib.ones(1, dtype=lib.float64) * 7}),
    ]:
        for options in ({}, {"strict": False}, {"assign": True}):
            agree(lambda lib, c=change, o=options: loaded(lib, c, **o))
    agree(lambda lib: net(lib).load_state_dict([1]))


def test_assign_takes_the_tensors():
    def observe(lib):
        m = lib.nn.Linear(2, 2)
        m.weight.requires_grad_(False)
        state = {"weight": lib.ones(2, 2), "bias": lib.nn.Parameter(lib.ones(2))}
        m.load_state_dict(state, assign=True)
        state["weight"].fill_(5.0)
        return m.weight.tolist(), m.weight.requires_grad, m.bias is state["bias"], m.bias.requires_grad

    agree(observe)


def test_state_hooks():
    def observe(lib):
        m = net(lib)
        log = []
        m.register_state_dict_pre_hook(lambda mod, prefix, keep: log.append(("pre", prefix, keep)))
        m.a.register_state_dict_post_hook(lambda mod, s, prefix, meta: s.update({prefix + "added": 1}))
        m.a.register_load_state_dict_pre_hook(lambda mod, s, prefix, *rest: s.pop(prefix + "added", None))
        m.register_load_state_dict_post_hook(lambda mod, keys: log.append(("post", list(keys.missing_keys))))
        state = m.state_dict()
        result = m.load_state_dict(state)
        return list(state), log, repr(result)

    agree(observe)


def test_extra_state():
    def observe(lib):
        class Counting(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def get_extra_state(self):
                return {"count": self.count}

            def set_extra_state(self, state):
                self.count = state["count"]

        a, b = Counting(), Counting()
        a.count = 5
        state = a.state_dict()
        b.load_state_dict(state)
        return list(state), b.count, list(b.load_state_dict({}, strict=False).missing_keys)

    agree(observe)


def test_conversion_keeps_identity_and_gradients():
    def observe(lib):
        m = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
        w, stat = m[0].weight, m[1].running_mean
        m[0](lib.ones(1, 2)).sum().backward()
        m.double()
        return [
            m[0].weight is w,
            str(w.dtype).rpartition(".")[2],
            str(w.grad.dtype).rpartition(".")[2],
            m[1].running_mean is stat,
            str(m[1].num_batches_tracked.dtype).rpartition(".")[2],
            w.is_leaf and w.requires_grad,
            str(m.half()[0].weight.dtype).rpartition(".")[2],
            str(m.to(lib.ones(1, dtype=lib.float64))[1].running_var.dtype).rpartition(".")[2],
            str(m.type(lib.float32)[1].running_var.dtype).rpartition(".")[2],
        ]

    agree(observe)


def test_other_devices_are_refused():
    for action in (lambda m: m.to("cuda"), lambda m: m.cuda(), lambda m: tg.nn.Linear(1, 1, device="cuda")):
        with pytest.raises(RuntimeError, match="cpu|CPU"):
            action(tg.nn.ReLU())


def test_copies_and_pickles():
    m = net(tg)
    m.a.fc.bias.requires_grad = False
    layers = tg.nn.Sequential(m.a.fc, tg.nn.ReLU())
    for twin, source in ((copy.deepcopy(m), m), (pickle.loads(pickle.dumps(layers)), layers)):
        for p, q in zip(twin.parameters(), source.parameters(), strict=True):
            assert p is not q
            assert p.tolist() == q.tolist()
            assert p.requires_grad == q.requires_grad
            assert type(p) is tg.nn.Parameter
    twin = copy.deepcopy(m)
    assert twin.tied is twin.a.fc
    assert twin.tied is not m.tied
    shallow = copy.copy(m)
    assert shallow.a is m.a


def test_forward_hooks():
    def observe(lib):
        m = lib.nn.Linear(1, 1)
        log = []
        m.register_forward_hook(lambda mod, args, out: log.append("one"))
        m.register_forward_hook(lambda mod, args, out: log.append("zero"), prepend=True)
        m.register_forward_hook(lambda mod, args, kw, out: log.append(sorted(kw)), with_kwargs=True)
        m.register_forward_pre_hook(lambda mod, args: log.append("pre") or (args[0] * 2,))
        m.register_forward_pre_hook(lambda mod, args, kw: (args, {}), with_kwargs=True, prepend=True)
        m(lib.ones(1, 1), surprise=3)
        with m.register_forward_hook(lambda mod, args, out: out * 0):
            inside = m(lib.ones(1, 1)).tolist()
        outside = m(lib.zeros(1, 1)).tolist() == m.bias.reshape(1, 1).tolist()
        return log, inside, outside

    agree(observe)


def test_always_called_hooks():
    def observe(lib):
        class Bad(lib.nn.Module):
            def forward(self, x):
                raise ValueError("no")

        m, log = Bad(), []
        m.register_forward_hook(lambda mod, args, out: log.append("not run"))
        m.register_forward_hook(lambda mod, args, out: log.append(out), always_call=True)
        with pytest.raises(ValueError, match="no"):
            m(1)
        return log

    agree(observe)


def test_backward_hooks():
    def observe(lib, many=False, constant=False):
        class Two(lib.nn.Module):
            def forward(self, x, k, y):
                return x * y * k, x + y

        m, log = Two(), []
        x, y = (
            lib.tensor([1.0, 2.0], requires_grad=not constant),
            lib.tensor([3.0, 4.0], requires_grad=not constant),
        )

        def values(grads):
            return [None if g is None else g.tolist() for g in grads]

        m.register_full_backward_pre_hook(
            lambda mod, go: log.append(("pre", values(go))) or (go[0] * 2, go[1])
        )
        m.register_full_backward_hook(lambda mod, gi, go: log.append(("post", values(gi), values(go))))
        m.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 10, None, gi[2]), prepend=True)
        a, b = m(x, 2.0, y)
        if constant:
            return a.requires_grad, log
        (a.sum() + b.sum() if many else a.sum()).backward()
        return log, x.grad.tolist(), y.grad.tolist()

    agree(observe)
    agree(lambda lib: observe(lib, many=True))
    agree(lambda lib: observe(lib, constant=True))


def test_backward_hook_errors():
    def observe(lib, hook):
        m = lib.nn.Linear(1, 1)
        m.register_full_backward_hook(hook)
        x = lib.ones(1, 1, requires_grad=True)
        m(x).sum().backward()
        return x.grad is not None

    agree(lambda lib: observe(lib, lambda m, gi, go: (gi[0], gi[0])))
    agree(lambda lib: observe(lib, lambda m, gi, go: gi[0]))
    agree(lambda lib: observe(lib, lambda m, gi, go: (None,)))

    def mixed(lib):
        m = lib.nn.Linear(1, 1)
        m.register_full_backward_hook(lambda *a: None)
        m.register_backward_hook(lambda *a: None)

    agree(mixed)


def test_hooks_for_all_modules():
    import torch.nn.modules.module as theirs

    import tapegrad.nn.modules.module as mine

    log = {tg: [], torch: []}
    for lib, source in ((tg, mine), (torch, theirs)):
        seen = log[lib]
        handles = [
            source.register_module_forward_pre_hook(
                lambda m, a, s=seen: s.append(("before", type(m).__name__))
            ),
            source.register_module_forward_hook(
                lambda m, a, o, s=seen: s.append(("after", type(m).__name__))
            ),
            source.register_module_full_backward_hook(
                lambda m, i, o, s=seen: s.append(("back", type(m).__name__))
            ),
        ]
        model = lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.Tanh())
        model(lib.ones(1, 1, requires_grad=True)).sum().backward()
        for h in handles:
            h.remove()
        model(lib.ones(1, 1))
    assert log[tg] == log[torch]


@pytest.mark.filterwarnings("ignore")
def test_old_backward_hooks():
    def observe(lib):
        m, log = lib.nn.ReLU(), []
        m.register_backward_hook(lambda mod, gi, go: log.append((gi[0].tolist(), go[0].tolist())))
        x = lib.tensor([1.0, -1.0], requires_grad=True)
        (m(x * 2) * 3).sum().backward()
        return log, x.grad.tolist()

    agree(observe)


def test_hooked_calls_leave_nothing_behind():
    gc.collect()
    gc.disable()
    try:
        m = tg.nn.Linear(2, 2)
        m.register_full_backward_hook(lambda *a: None)
        m.register_load_state_dict_pre_hook(lambda *a: None)
        x = tg.ones(1, 2, requires_grad=True)
        out = m(x)
        graph, module = weakref.ref(out), weakref.ref(m)
        out.sum().backward()
        del out
        assert graph() is None
        del m
        assert module() is None
    finally:
        gc.enable()


def test_parameters():
    def observe(lib):
        t = lib.tensor([1.0, 2.0])
        p = lib.nn.Parameter(t)
        t[0] = 5.0
        with lib.no_grad():
            q = lib.nn.Parameter(lib.ones(1))
        twin = copy.deepcopy(p)
        back = pickle.loads(pickle.dumps(p))
        whole = lib.nn.Parameter(lib.tensor([1]), requires_grad=False)
        kinds = [type(x).__name__ for x in (p * 2, back, p.detach(), p.data)]
        flags = [q.requires_grad, p.is_leaf, twin.requires_grad, isinstance(p, lib.Tensor)]
        return p.tolist(), flags, kinds, lib.nn.Parameter().shape[0], whole.tolist()

    agree(observe)
    agree(lambda lib: lib.nn.Parameter(lib.tensor([1])))


def test_apply_and_modes():
    def observe(lib):
        m, log = net(lib), []
        m.apply(lambda x: log.append(type(x).__name__))
        m.b.eval()
        modes = [x.training for x in m.modules()]
        m.requires_grad_(False)
        m.train()
        return log, modes, [p.requires_grad for p in m.parameters()], m.zero_grad()

    agree(observe)


def test_hooks_on_registering():
    def observe(lib):
        source = lib.nn.modules.module
        log = []
        handles = [
            source.register_module_parameter_registration_hook(
                lambda m, n, p: log.append(("parameter", type(m).__name__, n, p is None))
            ),
            source.register_module_buffer_registration_hook(
                lambda m, n, b: log.append(("buffer", n, b is None))
            ),
            source.register_module_module_registration_hook(
                lambda m, n, c: log.append(("module", n, type(c).__name__))
            ),
        ]
        twin = lib.nn.Parameter(lib.zeros(1))
        try:
            net = lib.nn.Sequential(lib.nn.Linear(2, 3, bias=False), lib.nn.BatchNorm1d(3))
            net.extra = lib.nn.ReLU()
            net.extra = None
            net[1].running_mean = lib.ones(3)
            net[1].weight = None
            net.register_buffer("b", None)
            swap = source.register_module_parameter_registration_hook(lambda m, n, p: twin)
            net.p = lib.nn.Parameter(lib.ones(2))
            swap.remove()
        finally:
            for handle in handles:
                handle.remove()
        net.q = lib.nn.Parameter(lib.ones(2))
        return log, net.p is twin

    agree(observe)


def test_replacing_the_memory():
    def observe(lib):
        net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3)).double()
        weight, old = net[0].weight, net[0].weight.data
        assert net.to_empty(device="cpu") is net
        shapes = {k: (tuple(v.shape), str(v.dtype).split(".")[1]) for k, v in net.state_dict().items()}
        return shapes, net[0].weight is weight, net[0].weight.data_ptr() == old.data_ptr()

    agree(observe)
    with pytest.raises(RuntimeError, match=r"Linear\.bfloat16.*half"):
        tg.nn.Linear(1, 1).bfloat16()


def test_arguments_of_the_base_and_cooperation():
    def observe(lib):
        class Named:
            def __init__(self, name):
                self.name = name

        class Both(lib.nn.Module, Named):
            call_super_init = True

            def __init__(self):
                super().__init__(name="x")

        class Alone(lib.nn.Module, Named):
            def __init__(self):
                super().__init__()

        return (
            Both().name,
            hasattr(Alone(), "name"),
            lib.nn.Module.call_super_init,
            lib.nn.Module.dump_patches,
        )

    agree(observe)
    agree(lambda lib: lib.nn.Module(3))
    agree(lambda lib: lib.nn.Module(size=3))
