"""save and load: what comes back, files of other programs, damaged and hostile files, and being killed."""

from __future__ import annotations

import collections
import json
import math
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import tapegrad as tg
from tapegrad import io


def same(a: Any, b: Any) -> bool:
    """Equal in type, structure, dtype and value (NaN equals NaN)."""
    if isinstance(a, tg.Tensor):
        return (
            isinstance(b, tg.Tensor) and a.dtype == b.dtype and same(a.detach().numpy(), b.detach().numpy())
        )
    if isinstance(a, np.ndarray):
        alike = type(b) is type(a) and b.dtype == a.dtype and b.shape == a.shape
        return alike and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def checkpoint() -> dict[str, Any]:
    return {
        "model": {"0.weight": tg.arange(6.0).reshape(2, 3), "0.bias": tg.zeros(3), "steps": tg.tensor(7)},
        "optimizer": {
            "state": {0: {"step": 3, "exp_avg": tg.ones(2, 3)}, 1: {}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1], "nesterov": False}],
        },
        "epoch": 12,
        "best": -math.inf,
        "note": "über ✓",
        "nothing": None,
    }


def test_a_checkpoint_comes_back(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    io.save(checkpoint(), path)
    assert same(checkpoint(), io.load(path))
    assert same(checkpoint(), io.load(str(path), map_location="cpu", weights_only=True))


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        (),
        None,
        True,
        -3,
        10**30,
        1.5,
        0.1 + 0.2,
        math.nan,
        math.inf,
        "text",
        [1, [2.0, ("a", None)]],
        {"a": {"b": {1: [(), {}]}}},
        {"dict": 1, "tensor": "x", "float": "nan"},
        {1: "integer", "1": "string", -2: "negative"},
    ],
)
def test_plain_values(value: Any, tmp_path: pathlib.Path) -> None:
    io.save(value, tmp_path / "file")
    assert same(value, io.load(tmp_path / "file"))


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_every_dtype_and_shape(name: str, shape: tuple[int, ...], tmp_path: pathlib.Path) -> None:
    array = np.asarray(np.arange(math.prod(shape)) % 2, dtype=name).reshape(shape)
    obj = {"tensor": tg.from_numpy(array), "array": array, "number": array.dtype.type(1)}
    io.save(obj, tmp_path / "file")
    loaded = io.load(tmp_path / "file")
    assert same({**obj, "number": obj["number"].item()}, loaded)
    if array.size:
        loaded["array"][...] = 0  # it may be written to
        loaded["tensor"].zero_()


def test_dtypes_layouts_and_histories(tmp_path: pathlib.Path) -> None:
    w = tg.arange(6.0).reshape(2, 3).requires_grad_()
    big_endian = np.arange(3, dtype=">f4")
    io.save([w, w * 2, w.t(), tg.float64, big_endian, np.arange(6).reshape(2, 3).T], tmp_path / "file")
    leaf, product, turned, dtype, array, columns = io.load(tmp_path / "file")
    assert not leaf.requires_grad
    assert product.tolist() == (w * 2).tolist()
    assert turned.tolist() == w.t().tolist()
    assert dtype is tg.float64
    assert array.tolist() == [0, 1, 2]
    assert columns.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_mappings_come_back_as_dicts_in_order(tmp_path: pathlib.Path) -> None:
    io.save(collections.OrderedDict(z=tg.ones(1), a=tg.zeros(1)), tmp_path / "file")
    loaded = io.load(tmp_path / "file")
    assert type(loaded) is dict
    assert list(loaded) == ["z", "a"]


def test_names_in_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    io.save({"layer.weight": tg.ones(2), "layer": {"weight": tg.zeros(2)}, "list": [tg.ones(1)]}, path)
    assert sorted(safetensors.numpy.load_file(path)) == ["layer.weight", "layer.weight#2", "list.0"]
    assert io.load(path)["layer"]["weight"].tolist() == [0.0, 0.0]
    io.save(tg.ones(2), path)
    assert list(safetensors.numpy.load_file(path)) == ["tensor"]


def test_plain_safetensors_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "weights.safetensors"
    io.save_file({"a": tg.ones(2), "b": np.zeros((2, 2))}, path, metadata={"format": "pt"})
    theirs = safetensors.numpy.load_file(path)
    assert theirs["a"].tolist() == [1.0, 1.0]
    safetensors.numpy.save_file({"x": np.arange(4.0), "y": np.ones((), np.int8)}, path)
    for loaded in (io.load(path), io.load_file(path)):
        assert loaded["x"].tolist() == [0.0, 1.0, 2.0, 3.0]
        assert loaded["y"].dtype == tg.int8
    with pytest.raises(TypeError, match="'a': dict; save"):
        io.save_file({"a": {}}, path)
    assert io.load_file(path)["x"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_weights_go_to_pytorch_and_back(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch", reason="exchanges files with PyTorch, which is not installed")
    from safetensors.torch import load_file, save_file  # only importable where torch is

    path = tmp_path / "weights.safetensors"
    layer = torch.nn.Linear(3, 2)
    save_file(layer.state_dict(), path)
    loaded = io.load(path)
    assert loaded["weight"].tolist() == layer.weight.tolist()
    io.save(loaded, path)
    assert load_file(path)["bias"].tolist() == layer.bias.tolist()
    save_file({"w": torch.ones(2, dtype=torch.bfloat16)}, path)
    with pytest.raises(ValueError, match=r"weights.safetensors: 'w' has the dtype BF16.*convert it"):
        io.load(path)


def torch_networks() -> dict[str, Any]:
    torch = pytest.importorskip("torch", reason="exchanges files with PyTorch, which is not installed")

    def residual(lib: Any) -> Any:
        class Block(lib.nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.body = lib.nn.Sequential(
                    lib.nn.Conv2d(3, 3, 3, padding=1, bias=False), lib.nn.BatchNorm2d(3), lib.nn.PReLU()
                )
                self.scale = lib.nn.Parameter(lib.ones(3, 1, 1))
                self.register_buffer("shift", lib.full((1,), 0.5))

            def forward(self, x: Any) -> Any:
                return x + self.scale * self.body(x) + self.shift

        return lib.nn.Sequential(Block(), Block(), lib.nn.Flatten(), lib.nn.Linear(48, 2))

    def recurrent(lib: Any) -> Any:
        net = lib.nn.ModuleDict(
            {"embed": lib.nn.Embedding(9, 5), "rnn": lib.nn.LSTM(5, 4, 2, bidirectional=True)}
        )
        net.forward = lambda x: net["rnn"](net["embed"](x))[0]
        return net

    def attention(lib: Any) -> Any:
        layer = lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        return lib.nn.Sequential(
            lib.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), lib.nn.LayerNorm(8)
        )

    return {
        "residual": (residual, torch.randn(2, 3, 4, 4)),
        "recurrent": (recurrent, torch.randint(9, (6, 2))),
        "attention": (attention, torch.randn(2, 5, 8)),
    }


@pytest.mark.parametrize("name", ["residual", "recurrent", "attention"])
def test_networks_go_to_pytorch_and_back(name: str, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch", reason="exchanges files with PyTorch, which is not installed")
    from safetensors.torch import load_file, save_file

    make, x = torch_networks()[name]
    there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
    theirs, mine = make(torch).eval(), make(tg).eval()
    save_file(theirs.state_dict(), there)
    assert str(mine.load_state_dict(tg.load(there))) == "<All keys matched successfully>"
    given = tg.tensor(x.numpy())
    expected = theirs(x).detach().numpy()
    np.testing.assert_allclose(mine(given).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    tg.save(mine.state_dict(), back)
    again = make(torch).eval()
    assert str(again.load_state_dict(load_file(back))) == "<All keys matched successfully>"
    np.testing.assert_array_equal(again(x).detach().numpy(), expected)


def test_an_optimizer_goes_to_pytorch_by_a_file(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch", reason="exchanges files with PyTorch, which is not installed")
    from safetensors.torch import load_file

    path = tmp_path / "state.safetensors"
    w = tg.ones(3, requires_grad=True)
    mine = tg.optim.Adam([w], lr=0.1)
    w.grad = tg.tensor([1.0, 2.0, 3.0])
    mine.step()
    tg.save(mine.state_dict(), path)
    tensors = load_file(path)
    assert sorted(tensors) == ["state.0.exp_avg", "state.0.exp_avg_sq", "state.0.step"]
    v = torch.ones(3, requires_grad=True)
    theirs = torch.optim.Adam([v], lr=0.1)
    v.grad = torch.tensor([1.0, 2.0, 3.0])
    theirs.step()
    for name, value in theirs.state_dict()["state"][0].items():
        torch.testing.assert_close(tensors[f"state.0.{name}"], value)


def test_a_run_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "checkpoint.safetensors"

    def made(seed: int) -> tuple[Any, ...]:
        tg.manual_seed(seed)
        net = tg.nn.Sequential(
            tg.nn.Linear(4, 8), tg.nn.BatchNorm1d(8), tg.nn.ReLU(), tg.nn.Dropout(), tg.nn.Linear(8, 1)
        )
        optimizer = tg.optim.AdamW(net.parameters(), lr=0.01)
        schedule = tg.optim.lr_scheduler.MultiStepLR(optimizer, [3, 6, 6])
        order = tg.Generator()
        order.manual_seed(seed)
        return net, optimizer, schedule, order

    x = tg.linspace(0, 1, 64).reshape(16, 4)

    def train(run: tuple[Any, ...], first: int, last: int) -> list[float]:
        net, optimizer, schedule, order = run
        losses = []
        for _ in range(first, last):
            rows = tg.randperm(16, generator=order)[:8]
            optimizer.zero_grad()
            loss = (net(x[rows]) - x[rows].sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        return losses

    whole = made(1)
    train(whole, 0, 4)
    net, optimizer, schedule, order = whole
    tg.save(
        {
            "model": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "rng": tg.get_rng_state(),
            "order": order.get_state(),
            "step": 4,
        },
        path,
    )
    expected = train(whole, 4, 10)
    again = made(99)
    saved = tg.load(path)
    for part, key in zip(again, ("model", "optimizer", "schedule"), strict=False):
        part.load_state_dict(saved[key])
    tg.set_rng_state(saved["rng"])
    again[3].set_state(saved["order"])
    assert train(again, saved["step"], 10) == expected


def test_a_header_of_the_length_that_pickles_start_with(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).ljust(640)
    path.write_bytes(raw(header.encode(), np.float32(1.5).tobytes()))
    assert path.read_bytes().startswith(b"\x80\x02")
    assert io.load(path)["w"].item() == 1.5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, object()]}, r"\['a'\]\[1\]: object is not a tensor"),
        ({"f": len}, r"\['f'\]: builtin_function_or_method"),
        ({(1, 2): 3}, r"key \(1, 2\) is neither a string nor an integer"),
        ({"c": np.ones(2, complex)}, r"\['c'\].*complex128"),
        ({"s": np.array(["a"])}, r"\['s'\]: its dtype <U1"),
        ({"z": 1j}, r"\['z'\]: complex"),
    ],
)
def test_what_cannot_be_saved(value: Any, message: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match=message):
        io.save(value, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_an_object_inside_itself(tmp_path: pathlib.Path) -> None:
    value: dict[str, Any] = {"a": []}
    value["a"].append(value)
    with pytest.raises(ValueError, match=r"the object\['a'\]\[0\]: it contains itself"):
        io.save(value, tmp_path / "file")
    twice = tg.ones(2)
    io.save({"a": [twice], "b": [twice]}, tmp_path / "file")


def test_wrong_arguments(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(TypeError, match="path .* is needed, got int"):
        io.save({}, 3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="folder .*nowhere does not exist"):
        io.save({}, tmp_path / "nowhere" / "file")
    with pytest.raises(FileNotFoundError):
        io.load(path)
    with pytest.raises(IsADirectoryError):
        io.load(tmp_path)
    io.save({}, path)
    with pytest.raises(ValueError, match="map_location='cuda' is not supported"):
        io.load(path, map_location="cuda")
    with pytest.raises(ValueError, match="weights_only=False is not supported"):
        io.load(path, weights_only=False)


def test_files_of_torch_save_are_named_as_such(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file.pt"
    torch = pytest.importorskip("torch", reason="has PyTorch write the files, which is not installed")
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        torch.save({"w": torch.ones(2)}, path, **options)
        with pytest.raises(ValueError, match=r"made by torch.save.*safetensors.torch.save_file"):
            io.load(path)
    for protocol in range(2, 6):
        path.write_bytes(pickle.dumps({"numbers": [1, 2]}, protocol=protocol))
        with pytest.raises(ValueError, match=r"made by torch.save"):
            io.load(path)
    np.savez(tmp_path / "arrays.npz", a=np.ones(2))
    with pytest.raises(ValueError, match="no safetensors file"):
        io.load(tmp_path / "arrays.npz")


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    obj = {"w": tg.arange(5.0), "n": [1, 2.5, "text"], "k": tg.tensor([True, False])}
    io.save(obj, path)
    whole = path.read_bytes()
    noticed = 0
    for place in range(len(whole)):
        for change in (0x01, 0x80, 0xFF):
            data = bytearray(whole)
            data[place] ^= change
            path.write_bytes(data)
            try:
                loaded = io.load(path)
            except ValueError as err:
                assert str(path) in str(err)
                noticed += 1
            else:
                assert same(obj, loaded)
    assert noticed > 2.9 * len(whole)


def test_every_truncation_is_noticed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    io.save({"w": tg.arange(5.0)}, path)
    whole = path.read_bytes()
    for data in [*(whole[:end] for end in range(len(whole))), whole + b"\0"]:
        path.write_bytes(data)
        with pytest.raises(ValueError, match="no safetensors file, or is damaged"):
            io.load(path)
        with pytest.raises(ValueError, match="no safetensors file, or is damaged"):
            io.load_file(path)


def raw(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def about(node: Any, changes: Any = ()) -> bytes:
    text = json.dumps(node)
    return raw(
        {"__metadata__": {"tapegrad.tree": text, "tapegrad.check": io._check(text, {}), **dict(changes)}}
    )


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
HOSTILE = {
    "huge header": (2**63).to_bytes(8, "little") + b"{}",
    "header of 4 GB": (2**32).to_bytes(8, "little") + b"{}",
    "no JSON": raw(b"not json"),
    "no UTF-8": raw(b"\xff\xfe\xfd"),
    "JSON of another kind": raw([1, 2]),
    "deep JSON": raw(b"[" * 100_000),
    "shape larger than data": raw({"a": {**ONE, "shape": [2**40]}}, bytes(4)),
    "shape that overflows": raw({"a": {**ONE, "shape": [2**33, 2**33]}}, bytes(4)),
    "offsets outside": raw({"a": {**ONE, "data_offsets": [0, 2**40]}}, bytes(4)),
    "offsets reversed": raw({"a": {**ONE, "data_offsets": [4, 0]}}, bytes(4)),
    "overlap": raw({"a": ONE, "b": ONE}, bytes(4)),
    "unknown dtype": raw({"a": {**ONE, "dtype": "X9"}}, bytes(4)),
    "bfloat16": raw({"a": {**ONE, "dtype": "BF16", "shape": [2]}}, bytes(4)),
    "uint32": raw({"a": {**ONE, "dtype": "U32"}}, bytes(4)),
    "metadata no text": about(None, {"tapegrad.tree": 3}),
    "tree without check": raw({"__metadata__": {"tapegrad.tree": "null"}}),
    "check without tree": raw({"__metadata__": {"tapegrad.check": io._check("null", {})}}),
    "later version": about(None, {"tapegrad.check": "v2 sha256 0"}),
    "wrong checksum": about(None, {"tapegrad.check": "v1 crc32 00000000"}),
    "tree no JSON": raw({"__metadata__": {"tapegrad.tree": "{", "tapegrad.check": io._check("{", {})}}),
    "missing tensor": about({"tensor": "w"}),
    "unknown node": about({"object": "os.system"}),
    "two in one node": about({"tuple": [], "dict": []}),
    "empty node": about({}),
    "unhashable key": about({"dict": [[[], 1]]}),
    "no pairs": about({"dict": [1]}),
    "unknown dtype node": about({"dtype": "object"}),
    "no dtype node": about({"dtype": "nonsense"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(ValueError, match=str(path)):
        io.load(path)


def test_a_deep_tree(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    text = "[" * 100_000 + "]" * 100_000
    path.write_bytes(raw({"__metadata__": {"tapegrad.tree": text, "tapegrad.check": io._check(text, {})}}))
    with pytest.raises(ValueError, match="damaged"):
        io.load(path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "file"
    io.save({"a": 1}, path)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        io.save({"a": 2}, path)
    assert io.load(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_has_the_usual_permissions_or_those_that_it_had(tmp_path: pathlib.Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    io.save({}, path)
    other.write_bytes(b"")
    assert path.stat().st_mode == other.stat().st_mode
    path.chmod(0o640)
    io.save({}, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_is_written_through(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    io.save({"a": 1}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert io.load(tmp_path / "folder" / "file") == {"a": 1}


PROGRAM = """
import sys, itertools, numpy as np
from tapegrad import io
for i in itertools.count(int(sys.argv[2])):
    io.save({'step': i, 'w': np.full(20_000, i)}, sys.argv[1])
    print(i, flush=True)
"""


def killed_saver(path: pathlib.Path, first: int, seconds: float) -> int:
    """Save again and again in another process, kill it at some moment; the last save that it reported."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path), str(first)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    reported = [child.stdout.readline()]
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    child.wait()
    reported += child.stdout.readlines()
    child.stdout.close()
    return int([line for line in reported if line.endswith("\n")][-1])


@pytest.mark.slow
def test_killed_during_two_hundred_saves_a_checkpoint_is_whole(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    random = np.random.default_rng(0)
    last = kills = 0
    while last < 200 or kills < 10:
        last = killed_saver(path, last, random.uniform(0, 0.15))
        kills += 1
        loaded = io.load(path)
        # What was reported is on the disk, and at most one save more.
        assert last <= loaded["step"] <= last + 1
        assert (loaded["w"] == loaded["step"]).all()
        # What a killed process left goes with the next save, unless another process has got its number in the meantime.
        assert len(list(tmp_path.iterdir())) <= 4


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a dead process cannot be told from a living one")
def test_what_a_killed_process_left_is_swept_away(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a[1].b"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, alive, elsewhere, foreign = (
        tmp_path / f".{name}.tmp"
        for name in (
            f"a[1].b.{io._HERE}.{gone.pid}.00ff",
            f"a[1].b.{io._HERE}.{os.getpid()}.00ff",
            f"a[1].b.another-machine.{gone.pid}.00ff",
            f"a1.b.{io._HERE}.{gone.pid}.00ff",
        )
    )
    for file in (dead, alive, elsewhere, foreign):
        file.touch()
    io.save({}, path)
    assert sorted(tmp_path.iterdir()) == sorted([path, alive, elsewhere, foreign])


def test_without_safetensors_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    for call in (lambda: io.save({}, tmp_path / "file"), lambda: io.load(tmp_path / "file")):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'tapegrad\[examples\]'"):
            call()
