"""Wavefront loops of CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ....engines.cuda.device import pack_words
from ....engines.cuda.launches import PreparedLaunches
from ...cuda.transposition import assign
from ..recurrence import Borders, Loop
from ..strategy import is_compensable as can_compensate
from ..strategy import log_picked
from .choice import Way, way_of
from .layout import Along, Kind, Shape
from .operands import Placed, along_of, in_place, placed
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
    way = picked(loop, (local, *weights), table)
    log_picked(loop, str(way), table)
    if way.is_turned:
        local, weights, borders, table = turned(local, weights, borders, table)
    laid = lay(loop, way, local, weights, borders, table)
    laid.run((pack_words(laid.words),))
    if laid.whole.array is not table:
        assign(table, laid.whole.array)


def turned(
    local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> tuple[Any, Sequence[Any], Borders, Any]:
    """The same loop with rows for columns: what is above is to the left there."""
    b0, b1, b2 = (weight.swapaxes(-1, -2) for weight in weights)
    borders = Borders(borders.left, borders.above, borders.corner)
    return local.swapaxes(-1, -2), (b1, b0, b2), borders, table.swapaxes(-1, -2)


def picked(loop: Loop, operands: Sequence[Any], table: Any) -> Way:
    """The way that a loop goes over its operands, `local` and the weights."""
    *batch, rows, columns = table.shape
    along = tuple(map(along_of, operands))
    kind = Kind(loop.operators, table.dtype, along, loop.floor is not None, is_aligned=True)
    is_compensable = loop.strategy == "hybrid" and can_compensate(loop, table.dtype)
    return way_of(loop.strategy, kind, (prod(batch), rows, columns), is_compensable)


@dataclass(frozen=True)
class Laid:
    """A loop over arrays as its kernel takes it.

    Attributes
    ----------
    run : Prepared
        The launch.
    operands : list of Placed
        `local`, the weights and the borders.
    whole : Placed
        The table, or memory for it.
    words : list of int
        The kernel's struct: of each operand four, then those of the table.
    """

    run: PreparedLaunches
    operands: list[Placed]
    whole: Placed
    words: list[int]


def lay(
    loop: Loop, way: Way, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> Laid:
    """Arrays on the device, copied where they must be."""
    import cupy

    *batch, rows, columns = table.shape
    shape = (prod(batch), rows, columns)
    whole = in_place(table, tuple(batch))
    whole = whole or placed(cupy.empty(table.shape, table.dtype), tuple(batch))
    operands = [placed(operand, tuple(batch)) for operand in (local, *weights)]
    kind = _kind_of(loop, operands, whole, columns, way.is_turned)
    operands += _placed_borders(borders, batch)
    return _laid(loop, way.strategy, kind, shape, operands, whole)


def _laid(
    loop: Loop, strategy: str, kind: Kind, shape: Shape, operands: list[Placed], whole: Placed
) -> Laid:
    import cupy

    cut, run = prepared_of(strategy, kind, shape, cupy.cuda.runtime.getDevice())
    words = [word for each in operands for word in each.words]
    words += [*whole.words[:3], *shape, cut.strips, _bits(loop.floor, kind.dtype)]
    return Laid(run, operands, whole, words)


def _determine_skewed(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> None:
    """By hyperplanes: the same over copies in which antidiagonals are contiguous."""
    *batch, rows, columns = table.shape
    operands = [placed(operand, tuple(batch)) for operand in (local, *weights)]
    whole = nothing(table.shape, table.dtype)
    kind = replace(_kind_of(loop, operands, whole, columns, False), is_aligned=False)
    operands = [
        skewed(each, table.shape) if own.along == Along.ARRAY else own
        for own, each in zip(operands, (local, *weights), strict=True)
    ]
    operands += _placed_borders(borders, batch)
    log_picked(loop, loop.strategy, table)
    laid = _laid(loop, loop.strategy, kind, (prod(batch), rows, columns), operands, whole)
    laid.run((pack_words(laid.words),))
    write_back(whole, table)


def _placed_borders(borders: Borders, batch: Sequence[int]) -> list[Placed]:
    """Above, to the left and the corner, with the axes that they lack."""
    grids = borders.above[..., None, :], borders.left[..., None], borders.corner[..., None, None]
    return [placed(border, tuple(batch), is_border=True) for border in grids]


def _kind_of(
    loop: Loop, operands: Sequence[Placed], table: Placed, columns: int, is_turned: bool
) -> Kind:
    dtype = table.array.dtype
    varying = [each for each in operands if each.along != Along.CONSTANT]
    is_aligned = columns * dtype.itemsize % 16 == 0
    is_aligned = is_aligned and all(each.is_aligned for each in (*varying, table))
    along = tuple(each.along for each in operands)
    return Kind(loop.operators, dtype, along, loop.floor is not None, is_aligned, is_turned)


def _bits(floor: Any, dtype: np.dtype[Any]) -> int:
    """A number of a dtype in a word of 64 bits."""
    number = np.zeros(8 // dtype.itemsize, dtype)
    number[0] = 0 if floor is None else floor
    return int(number.view(np.int64)[0])
