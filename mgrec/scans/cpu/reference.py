"""The sequential loop of w = s·w + t, in the dtype and in twice its precision, as a reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

from ...core.algebra.exact import exact_product, exact_sum
from ...engines.cpu.compilation import INNER, compile_kernel, writable

SMALLEST = 5e-324
"""The smallest float64: products below 2^-969 have no exact error term."""


@dataclass
class Judge:
    """Compare results with the exact ones, chunk after chunk in the order of the recurrence.

    The exact w is an unevaluated sum of two float64 (Dekker 1971). A subnormal sum may be off by
    eta·A_i of float64, which the judge allows. The bound is, with u the unit roundoff and eta the
    smallest subnormal number of the dtype::

        |computed_i - w_i| <= 4·(i + 1)·u·W_i + eta·A_i
        W_i = |s_i|·W_{i-1} + |t_i|,  W_0 = |initial|
        A_i = |s_i|·A_{i-1} + 1,      A_0 = 0

    `largest_fraction` is the largest |computed - exact| / bound, and `largest_difference` the
    largest |computed - w of the plain loop in `dtype`|, of all results. A nan or inf counts as an
    infinite error.
    """

    dtype: np.dtype[Any]
    initial: float = 0.0
    steps: int = 0
    largest_error: float = 0.0
    largest_fraction: float = 0.0
    largest_difference: float = 0.0
    _state: np.ndarray = field(init=False, repr=False)
    _loop: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._state = np.array([self.initial, 0.0, abs(self.initial), 0.0])
        self._loop = np.array([self.initial], self.dtype)

    @property
    def holds(self) -> bool:
        """Whether every result so far lies within the bound."""
        return self.largest_fraction <= 1

    def add(self, s: np.ndarray, t: np.ndarray, *computed: np.ndarray) -> None:
        """Compare the next steps of one or several results: contiguous arrays (steps,) of `dtype`.

        Several results take little longer than one, since each exact step waits for the last one.
        """
        info = np.finfo(self.dtype)
        unit, eta = float(info.eps) / 2, float(info.smallest_subnormal)
        results = tuple(map(writable, computed))
        operands = (writable(s), writable(t), results)
        maxima = _judged(*operands, self._state, self._loop, self.steps, unit, eta)
        self.largest_error = max(self.largest_error, maxima[0])
        self.largest_fraction = max(self.largest_fraction, maxima[1])
        self.largest_difference = max(self.largest_difference, maxima[2])
        self.steps += t.size


_product = numba.njit(**INNER)(exact_product)
_sum = numba.njit(**INNER)(exact_sum)


def _judge(s: Any, t: Any, computed: Any, state: Any, loop: Any, start: int, unit: float, eta: float) -> Any:
    high, low, size, count = state
    w = loop[0]
    error, fraction, difference = 0.0, 0.0, 0.0
    for i in range(t.size):
        s_i, t_i = np.float64(s[i]), np.float64(t[i])
        p, p_error = _product(s_i, high)
        x, x_error = _sum(p, t_i)
        correction = s_i * low + (p_error + x_error)
        high = x + correction
        low = correction - (high - x)
        size = abs(s_i) * size + abs(t_i)
        count = abs(s_i) * count + 1.0
        w = s[i] * w + t[i]
        for k in range(len(computed)):
            y = np.float64(computed[k][i])
            error_i = abs((y - high) - low)
            if not error_i < np.inf:
                error_i = np.inf
            error = max(error, error_i)
            if error_i > 0.0:
                allowed = 4.0 * (start + i + 1) * unit * size + eta * count + SMALLEST * count
                fraction = max(fraction, error_i / allowed)
            difference = max(difference, abs(y - np.float64(w)))
    state[0], state[1], state[2], state[3] = high, low, size, count
    loop[0] = w
    return error, fraction, difference


_judged = compile_kernel(_judge)


def _loop(s: Any, t: Any, result: Any) -> None:
    w = s[0] * 0
    for i in range(result.size):
        w = s[i] * w + t[i]
        result[i] = w


loop = compile_kernel(_loop)
"""Write the results of the plain loop w = s·w + t, for 1-d arrays, on one thread."""
