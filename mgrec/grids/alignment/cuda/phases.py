"""The phases of alignments on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.contract.kernels import Kernels, Part
from ...recurrence import part_of_gpu
from ..scoring import Scoring
from .pairs import determine_pairs
from .tile import determine_alignment


def kernels(method: str) -> Kernels:
    """Return the phases of tiles and of pairs of sequences."""
    return Kernels(determine_alignment, determine_pairs=determine_pairs, part=_part)


def _part(scoring: Scoring, shape: Sequence[int], side: int) -> Part:
    return part_of_gpu(shape)
