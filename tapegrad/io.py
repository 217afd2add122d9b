"""Saving and loading: tensors as safetensors, everything around them as JSON. Never a pickle.

A file is an ordinary safetensors file, which other programs read by the same names. What is not a
tensor (nesting, numbers, strings) stands in its metadata, with a checksum over all content, so that a
damaged file is noticed.

Writing is atomic: whatever happens, the path holds the old file or the new one.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import json
import math
import os
import pathlib
import platform
import secrets
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import dtypes
from .creation import from_numpy
from .native import export
from .native.export import LoadedProgram
from .tensor import Tensor

# Either key tells that the file is ours, so that damage to one of them is noticed too.
_TREE, _CHECK = "tapegrad.tree", "tapegrad.check"
_VERSION = 1
# The dtypes of safetensors that tapegrad has.
_DTYPES = ("BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "F32", "F64")
# Names of half-written files tell where and by which process they are written.
_HERE = platform.node().replace(".", "-") or "here"
_INSTALL = "saving and loading need the package safetensors: pip install 'tapegrad[examples]'"
# How other files start: zip archives (PyTorch's own save makes them) and pickles (what it made before 1.6).
_ZIP, _PICKLE = b"PK\x03\x04", tuple(bytes([0x80, version]) for version in range(2, 6))


def save(obj: Any, f: str | os.PathLike[str]) -> None:
    """Write a (nested) state dict, e.g. a checkpoint of model and optimizer, to the path ``f``.

    ``obj``: mappings, lists and tuples of tensors, NumPy arrays, numbers, strings, dtypes and None. Of a
    tensor the values are kept, not its history. Errors: TypeError, with the place, for anything else.
    """
    path = _path(f)
    tensors: dict[str, np.ndarray] = {}
    tree = json.dumps(_Writer(tensors).node(obj, ()), allow_nan=False, separators=(",", ":"))
    _write(tensors, path, {_TREE: tree, _CHECK: _check(tree, tensors)})


def load(f: str | os.PathLike[str], map_location: Any = None, *, weights_only: bool = True) -> Any:
    """What ``save`` wrote; for a safetensors file from elsewhere, the dict of its tensors.

    Mappings come back as dicts. Loading runs no code from the file. ``map_location`` may be None or "cpu".
    Errors: FileNotFoundError; ValueError for a damaged or foreign file.
    """
    if map_location is not None and str(map_location) != "cpu":
        raise ValueError(f"map_location={map_location!r} is not supported: tensors live on the CPU")
    if not weights_only:
        raise ValueError("weights_only=False is not supported: files hold data only, never pickled objects")
    path = _path(f)
    arrays, metadata = _read(path)
    if _TREE not in metadata and _CHECK not in metadata:
        return {name: from_numpy(array) for name, array in arrays.items()}
    try:
        tree, check = metadata[_TREE], metadata[_CHECK]
        if check != _check(tree, arrays):
            raise ValueError("its checksum does not fit its content, or it was written by a later version")
        return _value(json.loads(tree), arrays)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise ValueError(f"{path} is damaged: {err}") from err


def load_compiled(path: str | os.PathLike[str]) -> LoadedProgram:
    """A function that :meth:`tapegrad.native.Compiled.save` wrote, to be called with tensors like those it was made for.

    The file holds data only, no code. Errors: FileNotFoundError; ValueError for a damaged or foreign file, and for one
    that was made for another CPU or version.
    """
    return export.load(path, Tensor)


def save_file(
    tensors: Mapping[Any, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a flat dict of tensors as a plain safetensors file, atomically; safetensors' own signature."""
    arrays = {}
    for name, value in tensors.items():
        if not isinstance(name, str) or not isinstance(value, (Tensor, np.ndarray)):
            raise TypeError(
                f"save_file takes a dict of names to tensors, got {name!r}: {type(value).__name__}; "
                "save(obj, path) takes nested objects"
            )
        arrays[name] = _array(value, name)
    _write(arrays, _path(filename), dict(metadata or {}))


def load_file(filename: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name. Errors: FileNotFoundError; ValueError for a damaged file."""
    arrays, _ = _read(_path(filename))
    return {name: from_numpy(array) for name, array in arrays.items()}


class _Writer:
    """Turns an object into JSON nodes, and collects its arrays under dotted names.

    Numbers, strings, None and lists are themselves in JSON. All else is an object with one key, which
    says what it is: dict, tuple, tensor, array, float (inf and nan), dtype.
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays
        self.open: set[int] = (
            set()
        )  # ids of the containers that are being written: one inside itself has no end

    def node(self, value: Any, place: tuple[Any, ...]) -> Any:
        """The JSON node for the value at this place of the whole."""
        if isinstance(value, Tensor):
            return {"tensor": self.keep(value, place)}
        if isinstance(value, np.ndarray):
            return {"array": self.keep(value, place)}
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, dtypes.dtype):
            return {"dtype": value.name}
        if isinstance(value, (Mapping, list, tuple)):
            return self.container(value, place)
        raise TypeError(
            f"cannot save {_where(place)}: {type(value).__name__} is not a tensor, array, number, string, "
            "None, mapping, list or tuple; save its state instead (often state_dict())"
        )

    def container(self, value: Any, place: tuple[Any, ...]) -> Any:
        """The node for a mapping, list or tuple."""
        if id(value) in self.open:
            raise ValueError(f"cannot save {_where(place)}: it contains itself")
        self.open.add(id(value))
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, (str, int)):
                    raise TypeError(
                        f"cannot save {_where(place)}: its key {key!r} is neither a string nor an integer"
                    )
            node: Any = {"dict": [[key, self.node(item, (*place, key))] for key, item in value.items()]}
        else:
            items = [self.node(item, (*place, i)) for i, item in enumerate(value)]
            node = items if isinstance(value, list) else {"tuple": items}
        self.open.discard(id(value))
        return node

    def keep(self, value: Tensor | np.ndarray, place: tuple[Any, ...]) -> str:
        """Put the array aside; its name is its place, so that a flat state dict keeps its names."""
        name = wanted = ".".join(map(str, place)) or "tensor"
        count = 1
        while name in self.arrays:
            count += 1
            name = f"{wanted}#{count}"
        self.arrays[name] = _array(value, _where(place))
        return name


def _value(node: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The object that a node stands for."""
    if isinstance(node, list):
        return [_value(item, arrays) for item in node]
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    if kind == "tensor":
        return from_numpy(arrays[content])
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {key: _value(item, arrays) for key, item in content}
    if kind == "tuple":
        return tuple(_value(item, arrays) for item in content)
    if kind == "float":
        return float(content)
    if kind == "dtype":
        return dtypes.as_dtype(np.dtype(content))
    raise ValueError(f"it holds a {kind!r}, which this version does not know")


def _where(place: tuple[Any, ...]) -> str:
    return "the object" + "".join(f"[{key!r}]" for key in place)


def _array(value: Tensor | np.ndarray, name: str) -> np.ndarray:
    array = value.detach().numpy() if isinstance(value, Tensor) else value
    kind = dtypes.native(array.dtype)
    if kind.num not in dtypes.BY_NUM:
        raise TypeError(f"cannot save {name}: its dtype {array.dtype} is none of tapegrad's")
    return np.asarray(array, dtype=kind, order="C")


def _check(tree: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Version of the format, and a checksum over everything in the file."""
    crc = zlib.crc32(tree.encode())
    for name in sorted(arrays):
        array = arrays[name]
        crc = zlib.crc32(f"\0{name}\0{array.dtype.name}\0{array.shape}".encode(), crc)
        crc = zlib.crc32(array.reshape(-1).view(np.uint8).data, crc)
    return f"v{_VERSION} crc32 {crc:08x}"


def _path(f: Any) -> pathlib.Path:
    if not isinstance(f, (str, os.PathLike)):
        raise TypeError(f"a path (str or os.PathLike) is needed, got {type(f).__name__}")
    return pathlib.Path(f)


def _safetensors() -> Any:
    # At first use: a program that neither saves nor loads does not need the package.
    try:
        return importlib.import_module("safetensors.numpy"), importlib.import_module("safetensors")
    except ModuleNotFoundError as err:
        raise ModuleNotFoundError(_INSTALL, name=err.name) from err


def _write(arrays: Mapping[str, np.ndarray], path: pathlib.Path, metadata: dict[str, str]) -> None:
    writer, _ = _safetensors()
    path = path.resolve()  # a link stays one: what it leads to is replaced
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save to {path}: the folder {path.parent} does not exist")
    temporary = path.with_name(f".{path.name}.{_HERE}.{os.getpid()}.{secrets.token_hex(6)}.tmp")
    _sweep(path)
    try:
        temporary.touch(exist_ok=False)
        # safetensors makes files that only their owner may read.
        mode = (path if path.exists() else temporary).stat().st_mode
        writer.save_file(dict(arrays), temporary, metadata=metadata or None)
        temporary.chmod(mode)
        _flush(temporary, os.O_RDWR)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        _flush(path.parent, os.O_RDONLY)


def _sweep(path: pathlib.Path) -> None:
    """Remove what processes of this machine left behind when they were killed while writing this file."""
    if os.name != "posix":  # there is no harmless way to ask for a process elsewhere
        return
    for left in path.parent.glob(f".{glob.escape(path.name)}.{glob.escape(_HERE)}.*.*.tmp"):
        pid = left.name.split(".")[-3]
        if pid.isdecimal() and not _alive(int(pid)):
            left.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def _flush(path: pathlib.Path, flags: int) -> None:
    """Wait until the disk has it."""
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: pathlib.Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    _, safetensors = _safetensors()
    _refuse_pickles(path)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            names = list(file.keys())
            foreign = {name: file.get_slice(name).get_dtype() for name in names}
            foreign = {name: dtype for name, dtype in foreign.items() if dtype not in _DTYPES}
            arrays = {} if foreign else {name: file.get_tensor(name) for name in names}
            metadata: dict[str, str] = file.metadata() or {}
    except (
        safetensors.SafetensorError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
    ) as err:
        raise ValueError(f"{path} is no safetensors file, or is damaged: {err}") from err
    for name, dtype in foreign.items():
        raise ValueError(
            f"{path}: {name!r} has the dtype {dtype}, which tapegrad does not have; convert it before it is saved, "
            "to float32 say"
        )
    return arrays, metadata


def _refuse_pickles(path: pathlib.Path) -> None:
    with path.open("rb") as file:
        start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    if start[8:] == b"{" and length <= path.stat().st_size - 8:
        return  # a safetensors file: the length of its header, then JSON
    if start.startswith(_PICKLE) or (start.startswith(_ZIP) and b"data.pkl" in path.read_bytes()):
        raise ValueError(
            f"{path} is a pickle made by torch.save, which is never loaded here; "
            "in PyTorch, write it with safetensors.torch.save_file"
        )
