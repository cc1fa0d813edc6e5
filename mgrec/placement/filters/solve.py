"""Filters where their arrays are: on a GPU, on the threads of a CPU, or over Dask chunks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...arrays.out import check_out
from ...backends import CPU, Backend, backend_of
from ...families.filters.door import FilterProblem
from .layout import lay_out_signal, lay_out_states, spread_states
from .threads import determine_on_threads


def solve_filter(problem: FilterProblem, out: Any = None) -> tuple[Any, Any]:
    """Filter an array where it is.

    Parameters
    ----------
    problem : FilterProblem
    out : array, optional
        Where to write the result; not for Dask arrays.

    Returns
    -------
    result : array
        Of the shape of x and the problem's dtype.
    exit : array (states, other axes of x)
        The states after the last sample, in the problem's dtype; lazy for a Dask array. On a
        GPU None where no states were given before the first: nobody asks.
    """
    if hasattr(problem.x, "dask") or hasattr(problem.entry, "dask"):
        if out is not None:
            raise TypeError("out must be None where x or zi is a Dask array: results are lazy")
        from ..dask.graph.filters import solve_filter as solve_dask

        return solve_dask(problem)
    operands = [array for array in (problem.x, problem.entry) if array is not None]
    given = check_out(out, problem.shape, problem.dtype, operands)
    backend = backend_of((problem.x,))
    with backend.device_of((problem.x,)):
        solve = _solve_in_host_memory if backend is CPU else partial(_solve_whole, backend)
        result, exit = solve(problem, given[0] if given else None)
    return given[0] if given else result.reshape(problem.shape), exit


def _solve_whole(backend: Backend, problem: FilterProblem, out: Any) -> tuple[Any, Any]:
    determine = backend.kernels("filters").determine
    chunk = lay_out_signal(problem.x, problem.axis, problem.dtype)
    result = backend.empty(chunk.shape, problem.dtype) if out is None else out.reshape(chunk.shape)
    if problem.entry is None:
        determine(problem.cascade, chunk, None, result)
        return result, None
    entry = spread_states(problem, problem.entry, problem.shape)
    exit = determine(problem.cascade, chunk, entry, result)
    return result, exit.reshape(len(exit), *problem.row_shape).astype(problem.dtype)


def _solve_in_host_memory(problem: FilterProblem, out: Any) -> tuple[Any, Any]:
    chunk = lay_out_signal(problem.x, problem.axis, problem.dtype)
    entry = lay_out_states(problem, problem.entry, problem.shape)
    result = (np.empty(chunk.shape, problem.dtype) if out is None else out).reshape(chunk.shape)
    exit = determine_on_threads(problem, chunk, entry, result)
    with np.errstate(over="ignore"):
        return result, exit.reshape(len(exit), *problem.row_shape).astype(problem.dtype)
