"""Successive over-relaxation of grids in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ....core.contract.kernels import Kernels
from ....engines.cpu.compilation import writable
from ....engines.cpu.simd.arithmetic import FOUR_REGISTERS
from ....engines.cpu.threads import MIN_STEPS_FOR_THREADS, run_in_threads, split_range, thread_count
from ..recurrence import Sweeps
from .strips import skew, unskew
from .sweeps import Tile, independent_tiles, relax

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
    """Write the grids of a batch after the sweeps of a loop.

    Parameters
    ----------
    loop : Sweeps
    x : array (..., rows, columns)
    rhs : array, optional
        It has the dtype of `x` and broadcasts to `x`.
    result : array
        C-contiguous, of the shape and dtype of `x`.

    Returns
    -------
    array (...)
        Largest update of each grid in its last sweep; nan if `loop` does not check sweeps.
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

    parts = split_range(len(indices), threads if is_split else 1)
    run_in_threads([partial(run, *part) for part in parts])
    return updates


def _relax_grid(
    loop: Sweeps, grid: np.ndarray, rhs: np.ndarray | None, result: np.ndarray, threads: int
) -> float:
    rhs_strips, update = None if rhs is None else skewed(rhs, threads), np.nan
    strips = Strips(skewed(grid, threads), rhs_strips, grid.shape, loop.omega, threads)
    if loop.tol is None:
        strips.sweep(loop.sweeps)
    else:
        for sweeps in loop.sweep_counts:
            update = strips.sweep_and_check(sweeps)
            if update < loop.tol:
                break
    _run_on_threads(unskew, len(strips.values), threads, strips.values, result)
    return update


def strips_shape(grids: np.ndarray) -> tuple[int, int, int]:
    """Return the strips, their steps and their lanes of one of some grids (..., rows, columns)."""
    lanes, (rows, columns) = FOUR_REGISTERS // grids.itemsize, grids.shape[-2:]
    return -(-rows // lanes), columns + lanes - 1, lanes


def skewed(grid: np.ndarray, threads: int = 1) -> np.ndarray:
    """Return the strips of a grid."""
    strips = np.empty(strips_shape(grid), grid.dtype)
    kernel = _skew if grid.flags.c_contiguous else _skew_copies
    _run_on_threads(kernel, len(strips), threads, grid, strips)
    return strips


def _skew(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    skew(writable(grid), strips, start, stop)


def _skew_copies(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    """Write strips from a grid that is not contiguous, through copies of some rows."""
    lanes = strips.shape[-1]
    for first in range(start, stop, _COPIED):
        part = strips[first : min(first + _COPIED, stop)]
        rows = grid[first * lanes : (first + len(part)) * lanes]
        skew(np.array(rows, order="C"), part, 0, len(part))


def _run_on_threads(kernel: Any, count: int, threads: int, *arrays: Any) -> None:
    """Call a kernel for all strips, so many as `count`."""
    run_in_threads([partial(kernel, *arrays, *part) for part in split_range(count, threads)])


class Strips:
    """A grid of a shape as strips, which sweeps overwrite."""

    def __init__(
        self, values: np.ndarray, rhs: np.ndarray | None, shape: tuple[int, ...], omega: float,
        threads: int = 1
    ) -> None:  # fmt: skip
        self.values, self.threads, lanes = values, threads, values.shape[-1]
        self.size = (*shape, lanes)
        weights = np.array([1 - omega, omega / 4], values.dtype)
        self.codes = np.arange(lanes, dtype=f"i{values.itemsize}")
        rhs_values = None if rhs is None else rhs.reshape(-1)
        self.arguments = values.reshape(-1), rhs_values, weights, self.size, self.codes

    def sweep(self, sweeps: int) -> None:
        for first in range(0, sweeps, _TOGETHER):
            self._sweep_together(min(_TOGETHER, sweeps - first), None)

    def sweep_and_check(self, sweeps: int) -> float:
        """Sweep, and return the largest update of the last sweep."""
        last = (sweeps - 1) % _TOGETHER + 1
        self.sweep(sweeps - last)
        peaks = np.zeros((self.threads, self.size[-1]), self.codes.dtype)
        self._sweep_together(last, peaks)
        return float(peaks.view(self.values.dtype).max())

    def _sweep_together(self, sweeps: int, peaks: np.ndarray | None) -> None:
        if min(self.size[:2]) < 3:
            return
        threads = self.threads if sweeps * self.values.size >= _MANY_TOGETHER else 1
        for tiles in independent_tiles(self.values.shape, sweeps, threads):
            calls = []
            shares = filter(None, (tiles[k::threads] for k in range(threads)))
            for k, thread_tiles in enumerate(shares):
                thread_peaks = None if peaks is None else peaks[k]
                calls.append(partial(self._relax, sweeps, thread_peaks, thread_tiles))
            run_in_threads(calls)

    def _relax(self, sweeps: int, peaks: np.ndarray | None, tiles: list[Tile]) -> None:
        for levels, times in tiles:
            relax(*self.arguments, peaks, sweeps, levels, times)


def lay_out_grids(grids: np.ndarray, rhs: np.ndarray | None = None) -> SkewedGrids:
    """Return contiguous grids (..., rows, columns) and their right-hand sides as strips."""
    return SkewedGrids(_strips_of(grids), None if rhs is None else _strips_of(rhs), grids.shape)


def _strips_of(grids: np.ndarray) -> np.ndarray:
    strips = np.empty((*grids.shape[:-2], *strips_shape(grids)), grids.dtype)
    for k in np.ndindex(grids.shape[:-2]):
        skew(grids[k], strips[k], 0, strips.shape[-3])
    return strips


@dataclass(frozen=True)
class SkewedGrids:
    """Tiles of Dask arrays: a batch of grids that stay strips from one sweep to the next.

    Tasks must not write to their arguments, so a sweep copies the strips. With grids that were
    skewed and copied back in every sweep, one thread took 3.4 ns a point.

    Attributes
    ----------
    values, rhs : array (..., strips, steps, lanes)
        `rhs` may be None.
    shape : tuple of int
        Shape of the batch as an array.
    """

    values: np.ndarray
    rhs: np.ndarray | None
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return self.values.nbytes * (1 if self.rhs is None else 2)

    def row(self, k: int) -> np.ndarray:
        """Return a view of row k (..., columns)."""
        q, lane = divmod(k, self.values.shape[-1])
        return self.values[..., q, lane : lane + self.shape[-1], lane]

    def column(self, k: int) -> np.ndarray:
        """Return a copy of column k (..., rows)."""
        return self.values[self._column_index(k, slice(None))]

    def _column_index(self, k: int, rows: slice) -> tuple[Any, ...]:
        q, lanes = np.divmod(np.arange(self.shape[-2])[rows], self.values.shape[-1])
        return ..., q, k + lanes, lanes

    def sweep(
        self, loop: Sweeps, borders: Sequence[Any], inside: tuple[slice, slice], done: Any
    ) -> tuple[SkewedGrids, np.ndarray]:
        """Return the grids after the sweeps of a loop, and the largest update of each.

        Parameters
        ----------
        loop : Sweeps
        borders : four arrays, or None
            The row above, the column to the left, the row below and the column to the right.
        inside : (slice, slice)
            Rows of the columns in `borders`, and columns of the rows.
        done : array of bool, optional
            Grids that do not change.
        """
        swept, updates = replace(self, values=self.values.copy()), np.full(self.shape[:-2], np.nan)
        swept._write_borders(borders, inside)
        for k in np.ndindex(updates.shape):
            if done is not None and done[k]:
                continue
            rhs = None if self.rhs is None else self.rhs[k]
            strips = Strips(swept.values[k], rhs, self.shape[-2:], loop.omega)
            if loop.tol is None:
                strips.sweep(loop.sweeps)
            else:
                updates[k] = strips.sweep_and_check(loop.sweeps)
        return swept, updates

    def _write_borders(self, borders: Sequence[Any], inside: tuple[slice, slice]) -> None:
        (above, left, below, right), (down, across) = borders, inside
        rows, columns = self.shape[-2:]
        for k, row in ((0, above), (rows - 1, below)):
            if row is not None:
                self.row(k)[..., across] = row
        for k, column in ((0, left), (columns - 1, right)):
            if column is not None:
                self.values[self._column_index(k, down)] = column

    def to_array(self) -> np.ndarray:
        grids = np.empty(self.shape, self.values.dtype)
        for k in np.ndindex(self.shape[:-2]):
            unskew(self.values[k], grids[k], 0, self.values.shape[-3])
        return grids
