"""Summed-area tables of CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ....core.arrays.array_types import to_host
from ....core.contract.kernels import PreparedSolver
from ....engines.cuda.device import on_device, pack_words
from ....engines.cuda.launches import LaunchByAddress, PreparedLaunches
from ...cuda.transposition import assign, contiguous
from ..recurrence import Sums
from .layout import Cut, Shape, vector_of
from .program import prepared_of

_MOST_STRIPS = 2**30


def determine_table(x: Any, before: tuple[Any, Any], table: Any) -> Sums:
    """Write the table of a tile; its edges.

    Parameters
    ----------
    x : array (..., rows, columns)
    before : (array (..., columns) or None, array (..., rows) or None)
        The table in the row above, and the sums along the rows to the left: see :class:`Sums`.
    table : array (..., rows, columns)
        Written.

    Returns
    -------
    Sums
        On the device; `below` is a part of `table`. Without `right` where the current stream is
        captured.
    """
    import cupy

    *others, rows, columns = x.shape
    if x.size == 0:
        empty = np.zeros((*others, columns), table.dtype), np.zeros((*others, rows), table.dtype)
        return Sums(*(new if old is None else old for old, new in zip(before, empty, strict=True)))
    operand = x if _is_in_rows(x) else contiguous(x)
    result = table if _is_in_rows(table) else cupy.empty(table.shape, table.dtype)
    # A graph would write into what is given back when the call returns.
    is_captured = cupy.cuda.get_current_stream().is_capturing()
    right = None if is_captured else cupy.empty((*others, rows), table.dtype)
    edges = [None if edge is None else _as_rows(edge, table.dtype) for edge in before]
    _launch(operand, result, edges, right)
    if result is not table:
        assign(table, result)
    return Sums(table[..., -1, :], right)


def _as_rows(edge: Any, dtype: np.dtype[Any]) -> Any:
    """An edge on the device, contiguous."""
    import cupy

    return cupy.ascontiguousarray(on_device(edge).astype(dtype, copy=False))


def _summed_down(left: Any) -> Any:
    """Sums of an edge from the first row on: added up on the host, in the order of its rows."""
    return on_device(np.cumsum(to_host(left), -1, left.dtype))


def _is_in_rows(array: Any) -> bool:
    """Whether columns are neighbours, images lie evenly and numbers where the device has them."""
    strides, size = array.strides, array.dtype.itemsize
    if array.flags.c_contiguous:
        return array.data.ptr % size == 0
    images = [(n, s) for n, s in zip(array.shape[:-2], strides[:-2], strict=True) if n > 1]
    is_even = all(stride == n * inner for (_, stride), (n, inner) in pairwise(images))
    is_row = strides[-1] == size or array.shape[-1] == 1
    return is_even and is_row and not any(s % size for s in (array.data.ptr, *strides))


def again_table(x: Any, before: tuple[Any, Any], table: Any) -> PreparedSolver | None:
    """Prepare what sums up other images of the kind of these, which have no edges."""
    *others, rows, columns = x.shape
    if not (_is_in_rows(x) and _is_in_rows(table)):
        return None
    strides, prepared = _prepare(x, table)
    cut, run = prepared((prod(others), rows, columns))
    if others and prod(others) > _most_images(cut):
        return None
    bound = LaunchByAddress(run)
    rest = [0, 0, 0, 0, *strides, prod(others), rows, columns, cut.strips, cut.steps]

    def solve(given: Sequence[Any], targets: Sequence[int]) -> None:
        bound([[given[0], targets[0], *rest]])

    return solve


def _prepare(
    x: Any, table: Any
) -> tuple[list[int], Callable[[Shape], tuple[Cut, PreparedLaunches]]]:
    """Strides, and what prepares the launch over so many images."""
    import cupy

    strides = [*_strides(x), *_strides(table)]
    is_packed = strides[1] == strides[3] == x.shape[-1]
    is_aligned, device = _is_aligned(x, table, strides), cupy.cuda.runtime.getDevice()

    def prepared(shape: Shape) -> tuple[Cut, PreparedLaunches]:
        return prepared_of(shape, x.dtype, table.dtype, is_aligned, is_packed, device)

    return strides, prepared


def _most_images(cut: Cut) -> int:
    """Of a launch, whose numbers of strips are of 32 bits."""
    return max(1, _MOST_STRIPS // cut.strips)


def _launch(x: Any, table: Any, edges: list[Any], right: Any) -> None:
    """Launch the kernel over all images."""
    *others, rows, columns = x.shape
    count = prod(others)
    strides, prepared = _prepare(x, table)
    cut, _ = prepared((count, rows, columns))
    left, most = edges[1], _most_images(cut)
    left_down = None if left is None or cut.layout.down else _summed_down(left)
    arrays = (
        (x, strides[0]),
        (table, strides[2]),
        *zip((*edges, right, left_down), (columns, rows, rows, rows), strict=True),
    )
    places = [
        (0, 0) if array is None else (array.data.ptr, stride * array.dtype.itemsize)
        for array, stride in arrays
    ]
    for begin in range(0, count, most):
        part = min(most, count - begin), rows, columns
        cut, run = prepared(part)
        words = [address + begin * stride for address, stride in places]
        run((pack_words([*words, *strides, *part, cut.strips, cut.steps]),))


def _is_aligned(x: Any, table: Any, strides: list[int]) -> bool:
    """Whether rows begin at, and are of, whole words of a thread."""
    vector = vector_of(x.dtype, table.dtype)
    words = vector * x.dtype.itemsize, min(16, vector * table.dtype.itemsize)
    return x.shape[-1] % vector == 0 and not any(
        array.data.ptr % word or any(stride * array.dtype.itemsize % word for stride in own)
        for array, word, own in zip((x, table), words, (strides[:2], strides[2:]), strict=True)
    )


def _strides(array: Any) -> tuple[int, int]:
    """From image to image and from row to row, in numbers."""
    size = array.dtype.itemsize
    own = [s for n, s in zip(array.shape[:-2], array.strides[:-2], strict=True) if n > 1]
    return (own[-1] // size if own else 0), array.strides[-2] // size
