"""Successive over-relaxation of CuPy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ....core.arrays.array_types import raise_if_capturing
from ....engines.cuda.device import Device, on_device, pack_words
from ..sweeps import Sweeps
from .layout import MOST_WORDS, groups_of, launches_of
from .program import prepared_of

_MOST = 2**31 - 2**12


def determine_relaxation(
    loop: Sweeps, x: Any, rhs: Any, result: Any, left: np.ndarray | None = None
) -> np.ndarray:
    """Write the grids of a batch after the sweeps of a loop.

    Parameters
    ----------
    loop : Sweeps
    x : array (..., rows, columns)
    rhs : array, optional
        It broadcasts to `x`; a scalar may be in host memory.
    result : array
        Of the shape and dtype of `x`, C-contiguous. It may be `x`.
    left : array of int, optional
        Grids that are swept, by their numbers in the batch, if not all are. Others are not
        written.

    Returns
    -------
    array (...)
        The largest update of each grid in its last sweep; nan where there is none, and where
        `loop` asks for none.
    """
    import cupy

    shape, updates = x.shape[:-2], np.full(prod(x.shape[:-2]), np.nan)
    if x.size == 0 or min(x.shape[-2:]) < 3:
        result[...] = x
        return np.full(shape, np.nan if loop.tol is None else 0.0)
    _check_size(x.shape)
    batch = Batch.of(cupy.ascontiguousarray(x), rhs, result)
    if loop.tol is None:
        batch.sweep(loop.omega, loop.sweeps, left)
        return updates.reshape(shape)
    raise_if_capturing(
        "sweeps with tol", "the host reads the largest update of every checked sweep"
    )
    left = np.arange(updates.size) if left is None else left
    for sweeps in loop.sweep_counts:
        updates[left] = batch.checked(loop.omega, sweeps, left)
        left = left[~(updates[left] < loop.tol)]
        if left.size == 0:
            break
        batch = replace(batch, x=batch.result)
    return updates.reshape(shape)


def _check_size(shape: tuple[int, ...]) -> None:
    if max(shape[-2:]) > _MOST:
        raise ValueError(
            f"x must have at most {_MOST} rows and columns on a GPU; got shape {shape}: cut it "
            f"into chunks of a Dask array"
        )


def refuse_numbered(rows: int, sweeps: int) -> None:
    """Raise where strips that tell each other edges are captured."""
    which = f"sweeps over grids of {rows} rows, {sweeps} at a time,"
    raise_if_capturing(which, "every launch needs a number of its own")


def weights_of(omega: float, dtype: np.dtype[Any]) -> list[int]:
    """Of a point and of its neighbours, rounded to a dtype, as words of float64."""
    weights = np.array([1 - omega, omega / 4], dtype).astype(np.float64).view(np.int64)
    return [int(word) for word in weights]


@dataclass(frozen=True)
class Batch:
    """Grids on a device, where they come from and where their sweeps go to.

    Attributes
    ----------
    x, result : array (..., rows, columns)
        C-contiguous.
    rhs : array, optional
        C-contiguous, of one grid or of all.
    rhs_stride : int
        Numbers from one grid's right-hand side to the next one's.
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
        """Of grids."""
        return prod(self.x.shape[:-2])

    def checked(self, omega: float, sweeps: int, left: np.ndarray) -> np.ndarray:
        """Sweep some grids; the largest update of each in the last sweep."""
        import cupy

        updates = cupy.zeros(left.size, np.uint64)
        self.sweep(omega, sweeps, left, updates)
        bits = updates.get().astype(f"u{self.x.dtype.itemsize}")
        return np.asarray(bits.view(self.x.dtype))

    def sweep(
        self, omega: float, sweeps: int, left: np.ndarray | None = None, updates: Any = None
    ) -> None:
        """Sweep grids; `updates` are written by the last launch."""
        import cupy

        which, count = None, self.count if left is None else left.size
        if count < self.count:
            which = cupy.asarray(left, dtype=np.int32)
        room = Device.current().shared_bytes
        sizes = groups_of(self.x.dtype, self.rhs is not None, room)
        *others, last = launches_of(sweeps, sizes)
        batch = self
        for part in others:
            batch._launch(omega, part, which, count, None)
            batch = replace(self, x=self.result)
        batch._launch(omega, last, which, count, updates)

    def _launch(self, omega: float, sweeps: int, which: Any, count: int, updates: Any) -> None:
        import cupy

        dtype, (rows, columns) = self.x.dtype, self.x.shape[-2:]
        kind = dtype, sweeps, self.rhs is not None, updates is not None
        device = cupy.cuda.runtime.getDevice()
        cut, _ = prepared_of((count, rows, columns), *kind, device)
        if cut.edge_words:
            refuse_numbered(rows, sweeps)
        weights = weights_of(omega, dtype)
        for begin, part in _parts(count, cut.edge_words, cut.strips):
            cut, run = prepared_of((part, rows, columns), *kind, device)
            places = self._places(which, updates, begin)
            sizes = self.rhs_stride, *cut.shape, cut.strips, cut.tiles, cut.slots(Device.current())
            run((pack_words([*places, *weights, *sizes]),))

    def _places(self, which: Any, updates: Any, begin: int) -> Iterator[int]:
        """Addresses from a grid on: `which` tells the numbers of the others' grids."""
        first, size = (begin if which is None else 0), self.x.dtype.itemsize
        stride = prod(self.x.shape[-2:])
        for array, number in (
            (self.x, first * stride * size),
            (self.rhs, first * self.rhs_stride * size),
            (self.result, first * stride * size),
            (updates, begin * 8),
            (which, begin * 4),
        ):
            yield 0 if array is None else array.data.ptr + number


def most_of(words: int, strips: int) -> int:
    """Grids of one launch, by the words of an edge and the strips of a grid."""
    return max(1, min(_MOST, MOST_WORDS // max(words, 1)) // strips)


def _parts(count: int, words: int, strips: int) -> Iterator[tuple[int, int]]:
    """The first grid and the number of grids of every launch."""
    most = most_of(words, strips)
    for begin in range(0, count, most):
        yield begin, min(most, count - begin)
