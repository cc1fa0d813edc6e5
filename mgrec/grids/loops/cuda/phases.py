"""determine for one tile of a wavefront loop on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.contract.kernels import Kernels, Part
from ...parts import part_of_gpu
from ..recurrence import Loop
from .determine import determine_loop
from .prepared_solver import again_loop


def kernels(method: str) -> Kernels:
    """The phases of a tile."""
    return Kernels(determine_loop, prepare_solver=again_loop, part=_part)


def _part(loop: Loop, shape: Sequence[int], side: int) -> Part | None:
    return part_of_gpu(shape) if loop.strategy == "tiles" else None
