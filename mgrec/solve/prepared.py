"""Prepared calls: validated, laid out and compiled once, then used for all calls of a signature.

One cache has them all, by any signature: that of a call of NumPy or CuPy arrays (see
``solve/signature.py``), that of the tensors of a call, or that of a step of an adjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np

from ..core.arrays.chunk import is_uncopied
from ..core.arrays.validation import check_memory, extents_overlap
from ..core.backends import CPU, Backend, backend_of
from ..core.contract.kernels import PreparedSolver
from ..core.contract.problem import Problem
from ..core.contract.recurrence import AlongAxis, Arrays, ChunkInputs
from .signature import MOST_STEPS, Call


@dataclass(frozen=True)
class PreparedCall:
    """A solver for calls of one signature.

    Attributes
    ----------
    solve : PreparedSolver
        See :class:`mgrec.core.contract.kernels.Kernels`.
    operands : tuple
        Operands of the solver; None for those that are arguments of a call.
    positions : tuple of (int, int)
        Pairs of the index of an operand and the index of the argument that it is.
    sizes : dict
        Bytes of each argument that is an array, by its index.
    new_results : callable, ``() -> results``
        Allocate the results.
    shape, dtype
        Those of a result.
    to_return_value : callable, ``(results, carry_out) -> return value``
    """

    solve: PreparedSolver
    operands: tuple[Any, ...]
    positions: tuple[tuple[int, int], ...]
    sizes: dict[int, int]
    new_results: Callable[[], Arrays]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    to_return_value: Callable[[Arrays, Any], Any]

    def __call__(self, call: Call) -> Any:
        """Return the result of a call.

        Raises
        ------
        CacheMiss, OverflowError, TypeError
            If the solver does not solve these arrays, or a dtype does not hold a number.
        """
        return self.run(call, call.out or self.new_results())

    def run(self, call: Call, results: Arrays) -> Any:
        """Solve with the arrays of a call in host memory, or with their addresses on a GPU."""
        arguments, targets = call.arguments, results
        if call.is_on_host:
            if call.out:
                check_memory(results, [arguments[k] for k in self.sizes], np.may_share_memory)
        else:
            arguments, targets = [*arguments], tuple([result.data.ptr for result in results])
            for number in self.sizes:
                arguments[number] = arguments[number].data.ptr
            if call.out:
                extents = [(arguments[k], arguments[k] + size) for k, size in self.sizes.items()]
                size = prod(self.shape) * self.dtype.itemsize
                result_extents = [(target, target + size) for target in targets]
                check_memory(result_extents, extents, extents_overlap)
        return self.to_return_value(results, self.solve_at(arguments, targets))

    def solve_at(self, arguments: Sequence[Any], targets: Sequence[Any]) -> Any:
        """Solve with arguments and results in the form of the solver; return its carry-out."""
        operands = [*self.operands]
        for position, number in self.positions:
            operands[position] = arguments[number]
        return self.solve(operands, targets)


@dataclass(frozen=True)
class PreparedSequence:
    """Prepared calls, one after the other, of parts of the same arrays.

    Attributes
    ----------
    steps : tuple of (PreparedCall, offsets, offset)
        The offsets of the arguments, pairs of the index of an array and the bytes from its start,
        or of -1 and a number; and the offset of the result from the start of the last array.
    """

    steps: tuple[tuple[PreparedCall, tuple[tuple[int, Any], ...], int], ...]

    def solve_at(self, starts: Sequence[int]) -> None:
        """Solve with arrays at these addresses."""
        for call, offsets, result in self.steps:
            arguments = [number if k < 0 else starts[k] + number for k, number in offsets]
            call.solve_at(arguments, (starts[-1] + result,))


Prepared = TypeVar("Prepared")


class CacheEntry(Generic[Prepared]):
    """The prepared call or sequence of a signature, if there is one yet.

    Attributes
    ----------
    prepared : PreparedCall or PreparedSequence, optional
    is_preparable : bool
        False once the family could not prepare a call.
    is_solved : bool
        Whether a call was solved without preparation.
    """

    prepared: Prepared | None = None
    is_preparable = True
    is_solved = False

    def should_prepare(self, call: Call) -> bool:
        """Return whether to prepare a call: the first of CuPy arrays, the second of NumPy arrays.

        Preparation for NumPy takes as long as the call, in vain if each has another signature.
        """
        is_new = self.is_preparable and self.prepared is None
        return is_new and (self.is_solved or not call.is_on_host)


@lru_cache(maxsize=1024)
def cache_entry(signature: tuple[Any, ...]) -> CacheEntry[Any]:
    """Return the cache entry of a signature."""
    return CacheEntry()


def prepare_sequence(
    calls: Sequence[tuple[Call | None, Any]], arrays: Sequence[Any]
) -> PreparedSequence | None:
    """Return the prepared calls of parts of arrays on a GPU; None if one is not, or without calls.

    Each call comes with its result, a part of the last array. The arrays are of one size.
    """
    backend = backend_of(arrays[0])
    starts = [*map(backend.address, arrays)]

    def offset_of(argument: Any) -> tuple[int, Any]:
        if not hasattr(argument, "flags"):
            return -1, argument
        address = backend.address(argument)
        base = next(k for k, start in enumerate(starts) if 0 <= address - start < arrays[0].nbytes)
        return base, address - starts[base]

    steps = []
    for call, result in calls:
        prepared = None if call is None else cache_entry(call.signature).prepared
        if call is None or prepared is None:
            return None
        offset = backend.address(result) - starts[-1]
        steps.append((prepared, tuple(map(offset_of, call.arguments)), offset))
    return PreparedSequence(tuple(steps)) if steps else None


def prepare(
    call: Call, problem: Problem, backend: Backend, inputs: ChunkInputs, results: Arrays
) -> PreparedCall | None:
    """Return the prepared call of a validated call, or None if its family cannot prepare it.

    `inputs` are the operands as one chunk. `results` are arrays as those of later calls.
    """
    recurrence, shape = problem.recurrence, problem.shape
    arguments = call.arguments[: len(call.arguments) - len(call.out)]
    arrays = {k: argument for k, argument in enumerate(arguments) if _is_array(argument)}
    is_laid_out = all(array.flags.c_contiguous and array.size for array in arrays.values())
    returns_final_state = isinstance(recurrence, AlongAxis) and recurrence.returns_final_state
    if not is_laid_out or 0 in shape or not (problem.is_plain or returns_final_state):
        return None
    if call.is_on_host and prod(shape) > MOST_STEPS:  # a broadcast result: use all threads
        return None
    operands = recurrence.solver_arguments(problem.operands, problem.initial)
    positions = _match(operands, arguments)
    if positions is None or recurrence.written_dtype(backend) != recurrence.result_dtype:
        return None
    solve = recurrence.prepare_solver(backend, inputs, shape, problem.initial, results)
    if solve is None:
        return None
    matched = dict(positions)
    count, empty = len(results), partial(backend.empty, shape, recurrence.result_dtype)
    return PreparedCall(
        solve,
        tuple([None if k in matched or _is_array(x) else x for k, x in enumerate(operands)]),
        positions,
        {k: array.nbytes for k, array in arrays.items()},
        lambda: tuple([empty() for _ in range(count)]),
        shape,
        recurrence.result_dtype,
        _with_final_state(problem) if returns_final_state else problem.to_return_value,
    )


def _with_final_state(problem: Problem) -> Callable[[Arrays, Any], Any]:
    """Return `to_return_value` for a carry-out; it references no array of the problem."""
    recurrence, shape, finish = problem.recurrence, problem.shape, problem.to_return_value
    return lambda results, carry_out: finish(results, recurrence.final_state(carry_out, shape))


def _is_array(value: Any) -> bool:
    return backend_of(value) is not CPU or (type(value) is np.ndarray and value.ndim > 0)


def _match(operands: Sequence[Any], arguments: Sequence[Any]) -> tuple[tuple[int, int], ...] | None:
    """Return pairs of the index of an operand and the index of the argument that it is.

    Both are in the order of parameters. Numbers whose values are part of the signature have no
    pair. The result is None if an operand is a copy of its argument, or has another type.
    """
    pairs: list[tuple[int, int]] = []
    for position, operand in enumerate(operands):
        number = len(pairs)
        argument = arguments[number] if number < len(arguments) else None
        if _is_array(operand):
            if not (_is_array(argument) and _is_same(operand, argument)):
                return None
        elif argument is None or _is_array(argument):
            continue
        pairs.append((position, number))
    return tuple(pairs) if len(pairs) == len(arguments) else None


def _is_same(operand: Any, argument: Any) -> bool:
    """Return whether two arrays have the same memory, size and dtype."""
    has_same_size = operand.size == argument.size and operand.dtype == argument.dtype
    is_moved = backend_of(operand) is not backend_of(argument)
    return has_same_size and not is_moved and is_uncopied(operand, argument)
