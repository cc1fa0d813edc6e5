"""Calls of a kind: what was checked, laid out and compiled for one is not for the next.

A kind is all that these depend on: the function, the shapes, dtypes, devices and alignments of
CuPy arrays, and the values of everything else. It takes a microsecond an array to tell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ..arrays.kinds import is_on_gpu
from ..backends import backend_of
from ..families.family import AlongAxis, Pack
from ..families.kernels import Again
from ..families.problem import Problem, first_result

_PLAIN = {int, bool, str, type(None)}
_NUMBERS = {float, complex}


class Call(NamedTuple):
    """A call whose kind can be told.

    Attributes
    ----------
    kind : tuple
    arrays : list of CuPy arrays
        All that it is given, in order; C-contiguous, on the current device.
    out : CuPy array, optional
    """

    kind: tuple[Any, ...]
    arrays: list[Any]
    out: Any


def call_of(function: Any, operands: Sequence[Any], options: dict[str, Any]) -> Call | None:
    """A call of a public function; None where something hinders: most are of NumPy arrays."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return None
    kind: list[Any] = [function, cupy.cuda.runtime.getDevice(), *options]
    arrays: list[Any] = []
    for value in (*operands, *options.values()):
        own = type(value)
        if own is cupy.ndarray:
            memory = value.data
            if memory.device_id != kind[1] or not value.flags.c_contiguous or not value.size:
                return None
            kind += (value.shape, value.dtype, memory.ptr % 16)
            arrays.append(value)
        elif own in _PLAIN:
            kind += (own, value)
        elif own in _NUMBERS:
            kind += (own, repr(value))  # 0.0 is not -0.0
        else:
            return None
    return Call(tuple(kind), arrays, options.get("out")) if arrays else None


@dataclass(frozen=True)
class Replay:
    """A call of a kind, prepared.

    Attributes
    ----------
    solve : callable
        Of :class:`mgrec.families.kernels.Kernels`.
    operands : tuple
        Of each operand: its number among the arrays of a call, or a scalar.
    empty : callable, ``() -> array``
        Memory for a result.
    """

    solve: Again
    operands: tuple[Any, ...]
    empty: Callable[[], Any]

    def __call__(self, call: Call) -> Any:
        """The result, or None: the call is to be made as if it were the first."""
        operands = [call.arrays[k] if type(k) is int else k for k in self.operands]
        result = self.empty() if call.out is None else call.out
        if call.out is not None and _overlaps(result, operands):
            return None
        return result if self.solve(operands, result) else None


def _overlaps(result: Any, operands: Sequence[Any]) -> bool:
    """Whether one C-contiguous array shares memory with others."""
    begin = result.data.ptr
    end = begin + result.nbytes
    return any(
        operand.data.ptr < end and begin < operand.data.ptr + operand.nbytes
        for operand in operands
        if is_on_gpu(operand)
    )


@lru_cache(maxsize=1024)
def _kept(kind: tuple[Any, ...]) -> list[Replay]:
    """Where the replay of a kind is kept, if there is one."""
    return []


def replayed(call: Call) -> Any:
    """The result of a call of a kind that was solved before, or None."""
    kept = _kept(call.kind)
    return kept[0](call) if kept else None


def keep(call: Call, problem: Problem, result: Any) -> None:
    """Prepare to solve calls of the kind of one that was solved, where its family knows how."""
    kept = _kept(call.kind)
    if not kept and (replay := _prepare(call, problem, result)) is not None:
        kept.append(replay)


def _prepare(call: Call, problem: Problem, result: Any) -> Replay | None:
    recurrence, shape = problem.recurrence, problem.shape
    is_plain = problem.finish is first_result and not problem.initial and not problem.is_several
    if not is_plain or not isinstance(recurrence, AlongAxis) or problem.is_lazy:
        return None
    operands = _found(problem.operands, call.arrays)
    if operands is None:
        return None
    backend = backend_of(problem.operands, recurrence.method)
    pack = Pack(problem.operands, (0,) * len(shape), (0,) * len(shape))
    solve = recurrence.again(backend, pack, shape, result)
    if solve is None:
        return None
    return Replay(solve, operands, lambda: backend.empty(shape, recurrence.result_dtype))


def _found(operands: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...] | None:
    """Where among the arrays of a call each operand is; scalars stay.

    None where that is not certain: an operand was copied, or two arrays begin at one address.
    """
    places = {array.data.ptr: number for number, array in enumerate(arrays)}
    if len(places) < len(arrays):
        return None
    found: list[Any] = []
    for operand in operands:
        if not is_on_gpu(operand):
            found.append(operand)
        elif (number := places.get(operand.data.ptr)) is not None and (
            operand.size == arrays[number].size and operand.dtype == arrays[number].dtype
        ):
            found.append(number)
        else:
            return None
    return tuple(found)
