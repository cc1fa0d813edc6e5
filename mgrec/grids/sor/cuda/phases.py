"""Successive over-relaxation of CuPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ....core.arrays.chunk import is_uncopied
from ....core.backends import CPU, backend_of
from ....core.contract.kernels import Kernels, PreparedSolver
from ....engines.cuda.device import Device, on_device, pack_words, raise_if_capturing
from ....engines.cuda.launches import LaunchByAddress, PreparedLaunches
from ..recurrence import LaidOutGrids, Sweeps
from .layout import MOST_WORDS, group_counts, split_sweeps
from .program import prepare_launch

_MOST = 2**31 - 2**12


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk."""
    return Kernels(
        determine_relaxation, lay_out_grids=lay_out_grids, prepare_solver=prepare_relaxation
    )


def determine_relaxation(
    loop: Sweeps, x: Any, rhs: Any, result: Any, remaining: np.ndarray | None = None
) -> np.ndarray:
    """Write the grids of a batch after the sweeps of a loop to `result`, which may be `x`.

    `rhs` may be a scalar in host memory. `remaining` numbers the grids that are swept; the others
    are not written. Return the largest update of each grid in its last sweep; nan for grids that
    are not swept, and if `loop` does not check sweeps.
    """
    import cupy

    shape, updates = x.shape[:-2], np.full(prod(x.shape[:-2]), np.nan)
    if x.size == 0 or min(x.shape[-2:]) < 3:
        result[...] = x
        return np.full(shape, np.nan if loop.tol is None else 0.0)
    if max(x.shape[-2:]) > _MOST:
        raise ValueError(
            f"x must have at most {_MOST} rows and columns on a GPU; got shape {x.shape}: cut it "
            f"into chunks of a Dask array"
        )
    batch = Batch.of(cupy.ascontiguousarray(x), rhs, result)
    if loop.tol is None:
        batch.sweep(loop.omega, loop.sweeps, remaining)
        return updates.reshape(shape)
    raise_if_capturing(
        "sweeps with tol", "the host reads the largest update of every checked sweep"
    )
    remaining = np.arange(updates.size) if remaining is None else remaining
    for sweeps in loop.sweep_counts:
        updates[remaining] = batch.sweep_and_check(loop.omega, sweeps, remaining)
        remaining = remaining[~(updates[remaining] < loop.tol)]
        if remaining.size == 0:
            break
        batch = replace(batch, x=batch.result)
    return updates.reshape(shape)


@dataclass(frozen=True)
class Batch:
    """Grids (..., rows, columns) on a device, and the array of their results, C-contiguous."""

    x: Any
    result: Any
    rhs: Any = None  # of one grid, or of all
    rhs_stride: int = 0  # numbers from one grid to the next

    @staticmethod
    def of(x: Any, rhs: Any, result: Any) -> Batch:
        import cupy

        if rhs is None:
            return Batch(x, result)
        rhs = on_device(rhs)
        if rhs.shape[-2:] == x.shape[-2:] and prod(rhs.shape[:-2]) == 1:
            return Batch(x, result, cupy.ascontiguousarray(rhs))
        rhs = cupy.ascontiguousarray(cupy.broadcast_to(rhs, x.shape))
        return Batch(x, result, rhs, prod(x.shape[-2:]))

    @property
    def count(self) -> int:
        """Number of grids."""
        return prod(self.x.shape[:-2])

    def sweep_and_check(self, omega: float, sweeps: int, remaining: np.ndarray) -> np.ndarray:
        """Sweep some grids, and return the largest update of each in the last sweep."""
        import cupy

        updates = cupy.zeros(remaining.size, np.uint64)
        self.sweep(omega, sweeps, remaining, updates)
        bits = updates.get().astype(f"u{self.x.dtype.itemsize}")
        return np.asarray(bits.view(self.x.dtype))

    def sweep(
        self, omega: float, sweeps: int, remaining: np.ndarray | None = None, updates: Any = None
    ) -> None:
        """Sweep grids; the last launch writes `updates`."""
        import cupy

        indices, count = None, self.count if remaining is None else remaining.size
        if count < self.count:
            indices = cupy.asarray(remaining, dtype=np.int32)
        for step in self.steps(omega, sweeps, count, updates is not None):
            step.raise_if_refused()
            source = self.x if step.is_first else self.result
            addresses = self._addresses(source, indices, updates, step)
            step.run((pack_words([*addresses, *step.words]),))

    def steps(self, omega: float, sweeps: int, count: int, is_checked: bool) -> Iterator[_Step]:
        """Yield the launches of sweeps over so many grids, in order."""
        import cupy

        dtype, (rows, columns) = self.x.dtype, self.x.shape[-2:]
        device, device_id = Device.current(), cupy.cuda.runtime.getDevice()
        weights = np.array([1 - omega, omega / 4], dtype).astype(np.float64).view(np.int64)
        has_rhs, done = self.rhs is not None, 0
        for part in split_sweeps(sweeps, group_counts(dtype, has_rhs, device.shared_bytes)):
            is_last = is_checked and done + part == sweeps
            signature = dtype, part, has_rhs, is_last, device_id
            partition, _ = prepare_launch((count, rows, columns), *signature)
            edge_words = partition.edge_words
            for start, size in _split_batch(count, edge_words, partition.strips):
                partition, run = prepare_launch((size, rows, columns), *signature)
                words = [*weights.tolist(), self.rhs_stride, *partition.shape, partition.strips]
                words += [partition.tiles, partition.slots(device)]
                refused = (rows, part) if edge_words else None
                yield _Step(run, words, start, done == 0, is_last, refused)
            done += part

    def _addresses(self, x: Any, indices: Any, updates: Any, step: _Step) -> Iterator[int]:
        """Yield addresses for the grids of a launch, which `indices` may number."""
        first, size = (step.start if indices is None else 0), x.dtype.itemsize
        stride = prod(x.shape[-2:])
        for array, offset in (
            (x, first * stride * size),
            (self.rhs, first * self.rhs_stride * size),
            (self.result, first * stride * size),
            (updates if step.is_checked else None, step.start * 8),
            (indices, step.start * 4),
        ):
            yield 0 if array is None else array.data.ptr + offset


@dataclass(frozen=True)
class _Step:
    """A launch over some grids, from number `start` on."""

    run: PreparedLaunches
    words: list[int]  # of the kernel's struct, after the addresses
    start: int
    is_first: bool  # whether it reads x
    is_checked: bool
    refused: tuple[int, int] | None  # rows and sweeps, if strips exchange edges

    def raise_if_refused(self) -> None:
        """Raise if a launch whose strips exchange edges is captured."""
        if self.refused:
            name = "sweeps over grids of {} rows, {} at a time,".format(*self.refused)
            raise_if_capturing(name, "every launch needs a number of its own")


def _split_batch(count: int, edge_words: int, strips: int) -> Iterator[tuple[int, int]]:
    """Yield the first grid and the number of grids of every launch."""
    most = max(1, min(_MOST, MOST_WORDS // max(edge_words, 1)) // strips)
    for start in range(0, count, most):
        yield start, min(most, count - start)


def prepare_relaxation(
    loop: Sweeps, grids: Sequence[Any], carry_in: None, results: Sequence[Any]
) -> PreparedSolver | None:
    """Return a solver for other grids of the same shape and dtype.

    None if sweeps are checked, nothing is swept, the right-hand side, which may follow x, needs a
    copy, or a sweep needs several launches.
    """
    x, *rhs = grids
    (result,) = results
    if loop.tol is not None or min(x.shape[-2:]) < 3 or max(x.shape[-2:]) > _MOST:
        return None
    batch = Batch.of(x, rhs[0] if rhs else None, result)
    has_rhs = bool(rhs)
    if has_rhs and (backend_of(rhs[0]) is CPU or not is_uncopied(batch.rhs, rhs[0])):
        return None
    steps = list(batch.steps(loop.omega, loop.sweeps, batch.count, is_checked=False))
    if any(step.start for step in steps):
        return None
    bound = [(step, LaunchByAddress(step.run)) for step in steps]

    def solve(operands: Sequence[int], results: Sequence[int]) -> None:
        source, target = operands[0], results[0]
        for step, launch in bound:
            step.raise_if_refused()
            launch([[source, operands[1] if has_rhs else 0, target, 0, 0, *step.words]])
            source = target

    return solve


def lay_out_grids(grids: Any, rhs: Any = None) -> DeviceGrids:
    """Return contiguous grids (..., rows, columns) and their right-hand sides as they are."""
    return DeviceGrids(grids, rhs, grids.shape)


class DeviceGrids(LaidOutGrids):
    """Tiles of Dask arrays: a batch of contiguous grids that stay on the device between sweeps."""

    def index(self, is_row: bool, k: int, part: slice) -> tuple[Any, ...]:
        return (..., k, part) if is_row else (..., part, k)

    def sweep(
        self, loop: Sweeps, borders: Sequence[Any], inside: tuple[slice, slice], done: Any
    ) -> tuple[DeviceGrids, np.ndarray]:
        import cupy

        remaining = None if done is None else np.flatnonzero(~done)
        with self.values.device:
            # Tasks must not write to their arguments.
            swept = DeviceGrids(self.values.copy(), self.rhs, self.shape)
            borders = [None if border is None else cupy.asarray(border) for border in borders]
            swept.write_borders(borders, inside)
            updates = determine_relaxation(loop, swept.values, self.rhs, swept.values, remaining)
        return swept, updates

    def to_array(self) -> Any:
        return self.values
