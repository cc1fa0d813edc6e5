"""Coefficients of Wakatani's papers on P-scheme/G: their cases differ in operations a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
