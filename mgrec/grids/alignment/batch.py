"""Many pairs of sequences at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.contract.kernels import Backend
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..recurrence import Wavefront
from .scoring import Scoring
from .sequences import Sequences


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch(Wavefront):
    """Pairs of sequences, whose grids know nothing of each other: one call of a kernel.

    Attributes
    ----------
    offsets : tuple of two arrays
        Of the queries and of the targets in the blocks; see :class:`.sequences.Sequences`.
    """

    family: ClassVar[str] = "grids.alignment"
    scoring: Scoring
    offsets: tuple[np.ndarray, np.ndarray]

    @property
    def results(self) -> int:
        return 0

    def determine(
        self,
        backend: Backend,
        inputs: ChunkInputs,
        shape: Shape,
        above: Any,
        left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, np.ndarray]:
        pairs = map(Sequences, inputs.blocks, self.offsets)
        determine_pairs = backend.kernels(self.family).determine_pairs
        return (), determine_pairs(self.scoring, *pairs, self.dtype)

    def final_result(self, edges: np.ndarray) -> np.ndarray:
        return edges
