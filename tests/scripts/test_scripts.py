"""Training scripts written for PyTorch run when ``torch`` is replaced in their import lines, and nothing else.

From the same weights and data, the losses of 50 steps are those of PyTorch: in float64 to twelve digits; in float32
rounding errors grow with every step, and the tolerance says by how much: a GAN's most.
"""

from __future__ import annotations

import importlib.util
import pathlib
import random
import re
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

FOLDER = pathlib.Path(__file__).parent
SCRIPTS = ("mnist_cnn", "dcgan", "char_rnn")
IMPORT = re.compile(r"^(\s*)(import|from) torch\b(.*)$", re.MULTILINE)


def replaced(source: str) -> str:
    """The script with ``import tapegrad as torch`` for ``import torch``."""

    def line(found: re.Match[str]) -> str:
        indent, word, rest = found.groups()
        return f"{indent}{word} tapegrad{rest or ' as torch'}"

    return IMPORT.sub(line, source)


def load(name: str, library: str) -> Any:
    """A script as a module that uses one of the libraries."""
    path = FOLDER / f"{name}.py"
    source = path.read_text()
    if library == "tapegrad":
        source = replaced(source)
    module = types.ModuleType(name)
    exec(compile(source, str(path), "exec"), vars(module))
    return module


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    with tg.threads(1):  # since tests run in several processes
        yield
    tg.set_default_dtype(tg.float32)
    tg.backends.cudnn.benchmark = False


@pytest.mark.parametrize("name", SCRIPTS)
def test_only_import_lines_differ(name: str) -> None:
    source = (FOLDER / f"{name}.py").read_text()
    pairs = list(zip(source.splitlines(), replaced(source).splitlines(), strict=True))
    different = [pair for pair in pairs if pair[0] != pair[1]]
    assert len(different) >= 3
    assert all(re.match(r"(import|from) torch\b", old) for old, _ in different)
    assert not re.search(r"\btorch\.(?!\w)", source)


def test_mnist_cnn_learns(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = tmp_path / "mnist_cnn.pt"
    script = load("mnist_cnn", "tapegrad")
    accuracy = script.main(["--epochs", "1", "--max-steps", "20", "--save-model", str(weights)])
    assert accuracy > 70
    assert "Test set: Average loss:" in capsys.readouterr().out
    script.Net().load_state_dict(tg.load(weights))


def test_dcgan_runs(capsys: pytest.CaptureFixture[str]) -> None:
    script = load("dcgan", "tapegrad")
    losses = script.main(["--ngf", "4", "--ndf", "4", "--max-steps", "5", "--batchSize", "16"])
    assert np.isfinite(losses).all()
    assert "(main): Sequential(" in capsys.readouterr().out


def test_char_rnn_learns(capsys: pytest.CaptureFixture[str]) -> None:
    script = load("char_rnn", "tapegrad")
    losses = script.main(
        ["--n_epochs", "40", "--print_every", "40", "--hidden_size", "64", "--chunk_len", "25"]
    )
    assert np.mean(losses[-5:]) < losses[0] - 1
    assert "\nWh" in capsys.readouterr().out


# -- against PyTorch -----------------------------------------------------------------------------------------

pytorch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is the oracle")
DTYPES = ["float64", "float32"]


def close(mine: Any, theirs: Any, dtype: str, loose: float) -> None:
    rtol = 1e-12 if dtype == "float64" else loose
    assert len(mine) == len(theirs) == 50
    assert np.ptp(theirs) > 0.05, "something is learned"
    np.testing.assert_allclose(mine, theirs, rtol=rtol)


def same_weights(mine: Any, theirs: Any) -> None:
    state = {key: tg.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()}
    mine.load_state_dict(state)


@pytest.fixture
def both(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """Both libraries, tapegrad first, with float64 or float32 as the default."""
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_num_threads(1)
    for library in (tg, torch):
        library.set_default_dtype(getattr(library, request.param))
    yield tg, torch
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)


@pytorch
@pytest.mark.parametrize("both", DTYPES, indirect=True)
def test_mnist_cnn_as_pytorch(both: tuple[Any, Any], request: pytest.FixtureRequest) -> None:
    dtype = request.node.callspec.params["both"]
    # The script's own rate makes steps so large that float32's rounding errors grow tenfold every few steps.
    rate = "1.0" if dtype == "float64" else "0.1"
    curves, models = [], []
    for library, name in zip(both, ("tapegrad", "torch"), strict=True):
        script = load("mnist_cnn", name)
        args = script.parse(["--dropout", "0", "--max-steps", "50", "--batch-size", "8", "--lr", rate])
        library.manual_seed(args.seed)
        models.append((script, args, library, script.Net(0.0)))
    same_weights(models[0][3], models[1][3])
    for script, args, _, model in models:
        data, _ = script.load_data(args)
        loader = script.DataLoader(data, batch_size=args.batch_size)
        optimizer = script.optim.Adadelta(model.parameters(), lr=args.lr)
        curves.append(script.train(args, model, script.torch.device("cpu"), loader, optimizer, 1))
    close(*curves, dtype, loose=1e-4)


@pytorch
@pytest.mark.parametrize("both", DTYPES, indirect=True)
def test_dcgan_as_pytorch(
    both: tuple[Any, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype = request.node.callspec.params["both"]
    scripts = [load("dcgan", name) for name in ("tapegrad", "torch")]
    opt = scripts[0].parse(["--ngf", "6", "--ndf", "6", "--batchSize", "12", "--max-steps", "50"])
    nets = [(s.Generator(opt.nz, opt.ngf), s.Discriminator(opt.ndf)) for s in scripts]
    for net in nets[1]:
        net.apply(scripts[1].weights_init)
    for mine, theirs in zip(*nets, strict=True):
        same_weights(mine, theirs)
    curves = []
    for library, script, (make, judge) in zip(both, scripts, nets, strict=True):
        rng = np.random.default_rng(5)

        def randn(*size: int, device: Any, rng: Any = rng, library: Any = library) -> Any:
            return library.from_numpy(rng.normal(size=size).astype(dtype))

        monkeypatch.setattr(library, "randn", randn)
        loader = script.DataLoader(script.load_data(), batch_size=opt.batchSize, drop_last=True)
        curves.append(script.train(opt, make, judge, script.torch.device("cpu"), loader))
    close(*curves, dtype, loose=5e-2)


@pytorch
@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("both", DTYPES, indirect=True)
def test_char_rnn_as_pytorch(both: tuple[Any, Any], kind: str, request: pytest.FixtureRequest) -> None:
    scripts = [load("char_rnn", name) for name in ("tapegrad", "torch")]
    args = scripts[0].parse(
        ["--model", kind, "--n_epochs", "50", "--hidden_size", "32", "--chunk_len", "12", "--batch_size", "8",
         "--print_every", "1000"]
    )  # fmt: skip
    n = scripts[0].n_characters
    models = [s.CharRNN(n, args.hidden_size, n, model=kind, n_layers=args.n_layers) for s in scripts]
    same_weights(*models)
    curves = []
    for script, model in zip(scripts, models, strict=True):
        random.seed(3)
        curves.append(script.train_all(args, model))
    close(*curves, request.node.callspec.params["both"], loose=1e-4)
