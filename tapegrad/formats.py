"""Memory formats and layouts: PyTorch's names for how elements lie in memory."""

from __future__ import annotations

from typing import Any


class memory_format:
    """A named order of elements in memory."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"tapegrad.{self.name}"


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
strided = "strided"


def check_format(wanted: Any) -> None:
    """RuntimeError for a format other than rows one after the other."""
    if wanted not in (None, contiguous_format, preserve_format):
        raise RuntimeError(
            f"memory_format={wanted!r} is not supported: results are contiguous; use contiguous_format or preserve_format"
        )
