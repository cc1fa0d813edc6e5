"""Successive over-relaxation of grids in host memory.

Grids are copied to skewed strips. As many rows as WIDE bytes have lanes make a strip. Row k of a
strip is k columns behind its first row: step t of the strip is a register whose lane k holds column
t − k of row k. So no lane needs the result of another lane in the same step. A strip has
columns + lanes − 1 steps. It holds 0 where a lane has no column, or the last strip no row.

Several sweeps run over strips in registers while a part of the grid is in the caches. Step t of
strip q in sweep s needs step t + lanes − 1 of the strip above, from the same sweep, and step
t − lanes + 1 of the strip below, from the sweep before. With

    level = q + s,    time = lanes·q + t + s

no step needs, or overwrites the input of, a step of a later level or a later time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel, writable
from ...engines.cpu.lanes import BLOCK_BYTES, multiply, store, transpose_block
from ...engines.cpu.scalars import larger_of, smaller_of
from ...engines.cpu.simd import (
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
from ...engines.cpu.threads import (
    MIN_STEPS_FOR_THREADS,
    call_in_parts,
    run_in_threads,
    split_range,
    thread_count,
)
from ..recurrence import Side, antidiagonals
from .api import LaidOutGrids, RelaxationKernels, Sweeps

# Steps of a strip before those of the next strip: 64 to 256 take the same time. 512 take 1.3 times
# as long in float64, because 16 sweeps no longer fit into 2 MB.
_PIECE = 128
# Parts of the levels and times per thread. With more parts, fewer threads are idle on the first and
# last antidiagonals, but each antidiagonal costs 0.1 ms.
_LEVELS, _TIMES = 4, 8
Tile = tuple[Side, Side]
"""Start and stop of the levels, and of the times."""
# Sweeps over a part of a grid while it is in the caches. Nanoseconds a point and sweep of
# 4,096 × 4,096 on one core, for 1, 2, 4, 8, 16 sweeps together: 0.53, 0.34, 0.22, 0.17, 0.14 in
# float32, 1.2, 0.67, 0.40, 0.32, 0.28 in float64.
_TOGETHER = 16
# Updates from which a second thread is faster: of a call, and of the sweeps together. For
# 1,024 × 1,024 in float32, 16 sweeps took 2.2 ms on one thread and 4.1 ms on two threads, which
# often wait for each other.
_MANY, _MANY_TOGETHER = 8 * MIN_STEPS_FOR_THREADS, 32 * MIN_STEPS_FOR_THREADS
# Strips whose rows are copied together if a grid is not contiguous.
_COPIED = 16


def kernels(method: str) -> RelaxationKernels:
    """Return the phases of a chunk; the method "threads" uses all threads."""
    return RelaxationKernels(
        partial(determine_relaxation, is_threaded=method == "threads"), lay_out_grids=lay_out_grids
    )


@numba.njit(**INNER)
def _block_steps(rows: int, columns: int, lane: int, width: int) -> tuple[int, int]:
    """Return start and stop of the steps that `width` lanes from `lane` on copy by blocks."""
    if rows < width:
        return 0, 0
    first = lane + width - 1
    return first, first + larger_of(0, columns - width + 1) // width * width


@numba.njit(**INNER)
def _copy_steps(grid: Any, strips: Any, q: int, lane: int, start: int, stop: int, is_back: bool) -> None:
    """Copy steps of a few rows number by number."""
    rows, columns = grid.shape
    lanes = strips.shape[2]
    last = lane + BLOCK_BYTES // grid.itemsize
    if not is_back:
        for t in range(start, stop):
            for k in range(lane, last):
                is_inside = q * lanes + k < rows and 0 <= t - k < columns
                strips[q, t, k] = grid[q * lanes + k, t - k] if is_inside else grid.dtype.type(0)
    else:  # row by row: along the lanes, narrow grids take 1.2 times as long
        for k in range(lane, smaller_of(last, rows - q * lanes)):
            for t in range(larger_of(start, k), smaller_of(stop, columns + k)):
                grid[q * lanes + k, t - k] = strips[q, t, k]


def _copy(grid: Any, strips: Any, start: int, stop: int, is_back: bool) -> None:
    """Write strips `start` to `stop` of an array (strips, steps, lanes) from a grid, or back."""
    rows, columns = grid.shape
    _, steps, lanes = strips.shape
    width = BLOCK_BYTES // grid.itemsize
    for q in range(start, stop):
        for lane in range(0, lanes, width):
            row = q * lanes + lane
            first, last = _block_steps(rows - row, columns, lane, width)
            # numba would also compile the function for the type of the constant 0.
            _copy_steps(grid, strips, q, lane, np.int64(0), first, is_back)
            for t in range(first, last, width):
                point, target = row * columns + t - lane, (q * steps + t) * lanes + lane
                if not is_back:
                    transpose_block(grid, point, columns - 1, strips, target, lanes)
                else:
                    transpose_block(strips, target, lanes, grid, point, columns - 1)
            _copy_steps(grid, strips, q, lane, last, steps, is_back)


_kernel = compile_kernel(_copy, str(FOUR_REGISTERS), allocates=False)


def skew(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    """Write strips `start` to `stop` from a grid."""
    _kernel(grid, strips, start, stop, False)


def unskew(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    """Write the rows of strips `start` to `stop` into a grid."""
    _kernel(grid, strips, start, stop, True)


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
    for _ in range(start, stop):
        right = load_four(strips, offset + lanes)
        if codes is None:
            above, below = shift_in(left, strips[over]), shift_back(right, strips[under])
            left = _relaxed(center, above, left, below, right, rhs, offset, weights)
            peak = magnitude_bits(minus(left, center))
        else:
            above = shift_in(left, strips[over] if q > 0 else zero)
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
        low = smaller_of(larger_of(start, lanes), stop)
        high = larger_of(smaller_of(columns - 1, stop), low)
    if start < low:
        _sweep(grid, peaks, codes, q, start, low)
    if low < high:
        _sweep(grid, peaks, None, q, low, high)
    if high < stop:
        _sweep(grid, peaks, codes, q, high, stop)


def _relax(
    strips: Any,
    rhs: Any,
    weights: Any,
    size: Any,
    codes: Any,
    peaks: Any,
    sweeps: int,
    levels: Any,
    times: Any,
) -> None:
    """Run the part of some sweeps that has these levels and times, each a start and a stop.

    `weights` are 1 − ω and ω/4, `size` is (rows, columns, lanes), and `codes` are the numbers of
    the lanes, integers as wide as the numbers of the grid. `peaks`, such integers, are raised to
    the `magnitude_bits` of the last sweep's updates. `rhs` and `peaks` may be None.
    """
    rows, columns, lanes = size
    grid = strips, rhs, weights, size
    count, steps = -(-rows // lanes), columns + lanes - 1
    for time in range(times[0], times[1], _PIECE):
        until = smaller_of(time + _PIECE, times[1])
        for level in range(levels[0], levels[1]):
            for sweep in range(larger_of(0, level - count + 1), smaller_of(sweeps, level + 1)):
                q = level - sweep
                first = time - lanes * q - sweep
                start, stop = larger_of(1, first), smaller_of(steps - 1, first + until - time)
                if start < stop and peaks is not None and sweep == sweeps - 1:
                    _strip(grid, peaks, codes, q, start, stop)
                elif start < stop:
                    _strip(grid, None, codes, q, start, stop)


relax = compile_kernel(_relax, str(FOUR_REGISTERS), allocates=False)


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


def determine_relaxation(
    loop: Sweeps, x: np.ndarray, rhs: np.ndarray | None, result: np.ndarray, is_threaded: bool
) -> np.ndarray:
    """Write the grids of a batch after the sweeps of a loop to `result`, which is C-contiguous.

    Return the largest update of each grid in its last sweep; nan if `loop` does not check sweeps.
    """
    updates = np.full(x.shape[:-2], np.nan)
    if result.size == 0:
        return updates
    rhs_grids = None if rhs is None else np.broadcast_to(rhs, x.shape)
    threads = thread_count() if is_threaded and result.size * loop.sweeps >= _MANY else 1
    indices = list(np.ndindex(updates.shape))
    is_split = len(indices) >= threads

    def sweep_some(start: int, stop: int) -> None:
        for k in indices[start:stop]:
            rhs_grid = None if rhs_grids is None else rhs_grids[k]
            updates[k] = _relax_grid(loop, x[k], rhs_grid, result[k], 1 if is_split else threads)

    call_in_parts(sweep_some, len(indices), threads if is_split else 1)
    return updates


def _relax_grid(
    loop: Sweeps, grid: np.ndarray, rhs: np.ndarray | None, result: np.ndarray, threads: int
) -> float:
    rhs_strips, update = None if rhs is None else skewed(rhs, threads), np.nan
    strips = Strips(skewed(grid, threads), rhs_strips, grid.shape, loop.omega, threads)
    for sweeps in loop.sweep_counts:
        update = strips.sweep(sweeps, loop.tol is not None)
        if loop.tol is not None and update < loop.tol:
            break
    call_in_parts(partial(unskew, result, strips.values), len(strips.values), threads)
    return update


def strips_shape(grids: np.ndarray) -> tuple[int, int, int]:
    """Return the strips, their steps and their lanes of one of some grids (..., rows, columns)."""
    lanes, (rows, columns) = FOUR_REGISTERS // grids.itemsize, grids.shape[-2:]
    return -(-rows // lanes), columns + lanes - 1, lanes


def skewed(grid: np.ndarray, threads: int = 1) -> np.ndarray:
    """Return the strips of a grid."""
    strips = np.empty(strips_shape(grid), grid.dtype)
    if grid.flags.c_contiguous:
        call_in_parts(partial(skew, writable(grid), strips), len(strips), threads)
    else:
        call_in_parts(partial(_skew_copies, grid, strips), len(strips), threads)
    return strips


def _skew_copies(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    """Write strips from a grid that is not contiguous, through copies of some rows."""
    lanes = strips.shape[-1]
    for first in range(start, stop, _COPIED):
        part = strips[first : min(first + _COPIED, stop)]
        rows = grid[first * lanes : (first + len(part)) * lanes]
        skew(np.array(rows, order="C"), part, 0, len(part))


class Strips:
    """A grid of a shape as strips, which sweeps overwrite."""

    def __init__(
        self,
        values: np.ndarray,
        rhs: np.ndarray | None,
        shape: tuple[int, ...],
        omega: float,
        threads: int = 1,
    ) -> None:
        self.values, self.threads, self.size = values, threads, (*shape, values.shape[-1])
        weights = np.array([1 - omega, omega / 4], values.dtype)
        self.codes = np.arange(values.shape[-1], dtype=f"i{values.itemsize}")
        rhs_values = None if rhs is None else rhs.ravel()
        self.arguments = values.ravel(), rhs_values, weights, self.size, self.codes

    def sweep(self, sweeps: int, is_checked: bool) -> float:
        """Sweep; return the largest update of the last sweep, or nan if it is not checked."""
        peaks = None
        for first in range(0, sweeps, _TOGETHER):
            if is_checked and first + _TOGETHER >= sweeps:
                peaks = np.zeros((self.threads, self.size[-1]), self.codes.dtype)
            self._sweep_together(min(_TOGETHER, sweeps - first), peaks)
        return np.nan if peaks is None else float(peaks.view(self.values.dtype).max())

    def _sweep_together(self, sweeps: int, peaks: np.ndarray | None) -> None:
        if min(self.size[:2]) < 3:
            return

        def sweep_thread(k: int) -> None:
            thread_peaks = None if peaks is None else peaks[k]
            for levels, times in tiles[k::threads]:
                relax(*self.arguments, thread_peaks, sweeps, levels, times)

        threads = self.threads if sweeps * self.values.size >= _MANY_TOGETHER else 1
        for tiles in independent_tiles(self.values.shape, sweeps, threads):
            run_in_threads([partial(sweep_thread, k) for k in range(min(threads, len(tiles)))])


def lay_out_grids(grids: np.ndarray, rhs: np.ndarray | None = None) -> SkewedGrids:
    """Return contiguous grids (..., rows, columns) and their right-hand sides as strips."""
    return SkewedGrids(_strips_of(grids), None if rhs is None else _strips_of(rhs), grids.shape)


def _strips_of(grids: np.ndarray) -> np.ndarray:
    strips = np.empty((*grids.shape[:-2], *strips_shape(grids)), grids.dtype)
    for k in np.ndindex(grids.shape[:-2]):
        skew(grids[k], strips[k], 0, strips.shape[-3])
    return strips


@dataclass(frozen=True)
class SkewedGrids(LaidOutGrids):
    """Tiles of Dask arrays: a batch of grids that stay strips from one sweep to the next.

    Tasks must not write to their arguments, so a sweep copies the strips. With grids that were
    skewed and copied back in every sweep, one thread took 3.4 ns a point.
    """

    def index(self, is_row: bool, k: int, part: slice) -> tuple[Any, ...]:
        lanes = self.values.shape[-1]
        if is_row:
            q, lane = divmod(k, lanes)
            return ..., q, slice(lane + part.start, lane + part.stop), lane
        strips, lane_numbers = np.divmod(np.arange(part.start, part.stop), lanes)
        return ..., strips, k + lane_numbers, lane_numbers

    def sweep(
        self, loop: Sweeps, borders: Sequence[Any], inside: tuple[slice, slice], done: Any
    ) -> tuple[SkewedGrids, np.ndarray]:
        swept, updates = replace(self, values=self.values.copy()), np.full(self.shape[:-2], np.nan)
        swept.write_borders(borders, inside)
        for k in np.ndindex(updates.shape):
            if done is not None and done[k]:
                continue
            rhs = None if self.rhs is None else self.rhs[k]
            strips = Strips(swept.values[k], rhs, self.shape[-2:], loop.omega)
            updates[k] = strips.sweep(loop.sweeps, loop.tol is not None)
        return swept, updates

    def to_array(self) -> np.ndarray:
        grids = np.empty(self.shape, self.values.dtype)
        for k in np.ndindex(self.shape[:-2]):
            unskew(grids[k], self.values[k], 0, self.values.shape[-3])
        return grids
