"""precompute where states start anew: rows with a mark end in a state that needs no carry-in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.algebra.segmented_map import SegmentedMap
from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import CACHE_SIZE, compile_kernel, compile_step
from ..summary import SegmentedSummary
from .kernels import Sources, fused_lift, tupled
from .operands import flatten_columns
from .tuples import cast, cell_at, cells_at, store_each, values_at

Arrays = tuple[np.ndarray, ...]


def summarise_segments(
    transfer_map: SegmentedMap, chunk: Chunk, precompute: Callable[..., Any]
) -> SegmentedSummary:
    """Reduce every row of a chunk; `precompute` reduces those of the map without marks."""
    carry_outs = tuple(np.zeros(chunk.row_shape, chunk.dtype) for _ in range(transfer_map.states))
    is_reset = np.zeros(chunk.row_shape, bool)
    flat = flatten_columns(chunk)
    kernel = _carry_outs(transfer_map, flat.sources)
    kernel(flat.operands, chunk.steps, carry_outs, is_reset, chunk.reverse)
    if is_reset.all():
        return SegmentedSummary(None, carry_outs, is_reset)
    own = replace(chunk, operands=chunk.operands[1 + transfer_map.states :])
    return SegmentedSummary(precompute(transfer_map.inner, own), carry_outs, is_reset)


def propagate_segments(
    summary: SegmentedSummary, carry_in: Arrays, propagate: Callable[[Any, Arrays], Arrays]
) -> Arrays:
    """The carry-out of a chunk from its carry-in; `propagate` is that of the map without marks."""
    if summary.inner is None:
        return summary.carry_outs
    after = propagate(summary.inner, carry_in)
    return tuple(
        np.where(summary.is_reset, own, part)
        for own, part in zip(summary.carry_outs, after, strict=True)
    )


@lru_cache(maxsize=CACHE_SIZE)
def _carry_outs(transfer_map: SegmentedMap, sources: Sources) -> Any:
    fused, several = fused_lift(transfer_map, sources), transfer_map.states > 1
    apply = tupled(compile_step(transfer_map.apply), several)
    kernel = _of_last_segments(fused.lift, apply)
    return compile_kernel(kernel, transfer_map.fingerprint, *fused.key, repr(several))


def _of_last_segments(lift: Any, apply: Any) -> Callable[..., None]:
    def of_last_segments(
        operands: Any, steps: int, carry_outs: Any, is_reset: Any, reverse: bool
    ) -> None:
        rows, columns = is_reset.shape
        for row in range(rows):
            for column in range(columns):
                last = 0
                while last < steps:
                    at = last if reverse else steps - 1 - last
                    if cell_at(operands[0], row, at, column):
                        break
                    last += 1
                is_reset[row, column] = last < steps
                if last < steps:
                    # The step that is marked starts from its operands, whatever the state is.
                    state = values_at(carry_outs, (row, column))
                    for k in range(last, -1, -1):
                        at = k if reverse else steps - 1 - k
                        step_map = lift(*cells_at(operands, row, at, column))
                        state = cast(apply(step_map, state), carry_outs)
                    store_each(carry_outs, (row, column), state)

    return of_last_segments
