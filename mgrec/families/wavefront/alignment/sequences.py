"""Many sequences, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sequences:
    """p sequences of any lengths, joined.

    Attributes
    ----------
    codes : array (characters,)
        Integers of one dtype, in host memory or on a GPU; sequence k is
        ``codes[offsets[k]:offsets[k + 1]]``.
    offsets : numpy.ndarray of int64 (p + 1,)
        In host memory, from 0 up to the size of `codes`; never falling.
    """

    codes: Any
    offsets: np.ndarray

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, k: int) -> Any:
        """Sequence k, where `codes` is."""
        return self.codes[self.offsets[k] : self.offsets[k + 1]]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def join(sequences: list[np.ndarray]) -> Sequences:
    """Sequences of one dtype, joined.

    Examples
    --------
    >>> joined = join([np.array([1, 2]), np.array([3])])
    >>> joined.codes, joined.offsets
    (array([1, 2, 3]), array([0, 2, 3]))
    """
    offsets = np.zeros(len(sequences) + 1, np.int64)
    np.cumsum([sequence.size for sequence in sequences], out=offsets[1:])
    return Sequences(np.concatenate(sequences) if sequences else np.empty(0, np.uint8), offsets)
