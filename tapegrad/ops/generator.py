"""Generators of random numbers: a seed, and how far it has been used.

Numbers come from counters (see kernels/random.py): a draw takes a stretch of blocks and names them by
the seed and the first block. What a draw gave can be computed again from those.
"""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple

import numpy as np

from ..device import check_device, cpu
from ..kernels.recording import active, now, refuse
from ..op import Op
from ..tape import Value

_DEFAULT_SEED = 67280421310721
_STATE_BYTES = 16


class Draw(NamedTuple):
    """A stretch of blocks of random words that one operation used."""

    generator: Generator
    key0: int
    key1: int
    offset: int


class Generator:
    """A source of random numbers; its methods are safe to call from several threads.

    ``device`` must be the CPU. The state is the seed and a position, which each draw moves on.
    """

    __slots__ = ("__weakref__", "_lock", "_offset", "_seed", "device")

    def __init__(self, device: Any = "cpu") -> None:
        check_device(device)
        self.device = cpu
        self._lock = (
            threading.RLock()
        )  # a compiled step holds it while it runs, and may call Python that draws
        self._seed = _DEFAULT_SEED
        self._offset = 0

    def draw(self, blocks: int) -> Draw:
        """Take the next ``blocks`` blocks."""
        with self._lock:
            offset = self._offset
            self._offset = (offset + blocks) & 0x7FFF_FFFF_FFFF_FFFF
            seed = self._seed
        if active and (recorder := now()) is not None:
            return Draw(self, *recorder.draw(self, seed, offset, blocks))
        return Draw(self, seed & 0xFFFF_FFFF, seed >> 32, offset)

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from a seed in [-2**63, 2**64), and return the generator."""
        refuse("seeding a generator")
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"Overflow when unpacking long long: a seed lies in [-2**63, 2**64), got {seed}")
        with self._lock:
            self._seed = seed % 2**64
            self._offset = 0
        return self

    def seed(self) -> int:
        """Start anew from a seed that the operating system gives, and return it."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that the generator started from."""
        return self._seed

    def get_state(self) -> Any:
        """Seed and position as a tensor of bytes."""
        with self._lock:
            state = np.array([self._seed, self._offset], np.uint64)
        return Op.wrap_saved(state.view(np.uint8))

    def set_state(self, new_state: Any) -> None:
        """Go back to what get_state gave."""
        if not isinstance(new_state, Value):
            raise TypeError(f"expected a tapegrad.ByteTensor, but got {type(new_state).__name__}")
        array = new_state._array
        if array.dtype != np.uint8:
            raise TypeError("RNG state must be a tapegrad.ByteTensor (dtype uint8)")
        if array.shape != (_STATE_BYTES,):
            raise RuntimeError(
                f"Expected a generator state of {_STATE_BYTES} bytes but found one of shape "
                f"{list(array.shape)}"
            )
        seed, offset = np.ascontiguousarray(array).view(np.uint64).tolist()
        with self._lock:
            self._seed, self._offset = seed, offset & 0x7FFF_FFFF_FFFF_FFFF

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        made = Generator()
        with self._lock:
            made._seed, made._offset = self._seed, self._offset
        return made

    clone = clone_state

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        return self.clone_state()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._seed, self._offset)

    def __repr__(self) -> str:
        return f"<tapegrad.Generator seed={self._seed} offset={self._offset}>"


def _restored(seed: int, offset: int) -> Generator:
    made = Generator()
    made._seed, made._offset = seed, offset
    return made


default_generator = Generator()


def chosen(generator: Any) -> Generator:
    """The generator that was given, or the default one."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be a tapegrad.Generator, not {type(generator).__name__}")
    return generator
