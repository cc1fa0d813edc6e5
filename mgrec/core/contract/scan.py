"""The contract of chains, where each chunk depends on the chunks before it only."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..arrays.chunk import Chunk, as_result
from .kernels import Backend, CarryIn, Kernels, Speculation, SpeculationWait, Summarise, Summary
from .recurrence import AlongAxis, Arrays, ChunkInputs, Shape

logger = logging.getLogger("mgrec")

LARGE_ON_GPU = 1 << 30
"""Fewest bytes of operands of a speculative chunk on a GPU. Speculation saves one read of them, and
takes time of the host. Plans over four chunks a GPU, on two H200, took 6.9 ms with speculation and
8.1 without (2^28 float32 steps, coefficient array), 5.6 and 5.9 (constant coefficient), and 18.3
and 25.0 (2^30 steps)."""


@dataclass(frozen=True, kw_only=True)
class Chain(AlongAxis):
    """A recurrence whose summaries compose: a chunk needs those of the chunks before it."""

    @property
    @abstractmethod
    def algebra(self) -> Any:
        """The argument of kernels besides the chunk: a transfer map, or a cascade of sections."""

    @abstractmethod
    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        """Return a chunk, with results of this shape, in the layout of the kernels."""

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        launch = backend.kernels(self.family).precompute
        return launch(self.algebra, self.lay_out(inputs, shape))

    @abstractmethod
    def advance(self, kernels: Kernels, summary: Summary, carry_in: CarryIn) -> CarryIn:
        """Return the carry-in of the next chunk, from a chunk's summary and carry-in."""

    def propagate(
        self, kernels: Kernels, summaries: Sequence[Summary], carry_in: CarryIn
    ) -> list[CarryIn]:
        carry_ins = [carry_in]
        for summary in summaries:
            carry_ins.append(self.advance(kernels, summary, carry_ins[-1]))
        return carry_ins

    def speculate(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape
    ) -> SpeculationWait | None:
        speculate = backend.kernels(self.family).speculate
        if speculate is None or not self.may_speculate(shape, backend):
            return None
        chunk = self.lay_out(inputs, shape)
        results = tuple([backend.empty(chunk.shape, self.dtype) for _ in range(self.results)])
        wait = speculate(self.algebra, chunk, results)

        def wait_for_speculation() -> Speculation | None:
            outcome = wait()
            if outcome is None:
                return None
            summary, prefix = outcome
            logger.debug("speculate: chunk %s does not depend on its carry-in", inputs.chunk_index)
            return Speculation(results, summary, prefix, prefix.operand_bytes)

        return wait_for_speculation if wait else None

    def correct(
        self, backend: Backend, shape: Shape, speculation: Speculation, carry_in: CarryIn
    ) -> Arrays:
        # Results from another worker may be read-only.
        results = tuple([r if backend.is_writeable(r) else r.copy() for r in speculation.results])
        results = backend.kernels(self.family).correct(speculation.prefix, carry_in, results)
        return tuple([as_result(result, shape, self.result_dtype) for result in results])
