"""Filters along an axis: of whole arrays, and of the chunks of Dask arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..core.arrays.array_types import cast, is_lazy
from ..core.arrays.chunk import as_contiguous, canonical_shape
from ..core.backends import backend_of
from ..core.contract.recurrence import AxisFilter
from ..distributed.groups.calls import CALL
from ..engines.cpu.compilation import writable
from ..engines.cpu.threads import call_in_parts, split_range, threads_for

CELLS, MIN_ROWS = 1 << 19, 8
"""Samples of a block of rows that is cast to float64 at once, and rows of a block at least. Box filters
of 2,048 x 2,048 float32 took 64 ms in blocks of 2^22, and 46 ms in these."""


class ImageFilter(AxisFilter, Protocol):
    """A filter of images along an axis."""

    def apply_to_whole(self, x: Any, axis: int, dtype: np.dtype[Any], into: Any = None) -> Any:
        """Return the filtered array, whose borders are those of the mode.

        A NumPy array may be written to the memory of `into`, which is None or x.
        """


def filter_axes(filters: Sequence[tuple[int, ImageFilter]], x: Any, dtype: np.dtype[Any]) -> Any:
    """Filter a NumPy, CuPy or Dask array along one axis after the other.

    Return the results in a dtype, in new memory.
    """
    call = CALL.get()
    if not filters or (call is None and x.size == 0):
        return x.astype(dtype)
    if call is not None:
        from ..distributed.groups.solve import filter_part

        for axis, axis_filter in filters:
            x = filter_part(call, axis_filter, x, axis, dtype)
        return x
    backend = backend_of(x)
    backend.raise_if_capturing("a filter of images", "weights are copied to the device")
    if is_lazy(x):
        from ..distributed.graph.build import solve_filter

        for axis, axis_filter in filters:
            x = solve_filter(axis_filter, x, axis, dtype)
        return x
    with backend.device_of((x,)):
        into = None
        for axis, axis_filter in filters:
            # In place on a CPU: 512 MB of new memory took 1.0 s, and the filter itself 0.5 s.
            x = into = axis_filter.apply_to_whole(x, axis, dtype, into)
    return x


def as_rows(x: Any, axis: int) -> Any:
    """Return real numbers of axes (outer, steps, inner); complex ones are pairs along inner."""
    shape = canonical_shape(x.shape, axis)
    x = as_contiguous(x)
    if x.dtype.kind == "c":
        return x.view(x.real.dtype).reshape(*shape[:2], 2 * shape[2])
    return x.reshape(shape)


def from_rows(rows: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an array of `as_rows` in its shape and a dtype."""
    if dtype.kind == "c":
        return as_contiguous(rows).view(np.result_type(rows.dtype, np.complex64)).reshape(shape)
    return rows.reshape(shape)


def new_rows(shape: Any, dtype: np.dtype[Any], into: Any, axis: int) -> np.ndarray:
    """Return rows for results: those of the array `into`, or new ones if it is None."""
    return np.empty(shape, dtype) if into is None else as_rows(into, axis)


def dtype_like(x: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of results, which is complex if x is."""
    return np.result_type(dtype, np.complex64) if x.dtype.kind == "c" else dtype


def constants_of(cval: complex, is_complex: bool) -> tuple[float, float]:
    """Return the constants outside of even and odd rows of `as_rows`."""
    return cval.real, cval.imag if is_complex else cval.real


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of a complex dtype, and any other dtype unchanged."""
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def as_float64(x: Any) -> Any:
    """Return the array in float64, without a copy if it is."""
    return cast(x, np.dtype(np.float64))


def cast_like_scipy(values: Any, dtype: np.dtype[Any]) -> Any:
    """Cast float64 values: to integers and bools by truncation, as SciPy does in C."""
    if dtype.kind == "b":
        return values.astype(np.int64).astype(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        return values.astype(dtype, copy=False)


RowIndex = tuple[int, int]
"""Outer and inner index of a row of an array (outer, steps, inner)."""


def fill_rows(
    kernel: Callable[[RowIndex, int, Any, RowIndex, Any, RowIndex], None],
    rows: np.ndarray,
    out: np.ndarray,
    cast_results: Callable[[Any, np.dtype[Any]], Any],
    is_threaded: bool,
) -> None:
    """Call ``kernel(first, count, x, x_at, filtered, out_at)`` for all blocks of rows, on threads.

    Rows of a block, the first of which is at `first`, follow each other along the outer axis if
    inner is 1, otherwise along the inner axis. Kernels compute in float64. The arrays x and
    `filtered` contain the block at x_at and `out_at`. Of other dtypes they are copies of the block.
    `cast_results` casts to integers and bools.
    """
    threads, rows = threads_for(out.size, is_threaded), writable(rows)
    is_cast = not rows.dtype == out.dtype == np.float64
    blocks = _blocks(out.shape, threads, CELLS if is_cast else max(out.size, 1))

    def filter_blocks(start: int, stop: int) -> None:
        for first, count in blocks[start:stop]:
            x, x_at, filtered, out_at = rows, first, out, first
            if rows.dtype != np.float64:
                x, x_at = as_float64(_block(rows, first, count)), (0, 0)
            if out.dtype != np.float64:
                target = _block(out, first, count)
                filtered, out_at = np.empty(target.shape), (0, 0)
            kernel(first, count, x, x_at, filtered, out_at)
            if filtered is not out:
                with np.errstate(invalid="ignore", over="ignore"):
                    target[...] = filtered if out.dtype.kind == "f" else cast_results(filtered, out.dtype)

    call_in_parts(filter_blocks, len(blocks), threads)


def _blocks(shape: tuple[int, ...], threads: int, cells: int) -> list[tuple[RowIndex, int]]:
    """Return the first row of each block of at most so many cells, and its number of rows."""
    outer, steps, inner = shape
    rows, threads = (outer, threads) if inner == 1 else (inner, -(-threads // outer))
    parts = min(max(threads, -(-rows * steps // cells)), -(-rows // MIN_ROWS))
    if inner == 1:
        return [((start, 0), stop - start) for start, stop in split_range(rows, parts)]
    return [((k, start), stop - start) for k in range(outer) for start, stop in split_range(rows, parts)]


def _block(rows: np.ndarray, first: RowIndex, count: int) -> np.ndarray:
    """Return a block of rows, which follow each other along the outer axis if inner is 1."""
    outer, inner = first
    if rows.shape[2] == 1:
        return rows[outer : outer + count]
    return rows[outer : outer + 1, :, inner : inner + count]
