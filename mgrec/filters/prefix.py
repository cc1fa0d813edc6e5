"""What a filter's chunk that began with states of 0 keeps for its true states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .cascade import Cascade

LEAST_DECAYS, LARGE = 16, 1 << 19
"""A chunk that is begun has so many times the steps of its filter's decay, and so many numbers:
smaller ones are solved in the time of a task."""


@dataclass(frozen=True)
class FilterPrefix:
    """The first outputs of a chunk, from states of 0.

    Attributes
    ----------
    cascade : Cascade
    outputs : array (outer, steps, inner)
        In the dtype of the results.
    """

    cascade: Cascade
    outputs: np.ndarray

    @property
    def operand_bytes(self) -> int:
        """Bytes of operands: none."""
        return 0
