"""Sums and products with their rounding errors, in float64 (Knuth 1969, Dekker 1971)."""

from __future__ import annotations

from typing import Any

SPLIT = 2.0**27 + 1  # halves the digits of a float64


def exact_sum(a: Any, b: Any) -> Any:
    """Return x and e with x + e == a + b exactly.

    Examples
    --------
    >>> exact_sum(1.0, 2.0**-60) == (1.0, 2.0**-60)
    True
    """
    x = a + b
    b_part = x - a
    return x, (a - (x - b_part)) + (b - b_part)


def exact_product(a: Any, b: Any) -> Any:
    """Return p and e with p + e == a·b exactly, if nothing overflows or underflows.

    Examples
    --------
    >>> exact_product(1 + 2.0**-30, 1 - 2.0**-30) == (1.0, -(2.0**-60))
    True
    """
    p = a * b
    a_high = a * SPLIT - (a * SPLIT - a)
    b_high = b * SPLIT - (b * SPLIT - b)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
