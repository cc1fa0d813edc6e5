"""Many sequences, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sequences:
    """p sequences of any lengths, joined: a database that is not cut into a list.

    Attributes
    ----------
    codes : array (characters,)
        Integers of one dtype, in host memory or on a GPU; sequence k is
        ``codes[offsets[k]:offsets[k + 1]]``.
    offsets : numpy.ndarray of int64 (p + 1,)
        In host memory, from 0 up to the size of `codes`; never falling.

    Examples
    --------
    >>> import mgrec
    >>> import numpy as np
    >>> letters = np.frombuffer(b"GATTACATACATACACCC", np.uint8)
    >>> words = mgrec.Sequences(letters, np.array([0, 7, 15, 18]))
    >>> mgrec.smith_waterman("ATTAC", words, match=1, mismatch=-1, gap=-2).score
    array([5, 3, 1])
    """

    codes: Any
    offsets: np.ndarray

    def map_arrays(self, function: Callable[[Any], Any]) -> Sequences:
        """Return sequences with ``function(codes)`` as their codes."""
        return replace(self, codes=function(self.codes))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, k: int) -> Any:
        """Sequence k, where `codes` is."""
        return self.codes[self.offsets[k] : self.offsets[k + 1]]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def check(self, name: str) -> None:
        """Raise unless the offsets are those of the codes."""
        offsets = np.asarray(self.offsets)
        shape: Any = getattr(self.codes, "shape", ())
        if len(shape) != 1:
            raise ValueError(f"{name} must have codes of one axis; got {self.codes!r:.60}")
        (size,) = shape
        is_row = (
            offsets.ndim == 1 and offsets.size > 0 and offsets.dtype.newbyteorder("=") == np.int64
        )
        if not is_row or offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any():
            raise ValueError(
                f"{name} must have offsets of int64 in host memory that rise from 0 to {size}, the "
                f"characters of its codes; got {offsets.dtype} {offsets.shape}"
            )

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
    if len(sequences) == 1:
        return Sequences(sequences[0], offsets)
    return Sequences(np.concatenate(sequences) if sequences else np.empty(0, np.uint8), offsets)
