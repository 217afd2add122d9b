"""What the programs share: records, logs and curves, texts, pictures."""

from __future__ import annotations

import argparse
import csv
import json
import pathlib
import struct
import zlib

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.examples import common


def options(*arguments: str) -> argparse.Namespace:
    return common.Options("x", "A test.").parse(list(arguments))


def test_records_are_printed_and_logged(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, lines, curves = tmp_path / "a.csv", tmp_path / "a.jsonl", tmp_path / "a.png"
    given = options("--csv", str(table), "--jsonl", str(lines), "--plot", str(curves))
    with common.Run(given) as run:
        for step in run.bar(range(1, 4)):
            run.show(loss=tg.tensor(0.5))
            run.record(step=step, train_loss=tg.tensor(0.25), test_loss=1 / 3, test_accuracy=0.75)
            assert len(table.read_text().splitlines()) == step + 1, "a killed run has its log"
            assert len(lines.read_text().splitlines()) == step
    expected = [{"step": n, "train_loss": 0.25, "test_loss": 1 / 3, "test_accuracy": 0.75} for n in (1, 2, 3)]
    assert run.records == expected
    assert [json.loads(line) for line in lines.read_text().splitlines()] == expected
    with table.open() as file:
        read = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert read == expected
    assert curves.read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr()
    assert "step 2  train loss 0.25  test loss 0.3333  test accuracy 75.00%" in out.out
    assert "curves written to" in out.out
    assert "/3 [" in out.err
    assert run.seconds > 0


def test_after_an_error_logs_are_whole(tmp_path: pathlib.Path) -> None:
    lines, curves = tmp_path / "a.jsonl", tmp_path / "a.png"
    with (
        pytest.raises(KeyboardInterrupt),
        common.Run(options("--jsonl", str(lines), "--plot", str(curves))) as run,
    ):
        for step in run.bar(range(3)):
            run.record(step=step, loss=1.0)
            if step == 1:
                raise KeyboardInterrupt
    assert len(lines.read_text().splitlines()) == 2
    assert not curves.exists()


def test_seed_and_threads() -> None:
    with common.Run(options("--seed", "7", "--threads", "2")):
        assert tg.get_num_threads() == 2
        first = tg.rand(3)
    with common.Run(options("--seed", "7")):
        assert (tg.rand(3) == first).all()


def test_numbers_become_options() -> None:
    known = common.Options("x", "A test.").numbers(epochs=3, lr=0.5, batch_size=8)
    assert vars(known.parse(["--lr", "0.25"])) == {
        "epochs": 3, "lr": 0.25, "batch_size": 8, "seed": 0, "threads": None, "csv": None, "jsonl": None, "plot": None,
    }  # fmt: skip
    with pytest.raises(SystemExit):
        common.Options("x", "A test.").numbers(lr=0.5).parse(["--lr", "nan"])


def test_pictures_have_values_from_minus_one_to_one() -> None:
    images = common.pictures("digits")
    assert images.shape == (1797, 1, 8, 8)
    assert (images.min(), images.max()) == (-1, 1)
    assert images.dtype == tg.float32


def test_distance() -> None:
    real = common.pictures("digits")
    assert common.distance(real, real) == 0
    one = real[:1].expand(500, 1, 8, 8)
    assert common.distance(real.mean(0).expand(500, 1, 8, 8), real) > 0.4, "no deviation"
    assert common.distance(one, real) > common.distance(real[::3], real)


def test_write_pictures(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "made.png"
    images = tg.linspace(-1.2, 1.2, 3 * 4 * 5).reshape(3, 1, 4, 5)
    common.write_pictures(images, path, columns=2, zoom=2)
    data = path.read_bytes()
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert (width, height, depth, colour) == (2 * 2 * 6, 2 * 2 * 5, 8, 0)
    plt = pytest.importorskip("matplotlib.image", reason="a second reader of the file")
    read = (plt.imread(path) * 255).round().astype(int)
    assert read.shape == (20, 24)
    expected = ((images.numpy() + 1) * 127.5).clip(0, 255).astype(int)
    np.testing.assert_array_equal(read[:8:2, :10:2], expected[0, 0])
    np.testing.assert_array_equal(read[1:8:2, 13:22:2], expected[1, 0])
    assert (read[10:, 12:] == 0).all(), "there is no fourth picture"
    assert zlib.crc32(data[12:29]) == struct.unpack(">I", data[29:33])[0]


def test_text_of_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "text"
    path.write_text("abcde fghij " * 200)
    text = common.Text(path)
    assert "".join(text.letters) == " abcdefghij"
    assert len(text.train) == 2160
    assert text.decode(text.train[:12].tolist()) == "abcde fghij "
    assert text.decode(text.encode("jig").tolist()) == "jig"
    tg.manual_seed(0)
    codes, following = text.batch(text.train, 5, 7)
    assert codes.shape == following.shape == (5, 7)
    for row, later in zip(codes.tolist(), following.tolist(), strict=True):
        assert row[1:] == later[:-1]
        assert text.decode([*row, later[-1]]) in "abcde fghij " * 3
    path.write_text("too short")
    with pytest.raises(SystemExit, match="has 9 characters, too few for samples of 100"):
        common.Text(path)
    path.write_text("long enough " * 200)
    with pytest.raises(SystemExit, match="2400 characters, too few for samples of 300"):
        common.Text(path, 300)


def test_characters_that_the_text_lacks_are_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "text"
    path.write_text("abcde fghij " * 200)
    with pytest.raises(SystemExit, match="'X' does not occur in the text"):
        common.Text(path).encode("aXb")


def test_the_text_that_ships_with_python() -> None:
    text = common.Text()
    assert len(text.train) > 100_000
    assert 60 < len(text.letters) < 300
