"""Solve on one machine: an array is one chunk, on a GPU or shared by the threads of a CPU."""

from __future__ import annotations

from typing import Any

from ..core.arrays.out import check_out
from ..core.contract.grid import Grid
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays, Pack
from ..engines import CPU_THREADS, backend_of


def solve(problem: Problem) -> tuple[Arrays, Any]:
    """The results over NumPy or CuPy arrays, in `out` where given, and the exit if asked for."""
    recurrence, shape, arrays = problem.recurrence, problem.shape, problem.arrays
    backend = backend_of(arrays, recurrence.method, CPU_THREADS)
    count = recurrence.results if problem.is_several else None
    out = check_out(problem.out, shape, recurrence.result_dtype, arrays, count)
    pack = Pack(problem.operands, (0,) * len(shape), (0,) * len(shape))
    with backend.device_of(arrays):
        if isinstance(recurrence, Grid):
            results, edges = recurrence.determine(backend, pack, shape, None, None, out)
            return out or results, recurrence.leave(edges)
        initial = problem.initial
        entry = recurrence.enter_whole(backend, initial, shape) if initial else None
        results, exit = recurrence.determine(backend, pack, shape, entry, out)
        left = recurrence.leave(exit, shape) if recurrence.is_exit_asked else None
    if recurrence.dtype != recurrence.result_dtype:  # float16 is computed elsewhere
        for array, values in zip(out, results, strict=False):
            array[...] = values
    return out or results, left
