"""What the programs share: options, the progress bar, records and curves of a run, data, pictures."""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import pathlib
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, ParamSpec, Self, TextIO, TypeVar

import numpy as np

import tapegrad as tg
from tapegrad.data import DataLoader, TensorDataset, sets

P = ParamSpec("P")
T = TypeVar("T")

# By name: how to read it, and by how many pixels its training pictures may be shifted.
DIGITS = {"mnist": (sets.mnist5k, 1), "digits": (sets.digits, 0)}


# -- options ---------------------------------------------------------------------------------------------


class Options(argparse.ArgumentParser):
    """The command line of an example: its own options, and those that all of them have."""

    def __init__(self, name: str, doc: str | None) -> None:
        super().__init__(prog=f"python -m {name}", description=(doc or "").split("\n")[0])

    def parse(self, arguments: list[str] | None) -> argparse.Namespace:
        """Add the common options and read the command line."""
        add = self.add_argument
        add("--seed", type=int, default=0, help="of everything that is drawn (0)")
        add("--threads", type=positive, help="threads of the kernels (all cores)")
        add("--csv", type=writable, metavar="FILE", help="write the records of the run as a table")
        add("--jsonl", type=writable, metavar="FILE", help="write them as one JSON object per line")
        add("--plot", type=writable, metavar="FILE", help="write learning curves, e.g. curves.png")
        return self.parse_args(arguments)

    def numbers(self, **defaults: float | int) -> Self:
        """Add an option for a number above zero for each name: ``numbers(epochs=10, lr=1e-3)``."""
        for name, default in defaults.items():
            kind = positive if isinstance(default, int) else above_zero
            self.add_argument(
                f"--{name.replace('_', '-')}",
                type=kind,
                default=default,
                metavar="N",
                help=f"{HELP[name]} ({default:g})",
            )
        return self

    def digits(self) -> Self:
        """Add the choice of pictures."""
        add = self.add_argument
        add("--data", choices=DIGITS, default="mnist", help="5,000 MNIST digits, or scikit-learn's 8x8 ones")
        return self

    def samples(self) -> Self:
        """Add a file for pictures that a network makes."""
        add = self.add_argument
        add("--samples", type=writable, metavar="FILE", help="write pictures as they come, e.g. made.png")
        return self

    def compiled(self) -> Self:
        """Add the choice of a compiled step, for programs that give their step to ``Run.step``."""
        self.add_argument("--compile", action="store_true", help="record a step once and replay it natively")
        return self

    def text(self) -> Self:
        """Add the text to learn, and what is to be written by the network at the end."""
        add = self.add_argument
        add("--text", type=pathlib.Path, metavar="FILE", help="learn this instead of Python's help texts")
        add("--start", default="The ", help="the beginning that is to be continued ('The ')")
        return self


HELP = {
    "batch_size": "samples per step",
    "critic_steps": "steps of the critic for each of the generator",
    "epochs": "passes over the training data",
    "hidden": "units of the hidden layers",
    "latent": "numbers that a picture is made from",
    "layers": "layers",
    "length": "characters per sample",
    "lr": "learning rate",
    "parts": "parts of a batch, each with a backward of its own",
    "points": "points at which the equation has to hold",
    "steps": "training steps",
}


def positive(text: str) -> int:
    """A whole number above zero."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return value


def above_zero(text: str) -> float:
    """A number above zero."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return value


def writable(text: str) -> pathlib.Path:
    """A path in a folder that exists: better told before training than after."""
    path = pathlib.Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist")
    return path


def extra(name: str) -> Any:
    """An optional package; the error tells how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as err:
        raise SystemExit(f"this program needs {err.name}: pip install 'tapegrad[examples]'") from None


# -- a run -----------------------------------------------------------------------------------------------


class Run:
    """One training: seeds and threads as the options say, a progress bar, records.

    ::

        with Run(options) as run:
            for step in run.bar(range(options.steps)):
                ...
                run.show(loss=loss)
            run.record(step=step, loss=loss)

    A record is printed, kept in ``records``, and written to the log files at once; at the end of the block the
    curves are drawn. The first entry of a record is what curves are drawn over.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._tqdm = extra("tqdm").tqdm
        if options.plot:
            extra("matplotlib")
        if options.threads:
            tg.set_num_threads(options.threads)
        tg.manual_seed(options.seed)
        self.options = options
        self.records: list[dict[str, float]] = []
        self.seconds = 0.0  # spent under a bar
        self._bar: Any = None
        self._table: TextIO | None = None
        self._lines: TextIO | None = None

    def __enter__(self) -> Self:
        if self.options.csv:
            self._table = self.options.csv.open("w", newline="")
        if self.options.jsonl:
            self._lines = self.options.jsonl.open("w")
        return self

    def __exit__(self, kind: type[BaseException] | None, err: Any, trace: TracebackType | None) -> None:
        for file in (self._table, self._lines):
            if file is not None:
                file.close()
        if self._bar is not None:
            self._bar.close()
        if kind is None and self.options.plot and self.records:
            plot(self.records, self.options.plot)
            print(f"curves written to {self.options.plot}")

    def step(self, function: Callable[P, T]) -> Callable[P, T]:
        """A training step, compiled if the options say so: a decorator."""
        return tg.compile(function) if self.options.compile else function

    def bar(self, items: Iterable[T], total: int | None = None) -> Iterator[T]:
        """The items, with a progress bar while they last."""
        start = time.perf_counter()
        self._bar = self._tqdm(items, total=total, unit="step", mininterval=0.2, leave=False)
        try:
            yield from self._bar
        finally:
            self._bar.close()
            self._bar = None
            self.seconds += time.perf_counter() - start

    def show(self, **values: Any) -> None:
        """Put values (numbers or tensors of one element) beside the bar."""
        if self._bar is not None:
            self._bar.set_postfix({k: f"{float(v):.3f}" for k, v in values.items()}, refresh=False)

    def record(self, **values: Any) -> None:
        """Print a line, and add it to the records and logs."""
        row = {key: value if isinstance(value, int) else float(value) for key, value in values.items()}
        self.records.append(row)
        line = "  ".join(f"{key.replace('_', ' ')} {_shown(key, value)}" for key, value in row.items())
        self._tqdm.write(line)
        if self._table is not None:
            writer = csv.DictWriter(self._table, list(self.records[0]))
            if len(self.records) == 1:
                writer.writeheader()
            writer.writerow(row)
            self._table.flush()
        if self._lines is not None:
            print(json.dumps(row), file=self._lines, flush=True)


def _shown(key: str, value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:.2%}" if key.endswith("accuracy") else f"{value:.4g}"


def plot(records: list[dict[str, float]], path: pathlib.Path) -> None:
    """Learning curves as a picture: entries with the same last word (train_loss, test_loss) share axes."""
    extra("matplotlib").use("agg")  # a file is written, no window is needed
    over, *rest = records[0]
    panels: dict[str, list[str]] = {}
    for key in rest:
        panels.setdefault(key.rpartition("_")[2], []).append(key)
    figure, rows = importlib.import_module("matplotlib.pyplot").subplots(
        1, len(panels), figsize=(4.5 * len(panels), 3.5), squeeze=False
    )
    for axes, (what, keys) in zip(rows[0], panels.items(), strict=True):
        for key in keys:
            axes.plot([r[over] for r in records], [r[key] for r in records], marker=".", label=key)
        axes.set(xlabel=over, ylabel=what)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    importlib.import_module("matplotlib.pyplot").close(figure)


# -- data ------------------------------------------------------------------------------------------------


def digits(name: str, seed: int, channels: bool = False) -> tuple[TensorDataset, TensorDataset]:
    """Training and test set, one in five for the test.

    Pictures float32 (n, height, width), or (n, 1, height, width) with ``channels``, standardised; labels
    int64 (n,).
    """
    images, labels = DIGITS[name][0]()
    train, test = sets.stratified_split(labels, len(labels) // 5, seed)
    pixels = tg.from_numpy(images).float()
    pixels = (pixels - pixels[train].mean()) / pixels[train].std()
    if channels:
        pixels = pixels.unsqueeze(1)
    targets = tg.from_numpy(labels)
    return TensorDataset(pixels[train], targets[train]), TensorDataset(pixels[test], targets[test])


def whole_batches(data: TensorDataset, size: int) -> DataLoader[Any]:
    """Shuffled batches of exactly that size; what is left over at the end of a pass is left out."""
    if size > len(data):
        raise SystemExit(f"--batch-size {size} is more than the {len(data)} samples that there are")
    return DataLoader(data, batch_size=size, shuffle=True, drop_last=True)


def pictures(name: str) -> tg.Tensor:
    """All pictures of a set with values from -1 to 1, float32 (n, 1, height, width)."""
    images, _ = DIGITS[name][0]()
    pixels = tg.from_numpy(images).float().unsqueeze(1)
    scaled: tg.Tensor = pixels * (2 / pixels.max()) - 1
    return scaled


def evaluate(model: Any, data: TensorDataset) -> tuple[float, float]:
    """Mean cross entropy and accuracy, without recording."""
    images, labels = data.tensors
    model.eval()
    with tg.no_grad():
        scores = model(images)
        loss = tg.nn.functional.cross_entropy(scores, labels)
        return loss.item(), (scores.argmax(1) == labels).float().mean().item()


class Text:
    """Characters as numbers: the help texts about the language that ship with Python, or a file."""

    def __init__(self, path: pathlib.Path | None = None, length: int = 100) -> None:
        if path is None:
            topics = importlib.import_module("pydoc_data.topics").topics
            text = "\n".join(topics[key] for key in sorted(topics))
        else:
            text = path.read_text()
        if len(text) < max(2000, 11 * length):
            raise SystemExit(
                f"{path or 'the text'} has {len(text)} characters, too few for samples of {length}: "
                "the last tenth of them is the test"
            )
        self.letters = sorted(set(text))
        numbers = {letter: n for n, letter in enumerate(self.letters)}
        codes = tg.tensor([numbers[letter] for letter in text])
        cut = len(text) * 9 // 10
        self.train, self.test = codes[:cut], codes[cut:]

    def encode(self, text: str) -> tg.Tensor:
        """Numbers int64 (n,) of characters, which have to occur in the text."""
        for letter in text:
            if letter not in self.letters:
                raise SystemExit(
                    f"{letter!r} does not occur in the text that is learned; begin with something else"
                )
        return tg.tensor([self.letters.index(letter) for letter in text])

    def decode(self, codes: Iterable[int]) -> str:
        """The characters."""
        return "".join(self.letters[n] for n in codes)

    @staticmethod
    def batch(codes: tg.Tensor, size: int, length: int) -> tuple[tg.Tensor, tg.Tensor]:
        """Pieces from random places, int64 (size, length), and the same pieces one character later."""
        starts = tg.randint(0, len(codes) - length, (size, 1))
        places = starts + tg.arange(length + 1)
        pieces = codes[places]
        return pieces[:, :-1], pieces[:, 1:]


# -- pictures --------------------------------------------------------------------------------------------


def distance(made: tg.Tensor, real: tg.Tensor) -> float:
    """How much two heaps of pictures (n, ...) differ in each pixel's mean and deviation; 0 for equal ones.

    A network that always makes one picture has no deviation, however good the picture is.
    """
    with tg.no_grad():
        mean = (made.mean(0) - real.mean(0)).square().mean()
        deviation = (made.std(0) - real.std(0)).square().mean()
        return float((mean + deviation).sqrt())


def write_pictures(images: tg.Tensor, path: pathlib.Path, columns: int = 8, zoom: int = 3) -> None:
    """Grey pictures (n, 1, height, width) with values from -1 to 1, side by side in a PNG file."""
    pixels = ((images.detach().numpy()[:, 0] + 1) * 127.5).clip(0, 255).astype(np.uint8)
    rows = -(-len(pixels) // columns)
    height, width = pixels.shape[1:]
    sheet = np.zeros((rows * columns, height + 1, width + 1), np.uint8)
    sheet[: len(pixels), :height, :width] = pixels
    sheet = sheet.reshape(rows, columns, height + 1, width + 1).swapaxes(1, 2)
    grey = sheet.reshape(rows * (height + 1), columns * (width + 1)).repeat(zoom, 0).repeat(zoom, 1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)  # 8 bits of grey
    lines = np.pad(grey, ((0, 0), (1, 0)))  # each line starts with its filter: none
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines.tobytes()))
        + chunk(b"IEND", b"")
    )
