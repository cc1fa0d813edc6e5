"""Chunks that forget: their interface rows from few rows at either end.

Where rows are dominant, what a chunk's first rows say of its first unknown does not depend on the
unknowns far from it, and so at its last rows. So its interface rows are those of its two ends
alone, and determining it reads it for the first time. Spike's truncated form (Polizzi and Sameh
2006) assumes that; here it is measured, and where it does not hold all rows are reduced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..core.contract.kernels import Summarise
    from ..core.contract.recurrence import ChunkInputs, Shape
    from .recurrence import TridiagonalSystem

Launch = Callable[[Any, Any], Any]
# Rows of an end: at most so many, and so little of the chunk.
_MOST_ROWS, _LEAST_ROWS, _SHARE = 1024, 32, 64
_ALIGNED = 16  # numbers: kernels for aligned rows serve both ends


def summarise_ends(
    system: TridiagonalSystem, launch: Launch, inputs: ChunkInputs, shape: Shape
) -> Summarise | None:
    """Launch the reduction of a chunk's first and last rows.

    Parameters
    ----------
    system : TridiagonalSystem
    launch : callable, ``(pack, shape) -> summarise``
        Launches the reduction of a part of the chunk, which has its own starts.
    pack : Pack
    shape : tuple of int

    Returns
    -------
    callable, ``() -> array (2, 5, outer, inner) or None``
        Waits for the kernels; None where the chunk does not forget, or holds nan or inf there.
    None
        The chunk is too short.
    """
    steps = shape[system.axis]
    rows = min(_MOST_ROWS, steps // _SHARE)
    if rows < _LEAST_ROWS:
        return None
    begin = (steps - rows) // _ALIGNED * _ALIGNED
    first = launch(*_part(system, inputs, shape, 0, rows))
    last = launch(*_part(system, inputs, shape, begin, steps))

    def rows_of_ends() -> np.ndarray | None:
        return joined(first().rows, last().rows)

    return rows_of_ends


def _part(
    system: TridiagonalSystem, inputs: ChunkInputs, shape: Shape, begin: int, end: int
) -> tuple[ChunkInputs, Shape]:
    """Some of a chunk's rows."""
    axis = system.axis
    blocks = []
    for block, varying in zip(inputs.blocks, system.varying, strict=True):
        own = axis - len(shape) + block.ndim
        is_cut = own >= 0 and varying[own]
        window = (slice(None),) * own + (slice(begin, end),)
        blocks.append(block[window] if is_cut else block)
    starts = (*inputs.starts[:axis], inputs.starts[axis] + begin, *inputs.starts[axis + 1 :])
    own_shape = (*shape[:axis], end - begin, *shape[axis + 1 :])
    return replace(inputs, blocks=tuple(blocks), starts=starts), own_shape


def joined(first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
    """The interface rows of a chunk from those of its first and of its last rows.

    Parameters
    ----------
    first, last : array (2, 5, outer, inner)
        Of :class:`.summary.InterfaceRows`.

    Returns
    -------
    array (2, 5, outer, inner) or None
        None unless the chunk forgets in all of its systems.
    """
    with np.errstate(all="ignore"):
        # Without the last unknown of the first rows, and without the first one of the last rows.
        ahead, behind = _without(first, 2), _without(last, 1)
        is_apart = np.abs(ahead[3]) <= _forgotten(first.dtype)
        is_apart &= np.abs(behind[0]) <= _forgotten(first.dtype)
        for row in (ahead, behind):
            is_apart &= np.isfinite(row).all(axis=0)
    if not is_apart.all():
        return None
    rows = np.stack([ahead, behind])
    rows[0, 2:4] = rows[1, 0:2] = 0
    rows[0, 1] = rows[1, 2] = 1
    return rows


def _without(rows: np.ndarray, column: int) -> np.ndarray:
    """One row without the inner unknown of a column, whose other inner unknown has the factor 1.

    nan where the two rows nearly depend on each other, or are too small to tell.
    """
    one, other = rows[0] * rows[1, column], rows[1] * rows[0, column]
    row, own = one - other, 3 - column
    kept = [own, 3 * (own - 1)]  # with the unknown beside the chunk
    size = (np.abs(one[kept]) + np.abs(other[kept])).max(axis=0)
    least = np.sqrt(np.finfo(rows.dtype).tiny)
    is_told = (np.abs(row[kept]).max(axis=0) >= 0.5 * size) & (size >= least)
    return np.where(is_told, row / row[own], np.nan)


def _forgotten(dtype: np.dtype[Any]) -> float:
    """What may be left of a far unknown: an eighth of the rounding error."""
    return float(np.finfo(dtype).eps) / 16
