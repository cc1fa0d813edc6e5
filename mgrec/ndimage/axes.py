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
from ..engines.cpu.threads import call_in_parts, split_range, threads_for

ROWS, COLUMNS, LEAST = 32, 64, 8
"""Most contiguous rows, and columns, side by side; fewest columns that are divided among threads. A column
is read from another page at each step, so that their groups are wider."""
FEW_ROWS = 8
"""Long rows are divided into pieces if they are fewer."""
CELLS = 1 << 16
"""Numbers of a block, which stay in the L2 cache."""


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


class Block(NamedTuple):
    """Rows of arrays (outer, steps, inner) that are filtered together, side by side in memory.

    Attributes
    ----------
    outer, groups, rows : int
        The first outer index, and the numbers of groups and of outer indices of each.
    inner, columns : int
        The first inner index, and the number of them.
    """

    outer: int
    groups: int
    rows: int
    inner: int
    columns: int

    def of(self, array: np.ndarray) -> np.ndarray:
        """Return the rows of an array as a view, (groups, steps, rows, columns)."""
        outer, groups, rows, inner, columns = self
        if array.shape[0] > groups * rows or array.shape[2] > columns:
            array = array[outer : outer + groups * rows, :, inner : inner + columns]
        return array.reshape(groups, rows, -1, columns).swapaxes(1, 2)

    def of_lanes(self, lanes: np.ndarray) -> np.ndarray:
        """Return numbers (groups, steps, lanes) as a view, (groups, steps, rows, columns)."""
        used = self.rows * self.columns
        if lanes.shape[2] > used:
            lanes = lanes[:, :, :used]
        return lanes.reshape(self.groups, -1, self.rows, self.columns)


class Memory:
    """The memory of a thread for the rows of one block after the other."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, tuple[int, int, int]], np.ndarray] = {}

    def lanes(self, name: str, block: Block, steps: int) -> np.ndarray:
        """Return memory for float64 numbers of the rows of a block, (groups, steps, lanes)."""
        used = block.rows * block.columns
        # Kernels compute four lanes at a time.
        shape = block.groups, steps, used + -used % 4 if used > 1 else 1
        array = self._arrays.get((name, shape))
        if array is None:
            array = self._arrays[name, shape] = np.zeros(shape)
        return array

    def load(self, name: str, block: Block, array: np.ndarray) -> np.ndarray:
        """Return the rows of an array in memory, (groups, steps, lanes)."""
        lanes = self.lanes(name, block, array.shape[1])
        block.of_lanes(lanes)[...] = block.of(array)
        return lanes


def fill_rows(
    filtered: Callable[[Block, Memory], np.ndarray],
    out: np.ndarray,
    cast_results: Callable[[Any, np.dtype[Any]], Any],
    is_threaded: bool,
    beyond: int = 0,
) -> None:
    """Write the filtered rows (groups, steps, lanes) of all blocks to `out`, on threads.

    `cast_results` casts float64 to integers and bools. `beyond` is the number of steps for which
    `filtered` takes memory in addition to those of `out`.
    """
    # A sample takes as long as several steps of a recurrence.
    threads = threads_for(4 * out.size, is_threaded)
    blocks = _blocks(*out.shape, beyond, threads) if out.size else []

    def fill_blocks(start: int, stop: int) -> None:
        memory = Memory()
        with np.errstate(invalid="ignore", over="ignore"):
            for block in blocks[start:stop]:
                values = block.of_lanes(filtered(block, memory))
                block.of(out)[...] = values if out.dtype.kind == "f" else cast_results(values, out.dtype)

    call_in_parts(fill_blocks, len(blocks), threads)


@lru_cache(maxsize=256)
def _blocks(outer: int, steps: int, inner: int, beyond: int, threads: int) -> list[Block]:
    """Return blocks of rows (outer, steps, inner), of about `CELLS` numbers, some for each thread."""
    # Groups have nearly as many columns, or rows, as each other.
    parts = min(-(-threads // outer), -(-inner // LEAST))
    columns = split_range(inner, max(parts, -(-inner // COLUMNS)))
    rows = -(-outer // -(-outer // max(1, ROWS // inner)))
    groups = -(-outer // (rows * max(1, threads // len(columns))))
    groups = max(1, min(groups, CELLS // ((steps + beyond) * rows * min(inner, COLUMNS))))
    blocks = []
    for first, last in columns:
        for start in range(0, outer, groups * rows):
            count, remainder = divmod(min(groups * rows, outer - start), rows)
            if count:
                blocks.append(Block(start, count, rows, first, last - first))
            if remainder:
                blocks.append(Block(start + count * rows, 1, remainder, first, last - first))
    return blocks
