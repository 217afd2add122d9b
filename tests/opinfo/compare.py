"""One sample through torch and through tapegrad: values, gradients and second-order gradients."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

import tapegrad as tg

from .excluded import reason_to_exclude
from .samples import Sample, Unsupported, differentiable, function, rebound

# Per dtype: (relative, absolute) for values, for gradients, for second-order gradients.
TOLERANCES = {
    torch.float64: ((1e-7, 1e-9), (1e-6, 1e-8), (1e-6, 1e-7)),
    torch.float32: ((1e-4, 1e-5), (1e-3, 1e-4), (2e-3, 1e-3)),
}
STAGES = ("forward", "gradient", "second")


class Verdict(NamedTuple):
    """What came of one sample at one stage: passed, failed, or excluded with the reason."""

    stage: str
    outcome: str  # "passed", "failed", "excluded"
    text: str = ""


class Beyond(Exception):
    """torch has no second derivative of this."""


class Difference(AssertionError):
    """The two libraries disagree."""


def check(name: str, info: Any, dtype: torch.dtype, source: Any) -> list[Verdict]:
    """Verdicts on one sample, stage by stage; what follows a failed stage is not tried."""
    reason = reason_to_exclude(name, source, dtype)
    if reason:
        return [Verdict("forward", "excluded", reason)]
    verdicts = []
    stage = "forward"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = Run(info, dtype, Sample(source))
            for stage, step in zip(STAGES, run.steps(), strict=False):
                step()
                verdicts.append(Verdict(stage, "passed"))
    except Unsupported as err:
        return [Verdict("forward", "excluded", f"not in tapegrad: {err}")]
    except Beyond as err:
        verdicts.append(Verdict(stage, "excluded", str(err)))
    except Exception as err:
        verdicts.append(Verdict(stage, "failed", f"{type(err).__name__}: {err}"))
    return verdicts


class Run:
    """A sample on its way through both libraries."""

    def __init__(self, info: Any, dtype: torch.dtype, sample: Sample) -> None:
        self.info = info
        self.dtype = dtype
        self.sample = sample
        self.random = np.random.default_rng(0)
        self.fn = function(info)

    def steps(self) -> list[Any]:
        """The stages that torch can do for this operation."""
        steps = [self.forward]
        if differentiable(self.info, self.dtype) and self.sample.leaves:
            steps.append(self.gradient)
            if self.info.supports_gradgrad:
                steps.append(self.second)
        return steps

    def forward(self) -> None:
        s = self.sample
        theirs = s.process(self.info.op(*s.torch_args, **s.torch_kwargs))
        ours = rebound(s.process)(self.fn(*s.args, **s.kwargs))
        self.theirs, self.ours = flat(theirs), flat(ours)
        if len(self.theirs) != len(self.ours):
            raise Difference(f"{len(self.ours)} results, torch gives {len(self.theirs)}")
        for j, (a, b) in enumerate(zip(self.theirs, self.ours, strict=True)):
            self.same(f"result {j}", a, b, 0)

    def gradient(self) -> None:
        s = self.sample
        places = [j for j, a in enumerate(self.theirs) if isinstance(a, torch.Tensor) and a.requires_grad]
        if not places:
            self.pairs = None
            return
        for j in places:
            if not self.ours[j].requires_grad:
                raise Difference(f"result {j} does not require grad, torch's does")
        arrays = [self.direction(self.theirs[j]) for j in places]
        self.torch_cotangents = [torch.tensor(a, requires_grad=True) for a in arrays]
        self.cotangents = [tg.tensor(a, requires_grad=True) for a in arrays]
        more = bool(self.info.supports_gradgrad)
        theirs = torch.autograd.grad(
            [self.theirs[j] for j in places],
            s.torch_leaves,
            self.torch_cotangents,
            create_graph=more,
            allow_unused=True,
        )
        ours = tg.autograd.grad(
            [self.ours[j] for j in places], s.leaves, self.cotangents, create_graph=more, allow_unused=True
        )
        for j, (a, b, leaf) in enumerate(zip(theirs, ours, s.leaves, strict=True)):
            self.same_or_none(f"gradient {j}", a, b, leaf, 1)
        self.pairs = list(zip(theirs, ours, strict=True))

    def second(self) -> None:
        if self.pairs is None:
            return
        directions = [None if a is None else self.direction(a) for a, _ in self.pairs]
        wrt, torch_wrt = (
            [*self.sample.leaves, *self.cotangents],
            [*self.sample.torch_leaves, *self.torch_cotangents],
        )
        try:
            theirs = self.grads(torch, [a for a, _ in self.pairs], directions, torch_wrt)
        except RuntimeError as err:
            if "is not implemented" in str(err):
                raise Beyond(f"torch: {err}") from None
            raise
        ours = self.grads(tg, [b for _, b in self.pairs], directions, wrt)
        for j, (a, b, leaf) in enumerate(zip(theirs, ours, wrt, strict=True)):
            self.same_or_none(f"second-order gradient {j}", a, b, leaf, 2)

    @staticmethod
    def grads(lib: Any, values: list[Any], directions: list[Any], wrt: list[Any]) -> Any:
        chosen = [
            (v, lib.tensor(d)) for v, d in zip(values, directions, strict=True)
            if v is not None and d is not None and v.requires_grad
        ]  # fmt: skip
        if not chosen:
            return [None] * len(wrt)
        return lib.autograd.grad([v for v, _ in chosen], wrt, [d for _, d in chosen], allow_unused=True)

    def direction(self, like: torch.Tensor) -> np.ndarray:
        shape = tuple(like.shape)
        return np.asarray(self.random.standard_normal(shape)).astype(str(like.dtype).removeprefix("torch."))

    def same_or_none(self, what: str, a: Any, b: Any, leaf: Any, stage: int) -> None:
        """No gradient and a gradient of zero are the same."""
        if a is None and b is None:
            return
        if a is None:
            a = torch.zeros(tuple(b.shape), dtype=getattr(torch, str(b.dtype).partition(".")[2]))
        if b is None:
            b = tg.zeros_like(leaf.detach())
        self.same(what, a, b, stage)

    def same(self, what: str, theirs: Any, ours: Any, stage: int) -> None:
        if not isinstance(theirs, torch.Tensor):
            if isinstance(ours, tg.Tensor):
                raise Difference(f"{what}: a tensor, torch gives {theirs!r}")
            a, b = np.asarray(theirs), np.asarray(ours)
            if a.shape != b.shape or not np.allclose(a, b, 1e-5, 1e-7, equal_nan=True):
                raise Difference(f"{what}: {ours!r}, torch gives {theirs!r}")
            return
        if not isinstance(ours, tg.Tensor):
            raise Difference(f"{what}: {type(ours).__name__}, torch gives a tensor")
        a, b = theirs.numpy(force=True), ours.detach().numpy()
        if a.dtype != b.dtype:
            raise Difference(f"{what}: dtype {b.dtype}, torch gives {a.dtype}")
        if a.shape != b.shape:
            raise Difference(f"{what}: shape {b.shape}, torch gives {a.shape}")
        if not self.close(a, b, stage):
            raise Difference(f"{what}: {largest_difference(a, b)}")

    def close(self, a: np.ndarray, b: np.ndarray, stage: int) -> bool:
        if a.dtype.kind != "f":
            return bool((a == b).all())
        dtype = torch.float64 if a.dtype.itemsize == 8 else torch.float32
        rtol, atol = TOLERANCES[dtype][stage]
        if a.dtype.itemsize == 2:
            rtol = atol = 2e-3
        return bool(np.allclose(b, a, rtol, atol, equal_nan=True))


def flat(x: Any) -> list[Any]:
    """The tensors and numbers in a result."""
    if isinstance(x, (tuple, list)):
        return [y for item in x for y in flat(item)]
    return [x]


def largest_difference(a: np.ndarray, b: np.ndarray) -> str:
    """Where two arrays differ most."""
    if a.dtype.kind != "f":
        at = np.argwhere(a != b)[0]
        place, count = tuple(map(int, at)), int((a != b).sum())
        return f"{b[place]} at {place}, torch gives {a[place]}; {count} of {a.size} differ"
    with np.errstate(all="ignore"):
        size = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a.astype("d") - b))
        size = np.where(np.isnan(size), np.inf, size / (1 + np.abs(a)))
    at = np.unravel_index(int(np.argmax(size)), a.shape)
    return f"{b[at]} at {tuple(map(int, at))}, torch gives {a[at]}; shape {a.shape}"


def check_error(info: Any, wrong: Any) -> Verdict:
    """Does a wrong call raise the class of error that torch raises?"""
    try:
        sample = Sample(wrong.sample_input)
    except (Unsupported, AttributeError) as err:
        return Verdict("errors", "excluded", f"not in tapegrad: {err}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(info)(*sample.args, **sample.kwargs)
    except wrong.error_type:
        return Verdict("errors", "passed")
    except Exception as err:
        return Verdict(
            "errors", "failed", f"{sample}: {type(err).__name__}: {err}; torch: {wrong.error_type.__name__}"
        )
    return Verdict(
        "errors", "failed", f"{sample}: no error; torch: {wrong.error_type.__name__} {wrong.error_regex!r}"
    )
