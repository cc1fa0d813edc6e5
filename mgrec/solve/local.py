"""Solve NumPy and CuPy arrays as one chunk, on a GPU or by all threads of the CPU."""

from __future__ import annotations

from typing import Any

from ..core.arrays.validation import check_out
from ..core.contract.grid import Grid
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays, ChunkInputs
from ..engines import CPU_THREADS, backend_of


def solve(problem: Problem) -> tuple[Arrays, Any]:
    """Return the results, written to `out` if it is passed, and the final state or None."""
    recurrence, shape, arrays = problem.recurrence, problem.shape, problem.arrays
    backend = backend_of(arrays, recurrence.method, CPU_THREADS)
    count = recurrence.results if problem.is_several else None
    out = check_out(problem.out, shape, recurrence.result_dtype, arrays, count)
    inputs = ChunkInputs(problem.operands, (0,) * len(shape), (0,) * len(shape))
    with backend.device_of(arrays):
        if isinstance(recurrence, Grid):
            results, edges = recurrence.determine(backend, inputs, shape, None, None, out)
            return out or results, recurrence.final_result(edges)
        initial = problem.initial
        carry_in = recurrence.whole_carry_in(backend, initial, shape) if initial else None
        results, carry_out = recurrence.determine(backend, inputs, shape, carry_in, out)
        returns_final_state = recurrence.returns_final_state
        final_state = recurrence.final_state(carry_out, shape) if returns_final_state else None
    if recurrence.dtype != recurrence.result_dtype:  # float16 is computed in float32
        for array, values in zip(out, results, strict=False):
            array[...] = values
    return out or results, final_state
