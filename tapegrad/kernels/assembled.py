"""Machine code from LLVM instructions that are written down one by one, without numba."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

_engines: list[Any] = []  # what owns machine code must stay alive


def assembled(module: ir.Module) -> Any:
    """The engine that knows the addresses of a module's functions."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(str(module))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    _engines.append(engine)
    return engine
