"""Containers of modules and parameters, beside PyTorch's."""

from __future__ import annotations

import copy

import pytest

pytest.importorskip("torch")

from .oracle import agree, names


def test_containers():
    nn_cases = [
        lambda lib, s: type(s[1:]).__name__ + str([type(m).__name__ for m in s[1:]]),
        lambda lib, s: type(s[-1]).__name__,
        lambda lib, s: s[5],
        lambda lib, s: s.insert(1, lib.nn.Sigmoid()) and repr(s),
        lambda lib, s: s.insert(-1, lib.nn.Sigmoid()) and repr(s),
        lambda lib, s: s.insert(9, lib.nn.Sigmoid()),
        lambda lib, s: s.insert(0, "x"),
        lambda lib, s: s.append("x"),
        lambda lib, s: repr(s + lib.nn.Sequential(lib.nn.Sigmoid())),
        lambda lib, s: s + [1],
        lambda lib, s: repr(s * 2),
        lambda lib, s: s * 0,
        lambda lib, s: s * "x",
        lambda lib, s: repr(s.extend(lib.nn.Sequential(lib.nn.Sigmoid()))),
        lambda lib, s: type(s.pop(1)).__name__ + repr(s),
        lambda lib, s: s.__delitem__(0) or repr(s),
        lambda lib, s: s.__delitem__(slice(0, 2)) or repr(s),
        lambda lib, s: s.__setitem__(1, lib.nn.Sigmoid()) or repr(s),
        lambda lib, s: s.__iadd__(lib.nn.Sequential(lib.nn.Sigmoid())) and repr(s),
        lambda lib, s: s.__imul__(2) and repr(s),
    ]
    for case in nn_cases:
        agree(
            lambda lib, c=case: c(lib, lib.nn.Sequential(lib.nn.ReLU(), lib.nn.Tanh(), lib.nn.Linear(1, 2)))
        )
    list_cases = [
        lambda lib, s: repr(s[::2]),
        lambda lib, s: s[7],
        lambda lib, s: s.insert(1, lib.nn.Sigmoid()) or repr(s),
        lambda lib, s: repr(s + [lib.nn.Sigmoid()]),
        lambda lib, s: s.extend(3),
        lambda lib, s: repr(s.extend([lib.nn.Sigmoid()])),
        lambda lib, s: type(s.pop(-1)).__name__ + repr(s),
        lambda lib, s: s.__delitem__(0) or repr(s),
        lambda lib, s: s.__setitem__(0, lib.nn.Sigmoid()) or repr(s),
        lambda lib, s: s(1),
    ]
    for case in list_cases:
        agree(
            lambda lib, c=case: c(lib, lib.nn.ModuleList([lib.nn.ReLU(), lib.nn.Tanh(), lib.nn.Linear(1, 2)]))
        )
    dict_cases = [
        lambda lib, d: (list(d.keys()), [type(v).__name__ for v in d.values()], "x" in d, len(d), list(d)),
        lambda lib, d: d.update({"z": lib.nn.Sigmoid()}) or repr(d),
        lambda lib, d: d.update([("z", lib.nn.Sigmoid())]) or repr(d),
        lambda lib, d: d.update(3),
        lambda lib, d: d.update([("z",)]),
        lambda lib, d: type(d.pop("x")).__name__ + repr(d),
        lambda lib, d: d.clear() or repr(d),
        lambda lib, d: d["nope"],
        lambda lib, d: d.__setitem__("keys", lib.nn.ReLU()),
    ]
    for case in dict_cases:
        agree(lambda lib, c=case: c(lib, lib.nn.ModuleDict({"x": lib.nn.ReLU(), "y": lib.nn.Tanh()})))


def test_parameter_containers():
    def p(lib, *v):
        return lib.nn.Parameter(lib.tensor(list(v)))

    for case in [
        lambda lib, s: [x.tolist() for x in s[1:]],
        lambda lib, s: s[-1].tolist(),
        lambda lib, s: s[9],
        lambda lib, s: names(s.append(lib.ones(1)).named_parameters()),
        lambda lib, s: names(s.extend([p(lib, 5.0)]).named_parameters()),
        lambda lib, s: s.extend(3),
        lambda lib, s: s.__setitem__(0, p(lib, 9.0)) or s[0].tolist(),
        lambda lib, s: len(s),
        lambda lib, s: s(1),
        lambda lib, s: repr(copy.deepcopy(s)).replace("torch", "tapegrad"),
    ]:
        agree(lambda lib, c=case: c(lib, lib.nn.ParameterList([p(lib, 1.0), p(lib, 2.0, 3.0)])))
    for case in [
        lambda lib, d: (
            list(d.keys()),
            [v.tolist() for v in d.values()],
            "x" in d,
            len(d),
            list(d),
            list(reversed(d)),
        ),
        lambda lib, d: d["nope"],
        lambda lib, d: d[3],
        lambda lib, d: d.get("nope", 5),
        lambda lib, d: d.setdefault("q", p(lib, 5.0)).tolist(),
        lambda lib, d: d.pop("x").tolist() + names(d.named_parameters()),
        lambda lib, d: d.popitem()[0],
        lambda lib, d: names((d | lib.nn.ParameterDict({"z": p(lib, 1.0)})).named_parameters()),
        lambda lib, d: names(d.copy().named_parameters()),
        lambda lib, d: names(d.fromkeys(["m", "n"], p(lib, 1.0)).named_parameters()),
        lambda lib, d: d.clear() or len(d),
        lambda lib, d: d.update({"z": lib.ones(1), "b": lib.ones(1)}) or names(d.named_parameters()),
        lambda lib, d: d(1),
    ]:
        agree(lambda lib, c=case: c(lib, lib.nn.ParameterDict({"y": p(lib, 1.0), "x": p(lib, 2.0)})))
