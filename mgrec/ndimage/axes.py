"""Filters along an axis: of whole arrays, and of the chunks of Dask arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.arrays.array_types import cast, is_lazy
from ..core.arrays.chunk import as_contiguous, canonical_shape
from ..core.backends import backend_of
from ..core.contract.recurrence import AxisFilter
from ..distributed.groups.calls import CALL
from ..engines.cpu.compilation import writable
from ..engines.cpu.threads import call_in_parts, split_range, threads_for

ROWS, COLUMNS, LEAST = 32, 64, 8
"""Most contiguous rows, and columns, side by side; fewest columns that are divided among threads. A column
is read from another page at each step, so that their groups are wider."""
FEW_ROWS = 8
"""Long rows are divided into pieces if they are fewer."""
CELLS = 1 << 16
"""Numbers of a block, which stay in the L2 cache."""
SMALL = 1 << 14
"""Most numbers of an array whose calls of kernels are cached."""


class ImageFilter(AxisFilter, Protocol):
    """A filter of images along an axis."""

    def apply_to_whole(self, x: Any, axis: int, dtype: np.dtype[Any], into: Any = None) -> Any:
        """Return the filtered array, whose borders are those of the mode.

        A NumPy array may be written to the memory of `into`, which is None or x.
        """

    def kernel_of_whole(self, shape: tuple[int, int, int]) -> RowKernel | None:
        """Return the kernel of whole real rows (outer, steps, inner) in host memory."""


Filters = tuple[tuple[int, ImageFilter], ...]
"""Axes and their filters."""


def filter_axes(filters: Filters, x: Any, dtype: np.dtype[Any]) -> Any:
    """Filter a NumPy, CuPy or Dask array along one axis after the other."""
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
    if backend.is_host and x.size <= SMALL and x.dtype.kind != "c":
        calls, size = _calls_of_small(filters, x.shape)
        if calls:
            return _filter_small(calls, size, x, dtype)
    with backend.device_of((x,)):
        into = None
        for axis, axis_filter in filters:
            # In place on a CPU: 512 MB of new memory took 1.0 s, and the filter itself 0.5 s.
            x = into = axis_filter.apply_to_whole(x, axis, dtype, into)
    return x


@lru_cache(maxsize=256)
def _calls_of_small(
    filters: Filters, shape: tuple[int, ...]
) -> tuple[list[tuple[RowKernel, list[Block]]], int]:
    """Return the kernel and the blocks of each axis, and the size of their memory.

    There are none if an axis has no kernel for whole rows.
    """
    calls, size = [], 0
    for axis, axis_filter in filters:
        rows = canonical_shape(shape, axis)
        kernel = axis_filter.kernel_of_whole(rows)
        if kernel is None:
            return [], 0
        of_lane = rows[1] + kernel.beyond
        blocks, lanes, _ = _blocks(rows, rows[1], of_lane, 1)
        calls.append((kernel, blocks))
        size = max(size, lanes * (of_lane + kernel.scratch))
    return calls, size


def _filter_small(
    calls: Sequence[tuple[RowKernel, list[Block]]], size: int, x: np.ndarray, dtype: np.dtype[Any]
) -> np.ndarray:
    """Filter a real array by the kernels of one axis after the other."""
    samples, memory = writable(np.ascontiguousarray(as_float64(x)).reshape(-1)), np.zeros(size)
    values = results = np.empty(x.size)
    for kernel, blocks in calls:
        for block in blocks:
            kernel.call(samples, results, block.numbers, memory)
        if dtype != np.float64:
            with np.errstate(invalid="ignore", over="ignore"):
                values = kernel.cast(results, dtype)
                results[:] = values
        samples = results
    return values.reshape(x.shape)


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


class Block(NamedTuple):
    """Rows of arrays (outer, steps, inner) that are filtered together, side by side in memory.

    `outer`, `groups`, `rows`: the first outer index, and the numbers of groups and of outer indices
      of each.
    `inner`, `columns`: the first inner index, and the number of them.
    `lanes`: numbers of a step in memory, at least rows·columns.
    `numbers`, array of int64: the block for kernels: the numbers from one outer index to the next
      one of samples and of results, the numbers from one step to the next one, and `rows`, steps,
      `columns`, `lanes`, `groups`, `outer` and `inner`.
    """

    outer: int
    groups: int
    rows: int
    inner: int
    columns: int
    lanes: int
    numbers: np.ndarray

    def of(self, array: np.ndarray) -> np.ndarray:
        """Return the rows of an array as a view, (groups, steps, rows, columns)."""
        outer, groups, rows, inner, columns, *_ = self
        array = array[outer : outer + groups * rows, :, inner : inner + columns]
        return array.reshape(groups, rows, -1, columns).swapaxes(1, 2)

    def of_lanes(self, lanes: np.ndarray) -> np.ndarray:
        """Return numbers (groups, steps, lanes) as a view, (groups, steps, rows, columns)."""
        used = lanes[:, :, : self.rows * self.columns]
        return used.reshape(self.groups, -1, self.rows, self.columns)


class RowKernel(NamedTuple):
    """A kernel for the rows of blocks; see :func:`fill_rows`.

    `call`, ``(x, out, numbers, memory)``: filters the rows of a block; arrays are flat and of
      float64.
    `cast`, ``(values, dtype) -> array``: casts results to another dtype.
    `scratch`: numbers of memory of a lane besides those of its steps.
    `before`, `beyond`: steps before the samples in memory, and in all besides the samples; results
      are the first steps.
    """

    call: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]
    cast: Callable[[Any, np.dtype[Any]], Any]
    scratch: int
    before: int = 0
    beyond: int = 0


_NOTHING = np.empty(0)


def fill_rows(kernel: RowKernel, x: np.ndarray, out: np.ndarray, is_threaded: bool) -> None:
    """Write the filtered rows of x (outer, steps, inner) to `out`, on threads.

    Kernels copy some rows of arrays of float64 at a time to memory, where they are side by side in
    lanes, and the results to the array for them. Rows of other dtypes are cast on their way to and
    from memory (groups, steps, lanes), which a kernel filters in place: `out` is then empty.
    """
    call, cast_results, scratch, before, beyond = kernel
    # A sample takes as long as several steps of a recurrence.
    threads = threads_for(4 * out.size, is_threaded)
    of_lane = x.shape[1] + beyond
    blocks, lanes, rows = _blocks(x.shape, out.shape[1], of_lane, threads)
    is_copied = x.dtype == out.dtype == np.float64 and x.flags.c_contiguous and out.flags.c_contiguous

    def fill_blocks(start: int, stop: int) -> None:
        if is_copied:
            memory, samples, results = np.zeros(lanes * (of_lane + scratch)), x.reshape(-1), out.reshape(-1)
            for block in blocks[start:stop]:
                call(writable(samples), results, block.numbers, memory)
            return
        memory, samples = np.zeros(lanes * scratch), np.zeros(rows * of_lane)
        with np.errstate(invalid="ignore", over="ignore"):
            for block in blocks[start:stop]:
                used = samples[: block.groups * of_lane * block.lanes]
                in_lanes = used.reshape(block.groups, of_lane, block.lanes)
                block.of_lanes(in_lanes[:, before : before + x.shape[1]])[...] = block.of(x)
                call(used, _NOTHING, block.numbers, memory)
                values = block.of_lanes(in_lanes[:, : out.shape[1]])
                block.of(out)[...] = values if out.dtype.kind == "f" else cast_results(values, out.dtype)

    call_in_parts(fill_blocks, len(blocks), threads)


@lru_cache(maxsize=256)
def _blocks(
    shape: tuple[int, int, int], results: int, of_lane: int, threads: int
) -> tuple[list[Block], int, int]:
    """Return blocks of about `CELLS` numbers, some for each thread; rows have so many results.

    Return also the largest number of lanes of a block, and that of lanes of all groups of a block.
    """
    outer, steps, inner = shape
    if not outer * results * inner:
        return [], 0, 0
    # Groups have nearly as many columns, or rows, as each other.
    parts = min(-(-threads // outer), -(-inner // LEAST))
    columns = split_range(inner, max(parts, -(-inner // COLUMNS)))
    rows = -(-outer // -(-outer // max(1, ROWS // inner)))
    groups = -(-outer // (rows * max(1, threads // len(columns))))
    groups = max(1, min(groups, CELLS // (of_lane * rows * min(inner, COLUMNS))))
    blocks = []

    def add(start: int, groups: int, rows: int, first: int, count: int) -> None:
        # Kernels compute four lanes at a time.
        lanes = rows * count
        lanes += -lanes % 4 if lanes > 1 else 0
        strides = steps * inner, results * inner, inner
        numbers = np.array([*strides, rows, steps, count, lanes, groups, start, first])
        blocks.append(Block(start, groups, rows, first, count, lanes, numbers))

    for first, last in columns:
        for start in range(0, outer, groups * rows):
            count, remainder = divmod(min(groups * rows, outer - start), rows)
            if count:
                add(start, count, rows, first, last - first)
            if remainder:
                add(start + count * rows, 1, remainder, first, last - first)
    lanes = max(block.lanes for block in blocks)
    return blocks, lanes, max(block.groups * block.lanes for block in blocks)
