"""The kernel of the Kalman filter in square-root form, for the states of a chunk or its summary.

What a chunk's observations say about an earlier state x is that of n numbers z = J'·x with noise of
variance 1 (Yaghoobi and others 2022). Observations add whitened numbers, w = Y·x, to them.
"""

from __future__ import annotations

from typing import Any

import numba

from ...engines.cpu.compilation import INLINED
from .filtering import filter_kernel, multiply, predict_mean, project
from .roots import predict_root, square, triangularise, update_root
from .update import (
    clear,
    forget,
    largest,
    load,
    locate,
    log_determinant,
    multiply_add,
    observe,
    store,
    whiten,
)


@numba.njit(**INLINED)
def _inform(states: Any, Y: Any, w: Any, m: int, z: Any, J: Any, array: Any) -> None:
    """Add numbers w = Y·x to the numbers z = J'·x."""
    n = len(states)
    for i in range(n + 1):
        for j in range(n):
            array[i, j] = J[i, j] if i < n else z[j]
        for k in range(m):
            array[i, n + k] = Y[k, i] if i < n else w[k]
    triangularise(array, n, n + 1, n + m)
    for j in range(n):
        z[j] = array[n, j]
        for i in range(n):
            J[i, j] = array[i, j]


@numba.njit(**INLINED)
def _write(
    states: Any, has_covariances: bool, mean: Any, S: Any, P: Any, results: Any, result: int
) -> None:
    """Write a mean and a covariance, or its root S."""
    if has_covariances:
        square(states, S, P)
        store(states, results, result, mean, P)
    else:
        store(states, results, result, mean, S)


@numba.njit(**INLINED)
def _advance_row(
    states: Any, entries: Any, operands: Any, strides: Any, x: int, y: int, marks: Any, mark: int,
    mark_stride: int, initial: Any, first: int, row_states: Any, depends: bool, growths: Any,
    row: int, buffers: Any, results: Any, width: int, shape: Any,
) -> None:  # fmt: skip
    """Advance the state `row_states` of one row through all steps."""
    endog, design, obs_intercept, obs_root, transition, state_intercept, state_root = operands
    indices, observed, v, filtered, L, X, Y, work, _, U, array = buffers
    a, S, A, eta, J = row_states
    n = len(states)
    _, steps, inner = shape
    has_covariances = width > 1 + n + n * n
    for step in range(steps):
        locate(strides, x, step, y, indices)
        z, t = indices[1], indices[4]
        if marks[mark + step * mark_stride]:
            load(states, initial, first, a, S)
            if depends:
                clear(states, A)
        m = observe(
            states, entries, endog, indices[0], design, z, obs_intercept, indices[2], a, observed, v
        )
        result = ((x * steps + step) * inner + y) * width
        if width > 1:
            _write(states, has_covariances, a, S, work, results, result + 1)
        update_root(
            states, entries, design, z, obs_root, indices[3], S, observed, m, array, False, L, X, U
        )
        square_of_v = whiten(L, m, v)
        if depends:
            project(states, design, z, observed, m, L, X, A, Y)
            _inform(states, Y, v, m, eta, J, array)
        multiply_add(states, a, X, v, m, filtered)
        predict_mean(states, transition, t, state_intercept, indices[5], filtered, a)
        if width > 0:
            results[result] = -0.5 * (log_determinant(L, m) + square_of_v)
        if has_covariances:
            _write(states, True, filtered, U, work, results, result + 1 + n + n * n)
        predict_root(states, transition, t, state_root, indices[6], U, array, False, S)
        if depends:
            multiply(states, transition, t, A, work)
            size = largest(states, A)
            if not size <= growths[row]:
                growths[row] = size
            depends = not forget(states, A, size, 1e-300)


advance_root_filter = filter_kernel(_advance_row, "statespace-root-filter")
"""As :func:`.filtering.advance_filter`, with square roots in place of obs_cov, state_cov and the
covariances of states. Results have covariances, or for a width of 1 + n + n² only the predicted
state with its root."""
