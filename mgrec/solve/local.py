"""Solve NumPy and CuPy arrays as one chunk, on a GPU or by all threads of the CPU."""

from __future__ import annotations

from typing import Any

from ..core.arrays.validation import check_out
from ..core.backends import CPU_THREADS, Backend, common_backend
from ..core.contract.grid import Grid
from ..core.contract.kernels import CacheMiss
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays, ChunkInputs
from .prepared import CacheEntry, PreparedCall, cache_entry, prepare
from .signature import Call


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
) -> Any:
    """Prepare calls of the signature, and solve the first; raise CacheMiss if that fails."""
    count, dtype = problem.recurrence.results, problem.recurrence.result_dtype
    results = out or tuple([backend.empty(problem.shape, dtype) for _ in range(count)])
    prepared = prepare(call, problem, backend, inputs, results)
    if prepared is None:
        entry.is_preparable = False
        raise CacheMiss
    result = prepared.run(call, results)
    entry.prepared = prepared
    return result


def _determine(
    problem: Problem, backend: Backend, inputs: ChunkInputs, out: Arrays
) -> tuple[Arrays, Any]:
    """Return the results, written to `out` if it is passed, and the final state or None."""
    recurrence, shape, initial = problem.recurrence, problem.shape, problem.initial
    if isinstance(recurrence, Grid):
        results, edges = recurrence.determine(backend, inputs, shape, None, None, out)
        return out or results, recurrence.final_result(edges)
    carry_in = recurrence.whole_carry_in(backend, initial, shape) if initial else None
    results, carry_out = recurrence.determine(backend, inputs, shape, carry_in, out)
    returns_final_state = recurrence.returns_final_state
    final_state = recurrence.final_state(carry_out, shape) if returns_final_state else None
    for array, values in zip(out, results, strict=False):
        if array.dtype != recurrence.dtype and not backend.may_share_memory(array, values):
            array[...] = values  # computed in another dtype
    return out or results, final_state
