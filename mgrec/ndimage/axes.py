"""Filters along an axis: of whole arrays, and of the chunks of Dask arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


def filter_axis(
    axis_filter: ImageFilter, x: Any, axis: int, dtype: np.dtype[Any], into: Any = None
) -> Any:
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


@dataclass(frozen=True)
class Block:
    """Neighbouring rows of an array (outer, steps, inner).

    Attributes
    ----------
    first : (int, int)
        Outer and inner index of the first row.
    count : int
        Number of rows.
    are_contiguous : bool
        Whether they follow each other along the outer axis; otherwise along the inner axis.
    """

    first: tuple[int, int]
    count: int
    are_contiguous: bool

    @property
    def index(self) -> tuple[slice, slice, slice]:
        """The slices of the rows in the array."""
        (outer, inner), count = self.first, self.count
        rows, columns = (count, 1) if self.are_contiguous else (1, count)
        return slice(outer, outer + rows), slice(None), slice(inner, inner + columns)


def fill_rows(
    kernel: Callable[..., None], rows: np.ndarray, out: np.ndarray,
    cast_results: Callable[[Any, np.dtype[Any]], Any], is_threaded: bool,
) -> None:  # fmt: skip
    """Call ``kernel(block, x, x_at, filtered, out_at)`` for all blocks of rows, on all threads.

    Kernels compute in float64. The arrays x and `filtered` contain the block at x_at and `out_at`.
    Of other dtypes they are copies of the block. `cast_results` casts to integers and bools.
    """
    blocks = _blocks(out.shape, threads_for(out.size, is_threaded))

    def filter_blocks(start: int, stop: int) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            for block in blocks[start:stop]:
                x, x_at, filtered, out_at = writable(rows), block.first, out, block.first
                if rows.dtype != np.float64:
                    x, x_at = as_float64(rows[block.index]), (0, 0)
                if out.dtype != np.float64:
                    filtered, out_at = np.empty(out[block.index].shape), (0, 0)
                kernel(block, x, x_at, filtered, out_at)
                if filtered is not out:
                    is_float = out.dtype.kind == "f"
                    values = filtered if is_float else cast_results(filtered, out.dtype)
                    out[block.index] = values

    call_in_parts(filter_blocks, len(blocks), threads_for(out.size, is_threaded))


def _blocks(shape: tuple[int, ...], threads: int) -> list[Block]:
    outer, steps, inner = shape
    if inner == 1:
        return [Block((a, 0), b - a, True) for a, b in _split(outer, steps, threads)]
    parts = _split(inner, steps, -(-threads // outer))
    return [Block((k, a), b - a, False) for k in range(outer) for a, b in parts]


def _split(rows: int, steps: int, threads: int) -> list[tuple[int, int]]:
    parts = max(threads, -(-rows * steps // CELLS))
    return split_range(rows, min(parts, -(-rows // MIN_ROWS)))
