"""The partition of rows into segments, which the lanes of a GPU filter at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...engines.cuda.device import MULTIPROCESSORS
from ..cascade import Cascade, power
from ..recurrence import is_safe

# Eight warps on each multiprocessor. A constant, so that results are the same on all devices.
LANES = MULTIPROCESSORS * 8 * 32
# Shortest segment, and longest warm-up that is always taken if it fits.
SHORT, WARM = 64, 2048
# Propagated states are repaired only if they are nan or inf.
_TRUSTED = 1e30
# A state that is smaller than another by this factor is below all rounding errors.
NEGLIGIBLE = 2.0**-75
# The same if all outputs are rounded to 24 bits, and no segment is compared with others.
NEGLIGIBLE_IN_FLOAT32 = 2.0**-46
# The norm of A**n is computed every _STRIDE steps.
_STRIDE = 16


@dataclass(frozen=True)
class Decay:
    """How fast the states of a cascade decay, and how errors in them grow."""

    # Number of steps in which a state decays below `negligible` times its size; None for too many.
    steps: int | None
    # Sum of the errors that an error of 1 in the states of each step causes.
    noise: float
    # Largest error that an error of 1 in the states causes in any later step.
    growth: float = np.inf


@lru_cache(maxsize=1024)
def decay_within(cascade: Cascade, max_steps: int, negligible: float) -> Decay:
    """Return the decay of the norm of A**n, for at most `max_steps` steps.

    If poles lie close to each other, states grow before they decay. The norm shows that, the
    largest pole does not.
    """
    if cascade.is_feed_forward or not cascade.states:
        return Decay(cascade.states, float(cascade.states) + 1, 1.0)
    with np.errstate(all="ignore"):
        if not cascade.radius < 1 or np.log(negligible) / np.log(cascade.radius) > max_steps:
            return Decay(None, np.inf)
        step = power(cascade, 1)[0]
        stride, state = np.linalg.matrix_power(step, _STRIDE), np.eye(len(step))
        noise, growth = 0.0, 1.0
        for n in range(0, max_steps + _STRIDE, _STRIDE):
            norm = float(np.abs(state).sum(1).max())
            if norm <= negligible:
                return Decay(n, noise + 1, growth)
            noise, growth = noise + _STRIDE * norm, max(growth, norm)
            state = stride @ state
    return Decay(None, np.inf)


@dataclass(frozen=True)
class Partition:
    """The segments of each row."""

    segments: int
    length: int  # steps of each segment but the last
    # Number of steps before a segment that its lane filters first, from states of 0.
    warm_up: int = 0
    # Each segment is filtered twice instead, and its states come from all segments before it.
    is_propagated: bool = False
    # A segment is repaired if its states differ by more than `tolerance` times their size + `tiny`.
    tolerance: float = _TRUSTED
    tiny: float = 0.0
    # Only the first segment starts from its true states, and the others are repaired. SciPy's loop
    # filters a row that overflows again, from its first step.
    is_unstable: bool = False


def partition_rows(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    items: int,
    lanes: int,
    negligible: float,
) -> Partition:
    """Return the partition of a chunk's rows, a function of shape, dtype and filter only.

    Segments and warm-ups are multiples of `items` steps. There are about `lanes` segments in all.
    """
    outer, steps, inner = shape

    def rounded_up(length: int) -> int:
        return -(-length // items) * items

    segment = -(-steps // max(1, lanes // (outer * inner)))
    if segment >= steps:
        return Partition(1, max(steps, 1), is_unstable=not cascade.radius <= 1)
    decay = decay_within(cascade, max(segment, WARM), negligible)
    if decay.steps is not None:
        warm_up = rounded_up(decay.steps)
        length = rounded_up(max(segment, warm_up, SHORT))
        # float32 results do not show such states. Those of float64 may be amplified.
        tiny = 2.0**-200 if dtype.char in "fF" else 0.0
        tolerance = _tolerance(cascade, decay, dtype)
        return Partition(-(-steps // length), length, warm_up, False, tolerance, tiny)
    length = rounded_up(max(segment, SHORT))
    segments = -(-steps // length)
    if is_safe(cascade, length * segments):
        return Partition(segments, length, is_propagated=True)
    return Partition(segments, length, tolerance=2.0**-48, is_unstable=True)


def _tolerance(cascade: Cascade, decay: Decay, dtype: np.dtype[Any]) -> float:
    """Return the relative difference of states that no output shows.

    That is the rounding errors of float64, relative to states that may be small by chance. For
    outputs of 24 bits it is also 2**-30 of the next outputs: states are at most Σ|a| times as large
    as these, and errors grow at most by ``decay.growth``.
    """
    tolerance = 2.0**-48 * decay.noise
    if dtype.char in "fF":
        largest = max(float(np.abs(section.a).sum()) for section in cascade.sections)
        tolerance = max(tolerance, 2.0**-30 / (decay.growth * largest))
    return min(2.0**-20, tolerance)
