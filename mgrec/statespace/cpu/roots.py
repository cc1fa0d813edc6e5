"""The kernels of both passes in square-root form.

A covariance is S·S', with a lower triangular S whose diagonal is not negative. Reflections of
columns, which keep A·A' of an array A, make arrays triangular:

    [R  Z·S]  →  [L  0]        [T·U  Q]  →  [S  0]  of the next step,
    [0   S ]     [X  U],  and

where R·R' is the covariance of the noise of an observation and Q·Q' that of the noise of states.
The filtered state has the root U; L and X are those of :mod:`.update`. No covariance is a
difference, and none is inverted.

The smoother needs the reflections themselves. Rows of a unit matrix below these arrays become, in
the same columns, K and V with X = S·K and U = S·V, and F and G with T·U = S·F' and F·F' + G·G' = 1.

The observations of a chunk say about an earlier state x what n numbers z = J'·x with noise of
variance 1 say (Yaghoobi and others 2022). Observations add whitened numbers, w = Y·x, to them.

The smoother runs from the last step to the first. The smoothed state is a + S·u with the covariance
S·W·W'·S', for the predicted state a and its root S. With these K, V, F and G a step is

    u = K·w + V·F·u,    W·W' = V·(F·W·W'·F' + G·G')·V'.

All factors are parts of orthogonal matrices: nothing is inverted, whatever is singular.
"""

from __future__ import annotations

import math
from typing import Any

import numba

from ...engines.cpu.compilation import SIZED
from ...engines.cpu.pointers import advance_pointer, advance_pointers, count_up, length, submatrix
from ...engines.cpu.scalars import larger_of
from ..recurrence import ROUNDING
from .filtering import filter_kernel, multiply, predict_mean, project
from .smoothing import smoother_kernel
from .update import (
    assign,
    clear,
    copy,
    forget,
    largest,
    load,
    log_determinant,
    multiply_add,
    observe,
    product,
    store,
    whiten,
)

_SMALLEST = 1e-301
"""Square of a row that becomes 0. Those of smaller ones lose digits."""

_NEGLIGIBLE = 1e-40
"""Part of the square of a row. Reflections from subnormal numbers would not be orthogonal."""


@numba.njit(**SIZED)
def triangularise(states: Any, array: Any, rows: int, all_rows: int, columns: int) -> None:
    """Make the first rows lower triangular by reflections of columns, also in all other rows.

    A row that adds nothing to those before it has a column of zeros in the first rows.
    """
    free = 0
    for i in count_up(0, rows):
        sigma = 0.0
        for j in count_up(free + 1, columns):
            sigma += array[i, j] * array[i, j]
        alpha = array[i, free]
        square = alpha * alpha + sigma
        if square < _SMALLEST:
            for j in count_up(free, columns):
                array[i, j] = 0.0
            continue
        if sigma <= _NEGLIGIBLE * square:
            sigma = 0.0
            for j in count_up(free + 1, columns):
                array[i, j] = 0.0
        # The reflection 1 − v·v'·scale, which leads to a positive entry (Golub and van Loan).
        norm = math.sqrt(square)
        v = alpha - norm if alpha <= 0.0 else -sigma / (alpha + norm)
        scale = 2.0 / (v * v + sigma) if v != 0.0 else 0.0
        for k in count_up(i + 1, all_rows):
            total = v * array[k, free]
            for j in count_up(free + 1, columns):
                total += array[i, j] * array[k, j]
            total *= scale
            array[k, free] -= total * v
            for j in count_up(free + 1, columns):
                array[k, j] -= total * array[i, j]
        array[i, free] = norm
        for j in count_up(free + 1, columns):
            array[i, j] = 0.0
        free += 1
    if free < rows:
        _move_to_diagonal(states, array, rows, all_rows, free)


@numba.njit(**SIZED)
def _move_to_diagonal(states: Any, array: Any, rows: int, all_rows: int, count: int) -> None:
    """Move the last non-zero entry of a row to the diagonal, by exchanges of columns."""
    last = count - 1
    for i in range(rows - 1, -1, -1):
        is_first = last >= 0 and array[i, last] != 0.0
        for k in count_up(0, i):
            is_first = is_first and array[k, last] == 0.0
        if is_first:
            for k in count_up(0, all_rows):
                array[k, last], array[k, i] = array[k, i], array[k, last]
            last -= 1


@numba.njit(**SIZED)
def _size_of_product(states: Any, row: Any, root: Any, noise_row: Any, size: int) -> float:
    """Return a bound of the square of a row of A·S, whose terms may cancel; with noise 0."""
    scale, n = 0.0, length(states)
    for j in count_up(0, size):
        if noise_row[j] != 0.0:
            return 0.0
    for k in count_up(0, n):
        total = 0.0
        for j in count_up(0, k + 1):
            total += root[k, j] * root[k, j]
        scale += row[k] * row[k] * total
    return n * scale


@numba.njit(**SIZED)
def _fill_update(
    states: Any, entries: Any, Z: Any, R: Any, S: Any, observed: Any, m: int, all_rows: int, array: Any
) -> None:
    """Write [R  Z·S] and [0  S] to an array, and rows of a unit matrix below."""
    n, p = length(states), length(entries)
    for k in count_up(0, m):
        for j in count_up(0, p):
            array[k, j] = R[observed[k] * p + j]
    if m < p:
        # m columns, so that no column is left over.
        triangularise(states, array, m, m, p)
    for k in count_up(0, m):
        for j in count_up(0, n):
            total = 0.0
            for i in count_up(j, n):
                total += Z[observed[k] * n + i] * S[i, j]
            array[k, m + j] = total
    for i in count_up(0, all_rows - m):
        for j in count_up(0, m):
            array[m + i, j] = 0.0
        for j in count_up(0, n):
            array[m + i, m + j] = S[i, j] if i < n else (1.0 if i == n + j else 0.0)


@numba.njit(**SIZED)
def _first_without_variance(
    states: Any, entries: Any, Z: Any, R: Any, S: Any, observed: Any, m: int, array: Any
) -> int:
    """Return the first entry whose pivot is only rounding, or m."""
    n, p = length(states), length(entries)
    for k in count_up(0, m):
        row, noise_row = advance_pointer(Z, observed[k] * n), advance_pointer(R, observed[k] * p)
        size = 0.0
        for j in count_up(0, k + 1):
            size += array[k, j] * array[k, j]
        size = larger_of(size, _size_of_product(states, row, S, noise_row, p))
        # A difference: that of inf is nan, which is no rounding.
        if array[k, k] * array[k, k] - ROUNDING * ROUNDING * size <= 0.0:
            return k
    return m


@numba.njit(**SIZED)
def update_root(
    states: Any,
    entries: Any,
    Z: Any,
    R: Any,
    S: Any,
    innovation: Any,
    array: Any,
    with_unit: bool,
    factors: Any,
) -> int:
    """Write the factors L and X of the update of a state of root S, and the root U after it.

    With `with_unit`, the rows of `array` from m + n on have K in their first m columns, and then V.
    `innovation` are the indices of the observed entries, their differences v to the prediction, and
    their number. Entries without a variance of their own are removed, as if they were missing.
    Return the number m of the others.
    """
    (observed, v, m), (L, X, U) = innovation, factors
    n, is_regular = length(states), False
    while not is_regular:
        all_rows = m + 2 * n if with_unit else m + n
        _fill_update(states, entries, Z, R, S, observed, m, all_rows, array)
        triangularise(states, array, m + n, all_rows, m + n)
        without = _first_without_variance(states, entries, Z, R, S, observed, m, array)
        is_regular = without == m
        if not is_regular:
            m -= 1
            for k in count_up(without, m):
                observed[k], v[k] = observed[k + 1], v[k + 1]
    for k in count_up(0, m):
        for j in count_up(0, k + 1):
            L[k, j] = array[k, j]
    for i in count_up(0, n):
        for k in count_up(0, m):
            X[i, k] = array[m + i, k]
        size = remainder = 0.0
        for j in count_up(0, n):
            U[i, j] = array[m + i, m + j]
            size += S[i, j] * S[i, j]
            remainder += U[i, j] * U[i, j]
        # An observation without noise: what remains is rounding.
        if remainder <= ROUNDING * ROUNDING * size:
            for j in count_up(0, n):
                U[i, j] = 0.0
    return m


@numba.njit(**SIZED)
def predict_root(states: Any, T: Any, Q: Any, U: Any, array: Any, with_unit: bool, S: Any) -> None:
    """Write the root S of the state after a transition from the root U.

    With `with_unit`, the rows of `array` from n on have F in their first n columns, and then G.
    """
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 0.0
            for k in count_up(j, n):
                total += T[i * n + k] * U[k, j]
            array[i, j], array[i, n + j] = total, Q[i * n + j]
        size = 0.0
        for j in count_up(0, n):
            size += array[i, j] * array[i, j]
        # Without noise of its own, a state may be known exactly.
        bound = _size_of_product(states, advance_pointer(T, i * n), U, advance_pointer(Q, i * n), n)
        if size - ROUNDING * ROUNDING * bound <= 0.0:
            for j in count_up(0, n):
                array[i, j] = 0.0
    all_rows = 2 * n if with_unit else n
    for i in count_up(n, all_rows):
        for j in count_up(0, n):
            array[i, j], array[i, n + j] = 1.0 if i == n + j else 0.0, 0.0
    triangularise(states, array, n, all_rows, 2 * n)
    for i in count_up(0, n):
        for j in count_up(0, n):
            S[i, j] = array[i, j]


@numba.njit(**SIZED)
def square(states: Any, S: Any, P: Any) -> None:
    """Write P = S·S'."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, i + 1):
            total = 0.0
            for k in count_up(0, n):
                total += S[i, k] * S[j, k]
            P[i, j] = P[j, i] = total


@numba.njit(**SIZED)
def _inform(states: Any, Y: Any, w: Any, m: int, z: Any, J: Any, array: Any) -> None:
    """Add numbers w = Y·x to the numbers z = J'·x."""
    n = length(states)
    for i in count_up(0, n + 1):
        for j in count_up(0, n):
            array[i, j] = J[i, j] if i < n else z[j]
        for k in count_up(0, m):
            array[i, n + k] = Y[k, i] if i < n else w[k]
    triangularise(states, array, n, n + 1, n + m)
    for j in count_up(0, n):
        z[j] = array[n, j]
        for i in count_up(0, n):
            J[i, j] = array[i, j]


@numba.njit(**SIZED)
def _track(
    states: Any, Z: Any, T: Any, observed: Any, v: Any, m: int, has_all: bool, buffers: Any, summary: Any
) -> bool:
    """Update the summary by a step of m entries: see :func:`.filtering._track`."""
    (_, _, _, L, X, Y, work, _, _, array), (A, eta, J, growth) = buffers, summary
    if not has_all and largest(states, A) > 0.0:
        # An entry without a variance may still depend on the first state.
        growth[0] = math.inf
    project(states, Z, observed, m, L, X, A, Y)
    _inform(states, Y, v, m, eta, J, array)
    multiply(states, T, A, work)
    size = largest(states, A)
    if not size <= growth[0]:
        growth[0] = size
    return not forget(states, A, size, 1e-300)


@numba.njit(**SIZED)
def _write(states: Any, has_covariances: bool, mean: Any, S: Any, P: Any, result: Any) -> None:
    """Write a mean and a covariance, or its root S."""
    if has_covariances:
        square(states, S, P)
        store(states, result, mean, P)
    else:
        store(states, result, mean, S)


@numba.njit(**SIZED)
def _filter_row(
    states: Any, entries: Any, model: Any, row: Any, row_states: Any, summary: Any, buffers: Any, outputs: Any
) -> None:
    """Advance the state `row_states` of one row through all steps: see :mod:`.filtering`."""
    (operands, strides), (x, y, (_, steps, inner)), (results, width) = model, row, outputs
    observed, v, filtered, L, X, _, work, _, U, array = buffers
    (a, S), depends = row_states, False
    if summary is not None:
        depends = True
    n = length(states)
    has_covariances = width > 1 + n + n * n
    for step in count_up(0, steps):
        at_step = advance_pointers(operands, strides, (x, step, y))
        endog, Z, obs_intercept, R, T, state_intercept, Q, marks, initial = at_step
        if marks[0]:
            load(states, initial, a, S)
            if summary is not None:
                clear(states, summary[0])
        count = observe(states, entries, endog, Z, obs_intercept, a, observed, v)
        result = advance_pointer(results, ((x * steps + step) * inner + y) * width)
        if width > 1:
            _write(states, has_covariances, a, S, work, advance_pointer(result, 1))
        m = update_root(states, entries, Z, R, S, (observed, v, count), array, False, (L, X, U))
        square_of_v = whiten(states, L, m, v)
        multiply_add(states, a, X, v, m, filtered)
        predict_mean(states, T, state_intercept, filtered, a)
        if width > 0:
            result[0] = -0.5 * (log_determinant(states, L, m) + square_of_v)
        if has_covariances:
            _write(states, True, filtered, U, work, advance_pointer(result, 1 + n + n * n))
        predict_root(states, T, Q, U, array, False, S)
        if summary is not None and depends:
            depends = _track(states, Z, T, observed, v, m, m == count, buffers, summary)


advance_root_filter = filter_kernel(_filter_row, "statespace-root-filter")
"""As :func:`.filtering.advance_filter`, with square roots in place of obs_cov, state_cov and the
covariances of states. Results have covariances, or for a width of 1 + n + n² only the predicted
state with its root."""


@numba.njit(**SIZED)
def _add_later(
    states: Any, K: Any, v: Any, m: int, M: Any, G: Any, u: Any, W: Any, array: Any, after: Any
) -> None:
    """Replace u and W by those of the step before."""
    n = length(states)
    copy(states, after, u)
    for i in count_up(0, n):
        u[i] = 0.0
        for k in count_up(0, m):
            u[i] += K[i, k] * v[k]
        for j in count_up(0, n):
            u[i] += M[i, j] * after[j]
    product(states, M, W, array)
    for i in count_up(0, n):
        for j in count_up(0, n):
            array[i, n + j] = G[i, j]
    triangularise(states, array, n, n, 2 * n)
    assign(states, W, array)


@numba.njit(**SIZED)
def _smooth_row(
    states: Any, entries: Any, model: Any, row: Any, sums: Any, M: Any, buffers: Any, outputs: Any
) -> None:
    """Advance u and W of one row from the last step to the first: see :mod:`.smoothing`."""
    (operands, strides), (x, y, (_, steps, inner)), (u, W) = model, row, sums
    results, has_results, _ = outputs
    observed, v, a, mean, L, X, _, S, U, step_M, step_G, work, _, update, prediction, array = buffers
    n = length(states)
    for step in range(steps - 1, -1, -1):
        at_step = advance_pointers(operands, strides, (x, step, y))
        filtered, endog, Z, obs_intercept, R, T, Q, marks = at_step
        load(states, advance_pointer(filtered, 1), a, S)
        m = observe(states, entries, endog, Z, obs_intercept, a, observed, v)
        m = update_root(states, entries, Z, R, S, (observed, v, m), update, True, (L, X, U))
        predict_root(states, T, Q, U, prediction, True, work)
        V = submatrix(update, m + n, m)
        product(states, V, submatrix(prediction, n, 0), step_M)
        product(states, V, submatrix(prediction, n, n), step_G)
        whiten(states, L, m, v)
        K = submatrix(update, m + n, 0)
        _add_later(states, K, v, m, step_M, step_G, u, W, array, mean)
        if M is not None:
            product(states, step_M, M, work)
            assign(states, M, work)
        if has_results:
            multiply_add(states, a, S, u, n, mean)
            product(states, S, W, work)
            square(states, work, array)
            result = advance_pointer(results, ((x * steps + step) * inner + y) * (n + n * n))
            store(states, result, mean, array)
        if marks[0]:
            if M is not None:
                clear(states, M)
            # Nothing is known of the states of an earlier sequence.
            for i in count_up(0, n):
                u[i] = 0.0
                for j in count_up(0, n):
                    W[i, j] = 1.0 if i == j else 0.0


advance_root_smoother = smoother_kernel(_smooth_row, "statespace-root-smoother")
"""As :func:`.smoothing.advance_smoother`, with u and W in place of r and N, with square roots in
place of obs_cov and of the covariances in `filtered`, and with that of state_cov as the last
operand. `writes_sums` is not used."""
