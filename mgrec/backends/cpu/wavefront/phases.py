"""determine for one tile of a grid in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from ....families.kernels import Kernels, Part
from ....families.wavefront.alignment.scoring import Scoring
from ....families.wavefront.loops.recurrence import Loop
from ....families.wavefront.recurrence import SummedAreaTable
from ....families.wavefront.sweeps import Sweeps
from .alignment.grid import determine_alignment
from .alignment.pairs import determine_pairs
from .loops.phases import determine_loop
from .relaxation.grids import determine_relaxation
from .relaxation.held import hold
from .table import determine_table

# Of a part, which takes about a millisecond then; a call takes 0.1 at most.
_CELLS: dict[type, int] = {SummedAreaTable: 1 << 20, Scoring: 1 << 23, Loop: 1 << 20}
# Profiles of sequences, and threads' rows at once, want no fewer steps.
_UNIT, _SIDE = 64, 1024


def kernels(method: str) -> Kernels:
    """The phases of a tile and of pairs, on all threads by "threads"."""
    is_shared = method == "threads"
    return Kernels(
        partial(determine, is_shared=is_shared),
        determine_pairs=partial(determine_pairs, is_shared=is_shared),
        hold=hold,
        part=part,
    )


def part(loop: Any, shape: Sequence[int], side: int) -> Part | None:
    """Parts of a tile, which have the bits of the plain loop wherever they are cut."""
    if isinstance(loop, Loop) and loop.strategy not in ("tiles", "hyperplane"):
        return None
    cells = _CELLS[type(loop)]
    return Part(_UNIT, max(_SIDE, -(-cells // max(1, prod(shape) // max(1, shape[side - 2])))))


def determine(loop: Any, *tile: Any, is_shared: bool = False) -> Any:
    """What the kernel of a loop returns, mostly edges of the tile; its results are written."""
    if isinstance(loop, Sweeps):
        x, rhs, result = tile
        return determine_relaxation(loop, x, rhs, result, is_shared)
    if isinstance(loop, Loop):
        local, weights, borders, table = tile
        return determine_loop(loop, local, weights, borders, table, is_shared)
    if isinstance(loop, Scoring):
        return partial(determine_alignment, is_shared=is_shared)(loop, *tile)
    x, before, table = tile
    return determine_table(x, before, table, is_shared)
