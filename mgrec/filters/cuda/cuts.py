"""Where rows of a filter are cut into segments, and what their lanes begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engines.cuda.device import MULTIPROCESSORS
from ..cascade import Cascade
from ..decay import Decay, decay_within
from ..summary import is_tame

# Eight warps on each multiprocessor. A constant, so that every device cuts alike.
LANES = MULTIPROCESSORS * 8 * 32
# Segments are not shorter, and warm-ups up to so many steps are taken wherever they fit.
SHORT, WARM = 64, 2048
# Of propagated states nothing but nan and inf is doubted.
_TRUSTED = 1e30


@dataclass(frozen=True)
class Cuts:
    """How each row is cut.

    Attributes
    ----------
    segments, length : int
        Of a row, and the steps of all but the last.
    warm : int
        Steps before a segment that its lane walks, from states of 0.
    is_propagated : bool
        Instead of that, every segment is walked twice, and its states come from all before.
    tolerance, tiny : float
        A segment is repaired where its states differ by more than so much of their size and
        so much.
    is_unstable : bool
        The first segment alone begins with what it should: the others are repaired. A row
        that overflows is walked again by SciPy's loop from its first step.
    """

    segments: int
    length: int
    warm: int = 0
    is_propagated: bool = False
    tolerance: float = _TRUSTED
    tiny: float = 0.0
    is_unstable: bool = False


def cut(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    items: int,
    lanes: int = LANES,
) -> Cuts:
    """Cut the rows of a chunk, by its shape, its dtype and the filter alone.

    Parameters
    ----------
    cascade : Cascade
    shape : (int, int, int)
    dtype : numpy.dtype
    items : int
        Segments and warm-ups are multiples of so many steps.
    lanes : int, optional
        About so many segments in all.
    """
    outer, steps, inner = shape

    def up(length: int) -> int:
        return -(-length // items) * items

    most = max(1, lanes // (outer * inner))
    share = -(-steps // most)
    if share >= steps:
        return Cuts(1, max(steps, 1), is_unstable=not cascade.radius <= 1)
    decay = decay_within(cascade, max(share, WARM))
    if decay.steps is not None:
        warm = up(decay.steps)
        length = up(max(share, warm, SHORT))
        # Below half the smallest number of the dtype nothing is seen, but it may be amplified.
        tiny = 2.0**-200 if dtype.char in "fF" else 0.0
        tolerance = _tolerance(cascade, decay, dtype)
        return Cuts(-(-steps // length), length, warm, False, tolerance, tiny)
    length = up(max(share, SHORT))
    segments = -(-steps // length)
    if is_tame(cascade, length * segments):
        return Cuts(segments, length, is_propagated=True)
    return Cuts(segments, length, tolerance=2.0**-48, is_unstable=True)


def _tolerance(cascade: Cascade, decay: Decay, dtype: np.dtype[Any]) -> float:
    """By how much of their size states may differ, and no output tells.

    That is by rounding errors of float64, measured by states that may by chance be small just
    there; and, where outputs have 24 bits, by 2**-30 of what the next outputs are: states are
    at most Σ|a| times as large as these, and errors grow at most by ``decay.growth``.
    """
    tolerance = 2.0**-48 * decay.noise
    if dtype.char in "fF":
        largest = max(float(np.abs(section.a).sum()) for section in cascade.sections)
        tolerance = max(tolerance, 2.0**-30 / (decay.growth * largest))
    return min(2.0**-20, tolerance)
