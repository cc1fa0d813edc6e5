"""Prepared calls: validated, laid out and compiled once, then used for all calls of a signature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_on_gpu
from ..core.contract.kernels import CacheMiss, PreparedSolver
from ..core.contract.problem import Problem
from ..core.contract.recurrence import AlongAxis, ChunkInputs
from ..engines import backend_of
from .signature import MOST_STEPS, Call

NumberedArguments = Sequence[tuple[int, Any]]


@dataclass(frozen=True)
class PreparedCall(ABC):
    """A solver for calls of one signature.

    Attributes
    ----------
    solve : PreparedSolver
        See :class:`mgrec.core.contract.kernels.Kernels`.
    operands : tuple
        Operands of the solver; None for those that are arguments of a call.
    positions : tuple of (int, int)
        Pairs of the index of an operand and the index of the argument that it is.
    arrays : tuple of int
        Indices of the arguments that are arrays.
    outs : tuple of int
        Indices of the arguments for the results.
    is_several : bool
        Whether `out` is a tuple.
    count : int
        Number of results.
    empty : callable, ``() -> array``
        Allocate a result.
    to_return_value : callable, ``(results, final_state) -> return value``
    """

    solve: PreparedSolver
    operands: tuple[Any, ...]
    positions: tuple[tuple[int, int], ...]
    arrays: tuple[int, ...]
    outs: tuple[int, ...]
    is_several: bool
    count: int
    empty: Callable[[], Any]
    to_return_value: Callable[[Any, Any], Any]

    @abstractmethod
    def __call__(self, call: Call) -> tuple[Any] | None:
        """Return the result in a tuple, or None if the prepared call does not apply."""

    def run(self, arguments: Sequence[Any], results: Any, targets: Sequence[Any]) -> Any:
        """Solve with arrays, or with the addresses that represent arguments and results."""
        operands = list(self.operands)
        for position, number in self.positions:
            operands[position] = arguments[number]
        try:
            carry_out = self.solve(operands, targets)
        except (CacheMiss, OverflowError, TypeError):  # or a number that the dtype does not hold
            return None
        return (self.to_return_value(results, carry_out),)

    def new_results(self) -> tuple[Any, ...]:
        return tuple([self.empty() for _ in range(self.count)])


@dataclass(frozen=True)
class PreparedOnDevice(PreparedCall):
    """A prepared call of CuPy arrays, which the solver takes as addresses.

    Attributes
    ----------
    sizes : tuple of int
        Bytes of each argument.
    """

    sizes: tuple[int, ...]

    def __call__(self, call: Call) -> tuple[Any] | None:
        arguments = list(call.arguments)
        for number in self.arrays:
            arguments[number] = arguments[number].data.ptr
        if not self.outs:
            results = self.new_results()
            return self.run(arguments, results, [result.data.ptr for result in results])
        if self._overlaps(arguments):
            return None
        results = call.out if self.is_several else (call.out,)
        return self.run(arguments, results, [arguments[number] for number in self.outs])

    def _overlaps(self, addresses: Sequence[Any]) -> bool:
        """Return whether a result shares memory with an operand or another result."""
        sizes = self.sizes
        for out in self.outs:
            start = addresses[out]
            stop = start + sizes[out]
            for number in self.arrays:
                other = addresses[number]
                if number != out and other < stop and start < other + sizes[number]:
                    return True
        return False


@dataclass(frozen=True)
class PreparedOnHost(PreparedCall):
    """A prepared call of NumPy arrays."""

    def __call__(self, call: Call) -> tuple[Any] | None:
        if not self.outs:
            results = self.new_results()
            return self.run(call.arguments, results, results)
        results = call.out if self.is_several else (call.out,)
        if not self._may_write(call.arguments):
            return None
        return self.run(call.arguments, results, results)

    def _may_write(self, arguments: Sequence[Any]) -> bool:
        """Return whether all results are writeable, and share no memory with other arguments."""
        for out in self.outs:
            if not arguments[out].flags.writeable:
                return False
            for number in self.arrays:
                if number != out and np.may_share_memory(arguments[out], arguments[number]):
                    return False
        return True


class _CacheEntry:
    """The prepared call of a signature, if there is one."""

    def __init__(self) -> None:
        self.prepared: PreparedCall | None = None
        self.is_tried = False
        self.calls = 0


@lru_cache(maxsize=1024)
def cache_entry(signature: tuple[Any, ...]) -> _CacheEntry:
    """Return the cache entry of a signature."""
    return _CacheEntry()


def call_prepared(call: Call) -> tuple[Any] | None:
    """Return the result by the prepared call, in a tuple, or None if no prepared call applies."""
    prepared = cache_entry(call.signature).prepared
    return None if prepared is None else prepared(call)


def should_prepare(call: Call) -> bool:
    """Return whether this is the call of its signature from which others are prepared.

    It is the first call of CuPy arrays, which compiles, and the second call of NumPy arrays:
    preparation takes as long as the call, in vain if each call has another signature.
    """
    entry = cache_entry(call.signature)
    if entry.is_tried:
        return False
    entry.calls += 1
    entry.is_tried = not call.is_on_host or entry.calls > 1
    return entry.is_tried


def prepare(
    call: Call, arguments: NumberedArguments, outs: tuple[int, ...], problem: Problem, result: Any
) -> None:
    """Prepare calls of the signature of a solved call, if its family supports that.

    Parameters
    ----------
    call : Call
    arguments : sequence of (int, argument)
        The numbered arguments of the call, in the order of parameters.
    outs : tuple of int
        Indices of the arguments for the results.
    problem : Problem
    result : return value of the call
    """
    cache_entry(call.signature).prepared = _prepare(call, arguments, outs, problem, result)


def _prepare(
    call: Call, arguments: NumberedArguments, outs: tuple[int, ...], problem: Problem, result: Any
) -> PreparedCall | None:
    recurrence = problem.recurrence
    arrays = tuple([number for number, value in enumerate(call.arguments) if _is_array(value)])
    is_laid_out = all(
        call.arguments[k].flags.c_contiguous and call.arguments[k].size for k in arrays
    )
    returns_final_state = isinstance(recurrence, AlongAxis) and recurrence.returns_final_state
    if not is_laid_out or 0 in problem.shape or not (problem.is_plain or returns_final_state):
        return None
    if call.is_on_host and prod(problem.shape) > MOST_STEPS:  # a broadcast result: use all threads
        return None
    operands = recurrence.solver_arguments(problem.operands, problem.initial)
    positions = _match(operands, arguments)
    if positions is None:
        return None
    results = result[:1] if returns_final_state else result
    results = results if type(results) is tuple else (results,)
    backend, shape = backend_of(problem.arrays, recurrence.method), problem.shape
    inputs = ChunkInputs(problem.operands, (0,) * len(shape), (0,) * len(shape))
    solve = recurrence.prepare_solver(backend, inputs, shape, problem.initial, results)
    if solve is None:
        return None
    matched = dict(positions)
    attributes = (
        solve,
        tuple([None if k in matched or _is_array(x) else x for k, x in enumerate(operands)]),
        positions, arrays, outs, problem.is_several, len(results),
        partial(backend.empty, shape, recurrence.result_dtype),
        _with_final_state(problem) if returns_final_state else problem.to_return_value,
    )  # fmt: skip
    if call.is_on_host:
        return PreparedOnHost(*attributes)
    sizes = tuple([getattr(argument, "nbytes", 0) for argument in call.arguments])
    return PreparedOnDevice(*attributes, sizes)


def _with_final_state(problem: Problem) -> Callable[[Any, Any], Any]:
    """Return `to_return_value` for a carry-out; it references no array of the problem."""
    recurrence, shape, finish = problem.recurrence, problem.shape, problem.to_return_value
    return lambda results, carry_out: finish(results, recurrence.final_state(carry_out, shape))


def _is_array(value: Any) -> bool:
    return is_on_gpu(value) or (type(value) is np.ndarray and value.ndim > 0)


def _match(
    operands: Sequence[Any], arguments: NumberedArguments
) -> tuple[tuple[int, int], ...] | None:
    """Return pairs of the index of an operand and the number of the argument that it is.

    Operands whose values are part of the signature have no pair. The result is None if an operand
    is a copy of its argument, or has another type.
    """
    pairs: list[tuple[int, int]] = []
    remaining = list(arguments)
    for position, operand in enumerate(operands):
        is_array = _is_array(operand)
        if not remaining or _is_array(remaining[0][1]) != is_array:
            if is_array:
                return None
            continue  # a number whose value is part of the signature
        number, argument = remaining.pop(0)
        if is_array and not _is_same(operand, argument):
            return None
        pairs.append((position, number))
    return None if remaining else tuple(pairs)


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two arrays have the same memory, size and dtype."""
    if is_on_gpu(a) != is_on_gpu(b) or a.size != b.size or a.dtype != b.dtype:
        return False
    return _address(a) == _address(b)


def _address(array: Any) -> int:
    return int(array.data.ptr if is_on_gpu(array) else array.ctypes.data)
