"""The phases of alignments on a GPU."""

from __future__ import annotations

from ....core.contract.kernels import Kernels
from ...recurrence import part_of_gpu
from .pairs import determine_pairs
from .tile import determine_alignment, launch_bands


def kernels(method: str) -> Kernels:
    """Return the phases of tiles and of pairs of sequences."""
    return Kernels(
        determine_alignment,
        determine_pairs=determine_pairs,
        launch_bands=launch_bands,
        part=lambda scoring, shape, side: part_of_gpu(shape),
    )
