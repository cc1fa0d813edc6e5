"""What the CPU backend is compared with: plain numba loops, SciPy, pandas and, if there, jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pandas as pd
from scipy.signal import lfilter

try:
    import jax
except ImportError:
    jax = None


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
