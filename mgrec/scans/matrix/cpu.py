"""The kernel of matrix maps in host memory, and the phases of a chunk.

The kernel advances columns of states step by step. One column is the states of a sequence. To
summarise a chunk, the kernel advances the images of n unit vectors, without the vectors b, and a
last column from the zero of the algebra.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cpu.columns import flat_operands, kernels_of_columns, summarise
from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.stack import stack_empty
from ...engines.cpu.threads import call_in_parts
from .maps import STRUCTURES
from .recurrence import MatrixRecurrence, MatrixSummary, propagate, with_rows_to_redo

# Columns are scaled once their largest number leaves 2**±256: the product with the next matrix then
# neither overflows nor vanishes, unless its entries exceed 2**±700.
_LEAST, _MOST = 2.0**-256, 2.0**256
GENERAL, COMPANION = STRUCTURES.index("general"), STRUCTURES.index("companion")


@numba.njit(**INNER)
def _multiply(a: Any, start: int, w: Any, column: int, after: Any, structure: int, algebra: int) -> None:
    """Write M ⊗ w to `after`; the entries of M begin at ``a[start]``."""
    n = len(after)
    if structure != GENERAL:
        for i in range(n):
            x, y = a[start + i], w[column, 0 if structure == COMPANION else i]
            after[i] = x * y if algebra == 0 else x + y
            if structure == COMPANION and i + 1 < n:
                after[i] = _add(after[i], w[column, i + 1], algebra)
    elif algebra == 0:
        for i in range(n):
            total = a[start + i * n] * w[column, 0]
            for j in range(1, n):
                total += a[start + i * n + j] * w[column, j]
            after[i] = total
    else:
        for i in range(n):
            after[i] = _best_path(a, start + i * n, w, column, n, algebra)


@numba.njit(**INNER)
def _best_path(a: Any, start: int, w: Any, column: int, n: int, algebra: int) -> float:
    """Return one entry of M ⊗ w where ⊗ is a sum."""
    best = a[start] + w[column, 0]
    for j in range(1, n):
        path = a[start + j] + w[column, j]
        if math.isnan(path) or (path < best if algebra == 2 else path > best):
            best = path
    if algebra < 3 or not math.isfinite(best):
        return best
    total = 0.0
    for j in range(n):
        total += math.exp(a[start + j] + w[column, j] - best)
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
    matrices: Any,
    vectors: Any,
    reset: Any,
    initial: Any,
    states: Any,
    exponents: Any,
    results: Any,
    start: int,
    stop: int,
    shape: Any,
    reverse: bool,
    form: Any,
) -> None:
    """Advance the columns `states` (rows, columns, n) of some rows through all steps.

    The first four arguments are flat operands. The last column adds the vectors, and its states are
    written to `results` (outer * steps * inner * n) if there are any. Other columns are scaled by
    2**exponents. At a mark the last column becomes `initial`, and the others the zero of the
    algebra. `form` has the numbers of the algebra and of the structure, and that zero.
    """
    (a, a_strides), (b, b_strides), (marks, mark_strides) = matrices, vectors, reset
    first_states, initial_strides = initial
    algebra, structure, zero = form
    _, columns, n = states.shape
    _, steps, inner = shape
    after = stack_empty(n, np.float64)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        w = states[row]
        a_row = x * a_strides[0] + y * a_strides[2]
        b_row = x * b_strides[0] + y * b_strides[2]
        mark_row = x * mark_strides[0] + y * mark_strides[2]
        initial_row = x * initial_strides[0] + y * initial_strides[2]
        for step in range(steps):
            index = steps - 1 - step if reverse else step
            if marks[mark_row + index * mark_strides[1]]:
                for column in range(columns):
                    is_last = column == columns - 1
                    for i in range(n):
                        w[column, i] = first_states[initial_row + i] if is_last else zero
            for column in range(columns):
                _multiply(a, a_row + index * a_strides[1], w, column, after, structure, algebra)
                if column == columns - 1:
                    for i in range(n):
                        after[i] = _add(after[i], b[b_row + index * b_strides[1] + i], algebra)
                for i in range(n):
                    w[column, i] = after[i]
                if algebra == 0 and column < columns - 1:
                    exponents[row, column] += rescale(w[column], n)
            if len(results):
                for i in range(n):
                    results[((x * steps + index) * inner + y) * n + i] = w[columns - 1, i]


advance_columns = compile_kernel(advance, "matrix-advance", allocates=False)


_MARKS = 2


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk: see :func:`kernels_of_columns`."""
    return kernels_of_columns(method, _advance, precompute, propagate_rows, _work)


def _work(recurrence: MatrixRecurrence) -> tuple[int, float]:
    n = recurrence.matrix_map.n
    return n, 0.9 * (n + 1)


def precompute(recurrence: MatrixRecurrence, chunk: Chunk) -> MatrixSummary:
    """Return the summary of a chunk."""
    matrix_map, n = recurrence.matrix_map, recurrence.matrix_map.n
    starts = np.full((n + 1, n), matrix_map.zero)
    starts[range(n), range(n)] = matrix_map.one
    summary = MatrixSummary(*summarise(_advance, recurrence, chunk, starts, _MARKS))
    return with_rows_to_redo(recurrence, chunk, summary)


def propagate_rows(recurrence: MatrixRecurrence, summary: MatrixSummary, carry_in: np.ndarray) -> np.ndarray:
    """Return the states after a chunk, from those before it; the loop solves the rows to redo."""
    carry_out = propagate(recurrence, summary, carry_in)
    for row, chunk in summary.redo.items():
        states = carry_in[row].reshape(1, 1, -1).copy()
        _advance(recurrence, chunk, states, np.empty(0, recurrence.computed_dtype), 1)
        carry_out[row] = states[0, 0]
    return carry_out


def _advance(
    recurrence: MatrixRecurrence, chunk: Chunk, states: np.ndarray, results: np.ndarray, threads: int
) -> np.ndarray:
    """Advance states through a chunk, and return the exponents of their columns."""
    matrix_map = recurrence.matrix_map
    exponents = np.zeros(states.shape[:2], np.int64)
    operands = flat_operands(chunk.operands, _MARKS, matrix_map.n)
    structure = STRUCTURES.index(matrix_map.structure)
    form = matrix_map.algebra_number, structure, matrix_map.zero

    def advance(start: int, stop: int) -> None:
        advance_columns(*operands, states, exponents, results, start, stop, chunk.shape, chunk.reverse, form)

    call_in_parts(advance, len(states), threads)
    return exponents
