"""What the kernels of a chunk are given: arrays, and memory for interface rows and cuts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...engines.cuda.device import pack_words
from ..ends import Ends
from .line import Line, runs_of

_NONE = -1
STATUS = 2
"""Numbers of a status."""


@dataclass(frozen=True)
class Status:
    """What kernels are told of whole systems.

    Attributes
    ----------
    array : CuPy array of int64
        The first system that is singular, and the first that holds nan or inf; as unsigned, the
        largest number where there is none.
    """

    array: Any

    @classmethod
    def within(cls, space: Any) -> Status:
        """At the end of some bytes."""
        array = space[-8 * STATUS :].view(np.int64)
        array.fill(_NONE)
        return cls(array)

    def copy(self) -> Callable[[], tuple[int | None, ...]]:
        """Copy it to the host behind what is queued; the callable waits for it alone."""
        import cupy
        import cupyx

        stream = cupy.cuda.get_current_stream()
        seen = cupyx.empty_pinned(STATUS, np.int64)
        self.array.data.copy_to_host_async(seen.ctypes.data, seen.nbytes, stream)
        copied = stream.record()

        def status() -> tuple[int | None, ...]:
            copied.synchronize()
            return tuple(None if number == _NONE else int(number) for number in seen)

        return status


@dataclass(frozen=True)
class Memory:
    """Memory of the launches over one chunk.

    Attributes
    ----------
    line : Line
    space : CuPy array of uint8
        Cells and cuts of all levels.
    status : Status
    system : array of one struct
        Operands, their strides and sizes, as kernels take them by value.
    """

    line: Line
    space: Any
    status: Status
    system: np.ndarray

    @classmethod
    def reserve(
        cls, line: Line, ends: Ends, shapes: Sequence[tuple[int, int, int]],
        addresses: Sequence[int], result: int,
    ) -> Memory:  # fmt: skip
        """Memory for operands of these shapes, all at these addresses; 0 for no result."""
        import cupy

        space = cupy.empty(line.offsets[-1] + 8 * STATUS, np.uint8)
        words: list[int] = []
        for shape, address in zip(shapes, addresses, strict=True):
            words += [address, *strides_of(shape, line.shape)]
        levels = len(line.parts)
        base = space.data.ptr
        words += [result, base + line.offsets[0], base + line.offsets[levels]]
        words += [*line.shape, line.parts[0], ends.has_first, ends.has_last]
        return cls(line, space, Status.within(space), pack_words(words))

    @cached_property
    def given(self) -> tuple[Any, ...]:
        """What the slots of the launches stand for."""
        base = self.space.data.ptr
        return (
            self.system,
            self.status.array,
            *(np.uint64(base + k) for k in self.line.offsets[:-1]),
        )

    def run(self, name: str) -> None:
        """Launch what :func:`.line.runs_of` has under a name."""
        import cupy

        runs_of(self.line, cupy.cuda.runtime.getDevice())[name](self.given)

    def cells(self, level: int) -> Any:
        return self._part(level)

    def cuts(self, level: int) -> Any:
        return self._part(len(self.line.parts) + level)

    def _part(self, number: int) -> Any:
        left, right = self.line.offsets[number : number + 2]
        return self.space[left:right].view(self.line.layout.dtype)


def strides_of(own: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """Of a contiguous array, in numbers; 0 along an axis that it is the same on."""
    strides = own[1] * own[2], own[2], 1
    moves = (size == full for size, full in zip(own, shape, strict=True))
    return [stride if move else 0 for stride, move in zip(strides, moves, strict=True)]
