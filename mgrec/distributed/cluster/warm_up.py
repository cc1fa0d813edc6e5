"""Compile kernels and take memory before the first solve."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from distributed.diagnostics.plugin import WorkerPlugin

from ...core.arrays.array_types import is_on_gpu
from ...core.contract.recurrence import AlongAxis, ChunkInputs
from ..tasks.phases import determine_block, precompute_block, propagate_group
from ..tasks.speculation import determine_from_blocks

# On a CPU no kernel depends on the length of a row beyond this, nor on more numbers of a chunk.
LONGEST, LARGEST = 4096, 1 << 19

Shapes = tuple[tuple[int, ...], ...]


@dataclass
class WarmUp(WorkerPlugin):  # type: ignore[misc]
    """Run the three phases once on every worker, also on those that join later.

    `shapes` are those of the blocks of a chunk, for each kind of chunk; `metas` are empty arrays
    of the blocks' kinds and dtypes.
    """

    recurrence: AlongAxis
    shapes: tuple[Shapes, ...]
    metas: tuple[Any, ...]
    name: str

    async def setup(self, worker: Any) -> None:
        """Warm up on the thread of the tasks, so that the worker answers meanwhile."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(worker.executors["default"], self.run)

    def run(self) -> None:
        """Solve a chunk of each kind."""
        for shapes in self.shapes:
            ndim = max(len(shape) for shape in shapes)
            most = longest(np.broadcast_shapes(*shapes), self.recurrence.axis)
            blocks = tuple(
                _filled(
                    meta, shape, self.recurrence.example_value(number), most[ndim - len(shape) :]
                )
                for number, (meta, shape) in enumerate(zip(self.metas, shapes, strict=True))
            )
            self._solve(ChunkInputs(blocks, (0,) * ndim, (0,) * ndim))

    def _solve(self, inputs: ChunkInputs) -> None:
        """Solve a chunk as if it forgot its entry and as if it did not."""
        recurrence = self.recurrence.for_warm_up()
        summary = precompute_block(inputs, recurrence)
        entries = propagate_group(recurrence, [summary], recurrence.zero_state())
        determine_block(recurrence, inputs, entries, 0)
        determine_from_blocks(recurrence, inputs, entries, 0)


def longest(shape: tuple[int, ...], axis: int) -> list[int]:
    """The lengths of a chunk beyond which it is not filled."""
    most = [LONGEST] * len(shape)
    rows = prod(map(min, shape[:axis] + shape[axis + 1 :], most))
    most[axis] = max(LONGEST, -(-LARGEST // max(1, rows)))
    return most


def _filled(meta: Any, shape: tuple[int, ...], value: float, most: Sequence[int]) -> Any:
    """A block of a kind and a shape, no longer than matters."""
    if not is_on_gpu(meta):
        shape = tuple(map(min, shape, most))
    return np.full_like(meta, 1 if meta.dtype.kind in "iub" else value, shape=shape)
