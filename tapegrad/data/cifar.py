"""CIFAR-10 from its standard archive on disk, python version or binary version.

The python version is a set of pickles, and unpickling runs what a pickle says. Here it is read by an
unpickler that knows the few names which arrays and lists need, and refuses everything else.
"""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import struct
import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np

_PIXELS = 3 * 32 * 32
_TRAIN = [f"data_batch_{i}" for i in range(1, 6)]
_TEST = ["test_batch"]


def cifar10(folder: str | os.PathLike[str], train: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (50000, 3, 32, 32), or 10,000 for ``train=False``, and labels int64 from 0 to 9.

    ``folder`` holds ``cifar-10-python.tar.gz``, ``cifar-10-binary.tar.gz``, or one of them extracted
    (``cifar-10-batches-py``, ``cifar-10-batches-bin``); it may also be one of these itself.
    Nothing is downloaded. Errors: FileNotFoundError, or ValueError for damaged or foreign files.
    """
    read, suffix, where = _source(pathlib.Path(folder))
    images, labels = [], []
    for name in _TRAIN if train else _TEST:
        found = f"{where}/{name}{suffix}"
        data = read(name + suffix)
        part, numbers = _from_binary(data, found) if suffix else _from_pickle(data, found)
        images.append(part)
        labels.append(numbers)
    return np.concatenate(images).reshape(-1, 3, 32, 32), np.concatenate(labels)


def _source(path: pathlib.Path) -> tuple[Callable[[str], bytes], str, pathlib.Path]:
    """How to read a file of the archive by name, the suffix of those names, and where they are."""
    kinds = [
        ("cifar-10-batches-py", "cifar-10-python.tar.gz", ""),
        ("cifar-10-batches-bin", "cifar-10-binary.tar.gz", ".bin"),
    ]
    for inner, archive, suffix in kinds:
        for folder in (path, path / inner):
            if (folder / f"{_TEST[0]}{suffix}").is_file():
                return (lambda name, folder=folder: _file(folder / name)), suffix, folder
        for tar in (path, path / archive):
            if tar.is_file() and tar.name == archive:
                return (lambda name, tar=tar, inner=inner: _member(tar, f"{inner}/{name}")), suffix, tar
    raise FileNotFoundError(
        f"no CIFAR-10 archive in {path}: put cifar-10-python.tar.gz or cifar-10-binary.tar.gz there, "
        "or what they contain"
    )


def _file(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is missing: the CIFAR-10 archive was not extracted completely"
        ) from None


def _member(tar: pathlib.Path, name: str) -> bytes:
    try:
        with tarfile.open(tar, "r:*") as archive:
            member = archive.extractfile(name)
            if member is None:
                raise ValueError(f"{tar} is damaged: {name} is not a file")
            return member.read()
    except KeyError:
        raise ValueError(f"{tar} is damaged: it holds no {name}") from None
    except (tarfile.TarError, OSError, EOFError) as err:
        raise ValueError(f"{tar} is damaged: {err}") from err


def _from_binary(data: bytes, found: str) -> tuple[np.ndarray, np.ndarray]:
    """Records of one byte for the label and 3,072 for the image."""
    if len(data) == 0 or len(data) % (1 + _PIXELS):
        raise ValueError(
            f"{found} is damaged: {len(data)} bytes are no whole number of records of {1 + _PIXELS}"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + _PIXELS)
    if records[:, 0].max() > 9:
        raise ValueError(f"{found} is damaged: a label is not in 0..9")
    return records[:, 1:], records[:, 0].astype(np.int64)


def _from_pickle(data: bytes, found: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    except _DAMAGE as err:
        raise ValueError(f"{found} cannot be read as a CIFAR-10 batch: {err}") from err
    if not isinstance(batch, dict):
        raise ValueError(f"{found} is no CIFAR-10 batch: it holds a {type(batch).__name__}, not a dict")
    fields = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    images, labels = fields.get("data"), fields.get("labels")
    if not isinstance(images, _Array) or images.values.ndim != 2 or images.values.shape[1] != _PIXELS:
        raise ValueError(f"{found} is no CIFAR-10 batch: 'data' is not a uint8 array of rows of {_PIXELS}")
    rows = images.values
    if not isinstance(labels, list) or len(labels) != len(rows) or not all(type(n) is int for n in labels):
        raise ValueError(f"{found} is no CIFAR-10 batch: 'labels' is not a list with one integer per image")
    if not all(0 <= n <= 9 for n in labels):
        raise ValueError(f"{found} is damaged: a label is not in 0..9")
    return rows, np.array(labels, dtype=np.int64)


# What the unpickler raises for bytes that are no pickle, besides what is refused below.
_DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


class _Unpickler(pickle.Unpickler):
    """Builds dicts, lists, numbers, strings and uint8 arrays; the names of NumPy lead to stand-ins."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return lambda kind, shape, char: _Array()
        if (module, name) == ("numpy", "ndarray"):
            return _Array
        if (module, name) == ("numpy", "dtype"):
            return _Dtype
        if (module, name) == ("_codecs", "encode"):
            # How Python 3 writes bytes in a pickle of protocol 2.
            return lambda text, encoding: text.encode("latin1")
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR-10 batch needs")


class _Dtype:
    """An element type; its state is the byte order and more, of no matter for single bytes."""

    def __init__(self, name: str | bytes, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """An array of bytes, from the state that NumPy writes: version, shape, type, Fortran order, content."""

    def __init__(self) -> None:
        self.values: np.ndarray = np.zeros(0, np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        if not isinstance(kind, _Dtype) or kind.name != "u1" or not isinstance(content, bytes):
            raise pickle.UnpicklingError("it holds an array that is not uint8")
        self.values = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")
