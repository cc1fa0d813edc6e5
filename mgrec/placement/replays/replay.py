"""Calls of a kind: what was checked, laid out and compiled for one is not for the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from ...arrays.kinds import is_on_gpu
from ...backends import backend_of
from ...families.family import Arrays, Pack
from ...families.kernels import Again
from ...families.problem import Problem
from .calls import Call

Leaves = Sequence[tuple[int, Any]]


@dataclass(frozen=True)
class Replay:
    """A call of a kind, prepared.

    Attributes
    ----------
    solve : callable
        Of :class:`mgrec.families.kernels.Kernels`.
    given : tuple
        What it is given where the call does not tell.
    places : tuple of (int, int)
        Which of what it is given is which leaf of a call.
    are_arrays : tuple of bool
        Of the leaves.
    sizes : tuple of int
        Bytes of each leaf.
    outs : tuple of int
        Leaves that the caller gives for the results.
    count : int
        Results.
    is_several : bool
        They are a tuple.
    empty : callable, ``() -> array``
        Memory for a result.
    """

    solve: Again
    given: tuple[Any, ...]
    places: tuple[tuple[int, int], ...]
    are_arrays: tuple[bool, ...]
    sizes: tuple[int, ...]
    outs: tuple[int, ...]
    count: int
    is_several: bool
    empty: Callable[[], Any]

    def __call__(self, call: Call) -> Any:
        """The result, or None: the call is to be made as if it were the first."""
        leaves = [
            leaf.data.ptr if is_array else leaf
            for leaf, is_array in zip(call.leaves, self.are_arrays, strict=True)
        ]
        if self.outs:
            results = call.out if self.is_several else (call.out,)
            targets = [leaves[number] for number in self.outs]
            if self._overlaps(leaves):
                return None
        else:
            results = tuple([self.empty() for _ in range(self.count)])
            targets = [result.data.ptr for result in results]
        given = list(self.given)
        for place, leaf in self.places:
            given[place] = leaves[leaf]
        try:
            if not self.solve(given, targets):
                return None
        except (OverflowError, TypeError):  # a number that the dtype does not hold
            return None
        return results if self.is_several else results[0]

    def _overlaps(self, leaves: Sequence[Any]) -> bool:
        """Whether a result shares memory with an operand or another result."""
        numbers = [number for number, is_array in enumerate(self.are_arrays) if is_array]
        return any(
            number != out
            and leaves[number] < leaves[out] + self.sizes[out]
            and leaves[out] < leaves[number] + self.sizes[number]
            for out in self.outs
            for number in numbers
        )


@lru_cache(maxsize=1024)
def _kept(kind: tuple[Any, ...]) -> list[Replay]:
    """Where the replay of a kind is kept, if there is one."""
    return []


def replayed(call: Call) -> Any:
    """The result of a call of a kind that was solved before, or None."""
    kept = _kept(call.kind)
    return kept[0](call) if kept else None


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
    kept = _kept(call.kind)
    if not kept and (replay := _prepare(call, leaves, outs, problem, result)) is not None:
        kept.append(replay)


def _prepare(
    call: Call, leaves: Leaves, outs: tuple[int, ...], problem: Problem, result: Any
) -> Replay | None:
    recurrence, shape = problem.recurrence, problem.shape
    if not problem.is_plain or problem.is_lazy:
        return None
    results: Arrays = result if problem.is_several else (result,)
    if not results[0].size or not _are_contiguous(call.leaves):
        return None
    given = recurrence.given(problem.operands, problem.initial)
    places = _found(given, leaves)
    if places is None:
        return None
    backend = backend_of(problem.arrays, recurrence.method)
    pack = Pack(problem.operands, (0,) * len(shape), (0,) * len(shape))
    initial = problem.initial
    entry = recurrence.enter_whole(backend, initial, shape) if initial else None
    solve = recurrence.again(backend, pack, shape, entry, results)
    if solve is None:
        return None
    known = dict(places)
    own = (None if k in known or is_on_gpu(value) else value for k, value in enumerate(given))
    return Replay(
        solve,
        tuple(own),
        places,
        tuple([is_on_gpu(leaf) for leaf in call.leaves]),
        tuple([getattr(leaf, "nbytes", 0) for leaf in call.leaves]),
        outs,
        len(results),
        problem.is_several,
        partial(backend.empty, shape, recurrence.result_dtype),
    )


def _are_contiguous(leaves: Sequence[Any]) -> bool:
    return all(leaf.flags.c_contiguous and leaf.size for leaf in leaves if is_on_gpu(leaf))


def _found(given: Sequence[Any], leaves: Leaves) -> tuple[tuple[int, int], ...] | None:
    """Which leaf of a call each thing given is; what the call does not tell stays.

    None where that is not certain: an operand was copied, or a state is an array in host memory.
    """
    found: list[tuple[int, int]] = []
    rest = list(leaves)
    for place, own in enumerate(given):
        is_array = is_on_gpu(own)
        if not is_array and own.ndim:
            return None
        if not rest or is_on_gpu(rest[0][1]) != is_array:
            if is_array:
                return None
            continue  # a number by its value
        number, leaf = rest.pop(0)
        if is_array and not _is_same(own, leaf):
            return None
        found.append((place, number))
    return None if rest else tuple(found)


def _is_same(own: Any, leaf: Any) -> bool:
    is_alike = own.size == leaf.size and own.dtype == leaf.dtype
    return bool(is_alike and own.data.ptr == leaf.data.ptr)
