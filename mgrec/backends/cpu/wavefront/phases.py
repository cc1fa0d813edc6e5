"""determine for one tile of a grid in host memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....families.kernels import Kernels
from ....families.wavefront.alignment import Edges, Scoring
from ....families.wavefront.sweeps import Sweeps
from .alignment import determine_alignment
from .relaxation.grids import determine_relaxation
from .relaxation.held import hold
from .table import determine_table


def kernels(method: str) -> Kernels:
    """The phase of a tile; tables and sweeps by "threads" run on all threads."""
    return Kernels(partial(determine, is_shared=method == "threads"), hold=hold)


def determine(loop: Any, *tile: Any, is_shared: bool = False) -> Any:
    """The edges of a tile, by the kernel of its loop; its results are written."""
    if isinstance(loop, Sweeps):
        x, rhs, result = tile
        return determine_relaxation(loop, x, rhs, result, is_shared)
    if isinstance(loop, Scoring):
        return _align(loop, *tile)
    x, before, table = tile
    return determine_table(x, before, table, is_shared)


def _align(
    scoring: Scoring, sequences: Any, edges: Any, origin: Any, dtype: np.dtype[Any]
) -> Edges:
    (query, target), (above, left) = sequences, edges
    return determine_alignment(scoring, query, target, above, left, origin, dtype)
