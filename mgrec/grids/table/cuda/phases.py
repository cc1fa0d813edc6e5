"""Summed-area tables of CuPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....core.arrays.array_types import to_host
from ....core.contract.kernels import Kernels, Part, PreparedSolver
from ....engines.cuda.device import Device, on_device, pack_words
from ....engines.cuda.launches import LaunchByAddress, PreparedLaunches
from ...cuda.strips import Shape
from ...cuda.transposition import assign, contiguous
from ..recurrence import SummedAreaTable, Sums
from .layout import TableLayout, choose_partition, vector_of
from .program import prepare_launch

# Cells of a part of a table: 0.1 ms of an H100; a launch takes half of that.
_CELLS = 1 << 25
# The smallest GPU whose tables have the same bits as those of all others.
_SMALLEST = Device(80, 108, 100 * 1024)
_MOST_STRIPS = 2**30


def kernels(method: str) -> Kernels:
    """Return the phases of a tile."""
    return Kernels(determine_table, prepare_solver=prepare_table, part=_part)


def _part(recurrence: SummedAreaTable, shape: Sequence[int], side: int) -> Part | None:
    return _choose_part(tuple(shape), side, recurrence.block_dtypes[0], recurrence.dtype)


@lru_cache(maxsize=256)
def _choose_part(
    shape: tuple[int, ...], side: int, x_dtype: np.dtype[Any], dtype: np.dtype[Any]
) -> Part | None:
    """Return the parts of a tile that have the same bits as the whole tile.

    Integers have the same bits in any order. Other numbers are added up tile by tile down a strip:
    a part of whole rows of tiles continues where the part above ends, if both go down.
    """
    *others, rows, columns = shape
    if 0 in shape:
        return None
    least = -(-_CELLS // (prod(shape) // (rows, columns)[side]))
    if dtype.kind in "iu":
        return Part(128, max(128, least))
    whole = _layouts((prod(others), rows, columns), x_dtype, dtype)
    if side or not all(layout.goes_down for layout in whole):
        return None
    height = max(layout.tile[0] for layout in whole)
    if any(height % layout.tile[0] for layout in whole):
        return None
    least = max(1, -(-least // height)) * height
    # Images of few rows may go to the right, or have larger groups.
    while least <= rows and _layouts((prod(others), least, columns), x_dtype, dtype) != whole:
        least *= 2
    return Part(height, least) if least <= rows else None


def _layouts(shape: Shape, x_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> list[TableLayout]:
    """Return the layouts that determine the order of additions, for rows aligned and not."""
    return [
        replace(
            choose_partition(shape, x_dtype, dtype, is_aligned, _SMALLEST).layout,
            stages=1,
            blocks=1,
        )
        for is_aligned in (True, False)
    ]


def determine_table(
    recurrence: SummedAreaTable, x: Any, edges: tuple[Any, Any], table: Any
) -> Sums:
    """Write the table of a tile (..., rows, columns), and return its edges.

    `edges` are the table in the row above and the sums along the rows to the left, or None. Those
    returned are on the device; `below` is a view of `table`, and `right` is None while the current
    stream is captured.
    """
    import cupy

    *others, rows, columns = x.shape
    if x.size == 0:
        zeros = np.zeros((*others, columns), table.dtype), np.zeros((*others, rows), table.dtype)
        pairs = zip(edges, zeros, strict=True)
        return Sums(*(zero if edge is None else edge for edge, zero in pairs))
    operand = x if _has_contiguous_rows(x) else contiguous(x)
    result = table if _has_contiguous_rows(table) else cupy.empty(table.shape, table.dtype)
    # A captured graph would write to memory that is freed when the call returns.
    is_captured = cupy.cuda.get_current_stream().is_capturing()
    right = None if is_captured else cupy.empty((*others, rows), table.dtype)
    device_edges = [
        None
        if edge is None
        else cupy.ascontiguousarray(on_device(edge).astype(table.dtype, copy=False))
        for edge in edges
    ]
    _launch(operand, result, device_edges, right)
    if result is not table:
        assign(table, result)
    return Sums(table[..., -1, :], right)


def _has_contiguous_rows(array: Any) -> bool:
    """Return whether rows are contiguous and aligned, and images have a single stride."""
    strides, size = array.strides, array.dtype.itemsize
    if array.flags.c_contiguous:
        return array.data.ptr % size == 0
    images = [(n, s) for n, s in zip(array.shape[:-2], strides[:-2], strict=True) if n > 1]
    is_even = all(stride == n * inner for (_, stride), (n, inner) in pairwise(images))
    is_row = strides[-1] == size or array.shape[-1] == 1
    return is_even and is_row and not any(s % size for s in (array.data.ptr, *strides))


def prepare_table(
    recurrence: SummedAreaTable, x: Any, edges: tuple[None, None], table: Any
) -> PreparedSolver | None:
    """Return a solver for images of these shapes and dtypes; None if they need a copy."""
    if not (_has_contiguous_rows(x) and _has_contiguous_rows(table)):
        return None
    first, *others = _launches(x, table)
    if others:
        return None
    bound, words = LaunchByAddress(first.run), first.words

    def solve(operands: Sequence[Any], results: Sequence[int]) -> None:
        bound([[operands[0], results[0], 0, 0, 0, 0, *words]])

    return solve


class _ImagesLaunch(NamedTuple):
    """A launch over some images, from number `start` on."""

    start: int
    run: PreparedLaunches
    words: list[int]  # of the kernel's struct, after the addresses
    goes_down: bool


def _launches(x: Any, table: Any) -> Iterator[_ImagesLaunch]:
    """Yield the launches over all images, whose strips have numbers of 32 bits."""
    import cupy

    *others, rows, columns = x.shape
    count, strides = prod(others), [*_strides(x), *_strides(table)]
    is_packed = strides[1] == strides[3] == columns
    is_aligned, device_id = _is_aligned(x, table, strides), cupy.cuda.runtime.getDevice()
    signature = x.dtype, table.dtype, is_aligned, is_packed, device_id
    whole, _ = prepare_launch((count, rows, columns), *signature)
    most = max(1, _MOST_STRIPS // whole.strips)
    for start in range(0, count, most):
        shape = min(most, count - start), rows, columns
        partition, run = prepare_launch(shape, *signature)
        words = [*strides, *shape, partition.strips, partition.steps]
        yield _ImagesLaunch(start, run, words, whole.layout.goes_down)


def _launch(x: Any, table: Any, edges: list[Any], right: Any) -> None:
    """Launch the kernel over all images."""
    rows, columns = x.shape[-2:]
    above, left = edges
    left_down = None
    for launch in _launches(x, table):
        if left is not None and left_down is None and not launch.goes_down:
            # Sums from the first row on, added up in the order of the rows.
            left_down = on_device(np.cumsum(to_host(left), -1, left.dtype))
        arrays = (
            (x, launch.words[0]), (table, launch.words[2]), (above, columns), (left, rows),
            (right, rows), (left_down, rows),
        )  # fmt: skip
        addresses = [
            0 if array is None else array.data.ptr + launch.start * stride * array.dtype.itemsize
            for array, stride in arrays
        ]
        launch.run((pack_words([*addresses, *launch.words]),))


def _is_aligned(x: Any, table: Any, strides: list[int]) -> bool:
    """Return whether rows start at, and consist of, whole words of a thread."""
    vector = vector_of(x.dtype, table.dtype)
    words = vector * x.dtype.itemsize, min(16, vector * table.dtype.itemsize)
    pairs = strides[:2], strides[2:]
    return x.shape[-1] % vector == 0 and not any(
        array.data.ptr % word or any(stride * array.dtype.itemsize % word for stride in pair)
        for array, word, pair in zip((x, table), words, pairs, strict=True)
    )


def _strides(array: Any) -> tuple[int, int]:
    """Return the strides from image to image and from row to row, in numbers."""
    size = array.dtype.itemsize
    images = [s for n, s in zip(array.shape[:-2], array.strides[:-2], strict=True) if n > 1]
    return (images[-1] // size if images else 0), array.strides[-2] // size
