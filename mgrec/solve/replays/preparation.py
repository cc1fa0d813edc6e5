"""Replays that are kept by kinds of calls, and how they are made of a call that was solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.array_types import is_on_gpu
from ...core.contract.problem import Problem
from ...core.contract.recurrence import AlongAxis, ChunkInputs
from ...engines import backend_of
from .calls import Call
from .replay import OnDevice, OnHost, Replay
from .tellers import MOST_STEPS

Leaves = Sequence[tuple[int, Any]]


class _Kept:
    """Where the replay of a kind is kept, if there is one."""

    def __init__(self) -> None:
        self.replay: Replay | None = None
        self.is_tried = False
        self.calls = 0


@lru_cache(maxsize=1024)
def _kept(kind: tuple[Any, ...]) -> _Kept:
    return _Kept()


def replayed(call: Call) -> tuple[Any] | None:
    """The result of a call of a kind that was solved before, or None."""
    replay = _kept(call.kind).replay
    return None if replay is None else replay(call)


def is_awaited(call: Call) -> bool:
    """Whether a call is the one of its kind by which the others are prepared.

    The first of CuPy arrays, which compiles. The second of NumPy arrays: to prepare takes as long
    as the call, in vain where every call is of another kind.
    """
    kept = _kept(call.kind)
    if kept.is_tried:
        return False
    kept.calls += 1
    kept.is_tried = not call.is_on_host or kept.calls > 1
    return kept.is_tried


def keep(call: Call, leaves: Leaves, outs: tuple[int, ...], problem: Problem, result: Any) -> None:
    """Prepare to solve calls of the kind of one that was solved, where its family knows how.

    Parameters
    ----------
    call : Call
    leaves : sequence of (int, leaf)
        Of the call, numbered, in the order of the function's parameters.
    outs : tuple of int
        Leaves that the caller gives for the results.
    problem : Problem
    result : what the function returned
    """
    _kept(call.kind).replay = _prepare(call, leaves, outs, problem, result)


def _prepare(
    call: Call, leaves: Leaves, outs: tuple[int, ...], problem: Problem, result: Any
) -> Replay | None:
    recurrence = problem.recurrence
    arrays = tuple([number for number, leaf in enumerate(call.leaves) if _is_array(leaf)])
    is_laid_out = all(call.leaves[k].flags.c_contiguous and call.leaves[k].size for k in arrays)
    returns_final_state = isinstance(recurrence, AlongAxis) and recurrence.returns_final_state
    if not is_laid_out or 0 in problem.shape or not (problem.is_plain or returns_final_state):
        return None
    if call.is_on_host and prod(problem.shape) > MOST_STEPS:  # broadcast: for all threads
        return None
    given = recurrence.solver_arguments(problem.operands, problem.initial)
    positions = _found(given, leaves)
    if positions is None:
        return None
    results = result[:1] if returns_final_state else result
    results = results if type(results) is tuple else (results,)
    backend, shape = backend_of(problem.arrays, recurrence.method), problem.shape
    inputs = ChunkInputs(problem.operands, (0,) * len(shape), (0,) * len(shape))
    solve = recurrence.prepare_solver(backend, inputs, shape, problem.initial, results)
    if solve is None:
        return None
    known = dict(positions)
    about = (
        solve,
        tuple([None if k in known or _is_array(own) else own for k, own in enumerate(given)]),
        positions, arrays, outs, problem.is_several, len(results),
        partial(backend.empty, shape, recurrence.result_dtype),
        _leaving(problem) if returns_final_state else problem.to_return_value,
    )  # fmt: skip
    if call.is_on_host:
        return OnHost(*about)
    return OnDevice(*about, tuple([getattr(leaf, "nbytes", 0) for leaf in call.leaves]))


def _leaving(problem: Problem) -> Callable[[Any, Any], Any]:
    """What a call returns that has a carry-out; nothing of the problem's arrays is held."""
    recurrence, shape, finish = problem.recurrence, problem.shape, problem.to_return_value
    return lambda results, carry_out: finish(results, recurrence.final_state(carry_out, shape))


def _is_array(leaf: Any) -> bool:
    return is_on_gpu(leaf) or (type(leaf) is np.ndarray and leaf.ndim > 0)


def _found(given: Sequence[Any], leaves: Leaves) -> tuple[tuple[int, int], ...] | None:
    """Which leaf of a call each thing given is; what the call does not tell stays.

    None where that is not certain: an operand was copied, or is of another kind.
    """
    found: list[tuple[int, int]] = []
    rest = list(leaves)
    for position, own in enumerate(given):
        is_array = _is_array(own)
        if not rest or _is_array(rest[0][1]) != is_array:
            if is_array:
                return None
            continue  # a number by its value
        number, leaf = rest.pop(0)
        if is_array and not _is_same(own, leaf):
            return None
        found.append((position, number))
    return None if rest else tuple(found)


def _is_same(own: Any, leaf: Any) -> bool:
    if is_on_gpu(own) != is_on_gpu(leaf) or own.size != leaf.size or own.dtype != leaf.dtype:
        return False
    return bool(own.data.ptr == leaf.data.ptr if is_on_gpu(own) else _ptr(own) == _ptr(leaf))


def _ptr(array: np.ndarray) -> int:
    return int(array.ctypes.data)
