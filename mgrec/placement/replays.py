"""Calls of a kind: what was checked, laid out and compiled for one is not for the next.

A kind is all that these depend on: the function, the shapes, dtypes, devices and alignments of
CuPy arrays, and the values of everything else. It takes a microsecond an array to tell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
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
        All that it is given, in order, on the current device.
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
    given, ndarray = (*operands, *options.values()), cupy.ndarray
    if ndarray not in map(type, given):
        return None
    device = cupy.cuda.runtime.getDevice()
    kind: list[Any] = [function, device, *options]
    arrays: list[Any] = []
    for value in given:
        own = type(value)
        if own is ndarray:
            memory = value.data
            if memory.device_id != device:
                return None
            kind += (value.shape, value.strides, value.dtype, memory.ptr % 16)
            arrays.append(value)
        elif own in _PLAIN:
            kind += (own, value)
        elif own in _NUMBERS:
            kind += (own, repr(value))  # 0.0 is not -0.0
        else:
            return None
    return Call(tuple(kind), arrays, options.get("out"))


@dataclass(frozen=True)
class Replay:
    """A call of a kind, prepared.

    Attributes
    ----------
    solve : callable
        Of :class:`mgrec.families.kernels.Kernels`.
    operands : tuple of int or None
        Of each operand: its number among the arrays of a call; None for scalars.
    sizes : tuple of int
        Bytes of each array of a call.
    out : int, optional
        Number of the array that the caller gives for the result.
    empty : callable, ``() -> array``
        Memory for a result.
    """

    solve: Again
    operands: tuple[int | None, ...]
    sizes: tuple[int, ...]
    out: int | None
    empty: Callable[[], Any]

    def __call__(self, call: Call) -> Any:
        """The result, or None: the call is to be made as if it were the first."""
        addresses = [array.data.ptr for array in call.arrays]
        if self.out is None:
            result = self.empty()
            target = result.data.ptr
        else:
            result, target = call.out, addresses[self.out]
            if self._overlaps(addresses, target, target + self.sizes[self.out]):
                return None
        given = [None if number is None else addresses[number] for number in self.operands]
        return result if self.solve(given, target) else None

    def _overlaps(self, addresses: Sequence[int], begin: int, end: int) -> bool:
        """Whether the result shares memory with an operand."""
        for number, (address, size) in enumerate(zip(addresses, self.sizes, strict=True)):
            if address < end and begin < address + size and number != self.out:
                return True
        return False


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
    sizes = tuple(array.nbytes for array in call.arrays)
    out = next((k for k, array in enumerate(call.arrays) if array is call.out), None)
    empty = partial(backend.empty, shape, recurrence.result_dtype)
    return Replay(solve, operands, sizes, out, empty)


def _found(operands: Sequence[Any], arrays: Sequence[Any]) -> tuple[int | None, ...] | None:
    """Where among the arrays of a call each operand is; scalars stay.

    None where that is not certain: an operand was copied, or two arrays begin at one address.
    """
    is_certain = all(array.flags.c_contiguous and array.size for array in arrays)
    places = {array.data.ptr: number for number, array in enumerate(arrays)}
    if not is_certain or len(places) < len(arrays):
        return None
    found: list[int | None] = []
    for operand in operands:
        if not is_on_gpu(operand):
            found.append(None)
        elif (number := places.get(operand.data.ptr)) is not None and (
            operand.size == arrays[number].size and operand.dtype == arrays[number].dtype
        ):
            found.append(number)
        else:
            return None
    return tuple(found)
