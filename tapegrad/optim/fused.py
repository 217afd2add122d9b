"""Optimizers whose step is one kernel call for all parameters of a group.

A kernel of ``kernels/optim.py`` reads a parameter, its gradient and its state once and writes parameter and
state once; ``kernels/rows.py`` runs it over all parameters. A subclass says, per group, which kernel, which
state and which numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, kernels
from ..kernels.recording import StaleError, active, now, refuse
from ..modes import enable_grad
from ..tape import site
from ..tensor import Tensor
from .optimizer import Optimizer, step_dtype


class Rule(NamedTuple):
    """How a group is stepped: a kernel, the entries of a parameter's state that it takes, and its numbers."""

    kernel: str
    names: tuple[str, ...]
    numbers: Callable[[float, dict[str, Any]], list[float]]  # from the count of steps and a parameter's state
    flags: tuple[int, ...] = ()
    counted: bool = True  # the state has a "step", which is counted up
    shared: bool = True  # the numbers depend on the count alone


class FusedOptimizer(Optimizer):
    """Base of the optimizers that step by kernels; they differ in ``_update``.

    ``foreach`` and ``fused`` choose between implementations elsewhere; here there is one, and either
    value is accepted. ``differentiable`` and ``capturable`` are refused.
    """

    # While a compiled program asks what the next step would do.
    _rehearsal: Rehearsal | None = None

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        for option in ("differentiable", "capturable"):
            if defaults.get(option):
                raise RuntimeError(
                    f"{type(self).__name__}: {option}=True is not supported: steps run in compiled kernels "
                    "outside "
                    "the tape. For a differentiable update write it with tensor operations."
                )
        if defaults.get("foreach") and defaults.get("fused"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for own in self.state.values():
            if isinstance(own.get("step"), (int, float)):  # as older versions of PyTorch saved it
                own["step"] = counter(float(own["step"]))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        ``closure`` clears the gradients, computes the loss, calls backward and returns the loss, which
        step returns.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        # Where the parameters were changed, for messages about saved arrays that are out of date.
        mark = (f"{type(self).__name__}.step", site())
        if active and (recorder := now()) is not None:
            recorder.before.append(Rehearsal(self, recorder))
        for group in self.param_groups:
            self._update(group, mark)
        return loss

    def _update(self, group: dict[str, Any], mark: tuple[str, Any]) -> None:
        """Step over one group."""
        raise NotImplementedError

    def _start(self, state: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        """Fill the state of a parameter before its first step."""

    def _step(
        self, params: Iterable[Tensor], group: dict[str, Any], mark: tuple[str, Any], rule: Rule
    ) -> None:
        """Step over those of the parameters that have a gradient."""
        if self._rehearsal is not None:
            self._rehearsal.expect(params, rule)
            return
        states = self.state
        entries = (*rule.names, "step") if rule.counted else rule.names
        chosen: list[Tensor] = []
        arrays: list[np.ndarray] = []
        for param in params:
            grad = param._grad
            if grad is None:
                continue
            chosen.append(param)
            arrays += [param._array, grad._array]
            if entries:
                state = states[param]
                if entries[0] not in state:
                    self._start(state, param, group)
                arrays += [state[name]._array for name in entries]
        if active and (recorder := now()) is not None:
            recorder.before[-1].note(params, chosen, arrays, rule)
            return
        if chosen:
            self._run(chosen, arrays, mark, rule)
            for param in chosen:
                version = param._version
                version[0] += 1
                version[1] = mark

    def _run(self, params: list[Tensor], arrays: list[np.ndarray], mark: tuple[str, Any], rule: Rule) -> None:
        """Run the kernel over parameters whose arrays stand in ``arrays``, row after row."""
        columns = 2 + len(rule.names)
        rows = kernels.rows.Rows(arrays, columns, rule.counted)
        # A parameter given twice is stepped twice, one after the other.
        if len(set(params)) == len(params) and rows.plain():
            counts = rows.count_up().tolist() if rule.counted else [0.0] * len(params)
            hyper, index = self._numbers(params, counts, rule)
            kernel = getattr(kernels.optim, rule.kernel)
            rows.run(kernel, np.array(hyper, rows.dtype), index, rule.flags)
        elif len(params) > 1:
            # Some are not as kernels need them: find out which.
            middle = len(params) // 2
            self._run(params[:middle], arrays[: middle * rows.width], mark, rule)
            self._run(params[middle:], arrays[middle * rows.width :], mark, rule)
        else:
            self._run_copies(params[0], arrays[:columns], mark, rule)

    def _numbers(
        self, params: list[Tensor], counts: list[float], rule: Rule
    ) -> tuple[list[list[float]], np.ndarray]:
        """The kernel's numbers, each once, and which of them each parameter takes."""
        if not rule.shared:
            made = [
                rule.numbers(count, self.state[param]) for param, count in zip(params, counts, strict=True)
            ]
            # Lists that are one object are one row.
            rows = {id(numbers): numbers for numbers in made}
            row = {key: j for j, key in enumerate(rows)}
            return list(rows.values()), np.array([row[id(numbers)] for numbers in made], np.int64)
        place = {count: i for i, count in enumerate(dict.fromkeys(counts))}
        index = np.zeros(len(params), np.int64)
        if len(place) > 1:
            index[:] = [place[count] for count in counts]
        return [rule.numbers(count, {}) for count in place], index

    def _run_copies(self, param: Tensor, arrays: list[np.ndarray], mark: tuple[str, Any], rule: Rule) -> None:
        """For arrays that kernels do not take (strided, float16, mixed): on copies, written back."""
        what, (own, grad, *others) = mark[0], arrays
        if own.dtype.kind != "f":
            raise RuntimeError(f"{what}: cannot update a parameter of dtype {dtypes.of(own)}")
        if not own.flags.writeable:
            raise RuntimeError(f"{what}: the memory of a parameter is read-only; clone() it first")
        if any(a.shape != own.shape for a in arrays):
            raise RuntimeError(
                f"{what}: a parameter of shape {list(own.shape)} has a gradient of shape {list(grad.shape)} and "
                f"state of shape(s) {[list(a.shape) for a in others]}. Was its .data replaced, or the state of "
                "another parameter loaded? Make a new optimizer, or load the state that belongs to it."
            )
        state = self.state.get(param, {})
        count = counted(state) if rule.counted else 0.0
        dtype = np.dtype(np.float64 if own.dtype.char == "d" else np.float32)
        copies = [np.array(a, dtype, order="C") for a in arrays]
        hyper = np.array(rule.numbers(count, state), dtype)
        kernel = getattr(kernels.optim, rule.kernel)
        kernels.launch_lazily(kernel, (*copies, hyper, *rule.flags), own.size, own.size)
        for array, copy in zip(arrays, copies, strict=True):
            if array is not grad:
                np.copyto(array, copy, casting="same_kind")


def number(value: Any) -> float:
    """An option that may be a number or a tensor of one element."""
    return float(value)


def one_element(name: str, value: Any) -> None:
    """Refuse a tensor of several elements as an option."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def not_negative(what: str, value: Any) -> None:
    """Refuse negative numbers and NaN."""
    if not value >= 0.0:
        raise ValueError(f"{what}: {value}")


def check_betas(betas: Sequence[Any]) -> None:
    """Both decay rates have to lie in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def like(param: Tensor, value: float = 0.0) -> Tensor:
    """State of a parameter's shape and dtype, filled with a number."""
    made: Tensor = Tensor._make(np.full(param._array.shape, value, param._array.dtype))
    return made


def counter(value: float = 0.0) -> Tensor:
    """A 0-d tensor that counts steps."""
    made: Tensor = Tensor._make(np.array(value, step_dtype().numpy))
    return made


def counted(state: dict[str, Any]) -> float:
    """Add one to the count of steps in a parameter's state and return it."""
    array = state["step"]._array
    count: float = array.item() + 1.0
    array.fill(count)
    return count


class Rehearsal:
    """A step as a program repeats it: the kernels are the program's, the numbers are asked for before each run.

    At the recording it notes, kernel call by kernel call, what the step does. Before a run the optimizer goes
    through its step once more without calling kernels; if it would do something else than was recorded, that
    is a StaleError.
    """

    def __init__(self, optimizer: FusedOptimizer, recorder: Any) -> None:
        self.optimizer = optimizer
        self.recorder: Any = recorder
        self.calls: list[_Call] = []
        self._seen: list[
            dict[str, Any]
        ] = []  # the groups as they were, if nothing else decides on the numbers
        self._at = 0
        self._counts: dict[int, tuple[np.ndarray, float]] = {}

    def note(
        self, params: Iterable[Tensor], chosen: list[Tensor], arrays: list[np.ndarray], rule: Rule
    ) -> None:
        """Run and record a step over some parameters, each by a kernel call of its own."""
        width = 2 + len(rule.names) + rule.counted
        kernel = getattr(kernels.optim, rule.kernel)
        hypers: dict[tuple[str, tuple[float, ...]], np.ndarray] = {}
        rows: list[tuple[Tensor, np.ndarray, list[tuple[str, np.ndarray]]]] = []
        for j, param in enumerate(chosen):
            row = arrays[j * width : (j + 1) * width]
            own, columns = row[0], row[: 2 + len(rule.names)]
            if own.dtype.char not in "fd" or any(
                a.dtype != own.dtype or a.shape != own.shape or not a.flags.c_contiguous for a in columns
            ):
                refuse("an update of a parameter that is float16 or not contiguous")
            state = self.optimizer.state.get(param, {})
            numbers = tuple(rule.numbers(counted(state) if rule.counted else 0.0, state))
            hyper = hypers.setdefault((own.dtype.char, numbers), np.array(numbers, own.dtype))
            rows.append((param, hyper, list(zip(rule.names, columns[2:], strict=True))))
            for array in (own, *columns[2:]):
                self.recorder.touch(array)
            self.recorder.bumped(param._version)
            kernels.launch_lazily(kernel, (*columns, hyper, *rule.flags), own.size, max(own.size, 1))
            param._version[0] += 1
        self.calls.append(_Call(len(list(params)), rows, rule))

    def __call__(self) -> None:
        """Bring the numbers of all kernel calls up to date, and count the step."""
        optimizer = self.optimizer
        groups, before = optimizer.param_groups, self._seen
        if len(groups) == len(before):
            for j, group in enumerate(groups):
                seen = before[j]
                # Lists of parameters are compared by identity: equality of tensors is a tensor.
                if group["params"] is not seen["params"] or group != seen:
                    break
            else:
                return  # nothing but the options decides on the numbers
        self._at = 0
        self._counts.clear()
        optimizer._rehearsal = self
        try:
            for group in optimizer.param_groups:
                optimizer._update(group, ("", None))
        finally:
            optimizer._rehearsal = None
        if self._at != len(self.calls):
            raise StaleError("an optimizer would step in another way")
        plain = all(not c.rule.names and not c.rule.counted and c.rule.shared for c in self.calls)
        if plain and not any(isinstance(v, Tensor) for group in groups for v in group.values()):
            self._seen = [dict(group) for group in groups]

    @property
    def counts(self) -> bool:
        """Whether the step has counts."""
        return any(c.rule.counted for c in self.calls)

    def commit(self) -> None:
        """The program is going to run: counts of steps become what they will be."""
        for array, count in self._counts.values():
            array.fill(count)

    def expect(self, params: Iterable[Tensor], rule: Rule) -> None:
        """The optimizer is about to step: it has to be the step that was recorded next."""
        if self._at == len(self.calls):
            raise StaleError("an optimizer would step more often")
        call = self.calls[self._at]
        self._at += 1
        if call.key != (rule.kernel, rule.names, rule.flags) or call.params != len(list(params)):
            raise StaleError("an optimizer would step in another way")
        states, counts = self.optimizer.state, self._counts
        written: dict[int, list[float]] = {}
        alike: dict[float, list[float]] = {}  # numbers by count
        for param, hyper, kept in call.rows:
            state = states.get(param, _NOTHING)
            for name, array in kept:
                if name not in state or state[name]._array is not array:
                    raise StaleError("the state of an optimizer was replaced")
            count = 0.0
            if rule.counted:
                array = state["step"]._array
                before = counts.get(id(array))
                count = (array.item() if before is None else before[1]) + 1.0
                counts[id(array)] = (array, count)
            numbers = alike.get(count)
            if numbers is None or not rule.shared:
                numbers = alike[count] = rule.numbers(count, state)
            other = written.get(id(hyper))
            if other is None:
                hyper[:] = written[id(hyper)] = numbers
            elif other is not numbers and other != numbers:
                raise StaleError("parameters that were stepped alike no longer are")


_NOTHING: dict[str, Any] = {}


class _Call(NamedTuple):
    params: int  # how many were offered
    # Of each parameter with a gradient: itself, its numbers, and its state by name.
    rows: list[tuple[Tensor, np.ndarray, list[tuple[str, np.ndarray]]]]
    rule: Rule

    @property
    def key(self) -> tuple[Any, ...]:
        return self.rule.kernel, self.rule.names, self.rule.flags
