"""Where in the user's code something happens: kept as a code object and an instruction, told as file, line and text.

Recording keeps what a frame has at hand; the line is looked up when somebody asks.
"""

from __future__ import annotations

import itertools
import linecache
import pathlib
import sys
from typing import Any

_PACKAGE = str(pathlib.Path(__file__).parent)
_EXAMPLES = str(pathlib.Path(__file__).parent / "examples")
_ours: dict[str, bool] = {}  # by file name: does it belong to the library?


def _is_ours(filename: str) -> bool:
    known = _ours.get(filename)
    if known is None:
        inside = filename.startswith(_PACKAGE) and not filename.startswith(_EXAMPLES)
        known = _ours[filename] = inside or filename.startswith("<tapegrad")
    return known


def _user_frame(frame: Any) -> Any:
    """The innermost frame outside the library (or the outermost, if all are inside)."""
    known = _ours.get
    while True:
        filename = frame.f_code.co_filename
        ours = known(filename)
        if ours is None:
            ours = _is_ours(filename)
        outer = frame.f_back if ours else None
        if outer is None:
            return frame
        frame = outer


def site() -> tuple[Any, int]:
    """The user's code object and instruction that is being executed."""
    frame = _user_frame(sys._getframe(1))
    return frame.f_code, frame.f_lasti


def site_line(where: tuple[Any, int]) -> tuple[str, int]:
    """File and line of a site."""
    code, lasti = where
    if code is None:
        return "(lines are not recorded: TAPEGRAD_LINES=0)", 0
    positions = next(itertools.islice(code.co_positions(), lasti // 2, None), (None,))
    return code.co_filename, positions[0] or code.co_firstlineno


def describe_site(where: tuple[Any, int]) -> str:
    """A site as "file.py:12: source line"."""
    filename, line = site_line(where)
    if not line:
        return filename
    text = linecache.getline(filename, line).strip()
    return f"{shown_file(filename)}:{line}" + (f": {text}" if text else "")


def shown_file(filename: str) -> str:
    """A file under the name that its reader knows: "Cell In[3]" for a notebook's cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", _no_shell)()
    named = None if shell is None else shell.compile.format_code_name(filename)
    return filename if named is None else " ".join(named)


def _no_shell() -> None:
    return None
