"""Sweeps over the grids of one chunk in host memory."""

from __future__ import annotations

from functools import partial

from ....core.contract.kernels import Kernels
from .grids import determine_relaxation
from .laid_out import lay_out_grids


def kernels(method: str) -> Kernels:
    """The phases of a chunk, on all threads by "threads"."""
    return Kernels(
        partial(determine_relaxation, is_shared=method == "threads"), lay_out_grids=lay_out_grids
    )
