"""The kernel of the smoother: the recursion of Durbin and Koopman from the last step to the first.

r and N are what later observations add: the smoothed state is a + P·r, and its covariance
P − P·N·P, for the predicted state a and P. With E = T·(I − X·Y) and Y = L⁻¹·Z, a step is
r = Y'·w + E'·r and N = Y'·Y + E'·N·E.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import SIZED, compile_kernel
from ...engines.cpu.pointers import (
    advance_pointer,
    advance_pointers,
    as_matrix,
    count_up,
    inputs_of,
    length,
    pointer_to,
    pointers_to,
    stack_matrix,
    stack_vector,
)
from .update import (
    STEADY,
    assign,
    clear,
    copy,
    count_close,
    factor,
    forget,
    largest,
    load,
    multiply_add,
    observe,
    observe_all,
    product,
    store,
    whiten,
)


@numba.njit(**SIZED)
def _transfer(
    states: Any, Z: Any, T: Any, observed: Any, m: int, L: Any, X: Any, Y: Any, E: Any, work: Any
) -> None:
    """Write Y (m, n) and E (n, n)."""
    n = length(states)
    for i in count_up(0, n):
        for k in count_up(0, m):
            total = Z[observed[k] * n + i]
            for j in count_up(0, k):
                total -= L[k, j] * Y[j, i]
            Y[k, i] = total / L[k, k]
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 1.0 if i == j else 0.0
            for k in count_up(0, m):
                total -= X[i, k] * Y[k, j]
            work[i, j] = total
    product(states, as_matrix(T, n), work, E)


@numba.njit(**SIZED)
def _sandwich(states: Any, E: Any, N: Any, work: Any, result: Any) -> None:
    """Write E'·N·E, for a symmetric N."""
    n = length(states)
    product(states, N, E, work)
    for i in count_up(0, n):
        for j in count_up(0, i + 1):
            total = 0.0
            for k in count_up(0, n):
                total += E[k, i] * work[k, j]
            result[i, j] = result[j, i] = total


@numba.njit(**SIZED)
def _is_same(states: Any, filtered: Any, P: Any) -> bool:
    """Return whether the predicted covariance is P, bit for bit."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            if filtered[1 + n + i * n + j] != P[i, j]:
                return False
    return True


@numba.njit(**SIZED)
def _add_later(states: Any, Y: Any, v: Any, m: int, E: Any, r: Any, before: Any) -> None:
    """Replace r by Y'·v + E'·r."""
    n = length(states)
    for i in count_up(0, n):
        before[i] = r[i]
    for i in count_up(0, n):
        total = 0.0
        for k in count_up(0, m):
            total += Y[k, i] * v[k]
        for j in count_up(0, n):
            total += E[j, i] * before[j]
        r[i] = total


@numba.njit(**SIZED)
def _add_information(states: Any, Y: Any, m: int, sandwich: Any, N: Any) -> None:
    """Write Y'·Y + sandwich to N."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = sandwich[i, j]
            for k in count_up(0, m):
                total += Y[k, i] * Y[k, j]
            N[i, j] = total


@numba.njit(**SIZED)
def _subtract(states: Any, P: Any, sandwich: Any, smoothed: Any) -> None:
    for i in count_up(0, length(states)):
        for j in count_up(0, length(states)):
            smoothed[i, j] = P[i, j] - sandwich[i, j]


@numba.njit(**SIZED)
def _depend(states: Any, E: Any, M: Any, work: Any) -> None:
    """Replace M by E'·M."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 0.0
            for k in count_up(0, n):
                total += E[k, i] * M[k, j]
            work[i, j] = total
    assign(states, M, work)


@numba.njit(**SIZED)
def _write(states: Any, writes_sums: bool, predicted: Any, sums: Any, smoothed: Any, result: Any) -> None:
    """Write r and N, or the mean and the covariance of a smoothed state."""
    (a, P), (r, N), (mean, covariance) = predicted, sums, smoothed
    if writes_sums:
        store(states, result, r, N)
    else:
        multiply_add(states, a, P, r, length(states), mean)
        store(states, result, mean, covariance)


@numba.njit(**SIZED)
def _advance_steady(
    states: Any, entries: Any, step: Any, steps: Any, sums: Any, buffers: Any, outputs: Any, result: Any
) -> int:
    """Advance r while all matrices are those of the step after; return the number of steps.

    `step` has the operands at the first step, and `steps` their strides along the steps, the number
    of steps and that of numbers from a result to the next. A step with a mark is a change.
    """
    filtered, endog, Z, obs_intercept, _, _, marks = step
    strides, count, result_stride = steps
    _, v, a, mean, L, _, Y, P, E, _, _, _, covariance, _, _, _ = buffers
    p, (_, has_results, writes_sums) = length(entries), outputs
    done: Any = np.int64(0)
    while done < count and not marks[0] and _is_same(states, filtered, P):
        copy(states, a, advance_pointer(filtered, 1))
        if not observe_all(states, entries, endog, Z, obs_intercept, a, v):
            break
        whiten(states, L, p, v)
        _add_later(states, Y, v, p, E, sums[0], mean)
        if has_results:
            _write(states, writes_sums, (a, P), sums, (mean, covariance), result)
        filtered, endog = advance_pointer(filtered, -strides[0][1]), advance_pointer(endog, -strides[1][1])
        obs_intercept = advance_pointer(obs_intercept, -strides[3][1])
        marks, result = advance_pointer(marks, -strides[6][1]), advance_pointer(result, -result_stride)
        done += 1
    return done


@numba.njit(**SIZED)
def _advance_row(
    states: Any, entries: Any, model: Any, row: Any, sums: Any, M: Any, buffers: Any, outputs: Any
) -> None:
    """Advance the sums r and N of one row from the last step to the first, and M unless it is None.

    `model` has the operands and their strides, `row` is (x, y, shape), and `outputs` (results,
    whether there are any, whether they are sums).
    """
    (operands, strides), (x, y, (_, steps, inner)), (r, N) = model, row, sums
    results, has_results, writes_sums = outputs
    observed, v, a, mean, L, X, Y, P, E, kept_N, work, sandwich, smoothed, _, _, _ = buffers
    n, p = length(states), length(entries)
    is_constant = strides[2][1] == strides[4][1] == strides[5][1] == 0
    # Whether E and Y, and then also N, are those of the step after.
    is_kept = is_steady = depends = False
    if M is not None:
        depends = True
    # numba would also compile functions for the type of the constant 0.
    zero: Any = np.int64(0)
    close_steps, step = zero, steps - 1
    while step >= 0:
        at_step = advance_pointers(operands, strides, (x, step, y))
        filtered, endog, Z, obs_intercept, H, T, marks = at_step
        result = advance_pointer(results, ((x * steps + step) * inner + y) * (n + n * n))
        is_marked = marks[0] != 0
        is_kept = is_kept and is_constant and _is_same(states, filtered, P)
        load(states, advance_pointer(filtered, 1), a, P)
        m = observe(states, entries, endog, Z, obs_intercept, a, observed, v)
        is_kept = is_kept and m == p
        is_steady = is_steady and is_kept
        if is_steady and not depends and not is_marked:
            later = strides, step + 1, inner * (n + n * n)
            step -= _advance_steady(states, entries, at_step, later, sums, buffers, outputs, result)
            continue
        if not is_kept:
            m = factor(states, entries, Z, H, P, observed, v, m, L, X)
            _transfer(states, Z, T, observed, m, L, X, Y, E, work)
        whiten(states, L, m, v)
        _add_later(states, Y, v, m, E, r, mean)
        if not is_steady:
            _sandwich(states, E, N, work, sandwich)
            _add_information(states, Y, m, sandwich, N)
            _sandwich(states, P, N, work, sandwich)
            _subtract(states, P, sandwich, smoothed)
            close_steps = count_close(states, N, kept_N, close_steps) if is_kept else 0
            is_steady = close_steps >= STEADY
        is_kept = m == p
        if M is not None and depends:
            _depend(states, E, M, work)
            depends = not forget(states, M, largest(states, M), 1e-290)
        if has_results:
            _write(states, writes_sums, (a, P), sums, (mean, smoothed), result)
        if is_marked:
            is_kept = is_steady = False
            for i in count_up(0, n):
                r[i] = 0.0
            clear(states, N)
            if M is not None:
                clear(states, M)
        step -= 1


def smoother_kernel(advance_row: Any, form: str) -> Any:
    """Return the kernel of a form of the smoother, from the function that advances one row."""

    def smooth(
        states: Any,
        entries: Any,
        model: Any,
        arrays: Any,
        summaries: Any,
        outputs: Any,
        start: int,
        stop: int,
        shape: Any,
    ) -> None:
        """Advance r and N of some rows from the last step to the first.

        `model` are flat operands and their strides: results of the filter,
        with the log-likelihood and the predicted state first, endog, design, obs_intercept, obs_cov,
        transition and marks. `arrays` are r (rows, n) and N (rows, n, n). If there are results, they
        receive the mean and the covariance of each smoothed state or, if they are sums, r and N
        before each step. To summarise a chunk, `summaries` are updated too, which are None
        otherwise: the dependences (rows, n, n) of r on that after the chunk.
        """
        inputs, (results, writes_sums) = inputs_of(model), outputs
        rs, Ns = pointers_to(arrays)
        n, p, inner, number = length(states), length(entries), shape[2], np.float64
        flat_outputs = pointer_to(results), len(results) > 0, writes_sums != 0
        buffers = (
            stack_vector(p, np.int64),
            stack_vector(p, number),
            stack_vector(n, number),
            stack_vector(n, number),
            stack_matrix(p, p, number),
            stack_matrix(n, p, number),
            stack_matrix(p, n, number),
            stack_matrix(n, n, number),
            stack_matrix(n, n, number),
            stack_matrix(n, n, number),
            stack_matrix(n, n, number),
            stack_matrix(n, n, number),
            stack_matrix(n, n, number),
            stack_matrix(p + 2 * n, p + n, number),
            stack_matrix(2 * n, 2 * n, number),
            stack_matrix(n, 2 * n, number),
        )
        # Copies of the states of a row, whose shapes are constant.
        sums = stack_vector(n, number), stack_matrix(n, n, number)
        for row in count_up(start, stop):
            r, N = advance_pointer(rs, row * n), as_matrix(advance_pointer(Ns, row * n * n), n)
            copy(states, sums[0], r)
            assign(states, sums[1], N)
            at_row = row // inner, row % inner, shape
            if summaries is None:
                advance_row(states, entries, inputs, at_row, sums, None, buffers, flat_outputs)
            else:
                M = as_matrix(advance_pointer(pointer_to(summaries), row * n * n), n)
                advance_row(states, entries, inputs, at_row, sums, M, buffers, flat_outputs)
            copy(states, r, sums[0])
            assign(states, N, sums[1])

    return compile_kernel(smooth, form, allocates=False)


advance_smoother = smoother_kernel(_advance_row, "statespace-smoother")
