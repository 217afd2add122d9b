"""The kernel cache: machine code on disk, named by all that it depends on.

numba's own cache checks the source file of a function but not of the helpers it calls, and
cannot hold functions that were generated as text. Here a compiled function is one file,
``<folder>/<stamp>/<label>.bin``. The label names the function and its signature (and holds a hash
of the text if the function was generated); the stamp is a hash over the sources of all
kernels, the versions of Python, numba, llvmlite and NumPy, and the CPU.

A folder that cannot be written, or that holds damaged files, costs time and one warning, never an
error: the code is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import pickle
import sys
import tempfile
import warnings
from functools import cache as once

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba.core import serialize
from numba.core.compiler import CompileResult
from numba.core.externals import c_math_functions
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from .. import config

_SOURCES = pathlib.Path(__file__).parent
# What generated kernels depend on besides their own text.
GENERATED = ("jit.py", "launch.py", "reduction.py", "rows.py", "scalar*.py")


@once
def stamp(generated: bool) -> str:
    """Hash of everything that compiled code depends on besides its own label.

    A generated kernel holds its own text and calls nothing but the functions of scalar*.py; how the parts of a
    reduction are compiled is said in reduction.py. Any other kernel may call whatever the kernel modules define.
    """
    digest = hashlib.sha256()
    patterns = GENERATED if generated else ("*.py",)
    for path in sorted(p for pattern in patterns for p in _SOURCES.glob(pattern)):
        digest.update(path.name.encode() + path.read_bytes())
    for fact in (
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        sys.version,
        str(sys.flags.optimize),
        llvmlite.binding.get_host_cpu_name(),
        llvmlite.binding.get_host_cpu_features().flatten(),
        *(os.environ.get(f"NUMBA_{name}", "") for name in ("CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "OPT")),
    ):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:16]


@once
def folder(generated: bool) -> pathlib.Path | None:
    """The stamped folder, or None if it cannot be used, which is said once."""
    path = config.cache_dir / stamp(generated)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as err:
        _warn_unusable(err.strerror or str(err))
        return None
    return path


@once
def _warn_unusable(reason: str) -> None:
    warnings.warn(
        f"tapegrad's kernel cache {config.cache_dir} cannot be used ({reason}); kernels are "
        "compiled anew in each process. Set TAPEGRAD_CACHE_DIR to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


_damage: list[pathlib.Path] = []  # files that could not be used


def _warn_damaged(path: pathlib.Path, reason: str) -> None:
    _damage.append(path)
    if len(_damage) == 1:
        warnings.warn(
            f"tapegrad's kernel cache holds a damaged file, {path} ({reason}); it is made anew, and so are others "
            "without a further warning.",
            RuntimeWarning,
            stacklevel=2,
        )


def _file(label: str, generated: bool) -> pathlib.Path | None:
    base = folder(generated)
    if len(label) > 100:  # a user's function may have any name, a file may not
        label = f"{label[:40]}-{hashlib.sha256(label.encode()).hexdigest()[:40]}"
    return None if base is None else base / f"{label}.bin"


def load(label: str, generated: bool) -> CompileResult | None:
    """The compiled function of that label, or None if it is not (or no longer) there."""
    path = _file(label, generated)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as err:
        _warn_damaged(path, str(err))
        return None
    # Machine code is run as it is read, so damage has to be noticed before, not by its effect.
    digest, body = data[:32], data[32:]
    if hashlib.sha256(body).digest() != digest:
        _warn_damaged(path, "its checksum does not fit")
        return None
    if b"NRT_" in body:
        _start_runtime()
    return CompileResult._rebuild(cpu_target.target_context, *pickle.loads(body))


@once
def _start_runtime() -> None:
    """Make known the symbols of numba's runtime; compiling does it by itself.

    Parallel loops refer to them, and so do device functions that were not inlined. Unknown, they would be
    called at address 0.
    """
    rtsys.initialize(cpu_target.target_context)
    c_math_functions.install(cpu_target.target_context)


def save(label: str, generated: bool, made: CompileResult) -> None:
    """Keep a compiled function; quietly does nothing where the folder cannot take it."""
    path = _file(label, generated)
    if path is None or made.library.has_dynamic_globals:
        return
    body = serialize.dumps(made._reduce())
    with contextlib.suppress(OSError):
        # Written aside and renamed, so that another process never reads a part.
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).digest() + body)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
