"""The summary of a chunk of any transfer map: a few scalars a row, on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import TransferMap


@dataclass(frozen=True)
class ComposedMaps:
    """The composed map of every row of a chunk.

    Attributes
    ----------
    transfer_map : TransferMap
    maps : tuple of arrays (outer, inner), or None
        One array a scalar of the map; None for a chunk of no steps, the identity.
    """

    transfer_map: TransferMap
    maps: tuple[np.ndarray, ...] | None


@dataclass(frozen=True)
class SegmentedSummary:
    """Rows of a chunk of which some start anew on their way: their carry-outs need no carry-in.

    Attributes
    ----------
    inner : summary of the map without marks, or None
        Of use in rows without a mark; None where there are none.
    carry_outs : tuple of arrays (outer, inner)
        The carry-outs of the other rows, one array a scalar of the state.
    is_reset : array (outer, inner) of bool
        Whether a row is one of these.
    """

    inner: Any
    carry_outs: tuple[np.ndarray, ...]
    is_reset: np.ndarray

    @property
    def redo(self) -> Any:
        """Rows that must be done again from their true carry-ins."""
        redo = getattr(self.inner, "redo", None) or {}
        return {row: chunk for row, chunk in redo.items() if not self.is_reset[row]}
