"""determine for one tile of a grid on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....families.kernels import Kernels
from ....families.wavefront.alignment.scoring import Scoring
from ....families.wavefront.recurrence import SummedAreaTable
from .alignment.pairs import determine_pairs
from .alignment.tile import determine_alignment
from .table import determine_table

Determine = Callable[..., Any]
# By the type of a loop; each takes the loop and its tile.
_LOOPS: dict[type, Determine] = {
    SummedAreaTable: lambda loop, *tile: determine_table(*tile),
    Scoring: determine_alignment,
}


def kernels(method: str) -> Kernels:
    """The phases of a tile, and of pairs of sequences."""
    return Kernels(determine, determine_pairs=determine_pairs, hold=_refuse)


def determine(loop: Any, *tile: Any) -> Any:
    """The edges of a tile; its results are written."""
    return _LOOPS.get(type(loop), _refuse)(loop, *tile)


def _refuse(*given: Any) -> Any:
    raise NotImplementedError(
        "there are no kernels for this wavefront recurrence over arrays on a GPU yet: move the "
        "arrays to host memory with cupy.asnumpy"
    )
