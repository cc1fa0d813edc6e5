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

CELLS, MIN_ROWS = 1 << 22, 8
"""Samples of a block of rows, which is cast to float64 at once; rows of a block at least."""


class ImageFilter(AxisFilter, Protocol):
    """A filter of images along an axis."""

    def apply_to_whole(self, x: Any, axis: int, dtype: np.dtype[Any], into: Any = None) -> Any:
        """Return the filtered array, whose borders are those of the mode.

        A NumPy array is written to the memory of `into` if that is passed.
        """


def filter_axis(axis_filter: ImageFilter, x: Any, axis: int, dtype: np.dtype[Any], into: Any = None) -> Any:
    """Filter a NumPy, CuPy or Dask array along an axis; return the results in a dtype."""
    if (call := CALL.get()) is not None:
        from ..distributed.groups.solve import filter_part

        return filter_part(call, axis_filter, x, axis, dtype)
    if x.size == 0:
        return cast(x, dtype)
    backend = backend_of(x)
    backend.raise_if_capturing("a filter of images", "weights are copied to the device")
    if is_lazy(x):
        from ..distributed.graph.build import solve_filter

        return solve_filter(axis_filter, x, axis, dtype)
    with backend.device_of((x,)):
        return axis_filter.apply_to_whole(x, axis, dtype, into)


def filter_axes(filters: Sequence[tuple[int, ImageFilter]], x: Any, dtype: np.dtype[Any]) -> Any:
    """Filter along one axis after the other; return the results in a dtype, in new memory."""
    result = x
    for axis, axis_filter in filters:
        # In place on a CPU: 512 MB of new memory took 1.0 s, and the filter itself 0.5 s.
        into = result if type(result) is np.ndarray and result is not x else None
        result = filter_axis(axis_filter, result, axis, dtype, into)
    return x.astype(dtype) if result is x else result


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
    return np.empty(0, dtype).real.dtype


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
    blocks = _blocks(out.shape, threads_for(out.size, is_threaded))

    def filter_blocks(start: int, stop: int) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            for outer, inner in blocks[start:stop]:
                index, first = (outer, slice(None), inner), (outer.start, inner.start)
                count = max(outer.stop - outer.start, inner.stop - inner.start)
                x, x_at, filtered, out_at = writable(rows), first, out, first
                if rows.dtype != np.float64:
                    x, x_at = as_float64(rows[index]), (0, 0)
                if out.dtype != np.float64:
                    filtered, out_at = np.empty(out[index].shape), (0, 0)
                kernel(first, count, x, x_at, filtered, out_at)
                if filtered is not out:
                    is_float = out.dtype.kind == "f"
                    out[index] = filtered if is_float else cast_results(filtered, out.dtype)

    call_in_parts(filter_blocks, len(blocks), threads_for(out.size, is_threaded))


def _blocks(shape: tuple[int, ...], threads: int) -> list[tuple[slice, slice]]:
    """Return blocks of rows, as slices of the outer and the inner axis."""
    outer, steps, inner = shape
    if inner == 1:
        return [(part, slice(0, 1)) for part in _split(outer, steps, threads)]
    parts = _split(inner, steps, -(-threads // outer))
    return [(slice(k, k + 1), part) for k in range(outer) for part in parts]


def _split(rows: int, steps: int, threads: int) -> list[slice]:
    parts = max(threads, -(-rows * steps // CELLS))
    return [slice(*part) for part in split_range(rows, min(parts, -(-rows // MIN_ROWS)))]
