"""Pairs of operators (accumulate ◇, distribute ∘) of weighted scans and wavefront loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Operators:
    """Two operators; ∘ distributes over ◇, or both are the same (Hou, Wang & Feng 2018).

        (a ◇ b) ∘ w = (a ∘ w) ◇ (b ∘ w)

    Attributes
    ----------
    accumulate, distribute : str
        ◇ and ∘ as they are written: "+", "*", "max" or "min".
    """

    accumulate: str
    distribute: str

    def identity(self, dtype: np.dtype[Any]) -> Any:
        """What ◇ leaves as it is, of a dtype: the lowest number for "max".

        Examples
        --------
        >>> MAX_PLUS.identity(np.dtype(np.int8)), MAX_PLUS.identity(np.dtype(float))
        (np.int8(-128), np.float64(-inf))
        """
        if self.accumulate == "+":
            return dtype.type(0)
        if dtype.kind == "f":
            return dtype.type(-np.inf if self.accumulate == "max" else np.inf)
        info = np.iinfo(dtype)
        return dtype.type(info.min if self.accumulate == "max" else info.max)


PLUS_TIMES = Operators("+", "*")
MAX_PLUS = Operators("max", "+")
MIN_PLUS = Operators("min", "+")
PLUS_PLUS = Operators("+", "+")
PAIRS = (PLUS_TIMES, MAX_PLUS, MIN_PLUS, PLUS_PLUS)


def as_operators(value: Any) -> Operators:
    """One of PAIRS, from the tuple of its names."""
    for pair in PAIRS:
        if isinstance(value, (tuple, list)) and tuple(value) == (pair.accumulate, pair.distribute):
            return pair
    wanted = ", ".join(str((pair.accumulate, pair.distribute)) for pair in PAIRS)
    raise ValueError(f"operators must be one of {wanted}; got {value!r}")
