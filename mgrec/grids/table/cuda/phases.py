"""determine for one tile of a table on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.contract.kernels import Kernels, Part, PreparedSolver
from ....engines.cuda.device import Device
from ..recurrence import SummedAreaTable
from .layout import TableLayout, cut_of
from .table import again_table, determine_table

# Cells of a part of a table: 0.1 ms of an H100, where launching it takes half of that.
_CELLS = 1 << 25
# The least GPU whose tables have the same bits as those of all others.
_LEAST = Device(80, 108, 100 * 1024)


def kernels(method: str) -> Kernels:
    """The phases of a tile."""
    return Kernels(_determine, prepare_solver=_again, part=_part)


def _determine(loop: SummedAreaTable, *tile: Any) -> Any:
    return determine_table(*tile)


def _again(loop: SummedAreaTable, *tile: Any) -> PreparedSolver | None:
    return again_table(*tile)


def _part(loop: SummedAreaTable, shape: Sequence[int], side: int) -> Part | None:
    return _of_table(tuple(shape), side, loop.block_dtypes[0], loop.dtype)


@lru_cache(maxsize=256)
def _of_table(
    shape: tuple[int, ...], side: int, x_dtype: np.dtype[Any], dtype: np.dtype[Any]
) -> Part | None:
    """Tables of integers have the same bits in any order.

    Others are added up tile by tile down a strip, so that parts of whole rows of tiles go on
    where the part before ended, if they are walked in the same order.
    """
    *others, rows, columns = shape
    own = rows, columns
    if 0 in shape:
        return None
    least = -(-_CELLS // (prod(shape) // own[side]))
    if dtype.kind in "iu":
        return Part(128, max(128, least))
    whole = _layouts((prod(others), rows, columns), x_dtype, dtype)
    if side or not all(layout.down for layout in whole):
        return None
    height = max(layout.tile[0] for layout in whole)
    if any(height % layout.tile[0] for layout in whole):
        return None
    least = max(1, -(-least // height)) * height
    # Low images may be walked otherwise, or heard of in larger groups.
    while least <= rows and _layouts((prod(others), least, columns), x_dtype, dtype) != whole:
        least *= 2
    return Part(height, least) if least <= rows else None


def _layouts(
    shape: tuple[int, int, int], x_dtype: np.dtype[Any], dtype: np.dtype[Any]
) -> list[TableLayout]:
    """What the order of additions follows from, for rows that are aligned and that are not."""
    return [
        replace(cut_of(shape, x_dtype, dtype, is_aligned, _LEAST).layout, stages=1, blocks=1)
        for is_aligned in (True, False)
    ]
