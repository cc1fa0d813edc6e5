"""Wakatani's recurrences on one thread of a CPU: plain substitution, and the P-scheme's phases.

w[i] = s[i]·w[i-1] + t[i], whose coefficient is a number (case L) or takes 400 (M) or 1,000 (H)
operations a step, and p[i] = b[i]/(a[i] - b[i]·p[i-1]) of a tridiagonal system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from ..cpu.peers import loop_arrays, loop_constant

# Multiplications of a coefficient, and as many divisions.
CASES = {"L": 0, "M": 200, "H": 500}
SCALE, ENTRY = np.float32(0.5), np.float32(1)
PARTS = 64
# Steps of a loop with long coefficients that are measured; more take as many times as long.
FEW = {"L": 2**20, "M": 2**15, "H": 2**14}

_compile = numba.njit(nogil=True, error_model="numpy")


def draw(steps: int) -> np.ndarray:
    """t, whose first entry has taken up the state before it."""
    t = (np.arange(steps) % 13).astype(np.float32)
    t[0] += SCALE * ENTRY
    return t


def solve(case: str, steps: int) -> np.ndarray:
    """w in float64, by the loop."""
    s = np.full(steps, float(SCALE))
    if CASES[case]:
        s = operations(CASES[case])(np.arange(steps))
    return loop_arrays(s, draw(steps).astype(np.float64), np.empty(steps))


def loop(case: str, steps: int) -> tuple[int, Callable[[], Any]]:
    """How many steps are measured, and the loop over them."""
    few = min(steps, FEW[case])
    t = draw(few)
    w = np.empty_like(t)
    if not CASES[case]:
        return few, lambda: loop_constant(SCALE, t, w)
    return few, lambda: loop_computed(CASES[case], t, w)


def light(i: Any) -> Any:
    """Case L: a multiplication and an addition."""
    return 0.5 + 1e-9 * i


def operations(count: int) -> Callable[[Any], Any]:
    """A coefficient that takes `count` multiplications and `count` divisions a step.

    Case M has 200 of each, case H 500.
    """

    def coefficient(i: Any) -> Any:
        x = 0.5 + 1e-9 * i
        for _ in range(count):
            x = x * 1.25 / 1.250001
        return x

    return coefficient


@_compile
def loop_computed(count: int, t: np.ndarray, w: np.ndarray) -> np.ndarray:
    state = np.float32(0)
    for i in range(t.size):
        x = np.float32(0.5 + 1e-9 * i)
        for _ in range(count):
            x = x * np.float32(1.25) / np.float32(1.250001)
        state = x * state + t[i]
        w[i] = state
    return w


@_compile
def linear_phases(s: np.ndarray, t: np.ndarray, a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The three phases for w: a are the products of coefficients since a part began."""
    length = -(-t.size // PARTS)
    parts = -(-t.size // length)
    entries = np.zeros(parts + 1, t.dtype)
    for part in range(parts):
        product, state = t.dtype.type(1), t.dtype.type(0)
        for i in range(part * length, min(t.size, (part + 1) * length)):
            product, state = product * s[i], s[i] * state + t[i]
            a[i], w[i] = product, state
    for part in range(parts):
        last = min(t.size, (part + 1) * length) - 1
        entries[part + 1] = w[last] + a[last] * entries[part]
    for part in range(parts):
        for i in range(part * length, min(t.size, (part + 1) * length)):
            w[i] += a[i] * entries[part]
    return w


@_compile
def rational_loop(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> np.ndarray:
    state = a.dtype.type(0)
    for i in range(a.size):
        state = b[i] / (a[i] - b[i] * state)
        p[i] = state
    return p


@_compile
def rational_phases(
    a: np.ndarray, b: np.ndarray, beta: np.ndarray, gamma: np.ndarray, delta: np.ndarray, p: np.ndarray
) -> np.ndarray:
    """The three phases: p[i] = (beta[i] + delta[i]·e)/(gamma[i] - e), where e enters the part.

    The paper's relation, turned forwards, so that every step of a part has it: substituting it in
    p[i+1] = b/(a - b·p[i]) and dividing by the coefficient of e gives the step of the three.
    """
    length = -(-a.size // PARTS)
    parts = -(-a.size // length)
    entries = np.zeros(parts + 1, a.dtype)
    for part in range(parts):
        begin = part * length
        x, y, z = a.dtype.type(1), a[begin] / b[begin], a.dtype.type(0)
        beta[begin], gamma[begin], delta[begin] = x, y, z
        for i in range(begin + 1, min(a.size, begin + length)):
            scale = a[i] + b[i] * z
            x, y, z = b[i] * y / scale, (a[i] * y - b[i] * x) / scale, -b[i] / scale
            beta[i], gamma[i], delta[i] = x, y, z
    for part in range(parts):
        last = min(a.size, (part + 1) * length) - 1
        e = entries[part]
        entries[part + 1] = (beta[last] + delta[last] * e) / (gamma[last] - e)
    for part in range(parts):
        e = entries[part]
        for i in range(part * length, min(a.size, (part + 1) * length)):
            p[i] = (beta[i] + delta[i] * e) / (gamma[i] - e)
    return p
