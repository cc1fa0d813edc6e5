"""Problems of scans with a matrix map: on a GPU, as maps of scalars, or in chunks of matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast, is_lazy, to_host
from ...core.arrays.elements import merge_numbers
from ...core.backends import common_backend
from ...core.contract.problem import Composed, Problem
from ...core.contract.scan import initial_states, varying_operand
from ...solve.functions import concatenate
from ..arguments import check
from .arguments import MatrixScan, along_rows, is_in_gpu_memory
from .cuda.passes import solve_on_gpu
from .recurrence import MatrixRecurrence
from .scalar_maps import has_scalar_map, scalar_map, scalar_operands, scalar_states

_FLOAT64 = np.dtype(np.float64)


def matrix_problem(scan: MatrixScan) -> Problem | Composed:
    """Return the problem of a scan."""
    matrix_map = scan.matrix_map
    if matrix_map.structure == "block-diagonal":
        return _problem_of_blocks(scan)
    is_on_gpu = is_in_gpu_memory(scan.arrays)
    is_direct = is_on_gpu and scan.method == "auto" and matrix_map.structure != "diagonal"
    is_host = common_backend(scan.arrays).is_host
    if not is_host and has_scalar_map(matrix_map) and not is_direct:
        return scalar_problem(scan)
    if not is_on_gpu:
        return _problem_of_chunks(scan)
    if scan.method != "auto":
        raise ValueError(f"method must be 'auto' for matrices; got {scan.method!r}")
    return Composed("scan", lambda: scan.written(solve_on_gpu(scan)))


def _problem_of_blocks(scan: MatrixScan) -> Problem | Composed:
    """Return the problem of the diagonal blocks, which are rows of the map of one block."""
    problem = matrix_problem(scan.in_blocks())

    def joined(states: Any) -> Any:
        if scan.out is not None:
            return scan.out
        return states.reshape(*states.shape[:-2], scan.matrix_map.n)

    if isinstance(problem, Composed):
        return Composed(problem.name, lambda: joined(problem.solve()))
    to_states = problem.to_return_value
    return replace(problem, to_return_value=lambda *solved: joined(to_states(*solved)))


def scalar_problem(scan: MatrixScan) -> Problem:
    """Return the problem of the equivalent map of scalars, in float64."""
    matrix_map = scan.matrix_map
    M, b, initial = (cast(array, _FLOAT64) for array in scan.arrays)
    is_diagonal = matrix_map.structure == "diagonal"
    reset = None if scan.marks is None else scan.marks != 0
    if reset is not None and is_diagonal:
        reset = reset[..., None]
    operands = scalar_operands(matrix_map, M, b)
    problem = check(
        scalar_map(matrix_map),
        {f"operand {k}": operand for k, operand in enumerate(operands)},
        scalar_states(matrix_map, initial),
        scan.axis,
        scan.reverse,
        memory=scan.memory,
        method=scan.method,
        reset=reset,
    )

    def joined(states: tuple[Any, ...], final_state: Any) -> Any:
        if is_diagonal:
            return scan.written(cast(states[0], scan.dtype))
        parts = [state[..., None] for state in states]
        return scan.written(cast(concatenate(parts, axis=-1), scan.dtype))

    return replace(problem, to_return_value=joined)


def _problem_of_chunks(scan: MatrixScan) -> Problem:
    """Return the problem whose chunks are of matrices."""
    matrix_map, shape, n, dtype = scan.matrix_map, scan.shape, scan.matrix_map.n, scan.dtype
    arrays = [merge_numbers(scan.M, len(matrix_map.matrix_shape)), merge_numbers(scan.b, 1)]
    states = cast(scan.initial, _FLOAT64)
    if not is_lazy(states):
        states = to_host(states)
    if scan.marks is not None:
        arrays += [scan.marks[..., None], along_rows(states, shape, scan.axis)]
    recurrence = MatrixRecurrence(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple([varying_operand(array, shape) for array in arrays]),
        block_dtypes=tuple([array.dtype for array in arrays]),
        method=scan.method,
        axis=scan.axis,
        reverse=scan.reverse,
        state_dtype=_FLOAT64,
        state_shape=(n,),
        states=1,
        numbers=n,
        state_numbers=n,
        matrix_map=matrix_map,
    )
    initial = (initial_states(states, shape),)
    return Problem(recurrence, tuple(arrays), initial, (*shape, n), scan.memory, scan.out)
