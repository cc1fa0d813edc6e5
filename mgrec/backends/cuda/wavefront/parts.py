"""Into which parts tiles may be cut, so that those that wait for them wait for less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, prod, sqrt
from typing import Any

import numpy as np

from ....families.kernels import Part
from ....families.wavefront.alignment.scoring import Scoring
from ....families.wavefront.loops.recurrence import Loop
from ....families.wavefront.recurrence import SummedAreaTable
from ..device.compilation import Device
from .layout import TableLayout, cut_of

# Cells of a part of a table: 0.1 ms of an H100, where launching it takes half of that.
_CELLS = 1 << 25
# Columns that an alignment's last rows are behind its first, a row (22,000 at 200,000 rows): cut
# into p parts, m columns of n rows take m + p · lag · n, and the next GPU waits for m / p of them,
# which is least at p² = m / (lag · n). The same of a loop.
_LAG = 0.11
# The least GPU whose tables have the same bits as those of all others.
_LEAST = Device(80, 108, 100 * 1024)


def part(loop: Any, shape: Sequence[int], side: int) -> Part | None:
    """See :class:`mgrec.families.kernels.Kernels`."""
    if isinstance(loop, SummedAreaTable):
        return _of_table(tuple(shape), side, loop.block_dtypes[0], loop.dtype)
    if isinstance(loop, Scoring) or (isinstance(loop, Loop) and loop.strategy == "tiles"):
        *_, rows, columns = shape
        return Part(128, max(4096, ceil(sqrt(_LAG * rows * columns))))
    return None


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
