"""Successive over-relaxation of grids in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ....core.contract.kernels import Kernels
from ....engines.cpu.compilation import writable
from ....engines.cpu.simd import FOUR_REGISTERS
from ....engines.cpu.threads import (
    MIN_STEPS_FOR_THREADS,
    call_in_parts,
    run_in_threads,
    thread_count,
)
from ..recurrence import LaidOutGrids, Sweeps
from .strips import skew, unskew
from .sweeps import independent_tiles, relax

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


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; the method "threads" uses all threads."""
    return Kernels(
        partial(determine_relaxation, is_threaded=method == "threads"), lay_out_grids=lay_out_grids
    )


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

    def run(start: int, stop: int) -> None:
        for k in indices[start:stop]:
            rhs_grid = None if rhs_grids is None else rhs_grids[k]
            updates[k] = _relax_grid(loop, x[k], rhs_grid, result[k], 1 if is_split else threads)

    call_in_parts(run, len(indices), threads if is_split else 1)
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
        self, values: np.ndarray, rhs: np.ndarray | None, shape: tuple[int, ...], omega: float,
        threads: int = 1
    ) -> None:  # fmt: skip
        self.values, self.threads, self.size = values, threads, (*shape, values.shape[-1])
        weights = np.array([1 - omega, omega / 4], values.dtype)
        self.codes = np.arange(values.shape[-1], dtype=f"i{values.itemsize}")
        rhs_values = None if rhs is None else rhs.reshape(-1)
        self.arguments = values.reshape(-1), rhs_values, weights, self.size, self.codes

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

        def run(k: int) -> None:
            thread_peaks = None if peaks is None else peaks[k]
            for levels, times in tiles[k::threads]:
                relax(*self.arguments, thread_peaks, sweeps, levels, times)

        threads = self.threads if sweeps * self.values.size >= _MANY_TOGETHER else 1
        for tiles in independent_tiles(self.values.shape, sweeps, threads):
            run_in_threads([partial(run, k) for k in range(min(threads, len(tiles)))])


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
