"""Compiled functions in files."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import zipfile
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.kernels.recording import RecordingError


def tensor(*shape: int, seed: int = 0) -> tg.Tensor:
    return tg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def saved(path: pathlib.Path) -> tuple[Any, Any]:
    tg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).eval()

    @tg.compile
    def predict(batch: dict[str, tg.Tensor], *, scale: float) -> Any:
        with tg.no_grad():
            out = model(batch["x"]) * scale
            return {"p": F.softmax(out, 1), "top": [out.sum(0)], "one": tg.ones(2), "x": batch["x"]}

    predict({"x": tensor(5, 4)}, scale=2.0)
    predict.save(path)
    return model, predict


def test_a_saved_program_computes_the_same(tmp_path: pathlib.Path) -> None:
    _, predict = saved(tmp_path / "p.tgp")
    loaded = tg.load_compiled(tmp_path / "p.tgp")
    for seed in range(3):
        x = tensor(5, 4, seed=seed)
        ours, theirs = predict({"x": x}, scale=2.0), loaded({"x": x}, scale=2.0)
        assert list(theirs) == ["p", "top", "one", "x"]
        np.testing.assert_array_equal(theirs["p"].numpy(), ours["p"].numpy())
        np.testing.assert_array_equal(theirs["top"][0].numpy(), ours["top"][0].numpy())
        assert theirs["one"].tolist() == [1, 1]
        assert theirs["x"] is x


def test_another_process_needs_nothing_but_the_file(tmp_path: pathlib.Path) -> None:
    _, predict = saved(tmp_path / "p.tgp")
    expected = predict({"x": tg.ones(5, 4)}, scale=2.0)["p"].tolist()
    code = (
        "import sys, tapegrad as tg\n"
        "print(tg.load_compiled(sys.argv[1])({'x': tg.ones(5, 4)}, scale=2.0)['p'].tolist())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "p.tgp")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == expected


def test_files_hold_no_code_that_is_run(tmp_path: pathlib.Path) -> None:
    saved(tmp_path / "p.tgp")
    with zipfile.ZipFile(tmp_path / "p.tgp") as file:
        names = file.namelist()
    assert "program.json" in names
    assert not any(n.endswith((".pkl", ".pickle", ".bin")) for n in names)
    assert all(n.startswith("sources/") for n in names if n.endswith(".py"))


@pytest.mark.parametrize("what", ["format", "vector", "check", "steps", "missing", "truncated", "text"])
def test_what_does_not_fit_is_refused(tmp_path: pathlib.Path, what: str) -> None:
    path = tmp_path / "p.tgp"
    saved(path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    description = json.loads(parts["program.json"])
    if what == "format":
        description["format"] = "tapegrad program 99"
    elif what == "vector":
        description["vector"] = 7
    elif what == "steps":
        description["steps"][0]["range"] = [0, 10**9, 0]
    elif what == "check":
        description["check"] = "0"
    parts["program.json"] = json.dumps(description).encode()
    if what == "missing":
        del parts["program.json"]
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            file.writestr(name, data)
    if what == "truncated":
        path.write_bytes(path.read_bytes()[:-200])
    if what == "text":
        path.write_text("not a program")
    with pytest.raises(ValueError, match=r"p\.tgp"):
        tg.load_compiled(path)


def test_wrong_arguments_are_refused(tmp_path: pathlib.Path) -> None:
    saved(tmp_path / "p.tgp")
    loaded = tg.load_compiled(tmp_path / "p.tgp")
    for args, kwargs in (({"x": tensor(6, 4)}, {"scale": 2.0}), ({"x": tensor(5, 4)}, {"scale": 3.0})):
        with pytest.raises(TypeError, match="this program takes"):
            loaded(args, **kwargs)


def test_only_inference_can_be_saved(tmp_path: pathlib.Path) -> None:
    w = tensor(3).requires_grad_()

    @tg.compile
    def step(x: tg.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    with pytest.raises(RuntimeError, match="has not been called"):
        step.save(tmp_path / "p")
    step(tensor(3))
    with pytest.raises(RecordingError, match="not training steps"):
        step.save(tmp_path / "p")
    noisy = tg.compile(lambda x: x + tg.rand(3))
    noisy(tensor(3))
    with pytest.raises(RecordingError, match="random numbers"):
        noisy.save(tmp_path / "p")

    @tg.elementwise
    def own(v: Any) -> Any:
        return v * v + 1

    mine = tg.compile(lambda x: own(x))
    mine(tensor(3))
    with pytest.raises(RecordingError, match="of the program's own"):
        mine.save(tmp_path / "p")
    assert not list(tmp_path.iterdir())
