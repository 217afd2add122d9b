"""A hint to LLVM for the loop before it: one vector per round, instead of four side by side.

LLVM unrolls short loops over memory fourfold. For most of them it makes no difference. Where rows are read twice, and memory is
the limit, the loop over a row that comes from the cache delays the reads of the next one less if it is not unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import PLAIN


def _next(block: Any) -> Iterator[Any]:
    ends = block.terminator.operands if block.terminator else ()
    return (target for target in ends if isinstance(target, ir.Block))


def _latches(function: Any) -> list[tuple[int, Any]]:
    """The jumps back to the start of a loop: the place of that block, and the jump."""
    place = {block: j for j, block in enumerate(function.blocks)}
    found: list[tuple[int, Any]] = []
    left: dict[Any, bool] = {}  # by block: whether all that follows it was seen
    for root in function.blocks:
        if root in left:
            continue
        left[root] = False
        path = [(root, _next(root))]
        while path:
            block, targets = path[-1]
            for target in targets:
                if target not in left:
                    left[target] = False
                    path.append((target, _next(target)))
                    break
                if not left[target]:
                    found.append((place[target], block.terminator))
            else:
                left[block] = True
                path.pop()
    return found


class _LoopId(ir.MDValue):
    """What LLVM knows a loop by: a node that names itself and the hints."""

    def descr(self, buf: Any) -> None:
        hints = ", ".join(op.get_reference() for op in self.operands)
        buf += (f"distinct !{{ {self.get_reference()}, {hints} }}", "\n")


def _emit(context, builder, signature, args):
    module = builder.module
    _, latch = max(_latches(builder.function), key=lambda found: found[0])
    hint = module.add_metadata(
        [ir.MetaDataString(module, "llvm.loop.interleave.count"), ir.Constant(ir.IntType(32), 1)]
    )
    latch.set_metadata("llvm.loop", _LoopId(module, [hint], str(len(module.metadata))))
    return context.get_dummy_value()


if PLAIN:

    def one_by_one() -> None:
        """Nothing: plain Python has no vectors."""

else:

    @intrinsic
    def one_by_one(typing):
        """The innermost loop that ends here takes one vector per round."""
        return types.none(), _emit
