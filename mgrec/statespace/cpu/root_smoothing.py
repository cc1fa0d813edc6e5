"""The kernel of the smoother in square-root form, from the last step to the first.

The smoothed state is a + S·u with the covariance S·W·W'·S', for the predicted state a and its root
S. With K, V, F and G of :mod:`.roots` a step is

    u = K·w + V·F·u,    W·W' = V·(F·W·W'·F' + G·G')·V'.

All factors are parts of orthogonal matrices: nothing is inverted, whatever is singular.
"""

from __future__ import annotations

from typing import Any

import numba

from ...engines.cpu.compilation import INLINED
from .roots import predict_root, product, square, triangularise, update_root
from .smoothing import smoother_kernel
from .update import assign, clear, copy, load, locate, multiply_add, observe, store, whiten


@numba.njit(**INLINED)
def _add_later(
    states: Any, K: Any, row: int, v: Any, m: int, M: Any, G: Any, u: Any, W: Any, array: Any,
    after: Any,
) -> None:  # fmt: skip
    """Replace u and W by those of the step before."""
    n = len(states)
    copy(states, after, u)
    for i in range(n):
        u[i] = 0.0
        for k in range(m):
            u[i] += K[row + i, k] * v[k]
        for j in range(n):
            u[i] += M[i, j] * after[j]
    product(states, M, 0, 0, W, 0, 0, array)
    for i in range(n):
        for j in range(n):
            array[i, n + j] = G[i, j]
    triangularise(array, n, n, 2 * n)
    assign(states, W, array)


@numba.njit(**INLINED)
def _advance_row(
    states: Any, entries: Any, filtered: Any, forward: int, state_stride: int, operands: Any,
    strides: Any, x: int, y: int, marks: Any, mark: int, mark_stride: int, u: Any, W: Any, M: Any,
    is_summary: bool, buffers: Any, results: Any, writes_sums: bool, shape: Any,
) -> None:  # fmt: skip
    """Advance u and W of one row from the last step to the first."""
    endog, design, obs_intercept, obs_root, transition, state_root = operands
    (
        indices, observed, v, a, mean, L, X, _, S, U, step_M, step_G, work, _, update, prediction,
        array,
    ) = buffers  # fmt: skip
    n = len(states)
    _, steps, inner = shape
    for step in range(steps - 1, -1, -1):
        locate(strides, x, step, y, indices)
        state = forward + step * state_stride
        load(states, filtered, state, a, S)
        m = observe(
            states, entries, endog, indices[0], design, indices[1], obs_intercept, indices[2], a,
            observed, v,
        )  # fmt: skip
        update_root(
            states, entries, design, indices[1], obs_root, indices[3], S, observed, m, update, True,
            L, X, U,
        )  # fmt: skip
        predict_root(
            states, transition, indices[4], state_root, indices[5], U, prediction, True, work
        )
        product(states, update, m + n, m, prediction, n, 0, step_M)
        product(states, update, m + n, m, prediction, n, n, step_G)
        whiten(L, m, v)
        _add_later(states, update, m + n, v, m, step_M, step_G, u, W, array, mean)
        if is_summary:
            product(states, step_M, 0, 0, M, 0, 0, work)
            assign(states, M, work)
        if len(results):
            multiply_add(states, a, S, u, n, mean)
            product(states, S, 0, 0, W, 0, 0, work)
            square(states, work, array)
            store(states, results, ((x * steps + step) * inner + y) * (n + n * n), mean, array)
        if marks[mark + step * mark_stride]:
            clear(states, M)
            # Nothing is known of the states of an earlier sequence.
            for i in range(n):
                u[i] = 0.0
                for j in range(n):
                    W[i, j] = 1.0 if i == j else 0.0


advance_root_smoother = smoother_kernel(_advance_row, "statespace-root-smoother")
"""As :func:`.smoothing.advance_smoother`, with u and W in place of r and N, with square roots in
place of obs_cov and of the covariances in `filtered`, and with that of state_cov as the last
operand. `writes_sums` is not used."""
