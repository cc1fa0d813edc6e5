"""The summary of a chunk: how it changes the state of every row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STATES = 8
"""Scalars of a state: count, weight, divisor, x, y, xx, yy, xy; see the CPU's ``steps``."""
FIRST = 5
PARTS = FIRST + STATES - 1
"""Of a row that is nowhere marked: how weights fall up to its first observation, or all along
where it has none; the count of observations; the first one, x and y; what is left of its weight
(FIRST numbers); then the state of the others without a count."""


@dataclass(frozen=True)
class EwmSummary:
    """How a chunk changes the states of its rows.

    Attributes
    ----------
    parts : array (PARTS, outer, inner)
    carry_outs : array (STATES, outer, inner)
        The states after rows that are marked somewhere: they need no carry-in.
    is_reset : array (outer, inner) of bool
        Whether a row is one of these.
    """

    parts: np.ndarray
    carry_outs: np.ndarray
    is_reset: np.ndarray
