"""Prepared calls: validated, laid out and compiled once, then used for all calls of a signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

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
    size : int
        Bytes of a result.
    to_return_value : callable, ``(results, carry_out) -> return value``
    """

    solve: PreparedSolver
    operands: tuple[Any, ...]
    positions: tuple[tuple[int, int], ...]
    sizes: dict[int, int]
    new_results: Callable[[], Arrays]
    size: int
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
                result_extents = [(target, target + self.size) for target in targets]
                check_memory(result_extents, extents, extents_overlap)
        return self.to_return_value(results, self.solve_at(arguments, targets))

    def solve_at(self, arguments: Sequence[Any], targets: Sequence[Any]) -> Any:
        """Solve with arguments and results in the form of the solver; return its carry-out."""
        operands = [*self.operands]
        for position, number in self.positions:
            operands[position] = arguments[number]
        return self.solve(operands, targets)


class CacheEntry:
    """The prepared call of a signature, if there is one yet.

    Attributes
    ----------
    prepared : PreparedCall, optional
    is_preparable : bool
        False once the family could not prepare a call.
    is_solved : bool
        Whether a call was solved without preparation.
    """

    prepared: PreparedCall | None = None
    is_preparable = True
    is_solved = False

    def should_prepare(self, call: Call) -> bool:
        """Return whether to prepare a call: the first of CuPy arrays, the second of NumPy arrays.

        Preparation for NumPy takes as long as the call, in vain if each has another signature.
        """
        is_new = self.is_preparable and self.prepared is None
        return is_new and (self.is_solved or not call.is_on_host)


@lru_cache(maxsize=1024)
def cache_entry(signature: tuple[Any, ...]) -> CacheEntry:
    """Return the cache entry of a signature."""
    return CacheEntry()


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
        prod(shape) * recurrence.result_dtype.itemsize,
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
