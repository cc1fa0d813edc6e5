"""Box filters: averages over windows along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..core.arrays.validation import as_integer
from ..core.backends import backend_of
from ..distributed.expressions import accepts_expressions
from ..engines.cpu.threads import threads_for
from ..solve import solve_labelled, with_interop
from .arguments import (
    SYNONYMS,
    as_axes,
    as_cval,
    as_input,
    as_known_axis,
    as_mode,
    as_output,
    cached,
    for_each_axis,
    written,
)
from .axes import (
    FEW_ROWS,
    ROWS,
    Filters,
    RowKernel,
    as_float64,
    as_rows,
    cast_like_scipy,
    constants_of,
    dtype_like,
    fill_rows,
    filter_axes,
    from_rows,
    new_rows,
    real_dtype,
)
from .cpu import average_rows

_MOST = 2**31
LEAST_PIECE = 64
"""Fewest averages of a piece of a long row."""
Piece = tuple[int, int, int]
"""A run of neighbouring samples of a chunk: the first, the number, and the step: −1, 0 or 1."""
Border = tuple[int, np.ndarray, tuple[float, float]]
"""Samples before a row; the sample of the row, or −1 for the constant, at each position before and after
it; the constants of even and odd rows."""
_INSIDE: Border = (0, np.empty(0, np.int64), (0.0, 0.0))
"""The border of rows that have all samples of their windows."""


@partial(with_interop, labelled=partial(solve_labelled, by_value=("size",)), takes_group=True)
@accepts_expressions
def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Average over windows along an axis.

    The arguments are those of ``scipy.ndimage.uniform_filter1d``.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    size : int
        Number of samples of a window.
    axis : int, optional
        Axis along which to filter. The default is the last, or the index of a DataFrame.
    output : dtype or array, optional
        Dtype of the result, or an array to write it to (not for Dask arrays). The default is the
        dtype of `input`; integers are truncated, as in SciPy.
    mode : str, optional
        Extension of the lines, as in SciPy: "reflect" or "grid-mirror", "constant" or
        "grid-constant", "nearest", "mirror", "wrap" or "grid-wrap".
    cval : number, optional
        Value outside of the array if `mode` is "constant".
    origin : int, optional
        Shift of the window: it starts size // 2 + origin samples before its result.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        Averages, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If `size` is below 1, the window does not contain its result, or `axis` or `mode` is not
        one of those above.

    Notes
    -----
    *Accuracy.* Sums are computed in float64 and start again after `size` samples, and none is ever
    subtracted: errors do not accumulate along a line, as they do in SciPy. An average is within
    size·2^-53 times the average of magnitudes. Sums of integers below 2^53 are exact.

    *Special values.* A nan or inf affects the windows that contain it; SciPy's running sum is nan
    from there on.

    *Cost.* Three additions a sample for any `size`. Over Dask each chunk is loaded once, and its
    neighbours get the size − 1 samples next to them.

    Examples
    --------
    >>> from mgrec.ndimage import uniform_filter1d
    >>> uniform_filter1d([2, 8, 0, 4, 1, 9, 9, 0], size=3)
    array([4, 3, 4, 1, 4, 6, 6, 3])
    """
    x = as_input(input)
    axis = as_known_axis(axis, x)
    dtype, output = as_output(output, x, x.dtype)
    window = _window(size, origin, mode, as_cval(cval, x))
    return written(filter_axes(((axis, window),), x, dtype), output)


@with_interop
@accepts_expressions
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Average over boxes.

    The arguments are those of ``scipy.ndimage.uniform_filter``.

    Parameters
    ----------
    input : array_like, cupy.ndarray or dask.array.Array
        Samples: bool, integers, float32, float64 or complex.
    size : int or sequence of int, optional
        Number of samples of a box, along all axes or along each. As in SciPy, a size below 2 leaves
        an axis, and a float such as 3.0 is an integer.
    output : dtype or array, optional
        Dtype of the result, or an array to write it to (not for Dask arrays). The default is the
        dtype of `input`; integers are truncated after each axis, as in SciPy.
    mode : str or sequence of str, optional
        Extension of the array, as in :func:`uniform_filter1d`, for all axes or for each.
    cval : number, optional
        Value outside of the array if `mode` is "constant".
    origin : int or sequence of int, optional
        Shift of the box, for all axes or for each.
    axes : int or iterable of int, optional
        Axes along which to average. The default is all.

    Returns
    -------
    array or dask.array.Array
        Averages, of the shape and the chunks of `input`.

    Raises
    ------
    TypeError
        If the dtype of `input` or `output` is not supported.
    ValueError
        If a box does not contain its result, a `size` is 2**31 or more, or `axes` or a `mode` is
        not one of those above.

    Notes
    -----
    Accuracy and cost along each axis are those of :func:`uniform_filter1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.ndimage import uniform_filter
    >>> uniform_filter(np.arange(9.0).reshape(3, 3))[1]
    array([3.33333333, 4.        , 4.66666667])
    """
    x = as_input(input)
    axes = as_axes(axes, x)
    dtype, output = as_output(output, x, x.dtype)
    windows = _windows(size, origin, mode, as_cval(cval, x), *axes)
    return written(filter_axes(windows, x, dtype), output)


@cached
def _windows(size: Any, origin: Any, mode: Any, cval: complex, *axes: int) -> Filters:
    sizes, origins, modes = (
        for_each_axis(name, value, axes)
        for name, value in (("size", size), ("origin", origin), ("mode", mode))
    )
    return tuple(
        (axis, _window(size_of_axis, origin_of_axis, mode_of_axis, cval))
        for axis, size_of_axis, origin_of_axis, mode_of_axis in zip(
            axes, map(as_size, sizes), origins, modes, strict=True
        )
        if size_of_axis > 1
    )


def as_size(size: Any) -> int:
    """Return the size of a box along an axis, which SciPy also takes as a float."""
    is_whole = isinstance(size, (float, np.floating)) and float(size).is_integer()
    return as_integer("size", int(size) if is_whole else size)


@cached
def _window(size: Any, origin: Any, mode: Any, cval: complex) -> WindowAverage:
    size, origin = as_integer("size", size), as_integer("origin", origin)
    if not 1 <= size < _MOST:
        raise ValueError(f"size must be at least 1 and below 2**31; got {size}")
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ValueError(
            f"origin must be from {-(size // 2)} to {size - 1 - size // 2} for size {size}; got {origin}"
        )
    return WindowAverage(size, before, as_mode(mode, SYNONYMS), cval)


@dataclass(frozen=True)
class WindowAverage:
    """Average of `size` samples, from `before` samples before; an :class:`.ImageFilter`."""

    size: int
    before: int
    mode: str
    cval: complex = 0.0

    def plan(
        self, lengths: Sequence[int], chunk: int
    ) -> tuple[list[tuple[int, Piece]], tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the pieces next to a chunk; the recipe has their numbers, −count for `cval`."""
        starts = np.concatenate([[0], np.cumsum(lengths)])
        first, stop = starts[chunk], starts[chunk + 1]
        wanted: list[tuple[int, Piece]] = []
        recipe = []
        after = self.size - 1 - self.before
        for positions in (np.arange(first - self.before, first), np.arange(stop, stop + after)):
            inside = _extended_positions(positions, int(starts[-1]), self.mode)
            order: list[int] = []
            for source, piece in _pieces(inside, starts):
                order.append(-piece[1] if source < 0 else len(wanted))
                if source >= 0:
                    wanted.append((source, piece))
            recipe.append(tuple(order))
        return wanted, (recipe[0], recipe[1])

    def count(self, length: int, recipe: Any) -> int:
        """Return the number of results of `length` samples."""
        return length

    def part(self, x: Any, axis: int, part: Piece) -> Any:
        """Return a piece of a chunk."""
        first, count, step = part
        before = (slice(None),) * axis
        if step == 0:
            return x[(*before, slice(first, first + 1))].repeat(count, axis)
        start = first if step > 0 else first - count + 1
        samples = x[(*before, slice(start, start + count))]
        # A copy, so that a worker does not keep the whole chunk.
        return samples.copy() if step > 0 else samples[(*before, slice(None, None, -1))].copy()

    def apply(
        self,
        x: Any,
        axis: int,
        dtype: np.dtype[Any],
        recipe: tuple[tuple[int, ...], tuple[int, ...]],
        parts: Sequence[Any],
        is_threaded: bool = False,
    ) -> Any:
        """Return the filtered chunk; `parts` are those of its plan."""

        def pieces(order: tuple[int, ...]) -> list[Any]:
            return [parts[k] if k >= 0 else self._constant(x, axis, -k) for k in order]

        joined = [*pieces(recipe[0]), x, *pieces(recipe[1])]
        target = dtype_like(x, dtype)
        rows = as_rows(np.concatenate(joined, axis), axis)
        if backend_of(x).is_host:
            out = np.empty((rows.shape[0], x.shape[axis], rows.shape[2]), real_dtype(target))
            self._fill(rows, out, _INSIDE, is_threaded)
            return from_rows(out, x.shape, target)
        averages = self._averages_on_gpu(rows, 0, "inside", target)
        if averages is None:
            averages = by_prefix_sums(as_float64(rows), self.size)
            averages = cast_like_scipy(averages, real_dtype(target))
        return from_rows(averages, x.shape, target)

    def apply_to_whole(self, x: Any, axis: int, dtype: np.dtype[Any], into: Any = None) -> Any:
        """Return the filtered array, whose borders are those of the mode."""
        target, rows = dtype_like(x, dtype), as_rows(x, axis)
        if not backend_of(x).is_host:
            averages = self._averages_on_gpu(rows, self.before, self.mode, target)
            if averages is not None:
                return from_rows(averages, x.shape, target)
        elif not self._piece(rows.shape, True):
            out = new_rows(rows.shape, real_dtype(target), into, axis)
            self._fill(rows, out, self._border(x.shape[axis], x.dtype.kind == "c"), True)
            return from_rows(out, x.shape, target)
        wanted, recipe = _plan_of_whole(self, x.shape[axis])
        parts = [self.part(x, axis, part) for _, part in wanted]
        return self.apply(x, axis, dtype, recipe, parts, True)

    def _piece(self, shape: tuple[int, ...], is_threaded: bool) -> int:
        """Return the length of the pieces of few long rows, which fill the lanes of blocks; 0 for none.

        Pieces begin with a block of windows, so that they have the sums of their rows.
        """
        outer, steps, inner = shape
        length = steps // (ROWS * threads_for(outer * steps, is_threaded)) // self.size * self.size
        return length if inner == 1 and outer < FEW_ROWS and length >= max(LEAST_PIECE, 2 * self.size) else 0

    def _fill(self, rows: np.ndarray, out: np.ndarray, border: Border, is_threaded: bool) -> None:
        """Write the averages of rows to `out`."""
        steps = rows.shape[1]
        if not border[1].size and (length := self._piece(out.shape, is_threaded)):
            count = out.shape[1] // length
            # Rows that overlap.
            pieces = sliding_window_view(rows[:, :, 0], length + self.size - 1, 1)[:, ::length, :, None]
            for k, row in enumerate(out):
                of_pieces = row[: count * length].reshape(count, length, 1)
                self._fill(pieces[k, :count], of_pieces, border, is_threaded)
            rows, out, steps = rows[:, count * length :], out[:, count * length :], steps - count * length

        fill_rows(self._row_kernel(border), rows, out, is_threaded)

    def _row_kernel(self, border: Border) -> RowKernel:
        call = partial(average_rows, self.size, border)
        return RowKernel(call, cast_like_scipy, self.size, border[0], border[1].size)

    def kernel_of_whole(self, shape: tuple[int, int, int]) -> RowKernel | None:
        """Return the kernel of whole real rows; None if they are filtered in pieces."""
        return None if self._piece(shape, False) else self._row_kernel(self._border(shape[1], False))

    def _border(self, length: int, is_complex: bool) -> Border:
        """Return the border of whole rows."""
        sources = _sources_beyond_ends(self.size, self.before, self.mode, length)
        return self.before, sources, constants_of(self.cval, is_complex)

    def _averages_on_gpu(self, rows: Any, before: int, mode: str, dtype: np.dtype[Any]) -> Any:
        from .cuda import average_rows

        constants = constants_of(self.cval, dtype.kind == "c")
        return average_rows(rows, self.size, before, mode, constants, real_dtype(dtype))

    def _constant(self, x: Any, axis: int, count: int) -> Any:
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        value = self.cval if x.dtype.kind == "c" else self.cval.real
        # As float64 or complex128: SciPy does not cast the constant to integers.
        dtype = np.result_type(x.dtype, np.float64)
        return np.full_like(x, value, dtype, shape=shape)


@lru_cache(maxsize=256)
def _plan_of_whole(average: WindowAverage, length: int) -> Any:
    """Return the pieces of a whole row that extend it, and their order, as `plan`."""
    return average.plan((length,), 0)


@lru_cache(maxsize=256)
def _sources_beyond_ends(size: int, before: int, mode: str, length: int) -> np.ndarray:
    """Return the samples of a row that extend it, before its first and after its last sample."""
    positions = np.arange(size - 1) - before
    positions[before:] += length
    return _extended_positions(positions, length, mode)


def _extended_positions(positions: np.ndarray, length: int, mode: str) -> np.ndarray:
    """Return the sample of a row at each position, which may be outside; −1 for the constant."""
    if mode == "nearest":
        return np.clip(positions, 0, length - 1)
    if mode == "constant":
        return np.where((positions >= 0) & (positions < length), positions, -1)
    if mode == "wrap":
        return positions % length
    if mode == "mirror" and length > 1:
        period = 2 * length - 2
        inside = positions % period
        return np.minimum(inside, period - inside)
    inside = positions % (2 * length)
    return np.minimum(inside, 2 * length - 1 - inside)


def _pieces(positions: np.ndarray, starts: np.ndarray) -> list[tuple[int, Piece]]:
    """Return chunk and piece of runs of positions; the chunk is −1 for the constant."""
    if positions.size == 0:
        return []
    sources = np.where(positions < 0, -1, np.searchsorted(starts, positions, "right") - 1)
    steps = np.diff(positions)
    # A run ends where the chunk or the step changes.
    result = []
    start = 0
    while start < positions.size:
        step = int(steps[start]) if start < steps.size else 1
        stop = start + 1
        if abs(step) <= 1:
            changes = np.flatnonzero((steps[start:] != step) | (sources[start + 1 :] != sources[start]))
            stop = start + 1 + (int(changes[0]) if changes.size else steps.size - start)
        source = int(sources[start])
        local = int(positions[start] - starts[source]) if source >= 0 else 0
        result.append((source, (local, stop - start, step if abs(step) <= 1 else 1)))
        start = stop
    return result


def by_prefix_sums(x: Any, size: int) -> Any:
    """Return averages of rows (outer, steps, inner) over windows, by operations of whole arrays.

    It averages over windows that do not fit into the memory of a block of a GPU. Sums
    start at each multiple of `size`, as in the kernel for CPUs.
    """
    outer, steps, inner = x.shape
    blocks = -(-steps // size)
    padded = np.zeros_like(x, shape=(outer, blocks * size, inner))
    padded[:, :steps] = x
    in_blocks = padded.reshape(outer, blocks, size, inner)
    prefixes = in_blocks.cumsum(axis=2).reshape(padded.shape)
    ends = in_blocks[:, :, ::-1].cumsum(axis=2)[:, :, ::-1].reshape(padded.shape)
    count = steps - size + 1
    sums = ends[:, :count].copy()
    # A window that starts with a block is that block.
    has_prefix = backend_of(x).from_host(np.arange(count) % size > 0, x)
    sums += np.where(has_prefix[:, None], prefixes[:, size - 1 : steps], 0.0)
    return sums / size
