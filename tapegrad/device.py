"""The device of all tensors: the CPU. Others are refused by name."""

from __future__ import annotations

from typing import Any


class device:
    """``device("cpu")``; RuntimeError for any other kind."""

    __slots__ = ("index", "type")

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        if not isinstance(type, str):
            raise TypeError(f"a device is named by a string such as 'cpu', got {type!r}")
        kind, _, number = type.partition(":")
        if kind != "cpu" or (number and not number.isdigit()):
            raise RuntimeError(
                f"tapegrad computes on the CPU only: device {type!r} is not available, use 'cpu'"
            )
        self.type = kind
        self.index = int(number) if number else index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and other.type == self.type and other.index == self.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (f", index={self.index})" if self.index is not None else ")")

    def __reduce__(self) -> Any:
        return device, (str(self),)


cpu = device("cpu")


def check_device(wanted: Any) -> None:
    """RuntimeError unless ``wanted`` is None or the CPU."""
    if wanted is not None:
        device(wanted)
