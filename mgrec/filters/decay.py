"""How fast a cascade forgets, and by how much rounding errors of its states may differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .cascade import Cascade
from .power import power

# A state this much smaller than another is below all rounding errors.
FORGOTTEN = 2.0**-75
# The norm is computed every _STRIDE steps.
_STRIDE = 16


@dataclass(frozen=True)
class Decay:
    """The end of a cascade's memory.

    Attributes
    ----------
    steps : int or None
        Steps after which a state has decayed to less than FORGOTTEN times its size; None where
        that takes more than `most`.
    noise : float
        The sum of the errors that an error of 1 in each step's states causes.
    growth : float
        The largest error that an error of 1 in the states causes in any later step.
    """

    steps: int | None
    noise: float
    growth: float = np.inf


@lru_cache(maxsize=1024)
def decay_within(cascade: Cascade, most: int) -> Decay:
    """Follow the norm of A**n for at most `most` steps.

    Where poles crowd, states grow before they decay: the size of the largest pole does not
    show that, the norm does.
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
