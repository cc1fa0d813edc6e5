"""Argument validation of :func:`mgrec.scan` with a matrix map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast, check_same_device, is_lazy, to_host
from ...core.arrays.elements import broadcast_shape, merge_numbers
from ...core.arrays.resets import as_reset
from ...core.arrays.validation import as_any_array, as_axis, as_flag, check_dtype, check_out
from ...core.backends import common_backend
from ...core.contract.elements import initial_states, varying_operand
from ...core.contract.problem import Composed, Problem
from ...solve.functions import concatenate
from ..arguments import check
from .cuda.passes import solve_on_gpu
from .maps import MatrixMap
from .recurrence import MatrixRecurrence
from .scalar_maps import has_scalar_map, scalar_map, scalar_operands, scalar_states

Shape = tuple[Any, ...]
_FLOAT64 = np.dtype(np.float64)


def check_matrix_scan(
    matrix_map: MatrixMap,
    operands: tuple[Any, ...],
    initial: Any,
    axis: Any,
    reverse: Any,
    reset: Any,
    memory: str,
    method: str,
    out: Any,
) -> Problem | Composed:
    """Return the problem of a scan with a matrix map, validated."""
    if len(operands) != 2:
        raise ValueError(f"{matrix_map.name} takes two operands, M and b; got {len(operands)}")
    if matrix_map.structure == "block-diagonal":
        return _check_blocks(
            matrix_map, operands, initial, axis, reverse, reset, memory, method, out
        )
    n = matrix_map.n
    matrices = as_vectors("M", operands[0], matrix_map.matrix_shape)
    vectors = as_vectors("b", operands[1], (n,))
    before = as_vectors("initial", initial, (n,))
    resets = [] if reset is None else [("reset", reset)]
    check_same_device([("M", matrices), ("b", vectors), *resets], [("initial", before)])
    dtype = result_dtype(matrices, vectors, before)
    shape = _shape_of_steps(matrix_map, matrices, vectors)
    axis, reverse = as_axis(axis, shape), as_flag("reverse", reverse)
    check_rows("initial", before.shape[:-1], shape, axis)
    marks = None if reset is None else as_reset(reset, shape, axis, reverse)
    backend = common_backend([matrices, vectors, before])
    results = check_out(out, (*shape, n), dtype, [matrices, vectors, before])
    is_on_gpu = is_in_gpu_memory((matrices, vectors, before))
    is_direct = is_on_gpu and method == "auto" and matrix_map.structure != "diagonal"
    if not backend.is_host and has_scalar_map(matrix_map) and not is_direct:
        problem = scalar_problem(
            matrix_map, matrices, vectors, before, axis, reverse, marks, memory, method
        )
        return replace(problem, to_return_value=partial(_stacked, matrix_map, dtype, results))
    if is_on_gpu:
        if method != "auto":
            raise ValueError(f"method must be 'auto' for matrices; got {method!r}")

        def solve() -> Any:
            states = solve_on_gpu(
                matrix_map, matrices, vectors, before, shape, axis, reverse, marks, dtype
            )
            return written(states, results)

        return Composed("scan", solve)
    arrays = [merge_numbers(matrices, len(matrix_map.matrix_shape)), merge_numbers(vectors, 1)]
    states = cast(before, _FLOAT64)
    if not is_lazy(states):
        states = to_host(states)
    if marks is not None:
        arrays += [marks[..., None], along_rows(states, shape, axis)]
    recurrence = MatrixRecurrence(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple([varying_operand(array, shape) for array in arrays]),
        block_dtypes=tuple([array.dtype for array in arrays]),
        method=method,
        axis=axis,
        reverse=reverse,
        state_dtype=_FLOAT64,
        state_shape=(n,),
        states=1,
        numbers=n,
        state_numbers=n,
        matrix_map=matrix_map,
    )
    initial_state = initial_states(states, shape)
    return Problem(recurrence, tuple(arrays), (initial_state,), (*shape, n), memory, out)


def _shape_of_steps(matrix_map: MatrixMap, matrices: Any, vectors: Any) -> Shape:
    shape = broadcast_shape(
        {"M": matrices.shape[: -len(matrix_map.matrix_shape)], "b": vectors.shape[:-1]},
        "the axes of steps and rows",
    )
    if not shape:
        raise ValueError(
            f"M or b must have an axis of steps; got shapes {matrices.shape} and {vectors.shape}"
        )
    return shape


def _check_blocks(
    matrix_map: MatrixMap,
    operands: tuple[Any, ...],
    initial: Any,
    axis: Any,
    reverse: Any,
    reset: Any,
    memory: str,
    method: str,
    out: Any,
) -> Problem | Composed:
    """Return the problem of the diagonal blocks, which are rows of the map of one block."""
    n, blocks = matrix_map.n, matrix_map.matrix_shape[:2]
    matrices = as_vectors("M", operands[0], matrix_map.matrix_shape)
    vectors, before = as_vectors("b", operands[1], (n,)), as_vectors("initial", initial, (n,))
    shape = _shape_of_steps(matrix_map, matrices, vectors)
    axis, reverse = as_axis(axis, shape), as_flag("reverse", reverse)
    check_rows("initial", before.shape[:-1], shape, axis)
    marks = None if reset is None else (as_reset(reset, shape, axis, reverse) != 0)[..., None]
    arrays = [matrices, vectors, before]
    results = check_out(out, (*shape, n), result_dtype(*arrays), arrays)
    problem = check_matrix_scan(
        matrix_map.of_block,
        (matrices, vectors.reshape(*vectors.shape[:-1], *blocks)),
        before.reshape(*before.shape[:-1], *blocks),
        axis,
        reverse,
        marks,
        memory,
        method,
        results[0].reshape(*shape, *blocks) if results else None,
    )

    def joined(states: Any) -> Any:
        return results[0] if results else states.reshape(*states.shape[:-2], n)

    if isinstance(problem, Composed):
        return Composed(problem.name, lambda: joined(problem.solve()))
    to_states = problem.to_return_value
    return replace(problem, to_return_value=lambda *solved: joined(to_states(*solved)))


def scalar_problem(
    matrix_map: MatrixMap,
    matrices: Any,
    vectors: Any,
    initial: Any,
    axis: int,
    reverse: bool,
    marks: Any,
    memory: str,
    method: str,
) -> Problem:
    """Return the problem of the equivalent map of scalars, in float64."""
    matrices, vectors, initial = (cast(array, _FLOAT64) for array in (matrices, vectors, initial))
    operands = scalar_operands(matrix_map, matrices, vectors)
    reset = None if marks is None else marks != 0
    if reset is not None and matrix_map.structure == "diagonal":
        reset = reset[..., None]
    return check(
        scalar_map(matrix_map),
        {f"operand {k}": operand for k, operand in enumerate(operands)},
        scalar_states(matrix_map, initial),
        axis,
        reverse,
        memory=memory,
        method=method,
        reset=reset,
    )


def _stacked(
    matrix_map: MatrixMap,
    dtype: np.dtype[Any],
    results: tuple[Any, ...],
    states: tuple[Any, ...],
    final_state: Any,
) -> Any:
    """Return the states of the map of scalars as one array, written to `out` if there is one."""
    if matrix_map.structure == "diagonal":
        joined = states[0]
    else:
        joined = concatenate([state[..., None] for state in states], axis=-1)
    return written(cast(joined, dtype), results)


def as_vectors(name: str, value: Any, numbers: Shape) -> Any:
    """Return an array whose last axes have the shape `numbers`, of real numbers."""
    array = as_any_array(name, value)
    check_dtype(name, array, value)
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must be real; got {array.dtype}")
    count = len(numbers)
    if array.ndim < count or array.shape[array.ndim - count :] != numbers:
        wanted = ", ".join(map(str, numbers))
        raise ValueError(f"{name} must have shape (..., {wanted}); got {array.shape}")
    return cast(array, _FLOAT64) if array.dtype.kind in "iu" else array


def result_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return float32 or float64, to which the dtypes of the arrays are promoted."""
    return np.result_type(np.float32, *[array.dtype for array in arrays])


def check_rows(name: str, rows: Shape, shape: Shape, axis: int) -> None:
    """Raise ValueError unless leading axes broadcast to the rows of `shape`."""
    wanted = shape[:axis] + shape[axis + 1 :]
    pairs = zip(reversed(rows), reversed(wanted), strict=False)
    if len(rows) > len(wanted) or any(
        have not in (1, want) and have == have and want == want for have, want in pairs
    ):
        raise ValueError(
            f"{name} must have leading axes that broadcast to {wanted}, the shape without axis "
            f"{axis}; got {rows}"
        )


def is_in_gpu_memory(arrays: Iterable[Any]) -> bool:
    """Return whether arrays are on a GPU, and none is a Dask array."""
    arrays = tuple(arrays)
    return not common_backend(arrays).is_host and not any(map(is_lazy, arrays))


def along_rows(states: Any, shape: Shape, axis: int) -> Any:
    """Return states (..., numbers) of rows as an operand, of length 1 along the axis."""
    full = states[(None,) * (len(shape) - states.ndim) + (...,)]
    index: list[Any] = [slice(None)] * (len(shape) - 1)
    index.insert(axis, None)
    return full[tuple(index)]


def written(states: Any, results: tuple[Any, ...]) -> Any:
    """Return the states, written to `out` if there is one."""
    if not results:
        return states
    results[0][...] = states
    return results[0]
