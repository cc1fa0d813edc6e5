"""The summary of a chunk of any transfer map: a few scalars a row, on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...algebra.transfer_map import TransferMap


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
