"""Exact floating-point operations: sums and products with rounding errors, powers of two.

The functions are plain Python, like all functions of a step. A backend may replace those of powers:
frexp and ldexp take ten times as long as operations on the bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

SPLIT = 2.0**27 + 1
"""Factor that halves the digits of a float64 (Dekker 1971)."""


def exact_sum(a: Any, b: Any) -> Any:
    """Return x and e with x + e == a + b exactly (Knuth 1969).

    >>> exact_sum(1.0, 2.0**-60) == (1.0, 2.0**-60)
    True
    """
    x = a + b
    b_part = x - a
    return x, (a - (x - b_part)) + (b - b_part)


def exact_product(a: Any, b: Any) -> Any:
    """Return p and e with p + e == a·b exactly, without overflow or underflow (Dekker 1971).

    >>> exact_product(1 + 2.0**-30, 1 - 2.0**-30) == (1.0, -(2.0**-60))
    True
    """
    p = a * b
    a_high = a * SPLIT - (a * SPLIT - a)
    b_high = b * SPLIT - (b * SPLIT - b)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def add_products(total: Any, pairs: Iterable[tuple[Any, Any]], error: Any = 0.0) -> Any:
    """Return the total plus the products of pairs, rounded about once (Ogita, Rump, Oishi 2005).

    `error` is a small number that is added, too.

    >>> float(add_products(np.float64(1e16), [(1.0, 1.0), (-1e8, 1e8)]))
    1.0
    """
    for x, y in pairs:
        product, rounding = exact_product(x, y)
        total, lost = exact_sum(total, product)
        error = error + (lost + rounding)
    # The error terms are nan for nan, inf and numbers near the largest one.
    exact = total + error
    return np.where(np.isfinite(exact), exact, total)


def inverse_power(x: Any) -> Any:
    """Return the power of two s with 1 ≤ s·x < 2, or < 4 for the largest normal x > 0.

    The result for a subnormal x or 0 is some power with s·x < 2; for infinity and nan it is any
    power.

    >>> float(inverse_power(np.float64(0.3)))
    4.0
    """
    one, exponent = 1 + 0 * x, np.frexp(x)[1]
    power = np.ldexp(one, 1 - exponent)
    return np.where(np.isinf(power), np.ldexp(one, -60 - exponent), power)


def exponent_gap(x: Any, y: Any) -> Any:
    """Return log2(x / y) of two normal powers of two.

    >>> int(exponent_gap(np.float64(8.0), np.float64(0.5)))
    4
    """
    return np.log2(x) - np.log2(y)


def power_of_two(k: Any) -> Any:
    """Return 2**k for a whole number k from -126 to 126; the result for other k must not be used.

    >>> float(power_of_two(-3.0))
    0.125
    """
    return np.exp2(np.minimum(np.maximum(k, -126), 126))
