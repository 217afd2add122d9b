"""Compiled functions in files: a program as data, without code and without pickle.

A file is a zip archive of ``program.json`` and one ``.npy`` per array that the program uses where it lies (parameters,
constants). Kernels are named, not stored: loops by their op and its operands, reductions and others by their
place in the library. So a file cannot bring code of its own, and a program runs on any CPU whose vectors are as
wide as those it was made for. The sources of the kernels are added to be read, and never run.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import pkgutil
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache as once
from typing import Any

import numpy as np

from .. import kernels
from ..elementwise import Elementwise
from ..kernels.recording import Live, RecordingError
from ..op import registry
from ..tape import Value
from .passes.bands import bands
from .passes.fuse import fused_loop
from .program import Program
from .report import sources_of
from .steps import ARGUMENT, RESULT, STATE, Call, Host, Map, Memory, Ref, Step, flat
from .trees import SLOT, flatten, unflatten

FORMAT = "tapegrad program 1"


class LoadedProgram:
    """A function from a file: call it with tensors like those that it was made for."""

    def __init__(self, program: Program, description: dict[str, Any], cls: type[Any]) -> None:
        self.program = program
        self._arguments = [(tuple(shape), char) for shape, char in description["arguments"]]
        self._structure, self._results = (
            _structure(description["structure"]),
            _structure(description["results"]),
        )
        self._outputs = description["outputs"]
        self._cls = cls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Value] = []
        structure = flatten((args, kwargs), tensors)
        form = [(t._array.shape, t._array.dtype.char) for t in tensors]
        if structure != self._structure or form != self._arguments:
            wanted = ", ".join(f"{np.dtype(c).name}{list(s)}" for s, c in self._arguments)
            raise TypeError(
                f"this program takes tensors {wanted} in the structure {self._structure!r}, not {structure!r} of {form}"
            )
        bound = [np.ascontiguousarray(t._array).reshape(t._array.shape) for t in tensors]
        results = [np.empty(m.root.shape, m.root.dtype) for m in self.program.results]
        self.program.run([*bound, *results])
        made = []
        for how, what in self._outputs:
            if how == "argument":
                made.append(tensors[what])
            else:
                ref = what if isinstance(what, Ref) else None
                assert ref is not None
                array = self.program.view(ref, None, [*bound, *results])
                made.append(self._cls._make(array.copy() if ref.memory.kind == STATE else array))
        return unflatten(self._results, iter(made))


# -- writing ----------------------------------------------------------------------------------------------


def save(recording: Any, path: str | os.PathLike[str], structure: Any) -> None:
    """Write the program of a recording; RecordingError for one that does more than compute results from arguments."""
    program = recording.program
    _refuse_effects(recording)
    writer = _Writer()
    if any(len(g) > 1 or g[0][1] for g in recording.recorder.groups):
        raise RecordingError("a program whose arguments share memory cannot be saved")
    order = [g[0][0] for g in recording.recorder.groups]
    if order != sorted(order):
        writer.renumber = {j: n for n, j in enumerate(order)}
    steps = [writer.step(step) for step in flat(program.steps)]
    arguments = sorted(((order[m.number], m) for m in recording.arguments), key=lambda pair: pair[0])
    description = {
        "format": FORMAT,
        "vector": kernels.tile.lanes(1),
        "steps": steps,
        "arguments": [[list(m.root.shape), m.root.dtype.char] for _, m in arguments],
        "results": _described(recording.structure),
        "structure": _described(structure),
        "outputs": [writer.output(o, order) for o in _each(recording.outputs)],
        "memories": writer.memories(program.results, order),
    }
    description["check"] = _check(description, writer.arrays)
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("program.json", json.dumps(description))
            for number, array in writer.arrays.items():
                with io.BytesIO() as data:
                    np.lib.format.write_array(data, array, allow_pickle=False)
                    file.writestr(f"{number}.npy", data.getvalue())
            for label, source in sources_of(program).items():
                file.writestr(f"sources/{label}.py", source)
        _write(path, buffer.getvalue())


def _each(outputs: list[tuple[str, Any, Any]]) -> list[tuple[str, Any, Any]]:
    """Outputs without references to earlier ones."""
    return [outputs[what] if how == "again" else (how, what, cls) for how, what, cls in outputs]


def _check(description: dict[str, Any], arrays: dict[int, np.ndarray]) -> str:
    """A checksum, against damage. It is no signature: a program is as trustworthy as where it comes from."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for number, array in sorted(arrays.items()):
        digest.update(f"{number}{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _write(path: str | os.PathLike[str], data: bytes) -> None:
    """All of it or nothing, also if the process is killed."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _refuse_effects(recording: Any) -> None:
    hosts = sorted({s.name for s in recording.program.steps if isinstance(s, Host)})
    if hosts:
        raise RecordingError(f"a program that calls Python ({', '.join(hosts)}) cannot be saved")
    written = any(r.memory.kind == STATE for s in recording.program.steps for r in s.writes())
    if written or recording.grads or recording.cleared or recording.before or recording.after:
        raise RecordingError(
            "only programs that compute results from arguments can be saved, not training steps"
        )
    if recording.checks:
        raise RecordingError("a program that checks values (class or row numbers) cannot be saved")


class _Writer:
    """Steps as JSON, and the arrays they need."""

    def __init__(self) -> None:
        self.arrays: dict[int, np.ndarray] = {}
        self.used: dict[int, Memory] = {}
        self.renumber: dict[int, int] = {}

    def step(self, step: Step) -> dict[str, Any]:
        if isinstance(step, Map):
            return {
                "map": _loop_name(step.loop),
                "compute": step.compute,
                "ins": [self.ref(r) for r in step.ins],
                "outs": [self.ref(r) for r in step.outs],
                "numbers": list(step.numbers),
                "alias": list(step.alias),
            }
        assert isinstance(step, Call)
        written = {id(r) for r in step.written}
        args = []
        for a in step.args:
            if type(a) is Live:
                raise RecordingError("a program that draws random numbers cannot be saved")
            args.append({"ref": self.ref(a), "written": id(a) in written} if isinstance(a, Ref) else a)
        return {
            "call": _kernel_name(step.kernel),
            "chars": list(step.chars),
            "args": args,
            "range": [step.start, step.count, step.work],
        }

    def ref(self, ref: Ref) -> list[Any]:
        memory = ref.memory
        self.used[memory.index] = memory
        if memory.kind == STATE:
            self.arrays[memory.index] = memory.root
        return [memory.index, ref.first, list(ref.shape), list(ref.strides), ref.char]

    def output(self, output: tuple[str, Any, Any], order: list[int]) -> list[Any]:
        how, what, _ = output
        if how == "argument":
            return ["argument", what]
        if how == "made":
            return ["made", self.ref(what)]
        array = what._array if isinstance(what, Value) else what[0] if how == "alias" else what
        number = -1 - len(self.arrays)
        self.arrays[number] = array.copy()
        return ["constant", number]

    def memories(self, results: Sequence[Memory], order: list[int]) -> list[Any]:
        described = []
        for memory in {**self.used, **{m.index: m for m in results}}.values():
            number = (
                self.renumber.get(order[memory.number], order[memory.number])
                if memory.kind == ARGUMENT
                else memory.number
            )
            root = memory.root
            described.append(
                [memory.index, memory.kind, number, memory.size, list(root.shape), root.dtype.char]
            )
        return described


def _loop_name(loop: Any) -> Any:
    """What the library calls a loop: its op and operands, or the loops that it was fused from."""
    origin = loop.origin
    if origin is None:
        raise RecordingError(
            f"the loop {loop.name} comes from a formula of the program's own, which cannot be saved"
        )
    kind, *rest = origin
    if kind == "fused":
        lines, inputs, numbers, outs = rest
        named = [
            [_loop_name(line[0]), *[list(x) if isinstance(x, tuple) else x for x in line[1:]]]
            for line in lines
        ]
        return ["fused", named, inputs, numbers, list(outs)]
    return [kind, *[list(x) if isinstance(x, tuple) else x for x in rest]]


def _kernel_name(kernel: Any) -> Any:
    if kernel.origin is not None:
        return ["reduction", *kernel.origin]
    if kernel.label not in _library():
        raise RecordingError(f"the kernel {kernel.label} is none of the library's own, so it cannot be saved")
    return ["kernel", kernel.label]


def _described(structure: Any) -> Any:
    """A structure as JSON."""
    if structure is SLOT:
        return {"tensor": 0}
    if type(structure) is tuple:
        kind, *items = structure
        if kind not in (tuple, list, dict):
            raise RecordingError(
                f"arguments and results of a saved program are tuples, lists and dicts, not {kind.__name__}"
            )
        if kind is dict:
            return {"dict": list(items[0]), "items": [_described(x) for x in items[1:]]}
        return {kind.__name__: [_described(x) for x in items]}
    if structure is None or isinstance(structure, (str, int, float, bool)):
        return {"value": structure}
    raise RecordingError(
        f"arguments and results of a saved program are tensors, numbers and strings, not {structure!r}"
    )


def _structure(described: Any) -> Any:
    """The inverse of _described."""
    if "tensor" in described:
        return SLOT
    if "value" in described:
        return described["value"]
    if "dict" in described:
        return (dict, tuple(described["dict"]), *[_structure(x) for x in described["items"]])
    kind, items = next(iter(described.items()))
    return ({"tuple": tuple, "list": list}[kind], *[_structure(x) for x in items])


# -- reading ----------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], cls: type[Any]) -> LoadedProgram:
    """Read a program; ValueError for a file that is none, is damaged, or does not fit this machine or version."""
    try:
        with zipfile.ZipFile(path) as file:
            description = json.loads(file.read("program.json"))
            if description.get("format") != FORMAT:
                raise ValueError(
                    f"{os.fspath(path)}: its format is {description.get('format')!r}, this version reads {FORMAT!r}"
                )
            if description["vector"] != kernels.tile.lanes(1):
                raise ValueError(
                    f"{os.fspath(path)}: made for vectors of {description['vector']} bytes, this CPU has "
                    f"{kernels.tile.lanes(1)}; compile and save the function here"
                )
            arrays: dict[int, np.ndarray] = {}
            for name in file.namelist():
                if name.endswith(".npy"):
                    with file.open(name) as data:
                        arrays[int(name[:-4])] = np.lib.format.read_array(
                            io.BytesIO(data.read()), allow_pickle=False
                        )
        if description.pop("check") != _check(description, arrays):
            raise ValueError(f"{os.fspath(path)} is damaged: its checksum does not fit its content")
        return _built(description, arrays, cls)
    except (
        zipfile.BadZipFile,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        json.JSONDecodeError,
        EOFError,
    ) as err:
        raise ValueError(
            f"{os.fspath(path)} is no saved program, or is damaged: {type(err).__name__}: {err}"
        ) from err


def _built(description: dict[str, Any], arrays: dict[int, np.ndarray], cls: type[Any]) -> LoadedProgram:
    memories: dict[int, Memory] = {}
    count = len(description["arguments"])
    for index, kind, number, size, shape, char in description["memories"]:
        root = arrays[index] if kind == STATE else np.empty(shape, char)
        if root.nbytes != size and kind != ARGUMENT:
            raise ValueError(f"the memory {index} has {root.nbytes} bytes, not {size}: the file is damaged")
        address = root.__array_interface__["data"][0]
        memory = memories[index] = Memory(root, address, root.nbytes, len(memories))
        memory.kind, memory.number = kind, number
    steps = bands([_step(s, memories) for s in description["steps"]])
    results = sorted((m for m in memories.values() if m.kind == RESULT), key=lambda m: m.number)
    program = Program(steps, list(memories.values()), count, results)
    outputs = []
    for how, what in description["outputs"]:
        if how == "constant":
            root = arrays[what]
            memory = Memory(root, root.__array_interface__["data"][0], root.nbytes, -1)
            memory.kind = STATE
            program.constants.append(root)
            what = Ref(root, memory, 0)
        elif how == "made":
            what = _ref(what, memories)
        outputs.append((how, what))
    return LoadedProgram(program, {**description, "outputs": outputs}, cls)


def _ref(described: list[Any], memories: dict[int, Memory]) -> Ref:
    index, first, shape, strides, char = described
    memory = memories[index]
    dtype = np.dtype(char)
    low = high = first
    for n, s in zip(shape, strides, strict=True):
        low, high = (low + (n - 1) * s, high) if s < 0 else (low, high + (n - 1) * s)
    if 0 not in shape and not 0 <= low <= high + dtype.itemsize <= memory.size:
        raise ValueError(f"a reference lies outside of its memory {index}: the file is damaged")
    array = np.ndarray(
        tuple(shape),
        dtype,
        memory.root.reshape(-1).view(np.uint8),
        first if memory.size else 0,
        tuple(strides),
    )
    return Ref(array, memory, first)


def _step(described: dict[str, Any], memories: dict[int, Memory]) -> Step:
    if "map" in described:
        ins, outs = (tuple(_ref(r, memories) for r in described[k]) for k in ("ins", "outs"))
        loop = _loop(described["map"])
        if (
            len(ins) != len(loop.arrays)
            or len(outs) != len(loop.outputs)
            or len(described["numbers"]) != len(loop.numbers)
        ):
            raise ValueError(f"the operands of the loop {loop.name} do not fit: the file is damaged")
        return Map(
            loop, described["compute"], ins, outs, tuple(described["numbers"]), tuple(described["alias"])
        )
    kernel = _kernel(described["call"])
    args, access = [], []
    for a in described["args"]:
        args.append(_ref(a["ref"], memories) if isinstance(a, dict) else a)
        access.append((True, bool(a["written"])) if isinstance(a, dict) else (False, False))
    start, count, work = described["range"]
    chars = tuple(described["chars"])
    if len(chars) != len(args) + 2 or len(chars) != kernel.fn.__code__.co_argcount:
        raise ValueError(f"the arguments of the kernel {kernel.label} do not fit: the file is damaged")
    return Call(kernel, chars, tuple(args), start, count, work, tuple(access))


def _loop(name: list[Any]) -> Any:
    kind, *rest = name
    if kind == "fused":
        lines, inputs, numbers, outs = rest
        made = [(_loop(line[0]), line[1], tuple(line[2]), line[3], tuple(line[4])) for line in lines]
        return fused_loop(tuple(made), inputs, numbers, tuple(outs))
    if kind == "copy":
        return getattr(kernels.loop, rest[0])
    op = registry[rest[0]]
    if not isinstance(op, Elementwise):
        raise TypeError(f"{rest[0]} is no elementwise op")
    variant = op.variant(rest[1])
    return variant.forward() if kind == "forward" else variant.vjp(tuple(rest[2])).prepare().loop


def _kernel(name: list[Any]) -> Any:
    kind, *rest = name
    if kind == "kernel":
        return _library()[rest[0]]
    which, shape, compute, chars = rest
    return getattr(kernels.reduce, which).kernel(shape, compute, chars)[0]


@once
def _library() -> dict[str, Any]:
    """All kernels of the library by their labels."""
    for module in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"{kernels.__name__}.{module.name}")
    return dict(kernels.jit.library)
