"""determine for one tile of a grid in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....families.kernels import Kernels
from ....families.wavefront.alignment import Edges, Scoring
from .alignment import determine_alignment
from .table import determine_table


def kernels(method: str) -> Kernels:
    """The phase of a tile; a tile runs on the caller's thread."""
    return Kernels(determine)


def determine(loop: Any, *tile: Any) -> Any:
    """The edges of a tile, by the kernel of its loop; its results are written."""
    return _align(loop, *tile) if isinstance(loop, Scoring) else determine_table(*tile)


def _align(
    scoring: Scoring, sequences: Any, edges: Any, origin: Any, dtype: np.dtype[Any]
) -> Edges:
    (query, target), (above, left) = sequences, edges
    return determine_alignment(scoring, query, target, above, left, origin, dtype)
