"""The interface rows of a chunk: its summary, in the unknowns at and next to its ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .errors import SingularSystemError

if TYPE_CHECKING:
    from ..core.contract.kernels import Summarise
    from ..core.contract.recurrence import ChunkInputs, Shape
    from .recurrence import TridiagonalSystem

Launch = Callable[[Any, Any], Any]
_ALIGNED = 16  # numbers: kernels for aligned rows serve both ends
# Rows at each end of a chunk that `summarise_ends` reduces: at most 1/_CHUNK_RATIO of its rows, and
# END_ROWS with those that precede them for alignment.
END_ROWS, _MIN_ROWS, _CHUNK_RATIO = 1024, 32, 64


class Ends(NamedTuple):
    """The ends of its systems that a chunk contains, and the method of solution.

    The dl of the first row of a system, and the du of the last row, are not read.
    """

    has_first: bool
    has_last: bool
    method: str = "auto"


@dataclass(frozen=True)
class InterfaceRows:
    """The rows of a chunk after its inner unknowns are eliminated.

    A chunk of n rows, ``dl[i]·x[i-1] + d[i]·x[i] + du[i]·x[i+1] = b[i]`` for i = 0 … n-1, has
    the unknowns x[-1] … x[n]. Eliminating x[1] … x[n-2] leaves, for r = 0 and 1::

        rows[r, 0]·x[-1] + rows[r, 1]·x[0] + rows[r, 2]·x[n-1] + rows[r, 3]·x[n] = rows[r, 4]

    A chunk of one row counts its unknown twice: the second row is ``x[0] - x[n-1] = 0``.

    Attributes
    ----------
    rows : array (2, 5, outer, inner), or None
        Axis 1: the coefficients of x before the chunk, of its first x, of its last x and of the
        x after it, and the right-hand side. nan if the chunk's operands contain nan or inf. 0 if
        its inner columns depend on each other, so that the system is singular. None for a chunk
        of no rows.
    starts, shape : tuple of int
        Start of the chunk and its shape, for messages.
    """

    rows: np.ndarray | None
    starts: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()


def rows_at_ends(steps: int) -> int:
    """Return how many rows at each end of a chunk are reduced; 0 if the chunk is too short."""
    rows = min(END_ROWS - _ALIGNED, steps // _CHUNK_RATIO)
    return rows if rows >= _MIN_ROWS else 0


def start_of_end(steps: int, rows: int) -> int:
    """Return the first of the last rows of a chunk."""
    return (steps - rows) // _ALIGNED * _ALIGNED


def summarise_ends(
    system: TridiagonalSystem, launch: Launch, inputs: ChunkInputs, shape: Shape, rows: int
) -> Summarise:
    """Launch the reduction of a chunk's first and last rows only.

    If rows are dominant, the first rows of a chunk determine its first unknown up to the rounding
    error, independent of unknowns far away; likewise for the last rows. The chunk is then read
    once, by `determine`. The truncated form of Spike (Polizzi and Sameh 2006) assumes this decay.
    Here the coefficients are checked; if they have not decayed, all rows are reduced.

    ``launch(inputs, shape) -> summarise`` launches the reduction of a part of the chunk. The
    returned function waits, and returns the rows (2, 5, outer, inner), or None if the coefficients
    have not decayed, or if these rows contain nan or inf.
    """
    steps = shape[system.axis]
    start = start_of_end(steps, rows)
    first = launch(*_rows_between(system, inputs, shape, 0, rows))
    last = launch(*_rows_between(system, inputs, shape, start, steps))
    return lambda: join_interface_rows(first().rows, last().rows)


def _rows_between(
    system: TridiagonalSystem, inputs: ChunkInputs, shape: Shape, start: int, stop: int
) -> tuple[ChunkInputs, Shape]:
    axis = system.axis
    blocks = []
    for block, varying in zip(inputs.blocks, system.varying, strict=True):
        block_axis = axis - len(shape) + block.ndim
        is_sliced = block_axis >= 0 and varying[block_axis]
        window = (slice(None),) * block_axis + (slice(start, stop),)
        blocks.append(block[window] if is_sliced else block)
    starts = (*inputs.starts[:axis], inputs.starts[axis] + start, *inputs.starts[axis + 1 :])
    part_shape = (*shape[:axis], stop - start, *shape[axis + 1 :])
    return replace(inputs, blocks=tuple(blocks), starts=starts), part_shape


def join_interface_rows(first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
    """Return the interface rows of a chunk from those of its first and of its last rows.

    At each end the far inner unknown is eliminated. None unless the coefficients of the unknowns
    beyond it have decayed in all systems, or if the two rows of an end nearly depend on each other,
    or are too small to decide.
    """
    from .cpu.interface import join_ends

    rows = np.empty_like(first, order="C")
    limits = np.finfo(first.dtype)
    # A negligible coefficient of a far unknown is at most an eighth of the rounding error.
    negligible, least = limits.eps / 16, np.sqrt(limits.tiny)
    return rows if join_ends(first, last, rows, negligible, least) else None


def solve_periodic_ends(rows: np.ndarray) -> np.ndarray:
    """Return the unknowns at and next to the ends of periodic systems.

    The unknown before the first row is the last one, and the unknown after the last row the first
    one. The interface rows are therefore two equations for the two ends. The formula of Sherman
    and Morrison would split a matrix off that may be singular although the system is not.

    The result (4, outer, inner) has the x before the system, its first x, its last x and the x
    after it. Raise SingularSystemError if a system is singular.
    """
    first, last, rhs = rows[:, 1] + rows[:, 3], rows[:, 0] + rows[:, 2], rows[:, 4]
    size = np.maximum(abs(first), abs(last))
    limit = np.finfo(size.dtype).maxexp - 2
    scale = np.ldexp(np.ones_like(size), np.clip(-np.frexp(size)[1], -limit, limit))
    first, last, rhs = first * scale, last * scale, rhs * scale
    # Complete pivoting: rows may be exchanged, and the two unknowns.
    is_last_larger = abs(last).max(0) > abs(first).max(0)
    leading = np.where(is_last_larger, last, first)
    other = np.where(is_last_larger, first, last)
    is_swapped = abs(leading[1]) > abs(leading[0])
    leading, other, rhs = (np.where(is_swapped, part[::-1], part) for part in (leading, other, rhs))
    with np.errstate(all="ignore"):
        factor = leading[1] / leading[0]
        pivot = other[1] - factor * other[0]
        second = (rhs[1] - factor * rhs[0]) / pivot
        one = (rhs[0] - other[0] * second) / leading[0]
    # A leading coefficient of 0 makes the second pivot nan, which does not come from an operand.
    is_singular = leading[0] == 0
    is_singular |= pivot == 0
    if is_singular.any():
        raise SingularSystemError(int(is_singular.argmax()))
    x = np.where(is_last_larger, second, one)
    y = np.where(is_last_larger, one, second)
    return np.stack([y, x, y, x])
