"""Sweeps over the grids of one chunk on a GPU."""

from __future__ import annotations

from typing import Any

from ....core.contract.kernels import Again, Kernels
from ..sweeps import Sweeps
from .again import relaxation_again
from .grids import determine_relaxation
from .held import hold


def kernels(method: str) -> Kernels:
    """The phases of a chunk."""
    return Kernels(determine_relaxation, hold=hold, again=_again)


def _again(loop: Sweeps, grids: Any, entry: None, results: Any) -> Again | None:
    return relaxation_again(loop, *grids, *results)
