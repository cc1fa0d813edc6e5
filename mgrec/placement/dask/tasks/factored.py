"""The tasks of factored tridiagonal matrices, whose systems are whole in their chunks."""

from __future__ import annotations

from typing import Any

from ....families.family import Pack
from ...factors import Factors, factor_chunk, solve_chunk
from .phases import chunk_of, pack_blocks


def factor_block(*values: Any, recurrence: Any, count: int) -> Factors:
    """The factors of a chunk's matrices."""
    pack = pack_blocks(*values, recurrence=recurrence, count=count)
    with chunk_of("factor", recurrence, pack) as (_, shape):
        return factor_chunk(recurrence, pack, shape)


def determine_factored(factors: Factors, b: Any, *values: Any, recurrence: Any) -> Any:
    """The unknowns of a chunk, by its factors, or anew where these are of no use."""
    place, starts = tuple(p for p, _ in values), tuple(s for _, s in values)
    after = None if recurrence.rhs_axis is None else len(place) - 1 - recurrence.rhs_axis
    diagonals = (_widened(each, after) for each in factors.diagonals)
    pack = Pack((*diagonals, b), place, starts)
    with chunk_of("determine", recurrence, pack) as (backend, shape):
        own = factors.shape
        if after is not None and after < len(own):
            own = (*own[: len(own) - after], 1, *own[len(own) - after :])
        of = (1,) * (len(shape) - len(own)) + own
        x = solve_chunk(factors, of, recurrence.axis, shape, b)
        return recurrence.determine(backend, pack, shape, None)[0][0] if x is None else x


def _widened(diagonal: Any, after: int | None) -> Any:
    """A diagonal with an axis of length 1 ahead of its last `after` axes."""
    before = diagonal.ndim - (after or 0)
    if after is None or before <= 0:
        return diagonal
    return diagonal[(slice(None),) * before + (None,)]
