"""The kernel of matrix maps in host memory, and the phases of a chunk.

The kernel advances columns of states step by step. One column is the states of a sequence. To
summarise a chunk, the kernel advances the images of n unit vectors, without the vectors b, and a
last column from the zero of the algebra.
"""

from __future__ import annotations

import math
from functools import partial
from math import prod
from typing import Any

import numba
import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cpu.columns import Advance, flat_operands, kernels_of_columns, summarise, with_marks
from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.pointers import (
    advance_pointer,
    advance_pointers,
    count_up,
    inputs_of,
    pointers_to,
    stack_vector,
)
from ...engines.cpu.threads import call_in_parts
from .maps import STRUCTURES
from .recurrence import MatrixRecurrence, MatrixSummary, propagate, with_rows_to_redo
from .speculation import with_speculation

# Columns are scaled once their largest number leaves 2**±256: the product with the next matrix then
# neither overflows nor vanishes, unless its entries exceed 2**±700.
_LEAST, _MOST = 2.0**-256, 2.0**256
GENERAL, COMPANION = STRUCTURES.index("general"), STRUCTURES.index("companion")


@numba.njit(**INNER)
def _multiply(M: Any, w: Any, after: Any, n: int, structure: int, algebra: int) -> None:
    """Write M ⊗ w to `after`, for vectors of pointers and a matrix of n rows."""
    if structure != GENERAL:
        for i in count_up(0, n):
            x, y = M[i], w[0 if structure == COMPANION else i]
            after[i] = x * y if algebra == 0 else x + y
            if structure == COMPANION and i + 1 < n:
                after[i] = _add(after[i], w[i + 1], algebra)
    elif algebra == 0:
        for i in count_up(0, n):
            total = M[i * n] * w[0]
            for j in count_up(1, n):
                total += M[i * n + j] * w[j]
            after[i] = total
    else:
        for i in count_up(0, n):
            after[i] = _best_path(advance_pointer(M, i * n), w, n, algebra)


@numba.njit(**INNER)
def _best_path(row: Any, w: Any, n: int, algebra: int) -> float:
    """Return one entry of M ⊗ w where ⊗ is a sum."""
    best = row[0] + w[0]
    for j in count_up(1, n):
        path = row[j] + w[j]
        if math.isnan(path) or (path < best if algebra == 2 else path > best):
            best = path
    if algebra < 3 or not math.isfinite(best):
        return best
    total = 0.0
    for j in count_up(0, n):
        total += math.exp(row[j] + w[j] - best)
    return best + math.log(total)


@numba.njit(**INNER)
def _add(x: float, y: float, algebra: int) -> float:
    """Return x ⊕ y."""
    if algebra == 0:
        return x + y
    if math.isnan(x) or math.isnan(y):
        return np.nan
    if algebra == 2:
        return min(x, y)
    most = max(x, y)
    if algebra == 1 or math.isinf(most):
        return most
    return most + math.log1p(math.exp(min(x, y) - most))


@numba.njit(**INNER)
def rescale(column: Any, n: int) -> int:
    """Scale a column to about 1 if it is very large or small; return the exponent taken out."""
    size = 0.0
    for i in range(n):
        size = max(size, abs(column[i]))
    if size == 0.0 or _LEAST < size < _MOST or not math.isfinite(size):
        return 0
    _, exponent = math.frexp(size)
    for i in range(n):
        column[i] = math.ldexp(column[i], -exponent)
    return exponent


def advance(
    model: Any, states: Any, exponents: Any, results: Any, start: int, stop: int, shape: Any, form: Any
) -> None:
    """Advance the columns `states` (rows, columns, n) of some rows through all steps.

    `model` are flat operands and their strides: matrices, vectors, marks and the states at marks.
    The last column adds the vectors, and its states are written to `results`
    (outer * steps * inner * n) if there are any. Other columns are scaled by 2**exponents. At a mark
    the last column becomes the states given, and the others the zero of the algebra. `form` says
    whether the last step acts first, and has the numbers of the algebra and of the structure, that
    zero, and how many columns advance through how many first steps alone.
    """
    (inputs, strides), (reverse, algebra, structure, zero, brief, first) = inputs_of(model), form
    has_results, (_, steps, inner), (_, columns, n) = len(results) > 0, shape, states.shape
    all_states, all_exponents, flat_results = pointers_to((states, exponents, results))
    after = stack_vector(n, np.float64)
    for row in count_up(start, stop):
        x, y, last = row // inner, row % inner, columns - 1
        w, scales = (
            advance_pointer(all_states, row * columns * n),
            advance_pointer(all_exponents, row * columns),
        )
        last_w = advance_pointer(w, last * n)
        for step in count_up(0, steps):
            index = steps - 1 - step if reverse else step
            M, b, marks, initial = advance_pointers(inputs, strides, (x, index, y))
            if marks[0]:
                for i in count_up(0, last * n):
                    w[i] = zero
                for i in count_up(0, n):
                    last_w[i] = initial[i]
            for column in count_up(0 if step < first else brief, columns):
                of_column = advance_pointer(w, column * n)
                _multiply(M, of_column, after, n, structure, algebra)
                if column == last:
                    for i in count_up(0, n):
                        after[i] = _add(after[i], b[i], algebra)
                for i in count_up(0, n):
                    of_column[i] = after[i]
                if algebra == 0 and column < last:
                    scales[column] += rescale(of_column, n)
            if has_results:
                result = advance_pointer(flat_results, ((x * steps + index) * inner + y) * n)
                for i in count_up(0, n):
                    result[i] = last_w[i]


advance_columns = compile_kernel(advance, "matrix-advance", allocates=False)


_MARKS = 2
_MOST_FIRST, _FRACTION, _SMALL = 16, 32, 1 << 12
"""Most steps from infinite states: a matrix of two states with random signs keeps inf once in four times.
Chunks of many rows and few steps advance through a fraction of their steps, or so many steps of all rows."""


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk: see :func:`kernels_of_columns`."""
    kernels = kernels_of_columns(method, _advance, precompute, propagate_rows, _work)
    return with_speculation(kernels, lambda recurrence, chunk: True)


def _work(recurrence: MatrixRecurrence) -> tuple[int, float]:
    n = recurrence.matrix_map.n
    return n, 0.9 * (n + 1)


def precompute(recurrence: MatrixRecurrence, chunk: Chunk) -> MatrixSummary:
    """Return the summary of a chunk."""
    return with_rows_to_redo(recurrence, chunk, summarise_maps(_advance, recurrence, chunk, _MARKS))


def summarise_maps(advance: Advance, recurrence: Any, chunk: Chunk, marks: int) -> MatrixSummary:
    """Return the summary of a chunk of maps, whose marks are the operand of this index.

    The first n columns are the images of infinite states, through the first steps alone.
    """
    matrix_map, n = recurrence.matrix_map, recurrence.matrix_map.n
    starts = np.full((2 * n + 1, n), matrix_map.zero)
    starts[range(n), range(n)], starts[range(n, 2 * n), range(n)] = matrix_map.infinity, matrix_map.one
    columns, exponents, is_reset = summarise(advance, recurrence, chunk, starts, marks)
    limits, is_short = columns[..., :n, :], brief_columns(chunk, starts.shape)[1] == chunk.steps
    return MatrixSummary(columns[..., n:, :], exponents[..., n:], is_reset, limits, is_short)


def brief_columns(chunk: Chunk, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of columns (columns, n) that advance through the first steps alone, and these steps.

    In a companion map nan takes up to n steps to reach all states.
    """
    columns, n = shape
    few = max(chunk.steps // _FRACTION, _SMALL // max(1, prod(chunk.row_shape)))
    first = max(n, min(_MOST_FIRST, few))
    return max(0, columns - n - 1), first if chunk.steps > first + n else chunk.steps


def propagate_by(
    advance: Advance, recurrence: Any, summary: MatrixSummary, carry_in: np.ndarray
) -> np.ndarray:
    """Return the states after a chunk, from those before it; the loop solves the rows to redo."""
    carry_out = propagate(recurrence, summary, carry_in)
    for row, chunk in summary.redo.items():
        states = carry_in[row].reshape(1, 1, -1).copy()
        advance(recurrence, chunk, states, np.empty(0, recurrence.computed_dtype), 1)
        carry_out[row] = states[0, 0]
    return carry_out


def _advance(
    recurrence: MatrixRecurrence, chunk: Chunk, states: np.ndarray, results: np.ndarray, threads: int
) -> np.ndarray:
    """Advance states through a chunk, and return the exponents of their columns."""
    matrix_map = recurrence.matrix_map
    exponents = np.zeros(states.shape[:2], np.int64)
    model = flat_operands(with_marks(chunk.operands, _MARKS, matrix_map.n))
    structure = STRUCTURES.index(matrix_map.structure)
    brief = brief_columns(chunk, states.shape[1:])
    form = chunk.reverse, matrix_map.algebra_number, structure, matrix_map.zero, *brief

    def advance(start: int, stop: int) -> None:
        advance_columns(model, states, exponents, results, start, stop, chunk.shape, form)

    call_in_parts(advance, len(states), threads)
    return exponents


propagate_rows = partial(propagate_by, _advance)
