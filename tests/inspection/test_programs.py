"""Random programs are looked at in every way, and behave afterwards as if nobody had looked."""

from __future__ import annotations

import random
import warnings
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.inspection.trace import trace
from tests import programs
from tests.inspection.test_drawing import _check_geometry


def _program(seed: int) -> tuple[programs.Machine, Any]:
    """The tensors of a program, and a loss over all of them."""
    r = random.Random(seed)
    machine = programs.Machine(tg, seed)
    for _ in range(r.randrange(2, 13)):
        step = r.choice(programs.STEPS)
        state = r.getstate()
        try:
            out = step(machine, r)
        except programs.ERRORS:
            continue
        finally:
            r.setstate(state)
            r.random()
        if out.numel() <= 300:
            machine.pool.append(out)
    total = sum(
        (t.double().sum() * (1 + 0.1 * k) for k, t in enumerate(machine.pool)), tg.zeros((), dtype=tg.float64)
    )
    return machine, total


def _outcome(machine: programs.Machine, total: Any) -> Any:
    """What a backward gives: gradients bit by bit, or an error's class; and which hooks fired."""
    try:
        total.backward()
    except RuntimeError as err:
        return type(err).__name__
    grads = [None if x.grad is None else x.grad.numpy().tobytes() for x in machine.leaves]
    return grads, machine.fired, [t.detach().numpy().tobytes() for t in machine.pool]


def _look(machine: programs.Machine, total: Any) -> None:
    tape = total.tape()
    assert repr(tape).count("\n") == min(len(tape), 200) + 1 + (len(tape) > 200)
    assert len(tape.rows()) == len(tape)
    for entry in tape:
        assert isinstance(entry.rule, str)
        assert isinstance(entry.kernel, str)
    picture = tape.draw()
    _check_geometry(picture)
    ET.fromstring(picture.svg)
    assert sum("\u25cf" in line for line in tape.sketch().splitlines()) == len(tape)
    assert tape.to_dot().count(" -> ") == len(picture.graph.arrows)
    for tensor in (*machine.pool, total):
        assert tg.explain(tensor)
    try:
        tape.play()
    except RuntimeError as err:
        assert "in-place" in str(err)  # the real backward says so too


def _compare(seeds: range) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for seed in seeds:
            machine, total = _program(seed)
            _look(machine, total)
            assert _outcome(machine, total) == _outcome(*_program(seed)), seed


def test_looking_changes_nothing() -> None:
    _compare(range(8))


@pytest.mark.slow
def test_looking_at_many_programs_changes_nothing() -> None:
    _compare(range(8, 40))


def test_the_trace_is_the_replay() -> None:
    """Without hooks, what is shown is bit by bit what backward computes."""
    compared = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for seed in range(120):
            machine, total = _program(seed)
            for handle in machine.handles:
                handle.remove()
            node = total.grad_fn
            if node is None:
                continue
            try:
                steps = trace(list(total.tape()), (node, 0))
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    total.backward()
                continue
            shown = {id(leaf): g.tobytes() for step in steps for leaf, g in step.delivered}
            total.backward()
            for leaf in machine.leaves:
                assert shown.get(id(leaf)) == (None if leaf.grad is None else leaf.grad.numpy().tobytes()), (
                    seed
                )
            compared += 1
    assert compared > 80
