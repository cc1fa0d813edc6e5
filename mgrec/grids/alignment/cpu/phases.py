"""determine for one tile of an alignment, and pairs of sequences, in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ....core.contract.kernels import Kernels, Part
from ...parts import part_of_host
from ..scoring import Scoring
from .grid import determine_alignment
from .pairs import determine_pairs

# Of a part, which takes about a millisecond then; a call takes 0.1 at most.
_CELLS = 1 << 23


def kernels(method: str) -> Kernels:
    """The phases of a tile and of pairs, on all threads by "threads"."""
    is_shared = method == "threads"
    return Kernels(
        partial(determine_alignment, is_shared=is_shared),
        determine_pairs=partial(determine_pairs, is_shared=is_shared),
        part=_part,
    )


def _part(scoring: Scoring, shape: Sequence[int], side: int) -> Part:
    return part_of_host(_CELLS, shape, side)
