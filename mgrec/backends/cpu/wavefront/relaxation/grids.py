"""Successive over-relaxation of grids in host memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .....families.wavefront.relaxation import Sweeps
from ...compilation.kernels import writable
from ...simd.choice import WIDE
from ...threads import SMALL, cuts, thread_count, together
from .strips import add_updates, skew, straighten
from .sweeps import relax
from .tiles import Tile, antidiagonals

# Sweeps over a part of a grid while it is in the caches. Nanoseconds a point and sweep of
# 4,096 × 4,096 on one core, of 1, 2, 4, 8, 16 sweeps together: 0.53, 0.34, 0.22, 0.17, 0.14 in
# float32, 1.2, 0.67, 0.40, 0.32, 0.28 in float64.
_TOGETHER = 16
# Updates of a call for which a second thread pays, and of sweeps together: of 1,024 × 1,024 in
# float32, 16 sweeps took 2.2 ms on one thread and 4.1 ms on two, which wait for each other often.
_MANY, _MANY_TOGETHER = 8 * SMALL, 32 * SMALL


def determine_relaxation(
    loop: Sweeps, x: np.ndarray, rhs: np.ndarray | None, result: np.ndarray, is_shared: bool
) -> np.ndarray:
    """Write the grids of a batch after the sweeps of a loop.

    Parameters
    ----------
    loop : Sweeps
    x : array (..., rows, columns)
    rhs : array, optional
        Of the shape and dtype of `x`.
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
    shape = (-1, *x.shape[-2:])
    grids, sides = _contiguous(x).reshape(shape), None
    if rhs is not None:
        sides = _contiguous(rhs).reshape(shape)
    threads = thread_count() if is_shared and result.size * loop.sweeps >= _MANY else 1
    is_split = len(grids) >= threads

    def run(begin: int, end: int) -> None:
        for k in range(begin, end):
            side, own = None if sides is None else sides[k], 1 if is_split else threads
            found = _relax_grid(loop, grids[k], side, result.reshape(shape)[k], own)
            updates.reshape(-1)[k] = found

    parts = cuts(len(grids), threads if is_split else 1)
    together([partial(run, *part) for part in parts])
    return updates


def _contiguous(array: np.ndarray) -> np.ndarray:
    return writable(np.ascontiguousarray(array))


def _relax_grid(
    loop: Sweeps, grid: np.ndarray, rhs: np.ndarray | None, result: np.ndarray, threads: int
) -> float:
    if min(grid.shape) < 3:
        result[...] = grid
        return 0.0
    strips, update = _Strips(grid, rhs, loop.omega, threads), np.nan
    for sweeps in loop.runs:
        if loop.tol is None:
            strips.sweep(sweeps)
            continue
        strips.sweep(sweeps - 1)
        before = strips.values.copy()
        strips.sweep(1)
        update = strips.update(before)
        if update < loop.tol:
            break
    strips.write(result)
    return update


class _Strips:
    """A grid as strips, between sweeps."""

    def __init__(
        self, grid: np.ndarray, rhs: np.ndarray | None, omega: float, threads: int
    ) -> None:
        lanes, (self.rows, columns) = WIDE // grid.itemsize, grid.shape
        self.size, self.threads = (self.rows, columns, lanes), threads
        self.weights = np.array([1 - omega, omega / 4], grid.dtype)
        self.codes = np.arange(lanes, dtype=f"i{grid.itemsize}")
        shape = -(-self.rows // lanes), columns + lanes - 1, lanes
        self.values = np.empty(shape, grid.dtype)
        self._share(skew, grid, self.values)
        self.rhs = None
        if rhs is not None:
            self.rhs = np.empty_like(self.values)
            self._share(skew, rhs, self.rhs)

    def _share(self, kernel: Any, *arrays: Any) -> None:
        """Call a kernel for all strips."""
        together([partial(kernel, *arrays, *part) for part in self._parts])

    @property
    def _parts(self) -> list[tuple[int, int]]:
        return cuts(len(self.values), self.threads)

    def sweep(self, sweeps: int) -> None:
        for first in range(0, sweeps, _TOGETHER):
            count = min(_TOGETHER, sweeps - first)
            threads = self.threads if count * self.values.size >= _MANY_TOGETHER else 1
            for tiles in antidiagonals(self.values.shape, count, threads):
                shares = (tiles[k::threads] for k in range(threads))
                together([partial(self._relax, count, share) for share in shares if share])

    def _relax(self, sweeps: int, tiles: list[Tile]) -> None:
        rhs = None if self.rhs is None else self.rhs.reshape(-1)
        own = self.values.reshape(-1), rhs, self.weights, self.size, self.codes
        for levels, times in tiles:
            relax(*own, sweeps, levels, times)

    def update(self, before: np.ndarray) -> float:
        """The largest update since then."""
        peaks = np.zeros((len(self._parts), self.values.shape[-1]), self.values.dtype)
        calls = [
            partial(add_updates, before, self.values, self.rows, own, *part)
            for own, part in zip(peaks, self._parts, strict=True)
        ]
        together(calls)
        return float(peaks.max())

    def write(self, grid: np.ndarray) -> None:
        self._share(straighten, self.values, grid)
