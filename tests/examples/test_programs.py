"""Every program: its options, a few steps, the same result for the same seed; the long tests say what each learns."""

from __future__ import annotations

import importlib
import itertools
import math
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.examples import accumulate, alexnet, char_lstm, common, pinn, wgan_gp

# A few steps of each on little data.
SHORT: dict[str, list[str]] = {
    "mnist": ["--data", "digits", "--epochs", "1", "--hidden", "16"],
    "cnn": ["--data", "digits", "--epochs", "1", "--batch-size", "200"],
    "alexnet": ["--data", "digits", "--epochs", "1", "--batch-size", "200"],
    "accumulate": ["--data", "digits", "--epochs", "1"],
    "gan": ["--data", "digits", "--epochs", "1", "--batch-size", "250", "--hidden", "16"],
    "vaegan": ["--data", "digits", "--epochs", "1", "--batch-size", "250"],
    "wgan_gp": ["--data", "digits", "--epochs", "1", "--batch-size", "250", "--hidden", "16"],
    "char_lstm": ["--steps", "3", "--batch-size", "4", "--length", "8", "--hidden", "8"],
    "transformer": ["--steps", "3", "--batch-size", "4", "--length", "8", "--hidden", "8", "--layers", "1"],
    "pinn": ["--steps", "5", "--hidden", "4", "--points", "10"],
    "threads": ["--data", "digits", "--steps", "2", "--batch-size", "20"],
}


def program(name: str) -> Any:
    return importlib.import_module(f"tapegrad.examples.{name}")


def run(name: str, *more: str) -> Any:
    return program(name).main([*SHORT[name], *more])


def text_file(folder: pathlib.Path) -> list[str]:
    """A short text: the test part is read as a whole at the end."""
    path = folder / "text"
    path.write_text("The quick brown fox jumps over the lazy dog. " * 80)
    return ["--text", str(path)]


def test_every_program_is_here() -> None:
    folder = pathlib.Path(common.__file__).parent
    assert {p.stem for p in folder.glob("*.py")} == {*SHORT, "common", "__init__", "__main__"}


def test_the_list_of_programs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tapegrad.examples"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()[1:]
    assert {line.split()[0] for line in lines} == set(SHORT)
    assert all(line.endswith(".") and len(line.split()) > 4 for line in lines)


@pytest.mark.parametrize("name", SHORT)
def test_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program(name).main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert f"python -m tapegrad.examples.{name}" in out
    for option in ("--seed", "--threads", "--csv", "--jsonl", "--plot"):
        assert option in out
    assert "--epochs" in out or "--steps" in out
    assert (program(name).__doc__ or "").split("\n")[0][:40] in out


@pytest.mark.parametrize("name", SHORT)
def test_a_few_steps(name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = text_file(tmp_path) if name in ("char_lstm", "transformer") else []
    if name == "threads":
        tg.set_num_threads(2)  # to have something to compare
    table = tmp_path / "log.csv"
    result = run(name, *more, "--csv", str(table))
    assert math.isfinite(result)
    assert len(table.read_text().splitlines()) >= 2
    assert "step/s" in capsys.readouterr().err
    if name != "threads":  # which tells times
        again = tmp_path / "again.csv"
        assert run(name, *more, "--csv", str(again)) == result
        assert again.read_text() == table.read_text(), "a seed fixes everything"


def test_as_a_command(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "tapegrad.examples.pinn", *SHORT["pinn"]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "step 5  loss" in done.stdout


@pytest.mark.parametrize("name", ["gan", "vaegan", "wgan_gp"])
def test_pictures_are_written(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "made.png"
    run(name, "--samples", str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["gan", "vaegan", "wgan_gp", "accumulate"])
def test_batches_larger_than_the_data_are_refused(name: str) -> None:
    with pytest.raises(SystemExit, match="--batch-size 2000 is more than the 1[0-9]{3} samples"):
        run(name, "--batch-size", "2000")


@pytest.mark.parametrize("name", ["char_lstm", "transformer"])
def test_text_is_written(name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(name, *text_file(tmp_path), "--start", "The lazy")
    written = capsys.readouterr().out.split("test bits")[-1].partition("\n")[2]
    assert written.startswith("The lazy")
    assert len(written.rstrip("\n")) > 300


def test_detached_and_frozen_convolutions_do_not_learn(capsys: pytest.CaptureFixture[str]) -> None:
    results = [
        run("alexnet", "--train", "classifier", "--cut", cut, "--epochs", "2") for cut in ("detach", "freeze")
    ]
    assert results[0] == results[1]
    assert capsys.readouterr().out.count("gradients arrived in: classifier\n") == 2
    run("alexnet")
    assert "gradients arrived in: features, classifier\n" in capsys.readouterr().out


def test_one_optimizer_over_both_parts_changes_both() -> None:
    tg.manual_seed(0)
    features, classifier = alexnet.Features(), alexnet.Classifier(32).eval()
    both = [*features.parameters(), *classifier.parameters()]
    before = [p.clone() for p in both]
    optimizer = tg.optim.Adam(itertools.chain(features.parameters(), classifier.parameters()), lr=0.1)
    assert not alexnet.has_gradients(features)
    classifier(features(tg.rand(40, 1, 8, 8))).square().sum().backward()
    optimizer.step()
    assert all((p != b).any() for p, b in zip(both, before, strict=True))


def test_parts_of_a_batch_add_up() -> None:
    tg.manual_seed(0)
    before = tg.live_tape()
    model = tg.nn.Sequential(tg.nn.Flatten(), tg.nn.Linear(64, 10)).double()
    images, labels = tg.rand(20, 8, 8, dtype=tg.float64), tg.randint(0, 10, (20,))
    assert accumulate.difference(model, images, labels, 5) < 1e-15
    whole = accumulate.largest_tape(model, images, labels, 1)
    assert accumulate.largest_tape(model, images, labels, 5) < whole / 3
    assert not tg.live_tape().diff(before), "each part's graph is gone"


def test_gradient_penalty() -> None:
    """Of a linear critic the slope is its weight, wherever the pictures are."""
    critic = tg.nn.Sequential(tg.nn.Flatten(), tg.nn.Linear(4, 1)).double()
    a, b = (tg.rand(3, 1, 2, 2, dtype=tg.float64) for _ in range(2))
    penalty = wgan_gp.gradient_penalty(critic, a, b)
    norm = critic[1].weight.norm()
    assert penalty.item() == pytest.approx(((norm - 1) ** 2).item())
    penalty.backward()
    expected = 2 * (1 - 1 / norm) * critic[1].weight
    np.testing.assert_allclose(critic[1].weight.grad.numpy(), expected.detach().numpy(), rtol=1e-10)


def test_the_solution_on_paper_solves_the_equation() -> None:
    t = tg.linspace(0, 3, 7, dtype=tg.float64).reshape(-1, 1).requires_grad_()
    assert pinn.residual(pinn.exact, t).abs().max() < 1e-12
    assert pinn.exact(tg.zeros(1)) == 1


def pair_bits(text: common.Text) -> float:
    """Bits per character on the test part for who only knows how often each letter follows each other."""
    n = len(text.letters)
    counts = np.ones((n, n))
    train, test = text.train.numpy(), text.test.numpy()
    np.add.at(counts, (train[:-1], train[1:]), 1)
    chances = counts / counts.sum(1, keepdims=True)
    return float(-np.log2(chances[test[:-1], test[1:]]).mean())


@pytest.mark.slow
class TestLearns:
    def test_cnn(self) -> None:
        assert program("cnn").main([]) >= 0.975

    def test_alexnet(self) -> None:
        assert program("alexnet").main(["--epochs", "6"]) >= 0.95

    def test_accumulate(self) -> None:
        assert program("accumulate").main([]) >= 0.93

    def test_gan(self) -> None:
        assert program("gan").main(["--epochs", "30"]) < 0.25  # 0.65 after the first epoch

    def test_wgan_gp(self) -> None:
        assert program("wgan_gp").main(["--epochs", "12"]) < 0.2  # 0.5 after the first one

    def test_vaegan(self) -> None:
        assert program("vaegan").main(["--epochs", "5"]) < 0.2  # 0.34 after the first one

    @pytest.mark.parametrize(("name", "steps"), [("char_lstm", "250"), ("transformer", "800")])
    def test_text(self, name: str, steps: str) -> None:
        assert program(name).main(["--steps", steps]) < pair_bits(common.Text()) - 0.3

    def test_pinn(self) -> None:
        assert program("pinn").main([]) < 0.01

    def test_threads(self) -> None:
        tg.set_num_threads(3)
        assert program("threads").main(["--steps", "5"])


def test_char_lstm_state_carries_on() -> None:
    tg.manual_seed(0)
    model = char_lstm.CharLSTM(5, 8)
    codes = tg.randint(0, 5, (2, 6))
    whole, _ = model(codes)
    first, state = model(codes[:, :4])
    rest, _ = model(codes[:, 4:], state)
    np.testing.assert_allclose(
        tg.cat([first, rest], 1).detach().numpy(), whole.detach().numpy(), rtol=1e-5, atol=1e-6
    )
