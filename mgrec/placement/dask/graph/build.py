"""A Dask cluster: every chunk stays where it is, a few scalars a chunk cross.

Every family of recurrences comes in by :func:`build`, as a :class:`Cut`. What follows is the
same for all: packed chained groups where operands are yet to be loaded (packed.py), fewer
tasks where the workers hold them already (held.py), or a plan (plan/).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import dask.array as da
from dask.base import tokenize

from ....algebra.callers import level_of_caller
from ....arrays.door import Problem
from ...logs import log_solve
from ..tasks.limits import check_chunks
from .cuts import Cut
from .groups import group_size
from .held import Held, is_held
from .operands import cut_problem
from .packed import Packed
from .rows import Layers

# Graph ordering takes seconds from here on (it grows with the square of the chunks).
MANY_CHUNKS = 2000

Solved = tuple[tuple[Any, ...], Any]
"""The results, one array a scalar of the state, and the exit, or None."""
Cutting = Callable[[], Cut]
Answer = Callable[[Cutting], Solved | None]

_answer: ContextVar[Answer | None] = ContextVar("answer", default=None)


def solve(problem: Problem, memory: str, method: str) -> tuple[Any, ...]:
    """Build the lazy result of a recurrence over Dask arrays.

    Parameters
    ----------
    problem : Problem
        At least one of its arrays is a Dask array.
    memory : {"stream", "two-pass"}
    method : str

    Returns
    -------
    tuple of dask.array.Array
        One a scalar of the state, chunked like the last operand.
    """
    results, _ = build(lambda: cut_problem(problem, method), (problem.initial, None), memory)
    return results


def build(cut: Cutting, stand_in: Solved, memory: str = "stream") -> Solved:
    """Build the lazy results of a family's problem, and its lazy exit where it is asked for.

    Parameters
    ----------
    cut : callable, ``() -> Cut``
    stand_in : (tuple of arrays, array or None)
        What the caller can go on with where nothing is built: see :func:`capture`.
    memory : {"stream", "two-pass"}
    """
    answer = _answer.get()
    if answer is not None:
        return answer(cut) or stand_in
    if da.array_expr_enabled():
        raise NotImplementedError(
            "mgrec builds graphs for legacy Dask arrays; set array.query-planning to False"
        )
    own = cut()
    _advise(own.count)
    recipe, blocks = own.recipe, own.blocks
    check_chunks(blocks[0]._meta, own.chunks, recipe.dtype)
    are_held = all(map(is_held, blocks))
    # An array has the same name when it is persisted, but the propagations over held chunks are
    # others: a scheduler that still knows those of a lazy solve would mix the two up.
    names = [block.name for block in blocks]
    token = tokenize(recipe, names, own.initial, own.chunks, memory, are_held)
    layers: Layers = Held(own, token) if are_held else Packed(own, token, memory)
    solved = layers.chain(group_size(own.chunks, recipe, are_held))
    log_solve(solved[0][0])
    return solved


def _advise(count: int) -> None:
    if count > MANY_CHUNKS:
        warnings.warn(
            f"the recurrence runs along {count} chunks: Dask needs seconds to minutes to order "
            f"such a graph before anything is computed. Use larger chunks along this axis "
            f"(array.rechunk), or mgrec.dask.persist_in_stages(result)",
            stacklevel=level_of_caller(),
        )


def capture(call: Callable[[], Any]) -> Cut:
    """What a call of a public function would solve; nothing is built.

    Raises
    ------
    TypeError
        It is not one recurrence over Dask arrays.
    """
    found: list[Cut] = []
    with answered(lambda cut: found.append(cut())):
        call()
    return found[0]


@contextmanager
def answered(answer: Answer) -> Iterator[None]:
    """Let `answer` solve the one recurrence that is called inside."""
    calls = []

    def once(cut: Cutting) -> Solved | None:
        calls.append(cut)
        return answer(cut) if len(calls) == 1 else None

    token = _answer.set(once)
    try:
        yield
    finally:
        _answer.reset(token)
    if len(calls) != 1:
        raise TypeError(
            "a plan takes linear_recurrence, rational_recurrence, scan, lfilter or sosfilt, and a "
            "Dask array among their operands; got another function, or no Dask array"
        )
