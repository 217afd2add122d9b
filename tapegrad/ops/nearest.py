"""Errors for names that do not exist, with the nearest one that does."""

from __future__ import annotations

from collections.abc import Iterable


def text(message: str, name: str, known: Iterable[str]) -> str:
    """The message, and what may have been meant."""
    import difflib  # only when somebody mistyped

    near = difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], n=1, cutoff=0.6)
    return message + (f"; did you mean {near[0]!r}?" if near else "")
