"""Speculation: the part of a chunk that depends on its carry-in, and when to speculate."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..core.arrays.chunk import Chunk
from .summaries import AffineSummary

LEAST, LARGE = 4096, 1 << 19
"""Fewest steps and numbers of a speculative chunk. The prefix would be too large a part of a
shorter chunk; a smaller one is solved in the time of a task."""
LARGE_ON_GPU = 1 << 30
"""Fewest bytes of operands of a speculative chunk on a GPU. Speculation saves one read of them, and
takes time of the host. Plans over four chunks a GPU, on two H200, took 6.9 ms with speculation and
8.1 without (2^28 float32 steps, coefficient array), 5.6 and 5.9 (constant coefficient), and 18.3
and 25.0 (2^30 steps)."""
MOST_EVIDENCE, EVIDENCE_FRACTION = 1024, 64
"""Steps whose coefficients show whether a CPU's chunk is contractive: at most so many, and at most
this fraction (1/64) of the chunk."""
PREFIX_FRACTION = 8
"""The prefix may be expected to be 1/8 of a chunk: a step of it takes four times as long."""
_VANISHED = -5000
"""An exponent below that of all numbers, whatever the product is multiplied by."""


def contractive_summary(sign: Any, carry_out: np.ndarray, growth: Any) -> AffineSummary:
    """Return the summary of a chunk that ends in `carry_out` for any finite carry-in.

    `sign` is that of the product of all coefficients, or 0.
    """
    shape = carry_out.shape
    mantissa, growth = (np.broadcast_to(value, shape).copy() for value in (0.5 * sign, growth))
    return AffineSummary(mantissa, np.full(shape, _VANISHED, np.int64), carry_out, growth)


@dataclass(frozen=True)
class Signs:
    """The signs of a chunk's coefficients, which decide what becomes of an infinite state.

    Attributes
    ----------
    negative : array of uint8
        For each coefficient, in their order in the chunk, a bit: whether its sign bit is set.
    zero : array of uint8, optional
        Bits that say whether a coefficient is 0; None if none is.
    product : array (outer, inner)
        The sign of the product of each row's coefficients, or 0. Axes of length 1 are broadcast.
    shape : (int, int, int)
        Shape of the coefficients: (outer, steps, inner), each full or 1.
    """

    negative: np.ndarray
    zero: np.ndarray | None
    product: np.ndarray
    shape: tuple[int, int, int]

    def propagate_infinite(
        self, states: np.ndarray, is_infinite: np.ndarray, results: np.ndarray, reverse: bool
    ) -> None:
        """Write the last `results`, in the order of the recurrence, of rows with infinite states.

        `states` and `is_infinite` (outer, inner) describe the rows before these results.
        """
        count = results.shape[1]
        negative, zero = (
            self._last_flags(bits, count, reverse) for bits in (self.negative, self.zero)
        )
        for row, column in np.argwhere(is_infinite):
            i, j = row if len(negative) > 1 else 0, column if negative.shape[2] > 1 else 0
            state = states[row, column]
            is_negated = np.cumsum(np.broadcast_to(negative[i, :, j], count)) % 2
            signed = np.where(is_negated, -state, state)
            is_nan = np.logical_or.accumulate(zero[i, :, j])
            results[row, :, column] = np.where(is_nan, np.nan, signed)

    def _last_flags(self, bits: np.ndarray | None, count: int, reverse: bool) -> np.ndarray:
        """Return a flag for each of the last `count` steps of all rows, or one for all of them."""
        if bits is None:
            return np.zeros((self.shape[0], 1, self.shape[2]), bool)
        flags = np.unpackbits(bits, bitorder="little", count=prod(self.shape)).reshape(self.shape)
        return (flags[:, ::-1] if reverse else flags)[:, -count:]


@dataclass(frozen=True)
class Prefix:
    """The first steps of every row of w = s·w + t, in the order of the recurrence.

    The results after them are right for any finite carry-in whose states stay finite.

    Attributes
    ----------
    s, t : array (rows, steps)
    provisional : array (rows, steps)
        The results from a carry-in of 0.
    signs : Signs, optional
        Signs of the chunk's coefficients; None if all are above 0.
    reverse : bool
        Whether the first steps of the recurrence are the last ones of the chunk.
    """

    s: np.ndarray
    t: np.ndarray
    provisional: np.ndarray
    signs: Signs | None
    reverse: bool

    @property
    def operand_bytes(self) -> int:
        return int(self.s.nbytes)

    @property
    def steps(self) -> int:
        return int(self.provisional.shape[1])


@dataclass(frozen=True)
class DevicePrefix:
    """The first steps of a chunk on a GPU, after which no finite carry-in has an effect.

    Attributes
    ----------
    s : array
        The coefficients of the whole chunk, which an infinite state needs.
    first : Chunk
        The first steps.
    growth : float
        log2 of the largest product of their first coefficients.
    """

    s: Any
    first: Chunk
    growth: float

    @property
    def operand_bytes(self) -> int:
        return int(self.s.nbytes)

    @property
    def steps(self) -> int:
        return self.first.steps
