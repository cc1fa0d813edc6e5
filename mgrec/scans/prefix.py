"""What a chunk that was determined from a provisional carry-in keeps for its true one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..core.arrays.chunk import Chunk

LEAST, LARGE = 4096, 1 << 19
"""Steps and numbers of a chunk that is begun. Shorter ones have no steps to spare for a head, and
smaller ones are solved in the time of a task."""
LARGE_ON_GPU = 1 << 30
"""Bytes of operands of a GPU's chunk that is begun: what it gains is one more reading of them, what
it loses is time of the host. Plans over four chunks a GPU, on two H200, took 6.9 ms where chunks of
2^28 float32 steps with coefficients were begun and 8.1 where not; with a constant one 5.6 and 5.9;
of 2^30 steps 18.3 and 25.0."""


@dataclass(frozen=True)
class Signs:
    """The signs of a chunk's coefficients, all of them that matters to an infinite state.

    Attributes
    ----------
    negative : array of uint8
        A bit a coefficient, in its place in the chunk: whether it has a sign.
    zero : array of uint8, optional
        Whether it is 0; None where none is.
    product : array (outer, inner)
        The sign of the product of each row's coefficients, or 0. Axes of length 1 are broadcast.
    shape : (int, int, int)
        Of the coefficients: (outer, steps, inner), each full or 1.
    """

    negative: np.ndarray
    zero: np.ndarray | None
    product: np.ndarray
    shape: tuple[int, int, int]

    def carry(
        self, states: np.ndarray, is_lost: np.ndarray, rest: np.ndarray, reverse: bool
    ) -> None:
        """Write the last results of rows, `rest` in the order of the recurrence.

        `states` (outer, inner) are those before; only lost ones, which are not finite, count.
        """
        count = rest.shape[1]
        negative, zero = (
            self._of_last(bits, count, reverse) for bits in (self.negative, self.zero)
        )
        for row, column in np.argwhere(is_lost):
            at = row if len(negative) > 1 else 0, column if negative.shape[2] > 1 else 0
            state = states[row, column]
            is_turned = np.cumsum(np.broadcast_to(negative[at[0], :, at[1]], count)) % 2
            signed = np.where(is_turned, -state, state)
            vanished = np.logical_or.accumulate(zero[at[0], :, at[1]])
            rest[row, :, column] = np.where(vanished, np.nan, signed)

    def _of_last(self, bits: np.ndarray | None, count: int, reverse: bool) -> np.ndarray:
        """A flag for each of the last steps of all rows, or one for all of them."""
        if bits is None:
            return np.zeros((self.shape[0], 1, self.shape[2]), bool)
        flags = np.unpackbits(bits, bitorder="little", count=prod(self.shape)).reshape(self.shape)
        return (flags[:, ::-1] if reverse else flags)[:, -count:]


@dataclass(frozen=True)
class Prefix:
    """The first steps of every row of w = s·w + t, in the order of the recurrence.

    From any finite carry-in whose states stay finite these suffice: the results after them stand.

    Attributes
    ----------
    s, t : array (rows, steps)
    provisional : array (rows, steps)
        The results from a carry-in of 0.
    signs : Signs, optional
        Of the chunk; None where all coefficients are above 0.
    reverse : bool
        The first steps of the recurrence are the last ones of the chunk.
    """

    s: np.ndarray
    t: np.ndarray
    provisional: np.ndarray
    signs: Signs | None
    reverse: bool

    @property
    def operand_bytes(self) -> int:
        """Bytes of operands."""
        return int(self.s.nbytes)

    @property
    def steps(self) -> int:
        return int(self.provisional.shape[1])


@dataclass(frozen=True)
class DevicePrefix:
    """The same of a chunk on a GPU, whose first steps leave nothing of any finite state.

    Attributes
    ----------
    s : array
        The coefficients of the whole chunk, by which a state that is not finite goes on.
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
        """Bytes of operands."""
        return int(self.s.nbytes)

    @property
    def steps(self) -> int:
        return self.first.steps
