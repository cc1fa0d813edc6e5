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
    as_matrix,
    count_up,
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
    locate,
    multiply_add,
    observe,
    observe_all,
    store,
    whiten,
)


@numba.njit(**SIZED)
def _transfer(
    states: Any,
    design: Any,
    z: int,
    transition: Any,
    t: int,
    observed: Any,
    m: int,
    L: Any,
    X: Any,
    Y: Any,
    E: Any,
    work: Any,
) -> None:
    """Write Y (m, n) and E (n, n)."""
    n = length(states)
    for i in count_up(0, n):
        for k in count_up(0, m):
            total = design[z + observed[k] * n + i]
            for j in count_up(0, k):
                total -= L[k, j] * Y[j, i]
            Y[k, i] = total / L[k, k]
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 1.0 if i == j else 0.0
            for k in count_up(0, m):
                total -= X[i, k] * Y[k, j]
            work[i, j] = total
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 0.0
            for k in count_up(0, n):
                total += transition[t + i * n + k] * work[k, j]
            E[i, j] = total


@numba.njit(**SIZED)
def _sandwich(states: Any, E: Any, N: Any, work: Any, result: Any) -> None:
    """Write E'·N·E, for a symmetric N."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 0.0
            for k in count_up(0, n):
                total += N[i, k] * E[k, j]
            work[i, j] = total
    for i in count_up(0, n):
        for j in count_up(0, i + 1):
            total = 0.0
            for k in count_up(0, n):
                total += E[k, i] * work[k, j]
            result[i, j] = result[j, i] = total


@numba.njit(**SIZED)
def _is_same(states: Any, filtered: Any, index: int, P: Any) -> bool:
    """Return whether a matrix in a flat array is P, bit for bit."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            if filtered[index + i * n + j] != P[i, j]:
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
def _write(
    states: Any,
    writes_sums: bool,
    a: Any,
    P: Any,
    r: Any,
    N: Any,
    mean: Any,
    smoothed: Any,
    results: Any,
    result: int,
) -> None:
    """Write r and N, or the mean and the covariance of a smoothed state."""
    if writes_sums:
        store(states, results, result, r, N)
    else:
        multiply_add(states, a, P, r, length(states), mean)
        store(states, results, result, mean, smoothed)


@numba.njit(**SIZED)
def _advance_steady(
    states: Any,
    entries: Any,
    filtered: Any,
    operands: Any,
    strides: Any,
    r: Any,
    N: Any,
    buffers: Any,
    reset: Any,
    outputs: Any,
    step: int,
) -> int:
    """Advance r while all matrices are those of the step after; return the step of the next change.

    The indices of `filtered` (numbers, index, stride), of `buffers` and of `outputs` (results,
    whether there are any, whether they are sums, index, stride) are those of `step`. A step with a
    mark is a change.
    """
    endog, design, obs_intercept, _, _ = operands
    indices, _, v, a, mean, L, _, Y, P, E, _, _, _, smoothed, _, _, _ = buffers
    (states_of_filter, state, state_stride), (marks, mark, mark_stride) = filtered, reset
    results, has_results, writes_sums, result, result_stride = outputs
    n, p = length(states), length(entries)
    y, z, d = indices[0], indices[1], indices[2]
    while step >= 0 and not marks[mark + step * mark_stride]:
        if not _is_same(states, states_of_filter, state + n, P):
            break
        for i in count_up(0, n):
            a[i] = states_of_filter[state + i]
        if not observe_all(states, entries, endog, y, design, z, obs_intercept, d, a, v):
            break
        whiten(states, L, p, v)
        _add_later(states, Y, v, p, E, r, mean)
        if has_results:
            _write(states, writes_sums, a, P, r, N, mean, smoothed, results, result)
        step -= 1
        y -= strides[0, 1]
        d -= strides[2, 1]
        state -= state_stride
        result -= result_stride
    return step


@numba.njit(**SIZED)
def _advance_row(
    states: Any,
    entries: Any,
    filtered: Any,
    operands: Any,
    strides: Any,
    row: Any,
    reset: Any,
    sums: Any,
    depends: bool,
    buffers: Any,
    outputs: Any,
) -> None:
    """Advance the sums r, N and M of one row from the last step to the first.

    `row` is (x, y, shape), and `outputs` (results, whether there are any, whether they are sums).
    `filtered` and `reset` are (numbers, index, stride).
    """
    (x, y, (_, steps, inner)), (marks, mark, mark_stride) = row, reset
    (states_of_filter, forward, state_stride), (r, N, M) = filtered, sums
    results, has_results, writes_sums = outputs
    endog, design, obs_intercept, obs_cov, transition = operands
    (indices, observed, v, a, mean, L, X, Y, P, E, kept_N, work, sandwich, smoothed, _, _, _) = buffers
    n, p = length(states), length(entries)
    is_constant = strides[1, 1] == strides[3, 1] == strides[4, 1] == 0
    # Whether E and Y, and then also N, are those of the step after.
    is_kept = is_steady = False
    # numba would also compile functions for the type of the constant 0.
    zero: Any = np.int64(0)
    close_steps, step = zero, steps - 1
    while step >= 0:
        locate(states, len(operands), strides, x, step, y, indices)
        state = forward + step * state_stride
        result = ((x * steps + step) * inner + y) * (n + n * n)
        is_marked = marks[mark + step * mark_stride] != 0
        is_kept = is_kept and is_constant and _is_same(states, states_of_filter, state + n, P)
        load(states, states_of_filter, state, a, P)
        m = observe(
            states, entries, endog, indices[0], design, indices[1], obs_intercept, indices[2], a, observed, v
        )
        is_kept = is_kept and m == p
        is_steady = is_steady and is_kept
        if is_steady and not depends and not is_marked:
            step = _advance_steady(
                states,
                entries,
                (states_of_filter, state, state_stride),
                operands,
                strides,
                r,
                N,
                buffers,
                reset,
                (*outputs, result, inner * (n + n * n)),
                step,
            )
            continue
        if not is_kept:
            z, t = indices[1], indices[4]
            m = factor(states, entries, design, z, obs_cov, indices[3], P, observed, v, m, L, X)
            _transfer(states, design, z, transition, t, observed, m, L, X, Y, E, work)
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
        if depends:
            _depend(states, E, M, work)
            depends = not forget(states, M, largest(states, M), 1e-290)
        if has_results:
            _write(states, writes_sums, a, P, r, N, mean, smoothed, results, result)
        if is_marked:
            is_kept = is_steady = False
            for i in count_up(0, n):
                r[i] = 0.0
            clear(states, N)
            if depends:
                clear(states, M)
        step -= 1


def smoother_kernel(advance_row: Any, form: str) -> Any:
    """Return the kernel of a form of the smoother, from the function that advances one row."""

    def smooth(
        states: Any,
        entries: Any,
        filtered: Any,
        operands: Any,
        strides: Any,
        reset: Any,
        rs: Any,
        Ns: Any,
        dependences: Any,
        results: Any,
        writes_sums: bool,
        start: int,
        stop: int,
        shape: Any,
    ) -> None:
        """Advance r and N of some rows from the last step to the first.

        `filtered` are results of the filter, with the log-likelihood and the predicted state first,
        and `reset` marks: flat operands. `operands` are endog, design, obs_intercept, obs_cov and
        transition. If there are `results`, they receive the mean and the covariance of each
        smoothed state, or with `writes_sums` r and N before each step. To summarise a chunk,
        `dependences` (rows, n, n) of r on that after the chunk are updated too.
        """
        (states_of_filter, filtered_strides), (marks, mark_strides) = filtered, reset
        n, p, inner, number = length(states), length(entries), shape[2], np.float64
        is_summary, has_results = len(dependences) > 0, len(results) > 0
        inputs = pointers_to(operands)
        flat_states, flat_marks = pointer_to(states_of_filter), pointer_to(marks)
        flat_strides, flat_results = as_matrix(pointer_to(strides), 3), pointer_to(results)
        all_r, all_N, all_M = pointer_to(rs), pointer_to(Ns), pointer_to(dependences)
        buffers = (
            stack_vector(len(operands), np.int64),
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
        r, N, M = stack_vector(n, number), stack_matrix(n, n, number), stack_matrix(n, n, number)
        for row in count_up(start, stop):
            x, y = row // inner, row % inner
            row_r, first_matrix = advance_pointer(all_r, row * n), row * n * n
            row_N = as_matrix(advance_pointer(all_N, first_matrix), n)
            row_M = as_matrix(advance_pointer(all_M, first_matrix), n)
            copy(states, r, row_r)
            assign(states, N, row_N)
            if is_summary:
                assign(states, M, row_M)
            mark = x * mark_strides[0] + y * mark_strides[2]
            forward = x * filtered_strides[0] + y * filtered_strides[2] + 1
            advance_row(
                states,
                entries,
                (flat_states, forward, filtered_strides[1]),
                inputs,
                flat_strides,
                (x, y, shape),
                (flat_marks, mark, mark_strides[1]),
                (r, N, M),
                is_summary,
                buffers,
                (flat_results, has_results, writes_sums),
            )
            copy(states, row_r, r)
            assign(states, row_N, N)
            if is_summary:
                assign(states, row_M, M)

    return compile_kernel(smooth, form, allocates=False)


advance_smoother = smoother_kernel(_advance_row, "statespace-smoother")
