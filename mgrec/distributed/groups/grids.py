"""The program of a grid whose rows are divided among the ranks of a group.

The columns are divided, too: a rank computes a part of them while the next rank computes the part
before it. After each step all ranks get the lower edges of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import lcm
from typing import Any

from ...core.backends import common_backend
from ...core.contract.grid import Grid, Swept, Traceback
from ...core.contract.kernels import Backend, Part
from ...core.contract.problem import Problem
from ...core.contract.recurrence import ChunkInputs, Shape
from ..tasks import chunk_of
from .calls import GroupCall

# Parts along an axis of a whole grid. An H200 adds up a table of 2^31 cells in 5 ms, its host
# launches a part and sends its edge in 0.4: it must be done with a part before the GPU is.
PARTS = 8


def solve(problem: Problem, call: GroupCall) -> Any:
    """Return what a public function returns for the rows of this rank."""
    recurrence, shape = problem.recurrence, problem.shape
    if isinstance(recurrence, (Swept, Traceback)):
        raise NotImplementedError("group must be None for grids that are swept or traced back")
    down, _ = recurrence.axes
    options = {
        "the dtype of the result": recurrence.result_dtype.name,
        "the shape of the grid without its rows": (*shape[:down], *shape[down + 1 :]),
        "the grid": type(recurrence).__name__,
    }
    lengths = call.all_gather("the lengths", options, shape[down], is_last=False)
    starts, index = [0] * len(shape), [0] * len(shape)
    starts[down], index[down] = sum(lengths[: call.group.rank]), call.group.rank
    inputs = ChunkInputs(problem.operands, tuple(index), tuple(starts), {})
    backend = common_backend(problem.operands, recurrence.method)
    # Ranks without rows send no edges. If no rank has rows, the first one determines the grid.
    ranks = [rank for rank, length in enumerate(lengths) if length] or [0]
    parts = _columns(recurrence, backend, shape, [lengths[rank] for rank in ranks])
    position = ranks.index(call.group.rank) if call.group.rank in ranks else None
    tiles = _Rows(recurrence, inputs, parts)
    above, count = None, len(ranks) + len(parts) - 1
    for step in range(count):
        sent = None
        if position is not None and 0 <= step - position < len(parts):
            sent = tiles.determine(step - position, above)
        messages = call.all_gather("the edges", {}, sent, is_last=step == count - 1)
        above = messages[ranks[position - 1]] if position else None
    if not recurrence.results:
        return problem.to_return_value((), recurrence.final_result(messages[ranks[-1]]))
    result = backend.empty(shape, recurrence.result_dtype) if tiles.result is None else tiles.result
    return problem.to_return_value((result,), None)


def _columns(
    recurrence: Grid, backend: Backend, shape: tuple[int, ...], lengths: list[int]
) -> list[slice]:
    """Return the parts of the columns, which are the same on all ranks."""
    down, right = recurrence.axes
    shapes = [(*shape[:down], length, *shape[down + 1 :]) for length in lengths]
    allowed = [recurrence.part(backend, s, right) if all(s) else None for s in shapes]
    parts = [part for part in allowed if part is not None]
    common = None
    if len(parts) == len(allowed) > 1:
        common = Part(lcm(*(part.unit for part in parts)), max(part.least for part in parts))
    sizes = lengths_of_parts(shape[right], shape[right], common)
    return [slice(*pair) for pair in pairwise([0, *accumulate(sizes)])]


class _Rows:
    """The rows of a rank, part by part."""

    def __init__(self, recurrence: Grid, inputs: ChunkInputs, parts: list[slice]) -> None:
        self.recurrence, self.inputs, self.parts = recurrence, inputs, parts
        self.result: Any = None
        self.left: Any = None

    def determine(self, number: int, above: Any) -> Any:
        """Determine a part of the columns; return the edges that the next rank needs."""
        recurrence, right = self.recurrence, self.recurrence.axes[1]
        with chunk_of("determine", recurrence, self.inputs) as (backend, shape):
            inputs, part_shape = self.inputs, shape
            out: tuple[Any, ...] = ()
            if len(self.parts) > 1:
                slices = [slice(0, length) for length in shape]
                slices[right] = self.parts[number]
                if recurrence.results and self.result is None:
                    self.result = backend.empty(shape, recurrence.result_dtype)
                inputs, part_shape = part_of_tile(recurrence, inputs, shape, slices)
                out = (self.result[tuple(slices)],) if recurrence.results else ()
            results, edges = recurrence.determine(
                backend, inputs, part_shape, above, self.left, out
            )
            if results and not out:
                self.result = results[0]
            self.left = recurrence.retain_edges(edges)
            if not recurrence.results and number == len(self.parts) - 1:
                return recurrence.export_edges(edges)
            return recurrence.start_export(backend, edges, recurrence.axes[:1])()


def lengths_of_parts(length: int, total: int, part: Part | None) -> tuple[int, ...]:
    """Return nearly equal lengths, of whole units but for the last."""
    if part is None:
        return (length,)
    least = -(-part.least // part.unit) * part.unit
    count = max(1, min(round(PARTS * length / max(total, 1)), length // least))
    starts = [length // part.unit * k // count * part.unit for k in range(count)]
    return tuple(stop - start for start, stop in zip(starts, [*starts[1:], length], strict=True))


def part_of_tile(
    recurrence: Grid, inputs: ChunkInputs, shape: Shape, slices: Sequence[slice]
) -> tuple[ChunkInputs, Shape]:
    """Return the inputs and the shape of a part of a tile, by slices of its axes."""
    blocks = tuple(
        block[
            tuple(
                part if is_varying else slice(None)
                for part, is_varying in zip(slices[len(shape) - block.ndim :], varying, strict=True)
            )
        ]
        for block, varying in zip(inputs.blocks, recurrence.varying, strict=True)
    )
    starts, lengths = list(inputs.starts), list(shape)
    for axis in recurrence.axes:
        part = slices[axis]
        starts[axis] += part.start
        lengths[axis] = part.stop - part.start
    return replace(inputs, blocks=blocks, starts=tuple(starts)), tuple(lengths)
