"""determine for one tile of a grid on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....families.kernels import Again, Kernels
from ....families.wavefront.alignment.scoring import Scoring
from ....families.wavefront.loops.recurrence import Loop
from ....families.wavefront.recurrence import SummedAreaTable
from ....families.wavefront.sweeps import Sweeps
from .alignment.pairs import determine_pairs
from .alignment.tile import determine_alignment
from .loops.again import again_loop
from .loops.phases import determine_loop
from .parts import part
from .relaxation.again import relaxation_again
from .relaxation.grids import determine_relaxation
from .relaxation.held import hold
from .table import again_table, determine_table

# By the type of a loop; each takes the loop and its tile.
_KERNELS: dict[type, Callable[..., Any]] = {
    Loop: determine_loop,
    Scoring: determine_alignment,
    SummedAreaTable: lambda loop, *tile: determine_table(*tile),
    Sweeps: determine_relaxation,
}

_AGAIN: dict[type, Callable[..., Again | None]] = {
    Loop: again_loop,
    SummedAreaTable: lambda loop, *tile: again_table(*tile),
    Sweeps: lambda loop, grids, entry, results: relaxation_again(loop, *grids, *results),
}


def kernels(method: str) -> Kernels:
    """The phases of a tile, and of pairs of sequences."""
    return Kernels(determine, determine_pairs=determine_pairs, hold=hold, again=again, part=part)


def determine(loop: Any, *tile: Any) -> Any:
    """What the kernel of a loop returns, mostly edges of the tile; its results are written."""
    return _KERNELS[type(loop)](loop, *tile)


def again(loop: Any, *tile: Any) -> Again | None:
    """What determines other whole grids of the kind of a tile."""
    prepare = _AGAIN.get(type(loop))
    return prepare(loop, *tile) if prepare else None
