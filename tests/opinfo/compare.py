"""One sample through torch and through tapegrad: values, gradients and second-order gradients."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

import tapegrad as tg

from .excluded import reason_to_exclude
from .lanes import Beyond, Lane, exact, ours, theirs
from .samples import Sample, Unsupported, differentiable, function

# Per bytes of an element: (relative, absolute) for values, for gradients, for second-order gradients.
TOLERANCES = {
    8: ((1e-7, 1e-9), (1e-6, 1e-8), (1e-6, 1e-7)),
    4: ((1e-4, 1e-5), (1e-3, 1e-4), (2e-3, 1e-3)),
    2: ((2e-3, 2e-3), (2e-3, 2e-3), (2e-3, 2e-3)),
}
STAGES = ("forward", "gradient", "second")
# The highest order of derivative that was compared, by the name of the op on the tape.
orders: dict[str, int] = {}


class Verdict(NamedTuple):
    """What came of one sample at one stage: passed, failed, or excluded with the reason."""

    stage: str
    outcome: str  # "passed", "failed", "excluded"
    text: str = ""


class Difference(AssertionError):
    """The two libraries disagree."""


def check(name: str, info: Any, dtype: torch.dtype, source: Any) -> list[Verdict]:
    """Verdicts on one sample, stage by stage; what follows a failed stage is not tried."""
    verdicts = []
    stage = "forward"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = Run(info, dtype, Sample(source))
            for stage, step in zip(STAGES, run.steps(), strict=False):
                reason = reason_to_exclude(name, source, stage)
                if reason:
                    return [*verdicts, Verdict(stage, "excluded", reason)]
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
        self.theirs, self.ours = theirs(info, sample), ours(info, sample)
        self.places: list[int] = []  # results that have gradients
        self.arrays: list[np.ndarray] = []  # their cotangents
        self.directions: list[np.ndarray | None] = []
        self.more = bool(info.supports_gradgrad)
        self._exact: Lane | None = None

    def steps(self) -> list[Any]:
        """The stages that torch can do for this operation."""
        steps = [self.forward]
        if differentiable(self.info, self.dtype) and self.sample.leaves:
            steps += [self.gradient, self.second] if self.more else [self.gradient]
        return steps

    def forward(self) -> None:
        a, b = self.theirs.forward(), self.ours.forward()
        if len(a) != len(b):
            raise Difference(f"{len(b)} results, torch gives {len(a)}")
        for j in range(len(a)):
            self.same(f"result {j}", a[j], b[j], 0, j)

    def gradient(self) -> None:
        values = self.theirs.values
        self.places = [j for j, a in enumerate(values) if isinstance(a, torch.Tensor) and a.requires_grad]
        for j in self.places:
            if not self.ours.values[j].requires_grad:
                raise Difference(f"result {j} does not require grad, torch's does")
        if self.places:
            self.arrays = [self.direction(values[j]) for j in self.places]
            a = self.theirs.gradient(self.places, self.arrays, self.more)
            b = self.ours.gradient(self.places, self.arrays, self.more)
            self.all_same("gradient", a, b, self.ours.leaves, 1)
            self.note(1)

    def second(self) -> None:
        if self.places:
            self.directions = [None if g is None else self.direction(g) for g in self.theirs.gradients]
            a, b = self.theirs.second(self.directions), self.ours.second(self.directions)
            self.all_same("second-order gradient", a, b, [*self.ours.leaves, *self.ours.cotangents], 2)
            self.note(2)

    def note(self, order: int) -> None:
        """Keep in mind which ops were differentiated."""
        for j in self.places:
            for entry in self.ours.values[j].tape():
                orders[entry.op.name] = max(order, orders.get(entry.op.name, 0))

    def direction(self, like: torch.Tensor) -> np.ndarray:
        shape = tuple(like.shape)
        return np.asarray(self.random.standard_normal(shape)).astype(str(like.dtype).removeprefix("torch."))

    def all_same(self, what: str, a: list[Any], b: list[Any], like: list[Any], stage: int) -> None:
        """No gradient and a gradient of zero are the same."""
        for j, (p, q, leaf) in enumerate(zip(a, b, like, strict=True)):
            if p is None and q is None:
                continue
            if p is None:
                p = torch.zeros(tuple(q.shape), dtype=getattr(torch, str(q.dtype).partition(".")[2]))
            if q is None:
                q = tg.zeros_like(leaf.detach())
            self.same(f"{what} {j}", p, q, stage, j)

    def same(self, what: str, p: Any, q: Any, stage: int, index: int) -> None:
        if not isinstance(p, torch.Tensor):
            if isinstance(q, tg.Tensor):
                raise Difference(f"{what}: a tensor, torch gives {p!r}")
            a, b = np.asarray(p), np.asarray(q)
            if a.shape != b.shape or not np.allclose(a, b, 1e-5, 1e-7, equal_nan=True):
                raise Difference(f"{what}: {q!r}, torch gives {p!r}")
            return
        if not isinstance(q, tg.Tensor):
            raise Difference(f"{what}: {type(q).__name__}, torch gives a tensor")
        a, b = p.numpy(force=True), q.detach().numpy()
        if a.dtype != b.dtype:
            raise Difference(f"{what}: dtype {b.dtype}, torch gives {a.dtype}")
        if a.shape != b.shape:
            raise Difference(f"{what}: shape {b.shape}, torch gives {a.shape}")
        if not close(a, b, stage) and not (a.dtype == np.float32 and self.as_exact(a, b, stage, index)):
            raise Difference(f"{what}: {largest_difference(a, b)}")

    def as_exact(self, a: np.ndarray, b: np.ndarray, stage: int, index: int) -> bool:
        """Where two float32 results differ, the float64 one decides: ours is not further from it than torch's."""
        if self._exact is None:
            self._exact = exact(self.info, self.sample)
        lane = self._exact
        if not lane.values:
            lane.forward()
        if stage and not lane.gradients:
            lane.gradient(self.places, [x.astype(np.float64) for x in self.arrays], self.more)
        if stage == 2 and not lane.seconds:
            lane.second([None if d is None else d.astype(np.float64) for d in self.directions])
        reference = (lane.values, lane.gradients, lane.seconds)[stage][index]
        if reference is None:
            return False
        r = reference.numpy(force=True)
        with np.errstate(all="ignore"):
            errors = [np.nanmax(np.abs(x - r) / (1 + np.abs(r)), initial=0) for x in (a, b)]
        return bool((np.isfinite(b) == np.isfinite(r)).all() and errors[1] <= 2 * errors[0])


def close(a: np.ndarray, b: np.ndarray, stage: int) -> bool:
    """Equal within the tolerance of the dtype."""
    if a.dtype.kind != "f":
        return bool((a == b).all())
    rtol, atol = TOLERANCES[a.dtype.itemsize][stage]
    return bool(np.allclose(b, a, rtol, atol, equal_nan=True))


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
    if wrong.error_type is Exception:
        return Verdict("errors", "excluded", "torch's table asks for no particular error")
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
