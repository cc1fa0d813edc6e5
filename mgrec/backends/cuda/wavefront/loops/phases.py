"""Wavefront loops of CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from .....families.wavefront.loops.recurrence import Borders, Loop
from .....families.wavefront.loops.strategy import is_compensable, log_picked
from ...filters.numbers import packed
from .choice import is_turned
from .layout import Along, Kind, Shape
from .operands import Placed, in_place, placed
from .program import prepared_of
from .skewed import nothing, skewed, write_back


def determine_loop(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> None:
    """Write the table of a tile: as the CPU's, of arrays on the device and scalars anywhere.

    Borders may be in host memory: what neighbours hand on is.
    """
    if table.size == 0:
        return
    if loop.strategy == "hyperplane":
        return _determine_skewed(loop, local, weights, borders, table)
    *batch, rows, columns = table.shape
    shape = (prod(batch), rows, columns)
    result = in_place(table, tuple(batch))
    whole = result or placed(_like(table), tuple(batch))
    operands = [placed(operand, tuple(batch)) for operand in (local, *weights)]
    kind = _kind_of(loop, operands, whole, columns)
    is_free = loop.strategy == "hybrid" and is_compensable(loop, table.dtype)
    if is_free and is_turned(kind, shape):
        log_picked(loop, "compensation by columns", table)
        return _determine_turned(loop, local, weights, borders, table)
    words = [word for each in (*operands, *_placed_borders(borders, batch)) for word in each.words]
    words += [*whole.words[:3], *shape]
    _launch(loop, kind, shape, words, table)
    if result is None:
        table[...] = whole.array


def _like(table: Any) -> Any:
    import cupy

    return cupy.empty(table.shape, table.dtype)


def _placed_borders(borders: Borders, batch: Sequence[int]) -> list[Placed]:
    """Above, to the left and the corner, with the axes that they lack."""
    grids = borders.above[..., None, :], borders.left[..., None], borders.corner[..., None, None]
    return [placed(border, tuple(batch), is_border=True) for border in grids]


def _launch(loop: Loop, kind: Kind, shape: Shape, words: list[int], table: Any) -> None:
    import cupy

    device = cupy.cuda.runtime.getDevice()
    cut, run = prepared_of(loop.strategy, kind, shape, is_compensable(loop, table.dtype), device)
    log_picked(loop, cut.strategy, table)
    run((packed([*words, cut.strips, _bits(loop.floor, table.dtype)]),))


def _determine_turned(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> None:
    """By compensation along columns: a loop over the transposed grid, ◇ being commutative."""
    b0, b1, b2 = (weight.swapaxes(-1, -2) for weight in weights)
    turned = Borders(borders.left, borders.above, borders.corner)
    loop = replace(loop, strategy="compensation")
    determine_loop(loop, local.swapaxes(-1, -2), (b1, b0, b2), turned, table.swapaxes(-1, -2))


def _determine_skewed(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> None:
    """By hyperplanes: the same over copies in which antidiagonals are contiguous."""
    *batch, rows, columns = table.shape
    operands = [placed(operand, tuple(batch)) for operand in (local, *weights)]
    whole = nothing(table.shape, table.dtype)
    kind = replace(_kind_of(loop, operands, whole, columns), is_aligned=False)
    operands = [
        skewed(each, table.shape) if own.along == Along.ARRAY else own
        for own, each in zip(operands, (local, *weights), strict=True)
    ]
    words = [word for each in (*operands, *_placed_borders(borders, batch)) for word in each.words]
    shape = prod(batch), rows, columns
    _launch(loop, kind, shape, [*words, *whole.words[:3], *shape], table)
    write_back(whole, table)


def _kind_of(loop: Loop, operands: Sequence[Placed], table: Placed, columns: int) -> Kind:
    dtype = table.array.dtype
    varying = [each for each in operands if each.along != Along.CONSTANT]
    is_aligned = columns * dtype.itemsize % 16 == 0
    is_aligned = is_aligned and all(each.is_aligned for each in (*varying, table))
    along = tuple(each.along for each in operands)
    return Kind(loop.operators, dtype, along, loop.floor is not None, is_aligned)


def _bits(floor: Any, dtype: np.dtype[Any]) -> int:
    """A number of a dtype in a word of 64 bits."""
    number = np.zeros(8 // dtype.itemsize, dtype)
    number[0] = 0 if floor is None else floor
    return int(number.view(np.int64)[0])
