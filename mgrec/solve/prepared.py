"""Solves of NumPy and CuPy arrays as one chunk, and calls prepared for repetition.

A prepared call is validated, laid out and compiled once, then used for all calls of a signature.
One cache has them all, by any signature: that of a call of NumPy or CuPy arrays, that of the
tensors of a call, or that of a step of an adjoint.

The signature of a call has all properties of the arguments that a prepared call depends on: the
function, the shapes, strides, dtypes and alignment of CuPy arrays or of short NumPy arrays, the
types of the numbers that recurrences compute with, and the values of everything else. Computing it
takes a microsecond an array.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from struct import pack
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ..core.algebra.coefficient import Coefficient
from ..core.algebra.transfer_map import TransferMap
from ..core.arrays.chunk import is_uncopied
from ..core.arrays.validation import check_memory, check_out, extents_overlap
from ..core.backends import CPU, CPU_THREADS, Backend, backend_of, common_backend
from ..core.contract.grid import Grid
from ..core.contract.kernels import CacheMiss, PreparedSolver
from ..core.contract.problem import Problem
from ..core.contract.recurrence import AlongAxis, Arrays, ChunkInputs
from ..distributed.groups.calls import CALL, PATIENCE
from ..distributed.groups.group import Group

MOST_STEPS = 1 << 17
"""Size of the largest NumPy arrays: longer calls gain little from preparation. 10^5 float64 steps
took 137 microseconds without it, and take 67."""
_MOST_BYTES = 4096
"""Size of the largest NumPy array whose values are part of a signature, such as coefficients."""
_SETTINGS = ("axis", "reverse", "memory", "method")
"""Options that recurrences do not compute with."""
_PLAIN = {bool, str, type(None), type}
_NUMBERS = {int, float, complex}
Prepared = TypeVar("Prepared")


class Call(NamedTuple):
    """The signature of a call and its arguments.

    `arguments`: in the order of parameters, `out` last: the arrays, all of CuPy on the current
      device or all of NumPy, and the numbers whose values are not part of the signature.
    `out`: where to write the results; empty if the call has no `out`.
    `is_recorded`: whether torch records the call, whose arrays are tensors.
    """

    signature: tuple[Any, ...]
    arguments: list[Any]
    out: tuple[Any, ...]
    is_on_host: bool
    is_recorded: bool = False


class SignatureRule:
    """How the calls of one public function are turned into signatures.

    `by_value`: parameters whose values are part of the signature: coefficients of a filter.
    `by_numbers`: whether the values of all numbers are part of the signature. Otherwise only the
      types of those among operands and states are.
    `is_on_host`: whether calls of NumPy arrays are prepared too.
    """

    def __init__(
        self, build: Callable[..., Any], by_value: Sequence[str], by_numbers: bool, is_on_host: bool
    ) -> None:
        positions = {name: k for k, name in enumerate(inspect.signature(build).parameters)}
        positions["out"] = len(positions)
        self._build, self._by_type, self._is_on_host = build, not by_numbers, is_on_host
        self._by_value = {*by_value, *map(positions.__getitem__, by_value), *_SETTINGS}
        # The build refuses a name that is no parameter.
        self._in_order = lru_cache(lambda names: sorted(names, key=lambda name: positions.get(name, -1)))

    def read(self, operands: Sequence[Any], options: dict[str, Any]) -> Call | None:
        """Return the call with its signature, or None if the call cannot be cached."""
        reader = self._reader({*map(type, operands), *map(type, options.values())})
        if reader is None:
            return None
        names, by_value = tuple(options), self._by_value
        reader.signature += (self._build, names, reader.device)
        out = options.get("out")
        results = out if type(out) is tuple else () if out is None else (out,)
        try:
            for position, value in enumerate(operands):
                is_value = position in by_value
                by_type = self._by_type and not reader.takes_vectors
                if not (reader.add_value(value) if is_value else reader.add(value, by_type)):
                    return None
            for name in self._in_order(names) if len(names) > 1 else names:
                value, is_value = options[name], name in by_value
                by_type = self._by_type and not reader.takes_vectors
                if not (reader.add_value(value) if is_value else reader.add(value, by_type)):
                    return None
        except RuntimeError:  # a list that contains itself, or a tensor without memory
            return None
        if results:
            if {*map(type, results)} != {reader.array}:
                return None
            if reader.device is None:
                reader.signature += [array.flags.writeable for array in results]
        if reader.is_recorded is False:
            return None
        is_on_host, is_recorded = reader.device is None, bool(reader.is_recorded)
        return Call(tuple(reader.signature), reader.arguments, results, is_on_host, is_recorded)

    def _reader(self, types: set[type]) -> _Reader | None:
        cupy, torch = sys.modules.get("cupy"), sys.modules.get("torch")
        if cupy is not None and cupy.ndarray in types:
            return _Reader(cupy.ndarray, cupy.cuda.runtime.getDevice())
        if torch is not None and not types.isdisjoint((torch.Tensor, torch.nn.Parameter)):
            is_forward = getattr(torch.autograd.forward_ad, "_current_level", 0) >= 0
            return _TensorReader(torch) if torch.is_grad_enabled() and not is_forward else None
        return _Reader(np.ndarray, None) if self._is_on_host and np.ndarray in types else None


class _Reader:
    """A signature under construction. Methods return False if the call cannot be cached.

    `array`, type: type of the arrays whose values are not part of the signature.
    `device`: device of these arrays; None for NumPy.
    `is_recorded`: whether torch records operations on an array; None for other libraries.
    `takes_vectors`: whether an argument is a map of vectors: numbers of the call are entries of
      these.
    """

    is_recorded: bool | None = None
    takes_vectors = False

    def __init__(self, array: Any, device: int | None) -> None:
        self.array, self.device = array, device
        self.signature: list[Any] = []
        self.arguments: list[Any] = []

    def add(self, value: Any, by_type: bool) -> bool:
        """Add an argument; with `by_type` only the types of numbers."""
        value_type, device = type(value), self.device
        if value_type is self.array and (device is not None or value.ndim):
            self.arguments.append(value)
            if device is None:
                self.signature += (value.shape, value.strides, value.dtype, value.flags.aligned)
                return bool(value.size <= MOST_STEPS)
            memory = value.data
            self.signature += (value.shape, value.strides, value.dtype, memory.ptr & 15)
            return bool(memory.device_id == device)
        if by_type and value_type in _NUMBERS:
            self.signature.append(value_type)
            self.arguments.append(value)
        elif by_type and _is_numpy(value):
            self.signature += (value_type, value.dtype)
            self.arguments.append(value)
            return not value.ndim
        elif value_type is TransferMap or isinstance(value, np.dtype):
            self.signature.append(value)
        elif getattr(value_type, "takes_vectors", False):
            self.signature.append(value)
            self.takes_vectors = True
        elif value_type is tuple or value_type is list:
            self.signature += (value_type, len(value))
            return all(self.add(item, by_type) for item in value)
        elif value_type is Coefficient:
            self.signature += (value_type, value.function)
            return self.add(value.arrays, by_type)
        else:
            return self.add_value(value)
        return True

    def add_value(self, value: Any) -> bool:
        """Add a value; False if it is an array of many numbers, or another object."""
        value_type = type(value)
        if value_type in _PLAIN:
            self.signature += (value_type, value)
        elif value_type in _NUMBERS:
            self.signature += (value_type, repr(value))  # 0.0 is not -0.0
        elif _is_numpy(value) and value.nbytes <= _MOST_BYTES:
            self.signature += (value_type, value.dtype, value.shape, value.tobytes())
        elif value_type is tuple or value_type is list:
            self.signature += (value_type, len(value))
            if {*map(type, value)} == {float}:  # a third of the time of the values one by one
                self.signature.append(pack(f"{len(value)}d", *value))
                return True
            return all(self.add_value(item) for item in value)
        else:
            return False
        return True


class _TensorReader(_Reader):
    """A signature of tensors that are contiguous in their memory, and of the values of the rest."""

    def __init__(self, torch: Any) -> None:
        super().__init__(None, None)
        self.types = torch.Tensor, torch.nn.Parameter
        self.is_transformed = torch._C._functorch.is_functorch_wrapped_tensor
        self.is_recorded = False

    def add(self, value: Any, by_type: bool) -> bool:
        if type(value) in self.types:
            if self.is_transformed(value) or not value.is_contiguous():
                return False
            device, needs_gradient = value.get_device(), value.requires_grad
            self.signature += (value.shape, value.dtype, device, needs_gradient)
            self.signature.append(value.data_ptr() & 15)
            self.arguments.append(value)
            self.is_recorded = self.is_recorded or needs_gradient
            return not (value.is_conj() or value.is_neg())
        # Numbers of operands are not of the signature, and would be of a prepared call.
        is_number = type(value) in _NUMBERS or isinstance(value, np.generic)
        return not (by_type and is_number) and super().add_value(value)

    def add_value(self, value: Any) -> bool:
        return self.add(value, False)


def _is_numpy(value: Any) -> bool:
    """Return whether a value is an array or a number of NumPy; a subclass may be masked."""
    return type(value) is np.ndarray or isinstance(value, np.generic)


@dataclass(frozen=True)
class PreparedCall:
    """A solver for calls of one signature.

    `solve`: see :class:`mgrec.core.contract.kernels.Kernels`.
    `operands`: operands of the solver; None for those that are arguments of a call.
    `positions`, tuple of (int, int): pairs of the index of an operand and the index of the argument
      that it is.
    `sizes`: bytes of each argument that is an array, by its index.
    `new_results`, ``() -> results``: allocate the results.
    `to_return_value`: ``(results, carry_out) -> return value``.
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
        """Return the result of a call."""
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

    `steps`, tuple of (PreparedCall, offsets, offset): the offsets of the arguments, pairs of the
      index of an array and the bytes from its start, or of -1 and a number; and the offset of the
      result from the start of the last array.
    """

    steps: tuple[tuple[PreparedCall, tuple[tuple[int, Any], ...], int], ...]

    def solve_at(self, starts: Sequence[int]) -> None:
        """Solve with arrays at these addresses."""
        for call, offsets, result in self.steps:
            arguments = [number if k < 0 else starts[k] + number for k, number in offsets]
            call.solve_at(arguments, (starts[-1] + result,))


class CacheEntry(Generic[Prepared]):
    """The prepared call or sequence of a signature, if there is one yet.

    `is_preparable`: false once the family could not prepare a call.
    `is_solved`: whether a call was solved without preparation.
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


def cache_entry(signature: tuple[Any, ...]) -> CacheEntry[Any]:
    """Return the cache entry of a signature; in a call on a group, that of the group."""
    ranks = CALL.get()
    if ranks is None:
        return _cached_call(signature)
    cached: CacheEntry[Any] = ranks.group.prepared.setdefault(signature, CacheEntry())
    return cached


@lru_cache(maxsize=1024)
def _cached_call(signature: tuple[Any, ...]) -> CacheEntry[Any]:
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
    call: Call,
    problem: Problem,
    backend: Backend,
    inputs: ChunkInputs,
    results: Arrays,
    group: Group | None = None,
) -> PreparedCall | None:
    """Return the prepared call of a validated call, or None if its family cannot prepare it.

    `inputs` are the operands as one chunk. `results` are arrays as those of later calls. With a
    `group`, the arrays are this rank's parts.
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
    operands = problem.arguments or recurrence.solver_arguments(problem.operands, problem.initial)
    positions = _match(operands, arguments)
    if positions is None or recurrence.written_dtype(backend) != recurrence.result_dtype:
        return None
    solver = recurrence.prepare_solver if group is None else partial(_prepare_shard, problem, group)
    solve = solver(backend, inputs, shape, problem.initial, results)
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


def _prepare_shard(problem: Problem, group: Group, *arguments: Any) -> PreparedSolver | None:
    """Return a solver that exchanges messages on the device with the other ranks."""
    from ..distributed.groups.solve import options_of

    solve, call = problem.recurrence.prepare_shard(*arguments), CALL.get()
    if solve is None or call is None:
        return None
    if solve.message_bytes > group.frame and not solve.may_exceed_frame:
        return None
    options, failures = (call.function, *options_of(problem).items()), 0

    def solve_on_ranks(operands: Sequence[Any], results: Sequence[Any]) -> Any:
        nonlocal failures
        current = CALL.get()
        if current is None or failures == PATIENCE:
            raise CacheMiss
        failures += 1
        carry_out = current.solve_on_device(solve, options, operands, results)
        failures = 0
        return carry_out

    return solve_on_ranks


def solve_on_ranks(problem: Problem, call: Call, group: Group) -> Any:
    """Return the result of this rank's part; raise CacheMiss if the general way has to solve it."""
    cached = cache_entry(call.signature)
    if call.out or problem.is_lazy or not cached.is_preparable:
        raise CacheMiss
    backend = common_backend(problem.arrays, problem.recurrence.method, CPU_THREADS)
    inputs = ChunkInputs(problem.operands, (0,) * len(problem.shape), (0,) * len(problem.shape))
    with backend.device_of(problem.arrays):
        return _prepare_and_solve(cached, call, problem, backend, inputs, (), group)


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


def solve(problem: Problem, call: Call | None = None) -> Any:
    """Return the result of a public function, and cache the prepared call if there is one."""
    recurrence, shape, arrays = problem.recurrence, problem.shape, problem.arrays
    backend = common_backend(arrays, recurrence.method, CPU_THREADS)
    count = recurrence.results if problem.is_several else None
    out = check_out(problem.out, shape, recurrence.result_dtype, arrays, count)
    inputs = ChunkInputs(problem.operands, (0,) * len(shape), (0,) * len(shape))
    entry = None if call is None else cache_entry(call.signature)
    with backend.device_of(arrays):
        if call is not None and entry is not None and entry.should_prepare(call):
            try:
                return _prepare_and_solve(entry, call, problem, backend, inputs, out)
            except CacheMiss:
                pass
        results, final_state = _determine(problem, backend, inputs, out)
    if entry is not None:
        entry.is_solved = True
    return problem.to_return_value(results, final_state)


def _prepare_and_solve(
    entry: CacheEntry[PreparedCall],
    call: Call,
    problem: Problem,
    backend: Backend,
    inputs: ChunkInputs,
    out: Arrays,
    group: Group | None = None,
) -> Any:
    """Prepare calls of the signature, and solve the first; raise CacheMiss if that fails."""
    count, dtype = problem.recurrence.results, problem.recurrence.result_dtype
    results = out or tuple([backend.empty(problem.shape, dtype) for _ in range(count)])
    prepared = prepare(call, problem, backend, inputs, results, group)
    if prepared is None:
        entry.is_preparable = False
        raise CacheMiss
    if group is not None:
        entry.prepared = prepared
    result = prepared.run(call, results)
    entry.prepared = prepared
    return result


def _determine(problem: Problem, backend: Backend, inputs: ChunkInputs, out: Arrays) -> tuple[Arrays, Any]:
    """Return the results, written to `out` if it is passed, and the final state or None."""
    recurrence, shape, initial = problem.recurrence, problem.shape, problem.initial
    if isinstance(recurrence, Grid):
        results, edges = recurrence.determine(backend, inputs, shape, None, None, out)
        return out or results, recurrence.final_result(edges)
    carry_in = recurrence.whole_carry_in(backend, initial, shape) if initial else None
    if 0 in shape:
        results, carry_out = out or recurrence.no_results(backend, shape), carry_in
    else:
        results, carry_out = recurrence.determine(backend, inputs, shape, carry_in, out)
    returns_final_state = recurrence.returns_final_state
    final_state = recurrence.final_state(carry_out, shape) if returns_final_state else None
    if 0 in shape and final_state is not None:
        final_state = backend.from_host(final_state, problem.operands[0])
    for array, values in zip(out, results, strict=False):
        if array.dtype != recurrence.dtype and not backend.may_share_memory(array, values):
            array[...] = values  # computed in another dtype
    return out or results, final_state
