"""Successive over-relaxation of CuPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ....core.arrays.array_types import is_on_gpu, raise_if_capturing
from ....core.contract.kernels import Kernels, PreparedSolver
from ....engines.cuda.device import Device, on_device, pack_words
from ....engines.cuda.launches import LaunchByAddress, PreparedLaunches
from ..recurrence import Sweeps
from .layout import MOST_WORDS, choose_partition, group_counts, split_sweeps
from .program import build_launch, prepare_launch

_MOST = 2**31 - 2**12


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk."""
    return Kernels(
        determine_relaxation, lay_out_grids=DeviceGrids, prepare_solver=prepare_relaxation
    )


def determine_relaxation(
    loop: Sweeps, x: Any, rhs: Any, result: Any, remaining: np.ndarray | None = None
) -> np.ndarray:
    """Write the grids of a batch after the sweeps of a loop.

    Parameters
    ----------
    loop : Sweeps
    x : array (..., rows, columns)
    rhs : array, optional
        It broadcasts to `x`; a scalar may be in host memory.
    result : array
        C-contiguous, of the shape and dtype of `x`. It may be `x`.
    remaining : array of int, optional
        Numbers of the grids in the batch that are swept. The other grids are not written.

    Returns
    -------
    array (...)
        Largest update of each grid in its last sweep; nan for grids that are not swept, and if
        `loop` does not check sweeps.
    """
    import cupy

    shape, updates = x.shape[:-2], np.full(prod(x.shape[:-2]), np.nan)
    if x.size == 0 or min(x.shape[-2:]) < 3:
        result[...] = x
        return np.full(shape, np.nan if loop.tol is None else 0.0)
    _check_size(x.shape)
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


def _check_size(shape: tuple[int, ...]) -> None:
    if max(shape[-2:]) > _MOST:
        raise ValueError(
            f"x must have at most {_MOST} rows and columns on a GPU; got shape {shape}: cut it "
            f"into chunks of a Dask array"
        )


def _refuse_strips(rows: int, sweeps: int) -> None:
    """Raise if a launch whose strips exchange edges is captured."""
    name = f"sweeps over grids of {rows} rows, {sweeps} at a time,"
    raise_if_capturing(name, "every launch needs a number of its own")


def _weights(omega: float, dtype: np.dtype[Any]) -> list[int]:
    """Return 1 − ω and ω/4, rounded to a dtype, as words of float64."""
    weights = np.array([1 - omega, omega / 4], dtype).astype(np.float64).view(np.int64)
    return [int(word) for word in weights]


@dataclass(frozen=True)
class Batch:
    """Grids on a device, and the array of their results.

    Attributes
    ----------
    x, result : array (..., rows, columns)
        C-contiguous.
    rhs : array, optional
        C-contiguous, of one grid or of all.
    rhs_stride : int
        Numbers from the right-hand side of a grid to that of the next one.
    """

    x: Any
    result: Any
    rhs: Any = None
    rhs_stride: int = 0

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
        shared_bytes = Device.current().shared_bytes
        sizes = group_counts(self.x.dtype, self.rhs is not None, shared_bytes)
        *first_launches, last = split_sweeps(sweeps, sizes)
        batch = self
        for launch_sweeps in first_launches:
            batch._launch(omega, launch_sweeps, indices, count, None)
            batch = replace(self, x=self.result)
        batch._launch(omega, last, indices, count, updates)

    def _launch(self, omega: float, sweeps: int, indices: Any, count: int, updates: Any) -> None:
        import cupy

        dtype, (rows, columns) = self.x.dtype, self.x.shape[-2:]
        signature = dtype, sweeps, self.rhs is not None, updates is not None
        device_id = cupy.cuda.runtime.getDevice()
        partition, _ = prepare_launch((count, rows, columns), *signature, device_id)
        if partition.edge_words:
            _refuse_strips(rows, sweeps)
        weights = _weights(omega, dtype)
        for start, size in _split_batch(count, partition.edge_words, partition.strips):
            partition, run = prepare_launch((size, rows, columns), *signature, device_id)
            addresses = self._addresses(indices, updates, start)
            slots = partition.slots(Device.current())
            sizes = self.rhs_stride, *partition.shape, partition.strips, partition.tiles, slots
            run((pack_words([*addresses, *weights, *sizes]),))

    def _addresses(self, indices: Any, updates: Any, start: int) -> Iterator[int]:
        """Yield addresses for the grids from `start` on, which `indices` may number."""
        first, size = (start if indices is None else 0), self.x.dtype.itemsize
        stride = prod(self.x.shape[-2:])
        for array, offset in (
            (self.x, first * stride * size),
            (self.rhs, first * self.rhs_stride * size),
            (self.result, first * stride * size),
            (updates, start * 8),
            (indices, start * 4),
        ):
            yield 0 if array is None else array.data.ptr + offset


def _most_grids(edge_words: int, strips: int) -> int:
    """Return the largest number of grids of one launch."""
    return max(1, min(_MOST, MOST_WORDS // max(edge_words, 1)) // strips)


def _split_batch(count: int, edge_words: int, strips: int) -> Iterator[tuple[int, int]]:
    """Yield the first grid and the number of grids of every launch."""
    most = _most_grids(edge_words, strips)
    for start in range(0, count, most):
        yield start, min(most, count - start)


_PreparedStep = tuple[LaunchByAddress, list[int], tuple[int, int] | None]


def prepare_relaxation(
    loop: Sweeps, grids: Sequence[Any], carry_in: None, results: Sequence[Any]
) -> PreparedSolver | None:
    """Return a solver for other grids of the same shape and dtype.

    None if sweeps are checked, nothing is swept, the right-hand side needs a copy, or a sweep
    needs several launches.

    Parameters
    ----------
    grids : arrays
        x, and the right-hand side if there is one.
    """
    x, *rhs = grids
    (result,) = results
    if loop.tol is not None or min(x.shape[-2:]) < 3:
        return None
    batch = Batch.of(x, rhs[0] if rhs else None, result)
    has_rhs = bool(rhs)
    if has_rhs and not (is_on_gpu(rhs[0]) and batch.rhs.data.ptr == rhs[0].data.ptr):
        return None
    steps = _prepare_steps(loop, batch)
    if steps is None:
        return None

    def solve(operands: Sequence[int], results: Sequence[int]) -> None:
        source, target = operands[0], results[0]
        for bound, words, rows_and_sweeps in steps:
            if rows_and_sweeps:
                _refuse_strips(*rows_and_sweeps)
            bound([[source, operands[1] if has_rhs else 0, target, 0, 0, *words]])
            source = target

    return solve


def _prepare_steps(loop: Sweeps, batch: Batch) -> list[_PreparedStep] | None:
    """Return each launch, its words after the addresses, and rows and sweeps if strips exchange."""
    device, dtype, shape = Device.current(), batch.x.dtype, batch.x.shape[-2:]
    has_rhs, steps = batch.rhs is not None, list[_PreparedStep]()
    sizes = group_counts(dtype, has_rhs, device.shared_bytes)
    for sweeps in split_sweeps(loop.sweeps, sizes):
        partition = choose_partition((batch.count, *shape), dtype, sweeps, has_rhs, False, device)
        if batch.count > _most_grids(partition.edge_words, partition.strips):
            return None
        slots = partition.slots(device)
        words = [*_weights(loop.omega, dtype), batch.rhs_stride, *partition.shape]
        words += [partition.strips, partition.tiles, slots]
        launch = build_launch(partition, device)
        bound = LaunchByAddress(PreparedLaunches(launch, units=slots * partition.edge_words))
        steps.append((bound, words, (shape[0], sweeps) if partition.edge_words else None))
    return steps


@dataclass(frozen=True)
class DeviceGrids:
    """Tiles of Dask arrays: a batch of contiguous grids that stay on the device between sweeps.

    Attributes
    ----------
    values, rhs : array (..., rows, columns)
        `rhs` may be None.
    """

    values: Any
    rhs: Any = None

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes) * (1 if self.rhs is None else 2)

    def row(self, k: int) -> Any:
        """Return a view of row k (..., columns)."""
        return self.values[..., k, :]

    def column(self, k: int) -> Any:
        """Return a view of column k (..., rows)."""
        return self.values[..., k]

    def sweep(
        self, loop: Sweeps, borders: Sequence[Any], inside: tuple[slice, slice], done: Any
    ) -> tuple[DeviceGrids, np.ndarray]:
        """Return the grids after the sweeps of a loop, and the largest update of each.

        The arguments are those of `SkewedGrids.sweep` on the CPU, `borders` in host memory.
        """
        remaining = None if done is None else np.flatnonzero(~done)
        with self.values.device:
            # Tasks must not write to their arguments.
            swept = DeviceGrids(self.values.copy(), self.rhs)
            swept._write_borders(borders, inside)
            updates = determine_relaxation(loop, swept.values, self.rhs, swept.values, remaining)
        return swept, updates

    def _write_borders(self, borders: Sequence[Any], inside: tuple[slice, slice]) -> None:
        import cupy

        (above, left, below, right), (down, across) = borders, inside
        for k, row in ((0, above), (-1, below)):
            if row is not None:
                self.row(k)[..., across] = cupy.asarray(row)
        for k, column in ((0, left), (-1, right)):
            if column is not None:
                self.column(k)[..., down] = cupy.asarray(column)

    def to_array(self) -> Any:
        return self.values
