"""A Dask cluster: every chunk stays where it is, a few scalars a chunk cross.

Every family comes in by its :class:`Problem`, which is cut into chunks here. What follows is the
same for all along an axis: packed chained groups where operands are yet to be loaded (packed.py),
fewer tasks where the workers hold them already (held.py), one task a chunk where no row is cut
(whole.py), or a plan (plan/). Grids have tiles (tiles.py),
also those that are swept several times (swept.py) or traced back (traceback.py).
"""

from __future__ import annotations

import warnings
from math import isnan
from typing import Any

from dask.base import tokenize

from ...core.algebra.variants import stacklevel_of_caller
from ...core.contract.grid import Grid
from ...core.contract.problem import Problem
from ...core.contract.recurrence import AlongAxis
from ...core.contract.sweeps import Swept
from ...core.contract.traceback import Traceback
from ..logs import log_solve
from ..tasks.limits import check_chunks
from .cuts import Cut
from .groups import group_size
from .held import Held, is_persisted
from .operands import align, reference_chunks
from .packed import Packed
from .rows import Layers
from .swept import is_cut, solve_sweeps
from .tiles import solve_tiles
from .traceback import solve_traceback
from .whole import solve_whole

# Graph ordering takes seconds from here on (it grows with the square of the chunks).
MANY_CHUNKS = 2000

Solved = tuple[tuple[Any, ...], Any]
"""The results, one array a scalar of the state, and the carry-out, or None."""


def cut(problem: Problem) -> Cut:
    """The operands of a problem cut alike: one of its arrays is a Dask array."""
    chunks, recurrence = reference_chunks(problem), problem.recurrence
    axes = (recurrence.axis,) if isinstance(recurrence, AlongAxis) else recurrence.axes
    if recurrence.indexed_by and any(isnan(n) for axis in axes for n in chunks[axis]):
        raise ValueError(
            f"{recurrence.indexed_by} needs the index of each step, but the chunk sizes along "
            "the axis are unknown: call compute_chunk_sizes() on the arrays first"
        )
    recurrence.check_chunks(chunks)
    blocks = tuple(align(array, chunks, problem.shape) for array in problem.operands)
    return Cut(recurrence, blocks, chunks, problem.initial)


def solve(problem: Problem) -> Solved:
    """Build the lazy results of a problem, and its lazy carry-out where it is asked for."""
    own = cut(problem)
    recurrence, blocks = own.recurrence, own.blocks
    if recurrence.results:
        check_chunks(blocks[0]._meta, own.chunks, recurrence.dtype)
    are_persisted = all(map(is_persisted, blocks))
    # An array has the same name when it is persisted, but the propagations over held chunks are
    # others: a scheduler that still knows those of a lazy solve would mix the two up.
    names = [block.name for block in blocks]
    token = tokenize(recurrence, names, own.initial, own.chunks, problem.memory, are_persisted)
    if isinstance(recurrence, Swept) and is_cut(own):
        solved: Solved = solve_sweeps(own, token), None
    elif isinstance(recurrence, Traceback):
        return (), solve_traceback(own, token)
    elif isinstance(recurrence, Grid):
        solved = solve_tiles(own, token)
    elif own.is_whole:
        solved = solve_whole(own, token), None
    else:
        _advise(own.count)
        layers: Layers = Held(own, token) if are_persisted else Packed(own, token, problem.memory)
        solved = layers.chain(group_size(own.chunks, recurrence, are_persisted))
    results, carry_out = solved
    log_solve((*results, carry_out)[0])
    return solved


def _advise(count: int) -> None:
    if count > MANY_CHUNKS:
        warnings.warn(
            f"the recurrence runs along {count} chunks: Dask needs seconds to minutes to order "
            f"such a graph before anything is computed. Use larger chunks along this axis "
            f"(array.rechunk), or mgrec.dask.persist_in_stages(result)",
            stacklevel=stacklevel_of_caller(),
        )
