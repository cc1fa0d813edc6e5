"""Operands of wavefront loops in the form that kernels take: addresses and strides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

from ....engines.cuda.device import on_device
from ...cuda.transposition import contiguous
from .layout import Hyperplanes, Variation

Strides = tuple[int, int, int]
LANES = Hyperplanes.threads


@dataclass(frozen=True)
class KernelOperand:
    """An array on the device, and its strides in numbers: over grids, rows and columns."""

    array: Any
    strides: Strides

    @property
    def variation(self) -> Variation:
        _, row, column = self.strides
        if column == 0:
            return Variation.CONSTANT
        return Variation.ROW if row == 0 else Variation.ARRAY

    @property
    def words(self) -> tuple[int, ...]:
        return (self.array.data.ptr, *self.strides)

    @property
    def is_aligned(self) -> bool:
        """Whether all rows start at multiples of 16 bytes."""
        size = self.array.dtype.itemsize
        grid, row, _ = self.strides
        return not any(n % 16 for n in (self.array.data.ptr, grid * size, row * size))


def as_kernel_operand(operand: Any, batch: Sequence[int], is_border: bool = False) -> KernelOperand:
    """Return an operand (..., rows, columns) of a batch of grids, copied only if necessary.

    Lengths of 1 are broadcast. Columns must be contiguous, except those of borders.
    """
    import cupy

    array = on_device(operand)
    if array.size == 1:
        return KernelOperand(array, (0, 0, 0))
    strides = _strides(array, batch, is_border)
    if strides is None:
        array = contiguous(array)
        strides = _strides(array, batch, is_border)
    if strides is None:
        array = cupy.ascontiguousarray(cupy.broadcast_to(array, (*batch, *array.shape[-2:])))
        strides = _strides(array, batch, is_border)
    assert strides is not None
    return KernelOperand(array, strides)


def variation_of(operand: Any) -> Variation:
    """Return how an operand (..., rows, columns) varies, if it is not a broadcast view."""
    rows, columns = operand.shape[-2:]
    if columns == 1:
        return Variation.CONSTANT
    return Variation.ROW if rows == 1 else Variation.ARRAY


def as_kernel_table(table: Any, batch: Sequence[int]) -> KernelOperand | None:
    """Return a table that kernels can write, or None if its columns are not contiguous."""
    strides = _strides(table, batch, is_border=False)
    is_writable = strides is not None and (strides[2] == 1 or table.shape[-1] == 1)
    return KernelOperand(table, strides) if strides is not None and is_writable else None


def _strides(array: Any, batch: Sequence[int], is_border: bool) -> Strides | None:
    """Return strides in numbers; None if grids have no single stride, or columns are apart."""
    size, byte_strides = array.dtype.itemsize, array.strides
    if array.data.ptr % size or any(stride % size for stride in byte_strides):
        return None
    strides = [0 if n == 1 else s // size for n, s in zip(array.shape, byte_strides, strict=True)]
    *outer, row, column = strides
    if not (is_border or column in (0, 1)):
        return None
    if not any(outer):
        return 0, row, column
    outer = [0] * (len(batch) - len(outer)) + outer
    grids = [(n, stride) for n, stride in zip(batch, outer, strict=True) if n > 1]
    is_even = all(stride == n * inner for (_, stride), (n, inner) in pairwise(grids))
    return (grids[-1][1], row, column) if is_even else None


def skew(operand: Any, shape: tuple[int, ...]) -> KernelOperand:
    """Return a skewed copy of an operand that broadcasts to grids of this shape.

    The antidiagonals of a strip of 32 rows follow each other in memory, and the strips as well.
    """
    import cupy

    copy = empty_skewed(shape, operand.dtype)
    for view, rows in _strip_views(copy.array, shape):
        view[...] = cupy.broadcast_to(operand, shape)[..., rows, :].reshape(view.shape)
    return copy


def empty_skewed(shape: tuple[int, ...], dtype: Any) -> KernelOperand:
    """Allocate a skewed copy of grids: each strip has 31 columns more than the grids."""
    import cupy

    strips, size = _strip_sizes(shape)
    return KernelOperand(cupy.empty(strips * size, dtype), (size, LANES + 1, LANES))


def unskew(copy: KernelOperand, table: Any) -> None:
    """Write grids (..., rows, columns) from a skewed copy."""
    for view, rows in _strip_views(copy.array, table.shape):
        part = table[..., rows, :]
        part[...] = view.reshape(part.shape)


def _strip_sizes(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of strips, and the numbers in each."""
    *batch, rows, columns = shape
    return prod(batch) * -(-rows // LANES), (columns + LANES - 1) * LANES


def _strip_views(copy: Any, shape: tuple[int, ...]) -> Iterator[tuple[Any, slice]]:
    """Yield views (grids, strips, rows, columns) of the whole strips, and of the last one."""
    from cupy.lib.stride_tricks import as_strided

    grids, rows, columns = prod(shape[:-2]), shape[-2], shape[-1]
    strips, size = -(-rows // LANES), _strip_sizes(shape)[1]
    strides = [n * copy.itemsize for n in (strips * size, size, LANES + 1, LANES)]
    whole, remaining = divmod(rows, LANES)
    if whole:
        yield as_strided(copy, (grids, whole, LANES, columns), strides), slice(whole * LANES)
    if remaining:
        last = copy[whole * size :]
        yield as_strided(last, (grids, 1, remaining, columns), strides), slice(whole * LANES, rows)
