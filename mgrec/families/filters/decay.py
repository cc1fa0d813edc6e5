"""How fast a cascade forgets, and by how much rounding errors of its states may differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .cascade import Cascade
from .power import power

# A state this much smaller than another is below all rounding errors that may count.
FORGOTTEN = 2.0**-75
# Steps between two looks at the norm.
_STRIDE = 16


@dataclass(frozen=True)
class Decay:
    """The end of a cascade's memory.

    Attributes
    ----------
    steps : int or None
        After so many steps what a state brings is less than FORGOTTEN times its size; None
        where that takes longer than was asked for.
    noise : float
        What an error of 1 in each step's states amounts to, all steps together.
    growth : float
        What an error of 1 in the states amounts to in any later step.
    """

    steps: int | None
    noise: float
    growth: float = np.inf


@lru_cache(maxsize=1024)
def decay_within(cascade: Cascade, most: int) -> Decay:
    """Follow the states of an impulse in each of them for at most so many steps.

    Poles that crowd make states grow before they fall, which the largest pole's size does
    not tell: the norm of A**n does.

    Parameters
    ----------
    cascade : Cascade
    most : int

    Returns
    -------
    Decay
    """
    if cascade.is_feed_forward or not cascade.states:
        return Decay(cascade.states, float(cascade.states) + 1, 1.0)
    with np.errstate(all="ignore"):
        if not cascade.radius < 1 or np.log(FORGOTTEN) / np.log(cascade.radius) > most:
            return Decay(None, np.inf)
        step = power(cascade, 1)[0]
        stride, state = np.linalg.matrix_power(step, _STRIDE), np.eye(len(step))
        noise, growth = 0.0, 1.0
        for n in range(0, most + _STRIDE, _STRIDE):
            size = float(np.abs(state).sum(1).max())
            if size <= FORGOTTEN:
                return Decay(n, noise + 1, growth)
            noise, growth = noise + _STRIDE * size, max(growth, size)
            state = stride @ state
    return Decay(None, np.inf)
