"""Wavefront loops of CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .....families.wavefront.loops.recurrence import Borders, Loop
from .....families.wavefront.loops.strategy import is_compensable, log_picked
from ...filters.numbers import packed
from .layout import Along, Kind
from .operands import Placed, placed
from .program import prepared_of


def determine_loop(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> None:
    """Write the table of a tile: as the CPU's, of arrays on the device and scalars anywhere.

    Borders may be in host memory: what neighbours hand on is.
    """
    import cupy

    if table.size == 0:
        return
    *batch, rows, columns = table.shape
    shape = tuple(batch)
    result = _as_result(table, shape)
    whole = result or placed(cupy.empty(table.shape, table.dtype), shape)
    operands = [placed(operand, shape) for operand in (local, *weights)]
    around = [
        placed(border, shape, is_border=True)
        for border in (
            borders.above[..., None, :], borders.left[..., None], borders.corner[..., None, None],
        )
    ]  # fmt: skip
    kind = _kind_of(loop, operands, whole, columns)
    cut, run = prepared_of(
        loop.strategy, kind, (prod(batch), rows, columns), is_compensable(loop, table.dtype),
        cupy.cuda.runtime.getDevice(),
    )  # fmt: skip
    log_picked(loop, cut.strategy, table)
    words = [word for each in (*operands, *around) for word in each.words]
    words += [*whole.words[:3], *cut.shape, cut.strips, _bits(loop.floor, table.dtype)]
    run((packed(words),))
    if result is None:
        table[...] = whole.array


def _as_result(table: Any, batch: tuple[int, ...]) -> Placed | None:
    """A table whose columns are neighbours and whose grids lie evenly, to be written in place."""
    own = placed(table, batch)
    is_itself = own.array is table and (own.strides[2] == 1 or table.shape[-1] == 1)
    return own if is_itself else None


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
