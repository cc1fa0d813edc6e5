"""The kernel of the Kalman filter, for the states of a chunk or for its summary."""

from __future__ import annotations

import math
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
    log_determinant,
    multiply_add,
    observe,
    observe_all,
    product,
    store,
    whiten,
)


@numba.njit(**SIZED)
def project(states: Any, Z: Any, observed: Any, m: int, L: Any, X: Any, A: Any, Y: Any) -> None:
    """Write Y = L⁻¹·Z·A, and update the dependence A on the first state."""
    n = length(states)
    for i in count_up(0, n):
        for k in count_up(0, m):
            total = 0.0
            for j in count_up(0, n):
                total += Z[observed[k] * n + j] * A[j, i]
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
def _is_rounding(states: Any, T: Any, row: int, filtered_cov: Any, variance: float) -> bool:
    """Return whether the variance of T·x is only rounding of the terms of its sum."""
    scale, n = 0.0, length(states)
    for k in count_up(0, n):
        scale += T[row + k] * T[row + k] * filtered_cov[k, k]
    return variance - ROUNDING * n * scale <= 0.0


@numba.njit(**SIZED)
def _predict_covariance(states: Any, T: Any, Q: Any, filtered_cov: Any, P: Any, work: Any) -> None:
    """Write T·filtered_cov·T' + Q to P."""
    n = length(states)
    product(states, as_matrix(T, n), filtered_cov, work)
    for i in count_up(0, n):
        for j in count_up(0, i + 1):
            total = 0.5 * (Q[i * n + j] + Q[j * n + i])
            for k in count_up(0, n):
                total += work[i, k] * T[j * n + k]
            P[i, j] = P[j, i] = total
    for i in count_up(0, n):
        # Without noise of its own, a state may be known exactly.
        if Q[i * n + i] == 0.0 and _is_rounding(states, T, i * n, filtered_cov, P[i, i]):
            _forget_state(states, P, i)


@numba.njit(**SIZED)
def multiply(states: Any, T: Any, A: Any, work: Any) -> None:
    """Replace A by T·A."""
    product(states, as_matrix(T, length(states)), A, work)
    assign(states, A, work)


@numba.njit(**SIZED)
def _correct(
    states: Any, entries: Any, H: Any, observed: Any, P: Any, X: Any, m: int, filtered_cov: Any
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
            entries, H, observed, m, stack_matrix(p, p, np.float64)
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
def _track(
    states: Any,
    Z: Any,
    T: Any,
    observed: Any,
    v: Any,
    m: int,
    has_all: bool,
    P: Any,
    buffers: Any,
    summary: Any,
) -> bool:
    """Update the summary by a step of m entries; return whether the state depends on the first one.

    P is the predicted covariance after the step. `has_all` is False if observed entries without a
    variance were removed.
    """
    (_, _, _, L, X, Y, work, _, _, _), (A, eta, J, growth) = buffers, summary
    if not has_all and largest(states, A) > 0.0:
        # An entry without a variance may still depend on the first state.
        growth[0] = math.inf
    project(states, Z, observed, m, L, X, A, Y)
    _inform(states, Y, v, m, eta, J)
    multiply(states, T, A, work)
    size = largest(states, A)
    if not size <= growth[0]:
        growth[0] = size
    return not forget(states, A, size, _negligible(states, P))


@numba.njit(**SIZED)
def predict_mean(states: Any, T: Any, intercept: Any, filtered: Any, a: Any) -> None:
    """Write T·filtered + c to `a`."""
    n = length(states)
    for i in count_up(0, n):
        total = intercept[i]
        for j in count_up(0, n):
            total += T[i * n + j] * filtered[j]
        a[i] = total


@numba.njit(**SIZED)
def _advance_mean(
    states: Any, entries: Any, step: Any, steps: Any, row_states: Any, buffers: Any, result: Any
) -> int:
    """Advance the mean of a steady state, whose covariances and gains are constant.

    `step` has the operands at the first step, and `steps` their strides along the steps, the number
    of steps, that of numbers from a result to the next, their `width`, and the logarithm of the
    determinant. Return the number of steps up to the next mark, or to the next observation with a
    missing entry.
    """
    endog, Z, obs_intercept, _, T, state_intercept, _, marks, _ = step
    strides, count, result_stride, width, constant = steps
    (a, P), (_, v, filtered, L, X, _, _, _, filtered_cov, _) = row_states, buffers
    n, p, number = length(states), length(entries), np.float64
    gain, inverse, after = stack_matrix(n, p, number), stack_vector(p, number), stack_vector(n, number)
    for k in count_up(0, p):
        inverse[k] = 1.0 / L[k, k]
        for i in count_up(0, n):
            gain[i, k] = 0.0
            for j in count_up(0, n):
                gain[i, k] += T[i * n + j] * X[j, k]
    done: Any = np.int64(0)
    while done < count and not marks[0] and observe_all(states, entries, endog, Z, obs_intercept, a, v):
        square = 0.0
        for k in count_up(0, p):
            for j in count_up(0, k):
                v[k] -= L[k, j] * v[j]
            v[k] *= inverse[k]
            square += v[k] * v[k]
        if width > 0:
            result[0] = -0.5 * (constant + square)
        if width > 1:
            store(states, advance_pointer(result, 1), a, P)
        if width > 1 + n + n * n:
            multiply_add(states, a, X, v, p, filtered)
            store(states, advance_pointer(result, 1 + n + n * n), filtered, filtered_cov)
        # T·(a + X·v) would be a longer chain of dependent instructions.
        predict_mean(states, T, state_intercept, a, after)
        multiply_add(states, after, gain, v, p, a)
        endog, marks = advance_pointer(endog, strides[0][1]), advance_pointer(marks, strides[7][1])
        obs_intercept = advance_pointer(obs_intercept, strides[2][1])
        state_intercept = advance_pointer(state_intercept, strides[5][1])
        result = advance_pointer(result, result_stride)
        done += 1
    return done


@numba.njit(**SIZED)
def _advance_row(
    states: Any, entries: Any, model: Any, row: Any, row_states: Any, summary: Any, buffers: Any, outputs: Any
) -> None:
    """Advance the state `row_states` of one row through all steps.

    `model` has the operands and their strides, `row` is (x, y, shape), and `outputs` (results,
    width). `summary` has the dependence, eta, J and the growth of the row, or is None.
    """
    (operands, strides), (x, y, (_, steps, inner)), (results, width) = model, row, outputs
    observed, v, filtered, L, X, _, work, kept, filtered_cov, _ = buffers
    (a, P), depends = row_states, False
    if summary is not None:
        depends = True
    n, p = length(states), length(entries)
    is_constant = strides[1][1] == strides[3][1] == strides[4][1] == strides[6][1] == 0
    # numba would also compile functions for the type of the constant 0.
    zero: Any = np.int64(0)
    is_steady, constant, close_steps, step = False, 0.0, zero, zero
    assign(states, kept, P)
    while step < steps:
        at_step = advance_pointers(operands, strides, (x, step, y))
        endog, Z, obs_intercept, H, T, state_intercept, Q, marks, initial = at_step
        if marks[0]:
            is_steady, close_steps = False, 0
            load(states, initial, a, P)
            if summary is not None:
                clear(states, summary[0])
        m = count = observe(states, entries, endog, Z, obs_intercept, a, observed, v)
        result = advance_pointer(results, ((x * steps + step) * inner + y) * width)
        is_steady = is_steady and m == p
        if is_steady and not depends:
            later = strides, steps - step, inner * width, width, constant
            step += _advance_mean(states, entries, at_step, later, row_states, buffers, result)
            continue
        if width > 1:
            store(states, advance_pointer(result, 1), a, P)
        if not is_steady:
            m = factor(states, entries, Z, H, P, observed, v, count, L, X)
            constant = log_determinant(states, L, m)
        square = whiten(states, L, m, v)
        multiply_add(states, a, X, v, m, filtered)
        predict_mean(states, T, state_intercept, filtered, a)
        if not is_steady:
            _correct(states, entries, H, observed, P, X, m, filtered_cov)
            _predict_covariance(states, T, Q, filtered_cov, P, work)
            close_steps = count_close(states, P, kept, close_steps) if is_constant and m == p else zero
            is_steady = close_steps >= STEADY
        if width > 0:
            result[0] = -0.5 * (constant + square)
        if width > 1 + n + n * n:
            store(states, advance_pointer(result, 1 + n + n * n), filtered, filtered_cov)
        if summary is not None and depends:
            depends = _track(states, Z, T, observed, v, m, m == count, P, buffers, summary)
        step += 1


def filter_kernel(advance_row: Any, form: str) -> Any:
    """Return the kernel of a form of the filter, from the function that advances one row."""

    def advance(
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
        """Advance the predicted states of some rows through all steps.

        `model` are flat operands and their strides: endog, design,
        obs_intercept, obs_cov, transition, state_intercept, state_cov, marks and the states at
        marks. The `arrays` are means (rows, n) and covariances (rows, n, n).
        If there are results, they receive `width` numbers a step: the log-likelihood and, if
        there are more, the mean and the covariance of the predicted state and those of the filtered
        state. To summarise a chunk, `summaries` are updated too, which are None otherwise: the
        dependences on the state before it, eta and J; and growths (rows), the largest size of a
        dependence.
        """
        inputs, (results, width) = inputs_of(model), outputs
        means, covariances = pointers_to(arrays)
        n, p, inner, number = length(states), length(entries), shape[2], np.float64
        flat_outputs = pointer_to(results), width
        buffers = (
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
        row_states = stack_vector(n, number), stack_matrix(n, n, number)
        for row in count_up(start, stop):
            first_matrix = row * n * n
            mean, covariance = advance_pointer(means, row * n), advance_pointer(covariances, first_matrix)
            copy(states, row_states[0], mean)
            assign(states, row_states[1], as_matrix(covariance, n))
            at_row = row // inner, row % inner, shape
            if summaries is None:
                advance_row(states, entries, inputs, at_row, row_states, None, buffers, flat_outputs)
            else:
                dependences, etas, Js, growths = pointers_to(summaries)
                summary = (
                    as_matrix(advance_pointer(dependences, first_matrix), n),
                    advance_pointer(etas, row * n),
                    as_matrix(advance_pointer(Js, first_matrix), n),
                    advance_pointer(growths, row),
                )
                advance_row(states, entries, inputs, at_row, row_states, summary, buffers, flat_outputs)
            copy(states, mean, row_states[0])
            assign(states, as_matrix(covariance, n), row_states[1])

    return compile_kernel(advance, form, allocates=False)


advance_filter = filter_kernel(_advance_row, "statespace-filter")
