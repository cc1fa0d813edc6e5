"""Sweeps over the grids of one chunk on a GPU."""

from __future__ import annotations

from typing import Any

from ....core.contract.kernels import Kernels, PreparedSolver
from ..sweeps import Sweeps
from .grids import determine_relaxation
from .laid_out import lay_out_grids
from .prepared_solver import relaxation_again


def kernels(method: str) -> Kernels:
    """The phases of a chunk."""
    return Kernels(determine_relaxation, lay_out_grids=lay_out_grids, prepare_solver=_again)


def _again(loop: Sweeps, grids: Any, entry: None, results: Any) -> PreparedSolver | None:
    return relaxation_again(loop, *grids, *results)
