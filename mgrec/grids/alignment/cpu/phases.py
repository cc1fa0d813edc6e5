"""The phases of alignments in host memory."""

from __future__ import annotations

from functools import partial

from ....core.contract.kernels import Kernels
from ...recurrence import part_of_host
from .pairs import determine_pairs
from .tile import determine_alignment

# A part of so many cells takes about a millisecond; a call costs 0.1 ms at most.
_CELLS = 1 << 23


def kernels(method: str) -> Kernels:
    """Return the phases of tiles and of pairs, on all threads if the method is "threads"."""
    is_threaded = method == "threads"
    return Kernels(
        partial(determine_alignment, is_threaded=is_threaded),
        determine_pairs=partial(determine_pairs, is_threaded=is_threaded),
        part=lambda scoring, shape, side: part_of_host(_CELLS, shape, side),
    )
