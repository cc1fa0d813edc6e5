"""Sweeps over strips in registers, several of them while a part of the grid is in the caches.

Step t of strip q in sweep s needs step t + lanes − 1 of the strip above, from the same sweep,
and step t − lanes + 1 of the strip below, from the sweep before. With

    level = q + s,    time = lanes·q + t + s

no step needs, or overwrites the input of, a step of a later level or a later time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba

from ....engines.cpu.compilation import INNER, compile_kernel
from ....engines.cpu.lanes import multiply, store
from ....engines.cpu.simd import (
    FOUR_REGISTERS,
    both,
    choose,
    is_index,
    larger,
    load_four,
    magnitude_bits,
    minus,
    plus,
    shift_back,
    shift_in,
    splat_four,
)
from ....engines.cpu.threads import split_range
from ...recurrence import Side, antidiagonals

# Steps of a strip before those of the next strip: 64 to 256 take the same time. 512 take 1.3 times
# as long in float64, because 16 sweeps no longer fit into 2 MB.
_PIECE = 128
# Parts of the levels and times per thread. With more parts, fewer threads are idle on the first and
# last antidiagonals, but each antidiagonal costs 0.1 ms.
_LEVELS, _TIMES = 4, 8

Tile = tuple[Side, Side]
"""Start and stop of the levels, and of the times."""


@numba.njit(**INNER)
def _relaxed(
    center: Any, above: Any, left: Any, below: Any, right: Any, rhs: Any, offset: int, weights: Any
) -> Any:
    around = plus(plus(plus(above, left), below), right)
    if rhs is not None:
        around = minus(around, load_four(rhs, offset))
    return plus(multiply(splat_four(weights[0]), center), multiply(splat_four(weights[1]), around))


@numba.njit(**INNER)
def _sweep(grid: Any, peaks: Any, codes: Any, q: int, start: int, stop: int) -> None:
    """Sweep over steps of a strip; `codes` is None if all lanes are inside the grid in each step.

    Otherwise lanes on the border of the grid, or outside, do not change.
    """
    strips, rhs, weights, (rows, columns, lanes) = grid
    if codes is not None:
        code, zero = codes.dtype.type, strips.dtype.type(0)
        lane, none, one = load_four(codes, 0), splat_four(code(0)), splat_four(code(1))
        row, height = plus(lane, splat_four(code(q * lanes - 1))), splat_four(code(rows - 2))
        column, width = minus(splat_four(code(start - 1)), lane), splat_four(code(columns - 2))
        is_row = is_index(row, height)
    offset = (q * (columns + lanes - 1) + start) * lanes
    over, under = offset - columns * lanes + lanes - 1, offset + columns * lanes
    left, center = load_four(strips, offset - lanes), load_four(strips, offset)
    for t in range(start, stop):
        right = load_four(strips, offset + lanes)
        if codes is None:
            above, below = shift_in(left, strips[over]), shift_back(right, strips[under])
            left = _relaxed(center, above, left, below, right, rhs, offset, weights)
            peak = magnitude_bits(minus(left, center))
        else:
            above = shift_in(left, strips[over] if q > 0 and t < columns else zero)
            below = shift_back(right, strips[under] if under < strips.size else zero)
            new = _relaxed(center, above, left, below, right, rhs, offset, weights)
            is_inside = both(is_row, is_index(column, width))
            left, column = choose(is_inside, new, center), plus(column, one)
            peak = choose(is_inside, magnitude_bits(minus(left, center)), none)
        if peaks is not None:
            store(peaks, 0, larger(peak, load_four(peaks, 0)))
        center = right
        store(strips, offset, left)
        offset, over, under = offset + lanes, over + lanes, under + lanes


@numba.njit(**INNER)
def _strip(grid: Any, peaks: Any, codes: Any, q: int, start: int, stop: int) -> None:
    rows, columns, lanes = grid[3]
    low = high = stop
    if q > 0 and (q + 1) * lanes < rows:
        low = min(max(start, lanes), stop)
        high = max(min(columns - 1, stop), low)
    if start < low:
        _sweep(grid, peaks, codes, q, start, low)
    if low < high:
        _sweep(grid, peaks, None, q, low, high)
    if high < stop:
        _sweep(grid, peaks, codes, q, high, stop)


def _relax(
    strips: Any, rhs: Any, weights: Any, size: Any, codes: Any, peaks: Any, sweeps: int,
    levels: Any, times: Any
) -> None:  # fmt: skip
    """Run the part of some sweeps that has these levels and times, each a start and a stop.

    `weights` are 1 − ω and ω/4, `size` is (rows, columns, lanes), and `codes` are the numbers of
    the lanes, integers as wide as the numbers of the grid. `peaks`, such integers, are raised to
    the `magnitude_bits` of the last sweep's updates. `rhs` and `peaks` may be None.
    """
    rows, columns, lanes = size
    grid = strips, rhs, weights, size
    count, steps = -(-rows // lanes), columns + lanes - 1
    for time in range(times[0], times[1], _PIECE):
        until = min(time + _PIECE, times[1])
        for level in range(levels[0], levels[1]):
            for sweep in range(max(0, level - count + 1), min(sweeps, level + 1)):
                q = level - sweep
                first = time - lanes * q - sweep
                start, stop = max(1, first), min(steps - 1, first + until - time)
                if start < stop and peaks is not None and sweep == sweeps - 1:
                    _strip(grid, peaks, codes, q, start, stop)
                elif start < stop:
                    _strip(grid, None, codes, q, start, stop)


relax = compile_kernel(_relax, str(FOUR_REGISTERS))


def independent_tiles(shape: tuple[int, ...], sweeps: int, threads: int) -> Iterator[list[Tile]]:
    """Yield lists of tiles of some sweeps over (strips, steps, lanes) that threads may share."""
    (count, steps, lanes), is_serial = shape, threads < 2
    levels = split_range(count + sweeps - 1, 1 if is_serial else _LEVELS * threads)
    times = split_range(lanes * (count - 1) + steps + sweeps, 1 if is_serial else _TIMES * threads)
    for tiles in antidiagonals(levels, times):
        yield [tile for tile in tiles if _has_steps(tile, shape, sweeps)]


def _has_steps(tile: Tile, shape: tuple[int, ...], sweeps: int) -> bool:
    (top, bottom), (start, stop), (count, steps, lanes) = *tile, shape
    first, last = max(0, top - sweeps + 1), min(count, bottom) - 1
    return lanes * first < stop and start < lanes * last + steps + sweeps
