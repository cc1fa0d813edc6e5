"""The kernel of the Kalman filter, for the states of a chunk or for its summary."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from .update import (
    STEADY,
    assign,
    clear,
    count_close,
    factor,
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


@numba.njit(**INNER)
def _summarise(
    design: Any, z: int, observed: Any, m: int, L: Any, X: Any, w: Any, A: Any, eta: Any, J: Any,
    Y: Any,
) -> None:  # fmt: skip
    """Update the dependence A on the first state, and what is observed of it, `eta` and J."""
    n = len(A)
    for i in range(n):
        for k in range(m):
            total = 0.0
            for j in range(n):
                total += design[z + observed[k] * n + j] * A[j, i]
            for j in range(k):
                total -= L[k, j] * Y[j, i]
            Y[k, i] = total / L[k, k]
    for i in range(n):
        for k in range(m):
            eta[i] += Y[k, i] * w[k]
            for j in range(n):
                J[i, j] += Y[k, i] * Y[k, j]
                A[i, j] -= X[i, k] * Y[k, j]


@numba.njit(**INNER)
def _predict_covariance(transition: Any, t: int, state_cov: Any, q: int, P: Any, work: Any) -> None:
    """Replace P by T·P·T' + Q."""
    n = len(P)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += transition[t + i * n + k] * P[k, j]
            work[i, j] = total
    for i in range(n):
        for j in range(i + 1):
            total = 0.5 * (state_cov[q + i * n + j] + state_cov[q + j * n + i])
            for k in range(n):
                total += work[i, k] * transition[t + j * n + k]
            P[i, j] = P[j, i] = total


@numba.njit(**INNER)
def _multiply(transition: Any, t: int, A: Any, work: Any) -> None:
    """Replace A by T·A."""
    n = len(A)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += transition[t + i * n + k] * A[k, j]
            work[i, j] = total
    assign(A, work)


@numba.njit(**INNER)
def _correct(P: Any, X: Any, m: int) -> None:
    """Replace P by P − X·X'."""
    for i in range(len(P)):
        for j in range(i + 1):
            total = P[i, j]
            for k in range(m):
                total -= X[i, k] * X[j, k]
            P[i, j] = P[j, i] = total


@numba.njit(**INNER)
def _negligible(P: Any) -> float:
    """Return what size of a dependence on an earlier state noise of the covariance P hides.

    Without noise a dependence may grow again, and only subnormal numbers are negligible.
    """
    for i in range(len(P)):
        if not P[i, i] > 1e-200:
            return 1e-300
    return 1e-200


@numba.njit(**INNER)
def _depends(A: Any, P: Any, growths: Any, row: int) -> bool:
    """Return whether the dependence A is not negligible; update the largest size so far."""
    size = largest(A)
    if not size <= growths[row]:
        growths[row] = size
    return not forget(A, size, _negligible(P))


@numba.njit(**INNER)
def _predict_mean(transition: Any, t: int, intercept: Any, c: int, filtered: Any, a: Any) -> None:
    """Write T·filtered + c to `a`."""
    n = len(a)
    for i in range(n):
        total = intercept[c + i]
        for j in range(n):
            total += transition[t + i * n + j] * filtered[j]
        a[i] = total


def advance(
    operands: Any, strides: Any, marks: Any, mark_strides: Any, initial: Any, initial_strides: Any,
    p: int, means: Any, covariances: Any, dependences: Any, etas: Any, Js: Any, growths: Any,
    results: Any, width: int, start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Advance the predicted states of some rows through all steps.

    `operands` are endog, design, obs_intercept, obs_cov, transition, state_intercept and state_cov,
    flat, with one row of `strides` each, for `p` entries of an observation. At a mark the state
    becomes `initial`. `means` (rows, n) and `covariances` (rows, n, n) are the states. If there are
    `results`, they receive `width` numbers a step: the log-likelihood and, if there are more, the
    mean and the covariance of the predicted state and those of the filtered state. To summarise a
    chunk, `dependences` on the state before it, `etas` and `Js` are updated too, and `growths`
    (rows) receive the largest size of a dependence.
    """
    endog, design, obs_intercept, obs_cov, transition, state_intercept, state_cov = operands
    n = means.shape[1]
    _, steps, inner = shape
    is_constant = strides[1, 1] == strides[3, 1] == strides[4, 1] == strides[6, 1] == 0
    places, observed = np.empty(len(strides), np.int64), np.empty(p, np.int64)
    v, filtered = np.empty(p), np.empty(n)
    L, X, Y = np.empty((p, p)), np.empty((n, p)), np.empty((p, n))
    work, kept, filtered_cov = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    for row in range(start, stop):
        x, y = row // inner, row % inner
        a, P = means[row], covariances[row]
        mark = x * mark_strides[0] + y * mark_strides[2]
        first = x * initial_strides[0] + y * initial_strides[2]
        is_steady, constant, close_steps = False, 0.0, 0
        assign(kept, P)
        depends = len(dependences) > 0
        for step in range(steps):
            locate(strides, x, step, y, places)
            z, t = places[1], places[4]
            if marks[mark + step * mark_strides[1]]:
                is_steady, close_steps = False, 0
                load(initial, first, a, P)
                if depends:
                    clear(dependences[row])
            m = observe(endog, places[0], design, z, obs_intercept, places[2], a, observed, v)
            result = ((x * steps + step) * inner + y) * width
            if width > 1:
                store(results, result + 1, a, P)
            is_steady = is_steady and m == p
            if not is_steady:
                factor(design, z, obs_cov, places[3], P, observed, m, L, X)
                constant = log_determinant(L, m)
            square = whiten(L, m, v)
            if depends:
                _summarise(design, z, observed, m, L, X, v, dependences[row], etas[row], Js[row], Y)
            multiply_add(a, X, v, m, filtered)
            _predict_mean(transition, t, state_intercept, places[5], filtered, a)
            if not is_steady:
                _correct(P, X, m)
                assign(filtered_cov, P)
                _predict_covariance(transition, t, state_cov, places[6], P, work)
                is_full = is_constant and m == p
                close_steps = count_close(P, kept, close_steps) if is_full else 0
                is_steady = close_steps >= STEADY
            if width > 0:
                results[result] = -0.5 * (constant + square)
            if width > 1:
                store(results, result + 1 + n + n * n, filtered, filtered_cov)
            if depends:
                _multiply(transition, t, dependences[row], work)
                depends = _depends(dependences[row], P, growths, row)


advance_filter = compile_kernel(advance, "statespace-filter")
