"""The kernel of the smoother: the recursion of Durbin and Koopman from the last step to the first.

r and N are what later observations add: the smoothed state is a + P·r, and its covariance
P − P·N·P, for the predicted state a and P. With E = T·(I − X·Y) and Y = L⁻¹·Z, a step is
r = Y'·w + E'·r and N = Y'·Y + E'·N·E.
"""

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
    multiply_add,
    observe,
    store,
    whiten,
)


@numba.njit(**INNER)
def _transfer(
    design: Any, z: int, transition: Any, t: int, observed: Any, m: int, L: Any, X: Any, Y: Any,
    E: Any, work: Any,
) -> None:  # fmt: skip
    """Write Y (m, n) and E (n, n)."""
    n = len(E)
    for i in range(n):
        for k in range(m):
            total = design[z + observed[k] * n + i]
            for j in range(k):
                total -= L[k, j] * Y[j, i]
            Y[k, i] = total / L[k, k]
    for i in range(n):
        for j in range(n):
            total = 1.0 if i == j else 0.0
            for k in range(m):
                total -= X[i, k] * Y[k, j]
            work[i, j] = total
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += transition[t + i * n + k] * work[k, j]
            E[i, j] = total


@numba.njit(**INNER)
def _sandwich(E: Any, N: Any, work: Any, result: Any) -> None:
    """Write E'·N·E, for a symmetric N."""
    n = len(E)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += N[i, k] * E[k, j]
            work[i, j] = total
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(n):
                total += E[k, i] * work[k, j]
            result[i, j] = result[j, i] = total


@numba.njit(**INNER)
def _is_same(filtered: Any, place: int, P: Any) -> bool:
    """Return whether a matrix in a flat array is P, bit for bit."""
    n = len(P)
    for i in range(n):
        for j in range(n):
            if filtered[place + i * n + j] != P[i, j]:
                return False
    return True


@numba.njit(**INNER)
def _add_later(Y: Any, v: Any, m: int, E: Any, r: Any, before: Any) -> None:
    """Replace r by Y'·v + E'·r."""
    n = len(r)
    for i in range(n):
        before[i] = r[i]
    for i in range(n):
        total = 0.0
        for k in range(m):
            total += Y[k, i] * v[k]
        for j in range(n):
            total += E[j, i] * before[j]
        r[i] = total


@numba.njit(**INNER)
def _add_information(Y: Any, m: int, sandwich: Any, N: Any) -> None:
    """Write Y'·Y + sandwich to N."""
    n = len(N)
    for i in range(n):
        for j in range(n):
            total = sandwich[i, j]
            for k in range(m):
                total += Y[k, i] * Y[k, j]
            N[i, j] = total


@numba.njit(**INNER)
def _subtract(P: Any, sandwich: Any, smoothed: Any) -> None:
    for i in range(len(P)):
        for j in range(len(P)):
            smoothed[i, j] = P[i, j] - sandwich[i, j]


@numba.njit(**INNER)
def _depend(E: Any, M: Any, work: Any) -> None:
    """Replace M by E'·M."""
    n = len(E)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += E[k, i] * M[k, j]
            work[i, j] = total
    assign(M, work)


def smooth(
    filtered: Any, filtered_strides: Any, operands: Any, strides: Any, marks: Any,
    mark_strides: Any, p: int, rs: Any, Ns: Any, dependences: Any, results: Any, start: int,
    stop: int, shape: Any,
) -> None:  # fmt: skip
    """Advance r and N of some rows from the last step to the first.

    `filtered` are results of the filter, with the log-likelihood and the predicted state first.
    `operands` are endog, design, obs_intercept, obs_cov and transition. If there are `results`,
    they receive the mean and the covariance of each smoothed state. To summarise a chunk,
    `dependences` (rows, n, n) of r on that after the chunk are updated too.
    """
    endog, design, obs_intercept, obs_cov, transition = operands
    n = rs.shape[1]
    _, steps, inner = shape
    is_constant = strides[1, 1] == strides[3, 1] == strides[4, 1] == 0
    places, observed = np.empty(len(strides), np.int64), np.empty(p, np.int64)
    v, a, mean = np.empty(p), np.empty(n), np.empty(n)
    L, X, Y = np.empty((p, p)), np.empty((n, p)), np.empty((p, n))
    P, E, kept_N = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    work, sandwich, smoothed = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    for row in range(start, stop):
        x, y = row // inner, row % inner
        r, N = rs[row], Ns[row]
        mark = x * mark_strides[0] + y * mark_strides[2]
        forward = x * filtered_strides[0] + y * filtered_strides[2]
        # Whether E and Y, and then also N, are those of the step after.
        is_kept = is_steady = False
        close_steps = 0
        depends = len(dependences) > 0
        for step in range(steps - 1, -1, -1):
            locate(strides, x, step, y, places)
            state = forward + step * filtered_strides[1] + 1
            is_kept = is_kept and is_constant and _is_same(filtered, state + n, P)
            load(filtered, state, a, P)
            m = observe(
                endog, places[0], design, places[1], obs_intercept, places[2], a, observed, v
            )
            is_kept = is_kept and m == p
            is_steady = is_steady and is_kept
            if not is_kept:
                factor(design, places[1], obs_cov, places[3], P, observed, m, L, X)
                _transfer(design, places[1], transition, places[4], observed, m, L, X, Y, E, work)
            whiten(L, m, v)
            _add_later(Y, v, m, E, r, mean)
            if not is_steady:
                _sandwich(E, N, work, sandwich)
                _add_information(Y, m, sandwich, N)
                _sandwich(P, N, work, sandwich)
                _subtract(P, sandwich, smoothed)
                close_steps = count_close(N, kept_N, close_steps) if is_kept else 0
                is_steady = close_steps >= STEADY
            is_kept = m == p
            if depends:
                _depend(E, dependences[row], work)
                depends = not forget(dependences[row], largest(dependences[row]), 1e-290)
            if len(results):
                multiply_add(a, P, r, n, mean)
                store(results, ((x * steps + step) * inner + y) * (n + n * n), mean, smoothed)
            if marks[mark + step * mark_strides[1]]:
                is_kept = is_steady = False
                for i in range(n):
                    r[i] = 0.0
                clear(N)
                if depends:
                    clear(dependences[row])


advance_smoother = compile_kernel(smooth, "statespace-smooth")
