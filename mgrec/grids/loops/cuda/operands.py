"""Operands of wavefront loops as kernels take them: addresses and strides."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ....engines.cuda.device import on_device
from ...cuda.transposition import contiguous
from .layout import Along

Strides = tuple[int, int, int]


@dataclass(frozen=True)
class Placed:
    """An array on the device, and its strides in numbers: over grids, rows and columns."""

    array: Any
    strides: Strides

    @property
    def along(self) -> Along:
        _, row, column = self.strides
        return Along.CONSTANT if column == 0 else Along.ROW if row == 0 else Along.ARRAY

    @property
    def words(self) -> tuple[int, ...]:
        return (self.array.data.ptr, *self.strides)

    @property
    def is_aligned(self) -> bool:
        """Whether all rows begin at words of 16 bytes."""
        size = self.array.dtype.itemsize
        grid, row, _ = self.strides
        return not any(each % 16 for each in (self.array.data.ptr, grid * size, row * size))


def placed(operand: Any, batch: tuple[int, ...], is_border: bool = False) -> Placed:
    """An operand (..., rows, columns) of grids (*batch, rows, columns), copied only if it must be.

    Lengths of 1 are broadcast. Columns must be neighbours, but for borders.
    """
    import cupy

    array = on_device(operand)
    if array.size == 1:
        return Placed(array, (0, 0, 0))
    strides = _strides(array, batch, is_border)
    if strides is None:
        array = contiguous(array)
        strides = _strides(array, batch, is_border)
    if strides is None:
        array = cupy.ascontiguousarray(cupy.broadcast_to(array, (*batch, *array.shape[-2:])))
        strides = _strides(array, batch, is_border)
    assert strides is not None
    return Placed(array, strides)


def along_of(operand: Any) -> Along:
    """What an operand (..., rows, columns) is along a row, if it is no broadcast view."""
    rows, columns = operand.shape[-2:]
    return Along.CONSTANT if columns == 1 else Along.ROW if rows == 1 else Along.ARRAY


def in_place(table: Any, batch: tuple[int, ...]) -> Placed | None:
    """A table that kernels can write: None where columns are apart or grids lie unevenly."""
    strides = _strides(table, batch, is_border=False)
    is_itself = strides is not None and (strides[2] == 1 or table.shape[-1] == 1)
    return Placed(table, strides) if strides is not None and is_itself else None


def _strides(array: Any, batch: tuple[int, ...], is_border: bool) -> Strides | None:
    """None where the grids lie unevenly, or columns apart."""
    size, given = array.dtype.itemsize, array.strides
    if array.data.ptr % size or any(stride % size for stride in given):
        return None
    own = [0 if n == 1 else s // size for n, s in zip(array.shape, given, strict=True)]
    *outer, row, column = own
    if not (is_border or column in (0, 1)):
        return None
    if not any(outer):
        return 0, row, column
    outer = [0] * (len(batch) - len(outer)) + outer
    grids = [(n, stride) for n, stride in zip(batch, outer, strict=True) if n > 1]
    is_even = all(stride == n * inner for (_, stride), (n, inner) in pairwise(grids))
    return (grids[-1][1], row, column) if is_even else None
