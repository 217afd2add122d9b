"""The main job: it learns, reports, saves, and refuses bad options before it starts."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest

import tapegrad as tg
from tapegrad.examples import common, mnist


def test_digits(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights, curves = tmp_path / "weights.safetensors", tmp_path / "curves.png"
    options = ["--data", "digits", "--epochs", "6", "--hidden", "64", "32", "--lr", "0.005", "--seed", "3"]
    accuracy = mnist.main([*options, "--save", str(weights), "--plot", str(curves)])
    assert accuracy > 0.9
    out = capsys.readouterr()
    line = re.compile(
        r"^epoch \d  train loss \d\.\d+  test loss \d\.\d+  train accuracy \d+\.\d+%  test", re.MULTILINE
    )
    assert len(line.findall(out.out)) == 6
    assert f"test accuracy {accuracy:.2%} after 6 epochs" in out.out
    assert f"{tg.get_num_threads()} thread(s)" in out.out
    assert "/23 [" in out.err, "the progress bar counts the steps of an epoch"
    assert curves.read_bytes().startswith(b"\x89PNG")

    _, test = common.digits("digits", 3)
    model = mnist.perceptron(64, [64, 32])
    model.load_state_dict(tg.load(weights))
    assert common.evaluate(model, test)[1] == accuracy


def test_a_seed_fixes_the_result() -> None:
    options = ["--data", "digits", "--epochs", "1", "--hidden", "16", "--optimizer", "sgd"]
    first = mnist.main(options)
    assert mnist.main(options) == first
    losses = {mnist.main([*options, "--seed", str(seed)]) for seed in (1, 2)}
    assert losses != {first}


def test_threads() -> None:
    mnist.main(["--data", "digits", "--epochs", "1", "--hidden", "16", "--threads", "2"])
    assert tg.get_num_threads() == 2


@pytest.mark.slow
def test_the_promise_of_the_readme() -> None:
    assert mnist.main([]) >= 0.94


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epochs", "0"], "not above zero"),
        (["--batch-size", "-1"], "not above zero"),
        (["--threads", "x"], "invalid positive value"),
        (["--data", "cifar"], "invalid choice"),
        (["--save", "/no/such/folder/file"], "the folder /no/such/folder does not exist"),
        (["--csv", "/no/such/folder/file"], "the folder /no/such/folder does not exist"),
    ],
)
def test_bad_options(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        mnist.main(options)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "options"),
    [("tqdm", []), ("matplotlib", ["--plot", "x.png"]), ("safetensors", ["--save", "x"])],
)
def test_a_missing_package_is_named(
    package: str, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=rf"needs {package}: pip install 'tapegrad\[examples\]'"):
        mnist.main(["--data", "digits", *options])
