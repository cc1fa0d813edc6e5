"""Tiles: some rows of as many systems as there are lanes, side by side in a buffer.

Systems may lie in memory one after the other or side by side, or have diagonals in common: what
is solved is always a tile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from ....engines.cpu.compilation import INNER
from ..memory import keep, pointer_to, read, recall, shifted, width_of, write
from ..numbers import constant
from ..partitions import lanes_of
from .transposition import fetch, line_at, line_to, same_at, turn_in, turn_out

# Rows of a tile at most: 80 KB of numbers with the unknowns; 2,000 systems of 4,095 took 3.1 ns an
# unknown of float64 with 32, 2.6 with 64, 2.3 with 128. Operands are a few rows more apart,
# since addresses 4 KB apart share the lines of a cache.
ROWS, APART_ROWS = 128, 133
# Two registers are solved at once, since a row waits for the one before: 0.7 ns an unknown
# in the elimination, so 0.4.
HALVES = 2
# Groups whose tiles are solved in turn at most, and bytes that are kept for all of them.
TOGETHER, TOGETHER_BYTES = 4, 1 << 25
# Numbers that are held from row to row, and kept of each row, a system.
HELD, KEPT = 5, 3
# Lines of a table of places: of dl, d, du, b and the result, for each half.
RESULT, LINES = 4, 5
# How the numbers of a row lie that go side by side: one after the other, only one for all, each
# in a line of its own that goes on with the next row, or in no such way.
BESIDE, SAME, ALONG, APART = range(4)


class Work(NamedTuple):
    """What one thread writes for itself, for each of several groups: flat arrays or pointers.

    Attributes
    ----------
    systems : HALVES * lanes of int64
        The systems that are solved side by side.
    places : HALVES * LINES * lanes of int64
        Where their first rows lie in dl, d, du, b and the result.
    kinds : HALVES * LINES of int64
        How those of one row lie.
    tile : numbers
        dl, d, du, b and x, for each half; one for all groups.
    held : numbers
        What is kept of a row until the next, HELD for each half.
    pivots : numbers
        What is kept of a row until the way back, KEPT for each half.
    flags : HALVES * lanes of real numbers
        What was found about each system.
    """

    systems: Any
    places: Any
    kinds: Any
    tile: Any
    held: Any
    pivots: Any
    flags: Any


class View(NamedTuple):
    """The arrays of a call as pointers, and their layout.

    Attributes
    ----------
    operands : four pointers
    strides : pointer
        (4, 3) numbers.
    result : pointer
    outer, steps, inner : int
    """

    operands: Any
    strides: Any
    result: Any
    outer: int
    steps: int
    inner: int


def groups_together(shape: tuple[int, int, int], dtype: np.dtype[Any]) -> int:
    """Groups whose tiles are solved in turn.

    Systems side by side are pages apart from row to row: with one group 2,000 systems of 4,095
    took 4.5 ns an unknown of float64, with four 3.5.
    """
    _, steps, inner = shape
    width = HALVES * lanes_of(dtype)
    fit = TOGETHER_BYTES // (KEPT * (steps + 1) * width * dtype.itemsize)
    return max(1, min(fit, TOGETHER, inner // width))


def work_for(shape: tuple[int, int, int], dtype: np.dtype[Any]) -> Work:
    count, width = groups_together(shape, dtype), HALVES * lanes_of(dtype)
    systems = np.empty(count * width, np.int64)
    places = np.empty(count * LINES * width, np.int64)
    kinds = np.empty(count * HALVES * LINES, np.int64)
    tile = np.empty(LINES * APART_ROWS * width, dtype)
    held = np.empty(count * HELD * width, dtype)
    pivots = np.empty(count * KEPT * (shape[1] + 1) * width, dtype)
    flags = np.empty(count * width, dtype.char.lower())
    return Work(systems, places, kinds, tile, held, pivots, flags)


def group_count(shape: tuple[int, int, int], dtype: np.dtype[Any]) -> int:
    """Groups of systems that are solved side by side."""
    outer, _, inner = shape
    lanes = HALVES * lanes_of(dtype)
    if inner >= lanes:
        return outer * -(-inner // lanes)
    return -(-outer * inner // lanes)


@numba.njit(**INNER)
def view_of(operands: Any, layout: Any, result: Any) -> View:
    dl, d, du, b = operands
    pointers = pointer_to(dl), pointer_to(d), pointer_to(du), pointer_to(b)
    strides = pointer_to(layout.strides)
    return View(pointers, strides, pointer_to(result), *layout.shape)


@numba.njit(**INNER)
def pointers_of(work: Any) -> Work:
    systems, places, kinds, tile, held, pivots, flags = work
    indices = pointer_to(systems), pointer_to(places), pointer_to(kinds)
    numbers = pointer_to(tile), pointer_to(held), pointer_to(pivots)
    return Work(*indices, *numbers, pointer_to(flags))


@numba.njit(**INNER)
def work_of(number: int, work: Any, steps: int) -> Work:
    """What belongs to one of the groups whose tiles are solved in turn."""
    systems, places, kinds, tile, held, pivots, flags = work
    first = number * HALVES * width_of(tile)
    indices = shifted(systems, first), shifted(places, LINES * first)
    rows = shifted(held, HELD * first), shifted(pivots, KEPT * (steps + 1) * first)
    kinds = shifted(kinds, number * HALVES * LINES)
    return Work(*indices, kinds, tile, *rows, shifted(flags, first))


@numba.njit(**INNER)
def choose_group(group: int, view: Any, work: Any) -> None:
    """The systems of a group; where there are not enough, some of them twice."""
    lanes = HALVES * width_of(work.tile)
    first, inner = group * lanes, view.inner
    if inner >= lanes:
        row, part = divmod(group, -(-inner // lanes))
        first = row * inner + min(part * lanes, inner - lanes)
    for lane in range(lanes):
        work.systems[lane] = min(first + lane, view.outer * inner - 1)


@numba.njit(**INNER)
def find_systems(view: Any, work: Any) -> None:
    """Where the chosen systems lie."""
    lanes, inner = width_of(work.tile), view.inner
    outer, column, before = 0, -1, -1
    for index in range(HALVES * lanes):
        system = work.systems[index]
        # A division takes as long as a row.
        if system == before + 1 and column + 1 < inner:
            column += 1
        elif system != before:
            outer, column = divmod(system, inner)
        before = system
        line = index // lanes * LINES
        at = line * lanes + index % lanes
        for k in range(RESULT):
            place = outer * view.strides[3 * k] + column * view.strides[3 * k + 2]
            work.places[at + k * lanes] = place
        work.places[at + RESULT * lanes] = outer * view.steps * inner + column
    for line in range(HALVES * LINES):
        k = line % LINES
        stride = inner if k == RESULT else view.strides[3 * k + 1]
        work.kinds[line] = _kind_of(work.places, line * lanes, lanes, stride, view.steps)


@numba.njit(**INNER)
def _kind_of(places: Any, start: int, lanes: int, stride: int, steps: int) -> int:
    is_same, is_beside, first = True, True, places[start]
    for lane in range(lanes):
        is_same &= places[start + lane] == first
        is_beside &= places[start + lane] == first + lane
    if is_same:
        return SAME
    if is_beside:
        return BESIDE
    return ALONG if stride == 1 and steps >= lanes else APART


@numba.njit(**INNER)
def tile_begin(tile: int, steps: int) -> int:
    """The first row of a tile: all are of nearly one length."""
    return tile * steps // -(-steps // ROWS)


@numba.njit(**INNER)
def tile_start(half: int, k: int, lanes: int) -> int:
    """Where an operand begins in a tile."""
    return (half * LINES + k) * APART_ROWS * lanes


@numba.njit(**INNER)
def tile_at(tile: Any, half: int, k: int, row: int) -> Any:
    """A row of an operand in a tile."""
    lanes = width_of(tile)
    return recall(tile, tile_start(half, k, lanes) + row * lanes)


@numba.njit(**INNER)
def fill_tile(view: Any, work: Any, begin: int, end: int) -> None:
    """The rows from `begin` to `end` of all operands."""
    lanes = width_of(work.tile)
    zero = constant(recall(work.tile, 0), 0.0)
    for half in range(HALVES):
        for k in range(RESULT):
            stride = view.strides[3 * k + 1]
            _fill(view.operands[k], work, half * LINES + k, stride, begin, end)
        if begin == 0:
            keep(work.tile, tile_start(half, 0, lanes), zero)
        if end == view.steps:
            keep(work.tile, tile_start(half, 2, lanes) + (end - begin - 1) * lanes, zero)


@numba.njit(**INNER)
def _fill(operand: Any, work: Any, line: int, stride: int, begin: int, end: int) -> None:
    tile, places, lanes, kind = work.tile, work.places, width_of(work.tile), work.kinds[line]
    start, at = line * APART_ROWS * lanes, places[line * lanes] + begin * stride
    if kind == BESIDE:
        for row in range(end - begin):
            keep(tile, start + row * lanes, line_at(operand, at + row * stride))
            fetch(operand, at + (row + ROWS) * stride)
    elif kind == SAME:
        for row in range(end - begin):
            keep(tile, start + row * lanes, same_at(operand, at + row * stride))
    elif kind == ALONG:
        for row in range(0, end - begin, lanes):
            # The last block begins early enough to be whole.
            first = min(row, end - begin - lanes)
            turn_in(tile, start + first * lanes, operand, places, line, begin + first)
    else:
        for row in range(end - begin):
            numbers = read(operand, places, line, (begin + row) * stride)
            keep(tile, start + row * lanes, numbers)


@numba.njit(**INNER)
def drain_tile(view: Any, work: Any, begin: int, end: int) -> None:
    """Write the unknowns from `begin` to `end`."""
    for half in range(HALVES):
        _drain(view.result, work, half * LINES + RESULT, view.inner, begin, end)


@numba.njit(**INNER)
def _drain(result: Any, work: Any, line: int, stride: int, begin: int, end: int) -> None:
    tile, places, lanes, kind = work.tile, work.places, width_of(work.tile), work.kinds[line]
    start, at = line * APART_ROWS * lanes, places[line * lanes] + begin * stride
    if kind == BESIDE:
        for row in range(end - begin):
            line_to(result, at + row * stride, recall(tile, start + row * lanes))
            fetch(result, at + (row - ROWS) * stride)
    elif kind == ALONG:
        for row in range(0, end - begin, lanes):
            first = min(row, end - begin - lanes)
            turn_out(tile, start + first * lanes, result, places, line, begin + first)
    else:
        for row in range(end - begin):
            numbers = recall(tile, start + row * lanes)
            write(result, places, line, (begin + row) * stride, numbers)
