"""What the CPU backend is compared with: plain numba loops, SciPy, pandas and, if there, jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pandas as pd
from scipy.signal import lfilter

from ..harness.machine import optional

jax = optional("jax")


@numba.njit(nogil=True, error_model="numpy")
def loop_constant(s, t, w):
    state = t.dtype.type(0)
    for i in range(t.size):
        state = s * state + t[i]
        w[i] = state
    return w


@numba.njit(nogil=True, error_model="numpy")
def loop_arrays(s, t, w):
    state = t.dtype.type(0)
    for i in range(t.size):
        state = s[i] * state + t[i]
        w[i] = state
    return w


@numba.njit(nogil=True, error_model="numpy")
def loop_rows(s, t, w):
    for row in range(t.shape[0]):
        state = 0.0
        for i in range(t.shape[1]):
            state = s[row, i] * state + t[row, i]
            w[row, i] = state
    return w


@numba.njit(nogil=True, error_model="numpy")
def loop_mobius(a, b, c, d, p, w):
    for i in range(a.size):
        p = (a[i] * p + b[i]) / (c[i] * p + d[i])
        w[i] = p
    return w


@numba.njit(nogil=True, error_model="numpy")
def loop_max_plus(s, c, state, w):
    for i in range(s.size):
        state = max(state + s[i], c)
        w[i] = state
    return w


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def thomas_rows(dl, d, du, b):
    """Systems along the last axis, one after the other, without pivoting."""
    x, c = np.empty_like(b), np.empty_like(b[0])
    last = b.shape[1] - 1
    for row in range(b.shape[0]):
        inverse = b.dtype.type(1) / d[row, 0]
        c[0], x[row, 0] = du[row, 0] * inverse, b[row, 0] * inverse
        for i in range(1, last + 1):
            inverse = b.dtype.type(1) / (d[row, i] - dl[row, i] * c[i - 1])
            c[i] = du[row, i] * inverse
            x[row, i] = (b[row, i] - dl[row, i] * x[row, i - 1]) * inverse
        for i in range(last - 1, -1, -1):
            x[row, i] -= c[i] * x[row, i + 1]
    return x


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def thomas_interleaved(dl, d, du, b):
    """Systems along the first axis, all of them side by side."""
    x, c = np.empty_like(b), np.empty_like(b)
    last = b.shape[0] - 1
    for k in range(b.shape[1]):
        inverse = b.dtype.type(1) / d[0, k]
        c[0, k], x[0, k] = du[0, k] * inverse, b[0, k] * inverse
    for i in range(1, last + 1):
        for k in range(b.shape[1]):
            inverse = b.dtype.type(1) / (d[i, k] - dl[i, k] * c[i - 1, k])
            c[i, k] = du[i, k] * inverse
            x[i, k] = (b[i, k] - dl[i, k] * x[i - 1, k]) * inverse
    for i in range(last - 1, -1, -1):
        for k in range(b.shape[1]):
            x[i, k] -= c[i, k] * x[i + 1, k]
    return x


def loop_computed(function: Callable[..., Any]) -> Any:
    step = numba.njit(error_model="numpy")(function)

    @numba.njit(nogil=True, error_model="numpy")
    def loop(t, w):
        state = 0.0
        for i in range(t.size):
            state = step(i) * state + t[i]
            w[i] = state
        return w

    return loop


def filter_constant(s: float, t: np.ndarray) -> np.ndarray:
    return lfilter(np.ones(1, t.dtype), np.array([1, -s], t.dtype), t)


def weigh_constant(s: float, t: np.ndarray) -> np.ndarray:
    return pd.Series(t, copy=False).ewm(alpha=1 - s, adjust=False).mean().to_numpy()


def jax_scans(s: np.ndarray, t: np.ndarray) -> dict[str, Callable[[], Any]]:
    if jax is None:
        return {}
    jax.config.update("jax_enable_x64", True)

    def step(w: Any, operands: Any) -> Any:
        w = operands[0] * w + operands[1]
        return w, w

    def compose(earlier: Any, later: Any) -> Any:
        return later[0] * earlier[0], later[0] * earlier[1] + later[1]

    operands = jax.device_put(s), jax.device_put(t)
    one = jax.jit(lambda s, t: jax.lax.scan(step, t[0] * 0, (s, t))[1])
    many = jax.jit(lambda s, t: jax.lax.associative_scan(compose, (s, t))[1])
    return {
        "jax.lax.scan": lambda: one(*operands).block_until_ready(),
        "jax.lax.associative_scan": lambda: many(*operands).block_until_ready(),
    }
