"""Filters on one machine: a GPU takes an array whole, threads share rows or a row that forgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..backends import CPU, Backend, backend_of, to_host
from ..backends.cpu import filters as cpu
from ..phases.cascade_door import FilterProblem
from ..phases.chunk import Chunk
from ..phases.layout import canonical_shape
from ..phases.results import check_out
from .local import SMALL, _cuts, _together, thread_count

# A piece's entry is followed over at most this part of it; else it is not worth a thread.
FORGETS = 1 / 16
# A response to the entry this much smaller than the outputs is below their rounding errors.
NEGLIGIBLE = 2.0**-75
SPAN = 4096


@dataclass(frozen=True)
class _Result:
    """What :func:`check_out` asks of a problem."""

    shape: tuple[int, ...]
    result_dtype: np.dtype[Any]
    initial: tuple[Any, ...]
    is_several: bool = False


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
        from .dask_filters import solve_filter as solve_dask

        return solve_dask(problem)
    operands = [array for array in (problem.x, problem.entry) if array is not None]
    wanted = _Result(problem.shape, problem.dtype, (problem.entry,))
    given = check_out(out, wanted, operands)
    backend = backend_of((problem.x,))
    with backend.device_of((problem.x,)):
        solve = _solve_on_threads if backend is CPU else partial(_solve_whole, backend)
        result, exit = solve(problem, given[0] if given else None)
    return given[0] if given else result.reshape(problem.shape), exit


def _solve_whole(backend: Backend, problem: FilterProblem, out: Any) -> tuple[Any, Any]:
    chunk = lay_out_signal(problem.x, problem.axis, problem.dtype)
    result = backend.empty(chunk.shape, problem.dtype) if out is None else out.reshape(chunk.shape)
    if problem.entry is None:
        backend.determine_filter(problem.cascade, chunk, None, result)
        return result, None
    entry = _spread(problem, problem.entry, problem.shape)
    exit = backend.determine_filter(problem.cascade, chunk, entry, result)
    return result, exit.reshape(len(exit), *problem.row_shape).astype(problem.dtype)


def lay_out_signal(x: Any, axis: int, dtype: np.dtype[Any]) -> Chunk:
    """An array in memory, NumPy's or CuPy's, as a chunk of results of a dtype.

    Its samples stay what they are: backends cast them where they read them.
    """
    layout = canonical_shape(x.shape, axis)
    x = x if x.flags.c_contiguous else x.copy(order="C")
    return Chunk((x.reshape(layout),), layout, dtype)


def _solve_on_threads(problem: FilterProblem, out: Any) -> tuple[Any, Any]:
    chunk = lay_out_signal(problem.x, problem.axis, problem.dtype)
    (x,) = chunk.operands
    entry = lay_out_states(problem, problem.entry, problem.shape)
    result = (np.empty(chunk.shape, problem.dtype) if out is None else out).reshape(chunk.shape)
    exit = _share(problem, chunk, entry, result, thread_count() if x.size >= SMALL else 1)
    with np.errstate(over="ignore"):
        return result, exit.reshape(len(exit), *problem.row_shape).astype(problem.dtype)


def lay_out_states(problem: Any, entry: Any, shape: tuple[int, ...]) -> np.ndarray:
    """States (states, other axes), broadcast, as (states, outer, inner) in host memory."""
    if entry is None:
        outer, _, inner = canonical_shape(shape, problem.axis)
        return np.zeros((problem.cascade.states, outer, inner), problem.state_dtype)
    return np.ascontiguousarray(_spread(problem, to_host(entry), shape))


def _spread(problem: Any, entry: Any, shape: tuple[int, ...]) -> Any:
    outer, _, inner = canonical_shape(shape, problem.axis)
    states = problem.cascade.states
    rows = shape[: problem.axis] + shape[problem.axis + 1 :]
    full = np.broadcast_to(entry.astype(problem.state_dtype), (states, *rows))
    return full.reshape(states, outer, inner)


def _share(
    problem: FilterProblem, chunk: Chunk, entry: np.ndarray, result: np.ndarray, threads: int
) -> np.ndarray:
    cascade = problem.cascade
    outer, _, inner = chunk.shape
    if threads > 1 and outer >= threads:
        cuts = _cuts(outer, threads)

        def rows(left: int, right: int) -> Callable[[], np.ndarray]:
            part, before = chunk.rows(left, right), entry[:, left:right]
            return lambda: cpu.determine_filter(cascade, part, before, result[left:right]).exit

        return np.concatenate(_together([rows(*cut) for cut in cuts]), axis=1)
    if threads > 1 and inner == 1 and cascade.decay < FORGETS * chunk.steps / threads:
        exits = [
            _long_row(
                problem, chunk.rows(k, k + 1), entry[:, k : k + 1], result[k : k + 1], threads
            )
            for k in range(outer)
        ]
        return np.concatenate(exits, axis=1)
    return cpu.determine_filter(cascade, chunk, entry, result).exit


def _long_row(
    problem: FilterProblem, chunk: Chunk, entry: np.ndarray, result: np.ndarray, threads: int
) -> np.ndarray:
    """Pieces of one row side by side, each from states of 0; then the heads are put right.

    The response to a piece's true entry is added until it is below the rounding errors of
    what is there.
    """
    cascade = problem.cascade
    cuts = _cuts(chunk.steps, threads)

    def determine(k: int) -> Callable[[], Any]:
        left, right = cuts[k]
        before = np.zeros_like(entry) if k else entry
        part = chunk.between(left, right)
        part = Chunk(tuple(map(np.ascontiguousarray, part.operands)), part.shape, part.dtype)
        return lambda: cpu.determine_filter(cascade, part, before, result[:, left:right])

    outcomes = _together([determine(k) for k in range(threads)])
    if any(outcome.bad.any() for outcome in outcomes):
        # Where overflow is near, rounding may decide: the row is the sequential loop's.
        return cpu.determine_filter(cascade, chunk, entry, result).exit
    exit: np.ndarray = outcomes[0].exit
    for (left, right), outcome in zip(cuts[1:], outcomes[1:], strict=True):
        exit = outcome.exit + add_response(problem, exit, result[:, left:right])
    return exit


def add_response(problem: FilterProblem, entry: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Add what an entry brings to outputs that were computed without it; its exit."""
    for left in range(0, result.shape[1], SPAN):
        part = result[:, left : left + SPAN]
        silence = Chunk((np.zeros(part.shape, entry.dtype),), part.shape, entry.dtype)
        response = np.empty(part.shape, entry.dtype)
        entry = cpu.determine_filter(problem.cascade, silence, entry, response).exit
        part += response.astype(part.dtype)
        if np.abs(response).max() <= NEGLIGIBLE * np.abs(part).max():
            return np.zeros_like(entry)
    return entry
