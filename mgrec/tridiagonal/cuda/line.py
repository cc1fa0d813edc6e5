"""The launches that solve a chunk's lines: partitions, and levels of interface rows above them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from ...engines.cuda.device import Device
from ...engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from .program import (
    MERGERS,
    PartitionLayout,
    group_of,
    interface_bytes,
    print_interface,
    print_partitions,
)

_SYSTEM = Slot(0)
_STATUS = Slot(1)
# Numbers of a cell, which has the two interface rows of a part, and of a cut between parts.
CELL, CUT = 10, 2


@dataclass(frozen=True)
class Line:
    """How the lines of chunks of one kind are cut up, and the launches over them.

    Attributes
    ----------
    shape : (int, int, int)
        (outer, steps, inner).
    layout : PartitionLayout
    """

    shape: tuple[int, int, int]
    layout: PartitionLayout

    @property
    def lines(self) -> int:
        return self.shape[0] * self.shape[2]

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Of a line on every level, the partitions first, one part last."""
        found = [-(-self.shape[1] // self.layout.rows)]
        while found[-1] > 1:
            found.append(-(-found[-1] // group_of(self.layout.dtype)))
        return tuple(found)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where in a launch's memory the cells of every level begin, then the cuts, and the end."""
        cells = [CELL * self.lines * parts for parts in self.parts]
        cuts = [CUT * self.lines * (parts + 1) for parts in self.parts]
        size = self.layout.dtype.itemsize
        return tuple(accumulate((size * count for count in cells + cuts), initial=0))

    def cells(self, level: int) -> Slot:
        """The place of a level's cells among what a launch is given, after system and status."""
        return Slot(2 + level)

    def cuts(self, level: int) -> Slot:
        return Slot(2 + len(self.parts) + level)

    def reduce(self, top: int) -> Iterator[Launch]:
        """The interface rows of all parts up to a level."""
        yield self._over_partitions("reduce")
        for level in range(top):
            arguments = (self.cells(level), self.cells(level + 1), *self._sizes(level))
            yield self._over_parts("merge", self.parts[level + 1], arguments)

    def solve(self, level: int) -> Launch:
        """All cuts of a level, where the lines are whole."""
        arguments = (self.cells(level), self.cuts(level), *self._sizes(level), _STATUS)
        return self._over_parts("solve", 1, arguments)

    def substitute(self, top: int) -> Iterator[Launch]:
        """The cuts of all levels below one whose cuts are known, and the unknowns."""
        for level in reversed(range(top)):
            arguments = (self.cells(level), self.cuts(level), self.cuts(level + 1))
            runs = self.parts[level + 1]
            yield self._over_parts("open", runs, (*arguments, *self._sizes(level)))
        yield self._over_partitions("substitute")

    @cached_property
    def top(self) -> int:
        """The level on which a line is one part."""
        return len(self.parts) - 1

    @cached_property
    def whole(self) -> int:
        """The level on which whole lines are solved."""
        return max(0, self.top - 1)

    def _sizes(self, level: int) -> tuple[np.int64, np.int64]:
        return np.int64(self.parts[level]), np.int64(self.lines)

    def _over_partitions(self, name: str) -> Launch:
        blocks = -(-self.lines * self.parts[0] // self.layout.threads)
        text, shared = print_partitions(self.layout), self.layout.shared_bytes
        return Launch(text, f"{name}_kernel", blocks, self.layout.threads, (_SYSTEM,), shared)

    def _over_parts(self, name: str, runs: int, arguments: tuple[Any, ...]) -> Launch:
        blocks = -(-self.lines * runs // MERGERS)
        text = print_interface(self.layout.dtype)
        shared = interface_bytes(self.layout.dtype)
        return Launch(text, f"{name}_kernel", blocks, MERGERS, arguments, shared)


@lru_cache(maxsize=1024)
def runs_of(line: Line, device: int) -> dict[str, RunLaunches]:
    """What is launched for whole lines and for chunks of lines, compiled for a device.

    ``reduce`` leaves the interface rows of a chunk; ``enter`` goes on where the cuts of the top
    level are known. ``solve`` leaves the cuts of whole lines, and ``finish`` goes on.
    """
    top, whole = line.top, line.whole
    return {
        "reduce": PreparedLaunches(*line.reduce(top)),
        "enter": PreparedLaunches(*line.substitute(top)),
        "solve": PreparedLaunches(*line.reduce(whole), line.solve(whole)),
        "finish": PreparedLaunches(*line.substitute(whole)),
    }


@lru_cache(maxsize=1024)
def line_of(
    shape: tuple[int, int, int], dtype: np.dtype[Any], is_aligned: bool, device: Device
) -> Line:
    """How chunks of one kind are cut up.

    Parameters
    ----------
    shape : (int, int, int)
    dtype : numpy.dtype
    is_aligned : bool
        Arrays that vary along the steps begin at multiples of 16 bytes.
    device : Device
    """
    outer, steps, inner = shape
    columns = inner > 1
    is_aligned &= not columns and (outer == 1 or steps * dtype.itemsize % 16 == 0)
    threads = 128 if dtype.itemsize == 4 else 32  # of these three, or six, fit a multiprocessor
    wide = PartitionLayout(dtype, threads, columns, is_aligned)
    if wide.shared_bytes > device.shared_bytes:
        wide = PartitionLayout(dtype, threads // 2, columns, is_aligned)
    return Line(shape, wide)
