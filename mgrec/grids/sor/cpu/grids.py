"""Successive over-relaxation of grids in host memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.compilation import writable
from ....engines.cpu.simd.arithmetic import FOUR_REGISTERS
from ....engines.cpu.threads import MIN_STEPS_FOR_THREADS, run_in_threads, split_range, thread_count
from ..sweeps import Sweeps
from .strips import skew, straighten
from .sweeps import relax
from .tiles import Tile, antidiagonals

# Sweeps over a part of a grid while it is in the caches. Nanoseconds a point and sweep of
# 4,096 × 4,096 on one core, of 1, 2, 4, 8, 16 sweeps together: 0.53, 0.34, 0.22, 0.17, 0.14 in
# float32, 1.2, 0.67, 0.40, 0.32, 0.28 in float64.
_TOGETHER = 16
# Updates of a call for which a second thread pays, and of sweeps together: of 1,024 × 1,024 in
# float32, 16 sweeps took 2.2 ms on one thread and 4.1 ms on two, which wait for each other often.
_MANY, _MANY_TOGETHER = 8 * MIN_STEPS_FOR_THREADS, 32 * MIN_STEPS_FOR_THREADS

# Strips whose rows are copied together where a grid is not contiguous.
_COPIED = 16


def determine_relaxation(
    loop: Sweeps, x: np.ndarray, rhs: np.ndarray | None, result: np.ndarray, is_shared: bool
) -> np.ndarray:
    """Write the grids of a batch after the sweeps of a loop.

    Parameters
    ----------
    loop : Sweeps
    x : array (..., rows, columns)
    rhs : array, optional
        Of the dtype of `x`, to which it broadcasts.
    result : array
        Of the shape and dtype of `x`, C-contiguous.
    is_shared : bool
        Among the threads of this process.

    Returns
    -------
    array (...)
        The largest update of each grid in its last sweep; nan where `loop` asks for none.
    """
    updates = np.full(x.shape[:-2], np.nan)
    if result.size == 0:
        return updates
    sides = None if rhs is None else np.broadcast_to(rhs, x.shape)
    threads = thread_count() if is_shared and result.size * loop.sweeps >= _MANY else 1
    grids = list(np.ndindex(updates.shape))
    is_split = len(grids) >= threads

    def run(begin: int, end: int) -> None:
        for k in grids[begin:end]:
            side, threads_of_grid = None if sides is None else sides[k], 1 if is_split else threads
            updates[k] = _relax_grid(loop, x[k], side, result[k], threads_of_grid)

    parts = split_range(len(grids), threads if is_split else 1)
    run_in_threads([partial(run, *part) for part in parts])
    return updates


def _relax_grid(
    loop: Sweeps, grid: np.ndarray, rhs: np.ndarray | None, result: np.ndarray, threads: int
) -> float:
    sides, update = None if rhs is None else skewed(rhs, threads), np.nan
    strips = Strips(skewed(grid, threads), sides, grid.shape, loop.omega, threads)
    if loop.tol is None:
        strips.sweep(loop.sweeps)
    else:
        for sweeps in loop.sweep_counts:
            update = strips.update(sweeps)
            if update < loop.tol:
                break
    _share(straighten, len(strips.values), threads, strips.values, result)
    return update


def strips_shape(grids: np.ndarray) -> tuple[int, int, int]:
    """Of one of some grids (..., rows, columns): strips, their steps, their lanes."""
    lanes, (rows, columns) = FOUR_REGISTERS // grids.itemsize, grids.shape[-2:]
    return -(-rows // lanes), columns + lanes - 1, lanes


def skewed(grid: np.ndarray, threads: int = 1) -> np.ndarray:
    """The strips of a grid."""
    values = np.empty(strips_shape(grid), grid.dtype)
    _share(_skew if grid.flags.c_contiguous else _skew_copies, len(values), threads, grid, values)
    return values


def _skew(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    skew(writable(grid), strips, start, stop)


def _skew_copies(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    """Write strips from a grid that is not contiguous, some rows after the other."""
    lanes = strips.shape[-1]
    for first in range(start, stop, _COPIED):
        part = strips[first : min(first + _COPIED, stop)]
        rows = grid[first * lanes : (first + len(part)) * lanes]
        skew(np.array(rows, order="C"), part, 0, len(part))


def _share(kernel: Any, count: int, threads: int, *arrays: Any) -> None:
    """Call a kernel for all strips, so many as `count`."""
    run_in_threads([partial(kernel, *arrays, *part) for part in split_range(count, threads)])


class Strips:
    """A grid of a shape as strips, which are overwritten by sweeps."""

    def __init__(
        self, values: np.ndarray, rhs: np.ndarray | None, shape: tuple[int, ...], omega: float,
        threads: int = 1
    ) -> None:  # fmt: skip
        self.values, self.threads, lanes = values, threads, values.shape[-1]
        self.size = (*shape, lanes)
        weights = np.array([1 - omega, omega / 4], values.dtype)
        self.codes = np.arange(lanes, dtype=f"i{values.itemsize}")
        sides = None if rhs is None else rhs.reshape(-1)
        self.own = values.reshape(-1), sides, weights, self.size, self.codes

    def sweep(self, sweeps: int) -> None:
        for first in range(0, sweeps, _TOGETHER):
            self._sweep(min(_TOGETHER, sweeps - first), None)

    def update(self, sweeps: int) -> float:
        """Sweep; the largest update of the last sweep."""
        last = (sweeps - 1) % _TOGETHER + 1
        self.sweep(sweeps - last)
        peaks = np.zeros((self.threads, self.size[-1]), self.codes.dtype)
        self._sweep(last, peaks)
        return float(peaks.view(self.values.dtype).max())

    def _sweep(self, sweeps: int, peaks: np.ndarray | None) -> None:
        if min(self.size[:2]) < 3:
            return
        threads = self.threads if sweeps * self.values.size >= _MANY_TOGETHER else 1
        for tiles in antidiagonals(self.values.shape, sweeps, threads):
            calls = []
            for k, share in enumerate(filter(None, (tiles[k::threads] for k in range(threads)))):
                own = None if peaks is None else peaks[k]
                calls.append(partial(self._relax, sweeps, own, share))
            run_in_threads(calls)

    def _relax(self, sweeps: int, peaks: np.ndarray | None, tiles: list[Tile]) -> None:
        for levels, times in tiles:
            relax(*self.own, peaks, sweeps, levels, times)
