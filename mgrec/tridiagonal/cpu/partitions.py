"""How a chunk is cut into partitions, and the memory for their interface rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from ...engines.cpu.compilation import INNER
from .numbers import BYTES

# Rows of a partition at most: the cells take 10 words for so many, and its pivots, 48 KB of
# real numbers, the L1 cache. An unknown took 13.1 ns with 64, 12.1 with 128, 11.3 with 192.
LENGTH = 192
# What a table of places has lines for, after dl, d, du and b: where the partition's cell is and
# its first unknown, and 1 where it holds the first row of the whole system, or the last.
CELL, RESULT, FIRST, LAST, LINES = 4, 5, 6, 7, 8


class Partitions(NamedTuple):
    """Partitions `first` to `stop` of every system, which have one length.

    Attributes
    ----------
    first, stop, length : int
    apart : int
        Rows from one to the next.
    """

    first: int
    stop: int
    length: int
    apart: int


def part_count(steps: int) -> int:
    """Partitions of a chunk."""
    return -(-steps // LENGTH)


def partitions_of(steps: int) -> list[Partitions]:
    """The partitions of a chunk: all of one length but the last, which may be shorter."""
    count = part_count(steps)
    length = -(-steps // max(count, 1))
    last = steps - (count - 1) * length
    if last == length:
        return [Partitions(0, count, length, length)]
    return [Partitions(0, count - 1, length, length), Partitions(count - 1, count, last, length)]


class Layout(NamedTuple):
    """How a chunk lies in memory, for kernels.

    Attributes
    ----------
    shape : (int, int, int)
        (outer, steps, inner).
    strides : array (4, 3) of int64
        Of each operand, in numbers; 0 along an axis that it is the same on.
    ends : (bool, bool)
        Whether the chunk holds the first row of the system, and the last.
    parts : int
        Partitions of a system.
    """

    shape: tuple[int, int, int]
    strides: np.ndarray
    ends: tuple[bool, bool]
    parts: int


def cells_of(systems: int, parts: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Memory for the interface rows of all parts, flat, and for the values at their cuts.

    Cell k of parts + 1 is for part k and the cut before it.
    """
    return np.empty(systems * (parts + 1) * 10, dtype)


def lanes_of(dtype: np.dtype[Any]) -> int:
    """How many partitions go side by side."""
    return BYTES // dtype.itemsize


class Scratch(NamedTuple):
    """What a call of a kernel writes for itself.

    Attributes
    ----------
    places : array (LINES, lanes) of int64
    zero_one : array (2,)
        0 and 1, to be read at the places FIRST and LAST.
    pivots : array, 1-d
        Four numbers a row of a partition and lane.
    """

    places: np.ndarray
    zero_one: np.ndarray
    pivots: np.ndarray


def scratch_for(dtype: np.dtype[Any]) -> Scratch:
    lanes = lanes_of(dtype)
    pivots = np.empty(4 * LENGTH * lanes, dtype)
    return Scratch(np.empty((LINES, lanes), np.int64), np.array([0, 1], dtype), pivots)


@numba.njit(**INNER)
def fill_places(task: int, end: int, group: Any, layout: Any, places: Any) -> None:
    """The places of the partitions number `task` and following of a group.

    Beyond `end` the last one is done again.
    """
    _, steps, inner = layout.shape
    count = group.stop - group.first
    for lane in range(places.shape[1]):
        number = min(task + lane, end - 1)
        number, column = divmod(number, inner)
        outer, part = divmod(number, count)
        part += group.first
        row = part * group.apart
        for k in range(4):
            along = outer * layout.strides[k, 0] + row * layout.strides[k, 1]
            places[k, lane] = along + column * layout.strides[k, 2]
        places[CELL, lane] = ((outer * inner + column) * (layout.parts + 1) + part) * 10
        places[RESULT, lane] = (outer * steps + row) * inner + column
        places[FIRST, lane] = layout.ends[0] and part == 0
        places[LAST, lane] = layout.ends[1] and part == layout.parts - 1
