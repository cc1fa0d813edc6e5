"""The kernel of the Kalman filter, for the states of a chunk or for its summary."""

from __future__ import annotations

import math
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
from ..recurrence import ROUNDING
from .update import (
    STEADY,
    assign,
    clear,
    copy,
    count_close,
    factor,
    forget,
    has_exact_observation,
    largest,
    load,
    locate,
    log_determinant,
    multiply_add,
    observe,
    observe_all,
    store,
    whiten,
)


@numba.njit(**SIZED)
def project(states: Any, design: Any, z: int, observed: Any, m: int, L: Any, X: Any, A: Any, Y: Any) -> None:
    """Write Y = L⁻¹·Z·A, and update the dependence A on the first state."""
    n = length(states)
    for i in count_up(0, n):
        for k in count_up(0, m):
            total = 0.0
            for j in count_up(0, n):
                total += design[z + observed[k] * n + j] * A[j, i]
            for j in count_up(0, k):
                total -= L[k, j] * Y[j, i]
            Y[k, i] = total / L[k, k]
    for i in count_up(0, n):
        for k in count_up(0, m):
            for j in count_up(0, n):
                A[i, j] -= X[i, k] * Y[k, j]


@numba.njit(**SIZED)
def _inform(states: Any, Y: Any, w: Any, m: int, eta: Any, J: Any) -> None:
    """Add the information on the first state to `eta` and J."""
    n = length(states)
    for i in count_up(0, n):
        for k in count_up(0, m):
            eta[i] += Y[k, i] * w[k]
            for j in count_up(0, n):
                J[i, j] += Y[k, i] * Y[k, j]


@numba.njit(**SIZED)
def _forget_state(states: Any, P: Any, i: int) -> None:
    """Set the covariances of a state to 0."""
    for j in count_up(0, length(states)):
        P[i, j] = P[j, i] = 0.0


@numba.njit(**SIZED)
def _is_rounding(states: Any, transition: Any, row: int, filtered_cov: Any, variance: float) -> bool:
    """Return whether the variance of T·x is only rounding of the terms of its sum."""
    scale, n = 0.0, length(states)
    for k in count_up(0, n):
        scale += transition[row + k] * transition[row + k] * filtered_cov[k, k]
    return variance - ROUNDING * n * scale <= 0.0


@numba.njit(**SIZED)
def _predict_covariance(
    states: Any, transition: Any, t: int, state_cov: Any, q: int, filtered_cov: Any, P: Any, work: Any
) -> None:
    """Write T·filtered_cov·T' + Q to P."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 0.0
            for k in count_up(0, n):
                total += transition[t + i * n + k] * filtered_cov[k, j]
            work[i, j] = total
    for i in count_up(0, n):
        for j in count_up(0, i + 1):
            total = 0.5 * (state_cov[q + i * n + j] + state_cov[q + j * n + i])
            for k in count_up(0, n):
                total += work[i, k] * transition[t + j * n + k]
            P[i, j] = P[j, i] = total
    for i in count_up(0, n):
        # Without noise of its own, a state may be known exactly.
        if state_cov[q + i * n + i] == 0.0 and _is_rounding(
            states, transition, t + i * n, filtered_cov, P[i, i]
        ):
            _forget_state(states, P, i)


@numba.njit(**SIZED)
def multiply(states: Any, transition: Any, t: int, A: Any, work: Any) -> None:
    """Replace A by T·A."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 0.0
            for k in count_up(0, n):
                total += transition[t + i * n + k] * A[k, j]
            work[i, j] = total
    assign(states, A, work)


@numba.njit(**SIZED)
def _correct(
    states: Any, entries: Any, obs_cov: Any, h: int, observed: Any, P: Any, X: Any, m: int, filtered_cov: Any
) -> None:
    """Write P − X·X' to `filtered_cov`."""
    n, p = length(states), length(entries)
    for i in count_up(0, n):
        for j in count_up(0, i + 1):
            total = P[i, j]
            for k in count_up(0, m):
                total -= X[i, k] * X[j, k]
            filtered_cov[i, j] = filtered_cov[j, i] = total
    for i in count_up(0, n):
        # What remains after an exact observation is rounding.
        if filtered_cov[i, i] <= ROUNDING * P[i, i] and has_exact_observation(
            entries, obs_cov, h, observed, m, stack_matrix(p, p, np.float64)
        ):
            _forget_state(states, filtered_cov, i)


@numba.njit(**SIZED)
def _negligible(states: Any, P: Any) -> float:
    """Return what size of a dependence on an earlier state noise of the covariance P hides.

    Without noise a dependence may grow again, and only subnormal numbers are negligible.
    """
    for i in count_up(0, length(states)):
        if not P[i, i] > 1e-200:
            return 1e-300
    return 1e-200


@numba.njit(**SIZED)
def _depends(states: Any, A: Any, P: Any, growths: Any) -> bool:
    """Return whether the dependence A is not negligible; update the largest size so far."""
    size = largest(states, A)
    if not size <= growths[0]:
        growths[0] = size
    return not forget(states, A, size, _negligible(states, P))


@numba.njit(**SIZED)
def predict_mean(states: Any, transition: Any, t: int, intercept: Any, c: int, filtered: Any, a: Any) -> None:
    """Write T·filtered + c to `a`."""
    n = length(states)
    for i in count_up(0, n):
        total = intercept[c + i]
        for j in count_up(0, n):
            total += transition[t + i * n + j] * filtered[j]
        a[i] = total


@numba.njit(**SIZED)
def _advance_mean(
    states: Any,
    entries: Any,
    operands: Any,
    strides: Any,
    a: Any,
    P: Any,
    buffers: Any,
    constant: float,
    reset: Any,
    outputs: Any,
    step: int,
    steps: int,
) -> int:
    """Advance the mean of a steady state, whose covariances and gains are constant.

    Return the step of the next mark, or of the next observation with a missing entry. The indices
    of `buffers` and of `outputs` (results, index, stride, width) are those of `step`.
    """
    endog, design, obs_intercept, _, transition, state_intercept, _ = operands
    indices, _, v, _, L, X, _, _, _, filtered_cov, _ = buffers
    (marks, mark, mark_stride), (results, result, result_stride, width) = reset, outputs
    n, p = length(states), length(entries)
    y, z, d, t, c = indices[0], indices[1], indices[2], indices[4], indices[5]
    gain, inverse, filtered, after = (
        stack_matrix(n, p, np.float64),
        stack_vector(p, np.float64),
        stack_vector(n, np.float64),
        stack_vector(n, np.float64),
    )
    for k in count_up(0, p):
        inverse[k] = 1.0 / L[k, k]
        for i in count_up(0, n):
            gain[i, k] = 0.0
            for j in count_up(0, n):
                gain[i, k] += transition[t + i * n + j] * X[j, k]
    while step < steps and not marks[mark + step * mark_stride]:
        if not observe_all(states, entries, endog, y, design, z, obs_intercept, d, a, v):
            break
        square = 0.0
        for k in count_up(0, p):
            for j in count_up(0, k):
                v[k] -= L[k, j] * v[j]
            v[k] *= inverse[k]
            square += v[k] * v[k]
        if width > 0:
            results[result] = -0.5 * (constant + square)
        if width > 1:
            store(states, results, result + 1, a, P)
        if width > 1 + n + n * n:
            multiply_add(states, a, X, v, p, filtered)
            store(states, results, result + 1 + n + n * n, filtered, filtered_cov)
        # T·(a + X·v) would be a longer chain of dependent instructions.
        predict_mean(states, transition, t, state_intercept, c, a, after)
        multiply_add(states, after, gain, v, p, a)
        step += 1
        y += strides[0, 1]
        d += strides[2, 1]
        c += strides[5, 1]
        result += result_stride
    return step


@numba.njit(**SIZED)
def _advance_row(
    states: Any,
    entries: Any,
    operands: Any,
    strides: Any,
    row: Any,
    reset: Any,
    initial: Any,
    row_states: Any,
    depends: bool,
    growths: Any,
    buffers: Any,
    outputs: Any,
) -> None:
    """Advance the state `row_states` of one row through all steps.

    `row` is (x, y, shape), `reset` (marks, index, stride), `initial` (numbers, index), and
    `outputs` (results, width). `growths` has the row alone.
    """
    (x, y, shape), (marks, mark, mark_stride), (results, width) = row, reset, outputs
    endog, design, obs_intercept, obs_cov, transition, state_intercept, state_cov = operands
    indices, observed, v, filtered, L, X, Y, work, kept, filtered_cov, _ = buffers
    a, P, A, eta, J = row_states
    n, p, (_, steps, inner) = length(states), length(entries), shape
    is_constant = strides[1, 1] == strides[3, 1] == strides[4, 1] == strides[6, 1] == 0
    # numba would also compile functions for the type of the constant 0.
    zero: Any = np.int64(0)
    is_steady, constant, close_steps, step = False, 0.0, zero, zero
    assign(states, kept, P)
    while step < steps:
        locate(states, len(operands), strides, x, step, y, indices)
        z, t = indices[1], indices[4]
        if marks[mark + step * mark_stride]:
            is_steady, close_steps = False, 0
            load(states, initial[0], initial[1], a, P)
            if depends:
                clear(states, A)
        m = observe(states, entries, endog, indices[0], design, z, obs_intercept, indices[2], a, observed, v)
        result = ((x * steps + step) * inner + y) * width
        is_steady = is_steady and m == p
        if is_steady and not depends:
            step = _advance_mean(
                states,
                entries,
                operands,
                strides,
                a,
                P,
                buffers,
                constant,
                reset,
                (results, result, inner * width, width),
                step,
                steps,
            )
            continue
        if width > 1:
            store(states, results, result + 1, a, P)
        if not is_steady:
            count, m = m, factor(states, entries, design, z, obs_cov, indices[3], P, observed, v, m, L, X)
            constant = log_determinant(states, L, m)
            if depends and m < count and largest(states, A) > 0.0:
                # An entry without a variance may still depend on the first state.
                growths[0] = math.inf
        square = whiten(states, L, m, v)
        if depends:
            project(states, design, z, observed, m, L, X, A, Y)
            _inform(states, Y, v, m, eta, J)
        multiply_add(states, a, X, v, m, filtered)
        predict_mean(states, transition, t, state_intercept, indices[5], filtered, a)
        if not is_steady:
            _correct(states, entries, obs_cov, indices[3], observed, P, X, m, filtered_cov)
            _predict_covariance(states, transition, t, state_cov, indices[6], filtered_cov, P, work)
            close_steps = count_close(states, P, kept, close_steps) if is_constant and m == p else zero
            is_steady = close_steps >= STEADY
        if width > 0:
            results[result] = -0.5 * (constant + square)
        if width > 1 + n + n * n:
            store(states, results, result + 1 + n + n * n, filtered, filtered_cov)
        if depends:
            multiply(states, transition, t, A, work)
            depends = _depends(states, A, P, growths)
        step += 1


def filter_kernel(advance_row: Any, form: str) -> Any:
    """Return the kernel of a form of the filter, from the function that advances one row."""

    def advance(
        states: Any,
        entries: Any,
        operands: Any,
        strides: Any,
        reset: Any,
        initial: Any,
        row_states: Any,
        summary: Any,
        results: Any,
        width: int,
        start: int,
        stop: int,
        shape: Any,
    ) -> None:
        """Advance the predicted states of some rows through all steps.

        `operands` are endog, design, obs_intercept, obs_cov, transition, state_intercept and
        state_cov, flat, with one row of `strides` each. At a mark of `reset` the state becomes
        `initial`, two flat operands. `row_states` are means (rows, n) and covariances (rows, n, n).
        If there are `results`, they receive `width` numbers a step: the log-likelihood and, if
        there are more, the mean and the covariance of the predicted state and those of the filtered
        state. To summarise a chunk, the dependences on the state before it, eta and J of `summary`
        are updated too, and growths (rows) receive the largest size of a dependence.
        """
        (marks, mark_strides), (first_states, initial_strides) = reset, initial
        is_summary = len(summary[0]) > 0
        means, covariances = pointers_to(row_states)
        dependences, etas, Js, growths = pointers_to(summary)
        n, p, inner, number = length(states), length(entries), shape[2], np.float64
        inputs = pointers_to(operands)
        flat_marks, flat_states = pointer_to(marks), pointer_to(first_states)
        flat_strides, flat_results = as_matrix(pointer_to(strides), 3), pointer_to(results)
        buffers = (
            stack_vector(len(operands), np.int64),
            stack_vector(p, np.int64),
            stack_vector(p, number),
            stack_vector(n, number),
            stack_matrix(p, p, number),
            stack_matrix(n, p, number),
            stack_matrix(p, n, number),
            stack_matrix(n, n, number),
            stack_matrix(n, n, number),
            stack_matrix(n, n, number),
            stack_matrix(p + n + 1, p + 2 * n, number),
        )
        # Copies of the states of a row, whose shapes are constant.
        a, P, A = stack_vector(n, number), stack_matrix(n, n, number), stack_matrix(n, n, number)
        eta, J = stack_vector(n, number), stack_matrix(n, n, number)
        for row in count_up(start, stop):
            x, y = row // inner, row % inner
            mean, first_matrix = advance_pointer(means, row * n), row * n * n
            covariance = as_matrix(advance_pointer(covariances, first_matrix), n)
            dependence = as_matrix(advance_pointer(dependences, first_matrix), n)
            row_eta = advance_pointer(etas, row * n)
            row_J = as_matrix(advance_pointer(Js, first_matrix), n)
            copy(states, a, mean)
            assign(states, P, covariance)
            if is_summary:
                assign(states, A, dependence)
                copy(states, eta, row_eta)
                assign(states, J, row_J)
            mark = x * mark_strides[0] + y * mark_strides[2]
            first = x * initial_strides[0] + y * initial_strides[2]
            advance_row(
                states,
                entries,
                inputs,
                flat_strides,
                (x, y, shape),
                (flat_marks, mark, mark_strides[1]),
                (flat_states, first),
                (a, P, A, eta, J),
                is_summary,
                advance_pointer(growths, row),
                buffers,
                (flat_results, width),
            )
            copy(states, mean, a)
            assign(states, covariance, P)
            if is_summary:
                assign(states, dependence, A)
                copy(states, row_eta, eta)
                assign(states, row_J, J)

    return compile_kernel(advance, form, allocates=False)


advance_filter = filter_kernel(_advance_row, "statespace-filter")
