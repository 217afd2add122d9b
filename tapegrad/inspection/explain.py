"""``tg.explain(tensor)``: in words, why it has a gradient or none, where its graph is, and what it keeps in memory."""

from __future__ import annotations

import sys
from typing import Any

from .. import tape
from ..modes import modes
from ..reasons import why_constant
from ..tape import LEAF, Entry, Value, describe_site
from .names import Names, variables_of, visible
from .rows import kind, saved_bytes

MOST_USERS = 3
MOST_HOLDERS = 4


class Explanation(str):
    """Text that shows itself as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def explain(tensor: Any) -> Explanation:
    """What is to be known about a tensor's place on the tape: why it has no gradient, why its graph is gone, what keeps memory.

    TypeError for what is no tensor. Looks through the objects of the process, so it takes milliseconds.
    """
    if not isinstance(tensor, Value):
        raise TypeError(f"explain() is about tensors, not {type(tensor).__name__}")
    frame = sys._getframe(1)
    name = next((n for n, v in visible(frame).items() if v is tensor and not n.startswith("_")), "")
    what = kind(tensor._array.shape, tensor._array.dtype)
    node = tensor._source()
    if node is None:
        lines = _constant(tensor)
    elif node is LEAF:
        lines = _leaf(tensor)
    else:
        names = Names(tape.reachable([node]), visible(frame))
        lines = _result(tensor, node, name or "it", names, holders(tensor, frame))
    head = f"{name or 'This tensor'}: {what}"
    return Explanation("\n".join([head, *(f"  {line}" for line in lines)]))


def _constant(tensor: Value) -> list[str]:
    lines = ["It does not require grad: " + why_constant(tensor) + "."]
    if not modes.grad:
        lines.append("Grad mode is off here, so nothing that is computed now is recorded.")
    lines.append("It never gets a gradient, and nothing is kept for it.")
    return lines


# -- leaves -----------------------------------------------------------------------------------------


def _leaf(tensor: Value) -> list[str]:
    lines = ["It is a leaf that requires grad: backward() adds to its .grad."]
    users = [e for e in tape.live_entries() if any(edge is tensor for edge in e.edges)]
    if tensor._grad is not None:
        changes = tensor._grad._version[0]
        times = f"; it was added to {changes} more time(s) since it was made" if changes else ""
        lines.append(
            f"It has a gradient{times}. zero_grad(), or .grad = None, clears it; otherwise the next backward adds to it."
        )
    elif not users:
        lines.append(
            "Its .grad is None: no living entry uses it. Either nothing was computed from it with grad mode on, or those results "
            "are gone, or zero_grad() was called since the last backward."
        )
    elif any(e.truncated for e in users):
        lines.append(
            "Its .grad is None although a backward went through entries that use it: zero_grad() was called since, or that "
            "backward was given inputs= without it, or it was autograd.grad, which returns gradients instead of keeping them."
        )
    else:
        lines.append("Its .grad is None: it was used, but no backward() has reached it yet.")
    lines += _users(users)
    if not modes.grad:
        lines.append("Grad mode is off here: what is computed from it now is not recorded.")
    return lines


def _users(users: list[Entry]) -> list[str]:
    if not users:
        return []
    shown = [f"  #{e.position} {e.op.name}{_state(e)} at {e.site}" for e in users[:MOST_USERS]]
    more = [f"  and {len(users) - MOST_USERS} more"] if len(users) > MOST_USERS else []
    return [f"Used by {len(users)} living {'entry' if len(users) == 1 else 'entries'}:", *shown, *more]


def _state(entry: Entry) -> str:
    return " (released)" if entry.truncated else " (retained)" if entry.retained else ""


# -- results ----------------------------------------------------------------------------------------


def _result(tensor: Value, node: Entry, name: str, names: Names, held_by: list[str]) -> list[str]:
    lines = [f"It is the result of {node.op.name} (entry #{node.position}), recorded at {node.site}."]
    extra = tensor._extra
    if extra is not None and extra.retains:
        lines.append(
            "retain_grad() was called: "
            + (
                "its .grad is there."
                if tensor._grad is not None
                else "its .grad comes with the next backward."
            )
        )
    else:
        lines.append(
            f"It is not a leaf, so its .grad stays None: its gradient is computed, passed on and dropped. Call {name}.retain_grad() "
            "before backward() to keep it, or register_hook() to see it."
        )
    entries = tape.reachable([node])
    lines += _graph(entries)
    lines += _leaves(entries, names)
    nbytes = saved_bytes(entries)
    lines.append(
        f"Its graph has {len(entries):,} {'entry that keeps' if len(entries) == 1 else 'entries that keep'} {nbytes:,} bytes."
    )
    if held_by:
        shown = ", ".join(held_by[:MOST_HOLDERS])
        lines.append(f"Held by {shown}" + (": as long as that is there, so is the graph." if nbytes else "."))
    return lines


def _graph(entries: list[Entry]) -> list[str]:
    released = [e for e in entries if e.truncated]
    retained = [e for e in entries if e.retained]
    if released:
        first = released[-1]
        partly = " in part" if saved_bytes(entries) else ""
        return [
            (
                f"Its graph was released{partly} by the backward at {describe_site(first.saved.where)}; another backward through it is an error. "
                "Give that call retain_graph=True, or compute the value anew."
            )
        ]
    if retained:
        return [
            (
                f"A backward with retain_graph=True at {describe_site(retained[-1].held)} left the graph in place: it can be "
                "differentiated again, and its memory stays until the last tensor on it is gone."
            )
        ]
    return ["No backward has gone through its graph yet."]


def _leaves(entries: list[Entry], names: Names) -> list[str]:
    leaves = {id(e): e for entry in entries for e in entry.edges if isinstance(e, Value)}
    if not leaves:
        return ["It depends on no leaf that requires grad any more."]
    shown = [names.leaf(x) or kind(x._array.shape, x._array.dtype) for x in list(leaves.values())[:4]]
    more = f" and {len(leaves) - 4} more" if len(leaves) > 4 else ""
    return [
        f"backward() from here reaches {len(leaves)} {'leaf' if len(leaves) == 1 else 'leaves'}: {', '.join(shown)}{more}."
    ]


# -- what holds an object -----------------------------------------------------------------------------


def holders(value: Any, frame: Any) -> list[str]:
    """The variables, and the items of lists and dictionaries, that hold an object, as far as a frame and its callers see."""
    found: list[str] = []
    seen: set[int] = set()
    while frame is not None:
        for variables in (variables_of(frame), frame.f_globals):
            if variables is not frame.f_globals or id(variables) not in seen:
                seen.add(id(variables))
                for name, held in list(variables.items()):
                    if not name.startswith("_"):
                        found += _within(name, held, value)
        frame = frame.f_back
    return list(dict.fromkeys(found))


def _within(name: str, held: Any, value: Any) -> list[str]:
    if held is value:
        return [name]
    if type(held) in (list, tuple):
        return [f"{name}[{j}]" for j, item in enumerate(held) if item is value]
    if type(held) is dict:
        return [f"{name}[{key!r}]" for key, item in list(held.items()) if item is value]
    return []
