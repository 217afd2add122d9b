"""Every program with ``--compile`` has the losses that it has without, step by step."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.examples.common import Run

from .test_programs import SHORT, program, text_file

COMPILED = [name for name in SHORT if name != "pinn"]  # whose steps are SciPy's


def losses(name: str, more: list[str], monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """What the program shows beside its bar: the losses of each step."""
    seen: list[list[float]] = []

    def show(run: Run, **values: Any) -> None:
        seen.append([float(v) for v in values.values()])

    monkeypatch.setattr(Run, "show", show)
    program(name).main([*SHORT[name], *more])
    return np.array(seen)


def compare(name: str, more: list[str], monkeypatch: pytest.MonkeyPatch, tolerance: float) -> int:
    """Steps that were compared."""
    made: list[Any] = []
    real = tg.compile

    def compile(function: Any) -> Any:
        made.append(real(function))
        return made[-1]

    monkeypatch.setattr(tg, "compile", compile)
    eager = losses(name, more, monkeypatch)
    assert not made
    compiled = losses(name, [*more, "--compile"], monkeypatch)
    assert all(fn.recordings for fn in made)
    assert made, "nothing was compiled"
    np.testing.assert_allclose(compiled, eager, rtol=tolerance, atol=tolerance)
    return len(eager)


@pytest.mark.parametrize("name", COMPILED)
def test_a_few_steps_have_the_same_losses(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = text_file(tmp_path) if name in ("char_lstm", "transformer") else []
    assert compare(name, more, monkeypatch, 1e-5) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_fifty_steps_have_the_same_losses(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ["--epochs", "8"]
    if name in ("char_lstm", "transformer", "threads"):
        more = ["--steps", "50", *(text_file(tmp_path) if name != "threads" else [])]
    # Small products are BLAS's in eager runs and our own in compiled ones. Their rounding grows where networks play against
    # each other, and in a deep one that has just begun to learn.
    assert compare(name, more, monkeypatch, {"vaegan": 1e-3, "alexnet": 1e-2}.get(name, 1e-4)) >= 50


def test_the_choice_is_not_offered_where_it_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program("pinn").main(["--compile"])
    assert "unrecognized arguments: --compile" in capsys.readouterr().err
