"""The phases of a chunk in host memory, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.algebra.segmented_map import SegmentedMap
from ...core.algebra.transfer_map import TransferMap
from ...core.algebra.transfer_map import affine as affine_map
from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import CACHE_SIZE, compile_kernel, compile_step, writable
from ..summaries import (
    NAN,
    AffineSummary,
    ComposedMaps,
    SegmentedSummary,
    propagate_affine,
    rows_to_redo,
)
from . import affine_columns, affine_rows, affine_summary
from .kernels import Fused, fused_lift, transfer_kernels, tupled
from .operands import (
    Flat,
    Sources,
    cast,
    cell_at,
    cells_at,
    flatten,
    flatten_columns,
    store_each,
    values_at,
)

# Shorter rows gain nothing from composing steps first.
LONG = 64

Arrays = tuple[np.ndarray, ...]
Summary = AffineSummary | ComposedMaps | SegmentedSummary


def precompute(transfer_map: TransferMap, chunk: Chunk) -> Summary:
    """Return the summary of a chunk."""
    if isinstance(transfer_map, SegmentedMap):
        return _precompute_segments(transfer_map, chunk)
    if transfer_map.redoes_rows_of(chunk.dtype):
        return _precompute_affine(chunk)
    if chunk.steps == 0:
        return ComposedMaps(transfer_map, None)
    flat = flatten(chunk)
    kernels = transfer_kernels(transfer_map, flat.sources, False)
    rows = chunk.row_shape if chunk.shape[2] != 1 else chunk.row_shape[:1]
    maps = tuple(np.empty(rows, chunk.dtype) for _ in transfer_map.identity)
    kernel = kernels.precompute_columns if len(rows) == 2 else kernels.precompute_rows
    kernel(flat.operands, chunk.steps, maps, chunk.reverse)
    return ComposedMaps(transfer_map, tuple(part.reshape(chunk.row_shape) for part in maps))


def _precompute_affine(chunk: Chunk) -> AffineSummary:
    flat = flatten(chunk)
    has_columns = chunk.shape[2] != 1
    rows = chunk.row_shape if has_columns else chunk.row_shape[:1]
    wide = np.result_type(chunk.dtype, np.float64)
    dtypes = (wide, np.int64, chunk.dtype, np.float64, np.uint8)
    summary = tuple(np.empty(rows, dtype) for dtype in dtypes)
    fused = fused_lift(affine_map, flat.sources)
    bounds = affine_summary.limits(chunk.dtype)
    if has_columns:
        arguments = (flat.operands, chunk.steps, summary, bounds, chunk.reverse)
        affine_summary.precompute_columns(fused.lift, *fused.key)(*arguments)
        if summary[4].any():
            affine_summary.retrack_columns(fused.lift, *fused.key)(*arguments)
    else:
        _precompute_affine_rows(fused, flat, chunk, summary)
    product, exponent, offset, growth, flag = (part.reshape(chunk.row_shape) for part in summary)
    offset[flag == NAN] = np.nan
    return AffineSummary(product, exponent, offset, growth, rows_to_redo(chunk, flag))


def _precompute_affine_rows(fused: Fused, flat: Flat, chunk: Chunk, summary: Arrays) -> None:
    bounds = affine_summary.limits(chunk.dtype)
    is_real = chunk.dtype.kind == "f"
    if is_real and is_direct(flat, chunk):
        s = flat.operands[0]
        if s.ndim == 2:
            return affine_summary.precompute_arrays(flat.operands, summary, bounds)
        if (np.abs(s) <= 1).all() and affine_rows.is_constant_safe(s, affine_summary.FOLD):
            return affine_summary.precompute_constant(flat.operands, summary, bounds)
    kernel = affine_summary.precompute_filled(fused.lift, is_real, *fused.key)
    kernel(flat.operands, chunk.steps, summary, bounds, chunk.reverse)


def _is_plain(flat: Flat, chunk: Chunk) -> bool:
    """Return whether the operands are real arrays in the order of the recurrence."""
    if chunk.reverse or chunk.dtype.kind != "f":
        return False
    return not any(function for function, _ in flat.sources)


def is_direct(flat: Flat, chunk: Chunk, is_constant: bool = True) -> bool:
    """Return whether, also, t has a value for each step, as has s unless it may be constant."""
    s, t = flat.operands[:2]
    return _is_plain(flat, chunk) and t.ndim == 2 and (is_constant or s.ndim == 2)


def propagate(summary: Summary, carry_in: Arrays) -> Arrays:
    """Return the carry-out of a chunk: an array (outer, inner) for each scalar of the state."""
    if isinstance(summary, SegmentedSummary):
        return _propagate_segments(summary, carry_in)
    if isinstance(summary, AffineSummary):
        carry_out = propagate_affine(summary, carry_in[0])
        for row, chunk in summary.redo.items():
            results = (np.empty(chunk.shape, chunk.dtype),)
            determine(affine_map, chunk, (carry_in[0][row].reshape(1, 1),), results)
            carry_out[row] = results[0][0, 0 if chunk.reverse else -1, 0]
        return (carry_out,)
    if summary.maps is None:
        return carry_in
    kernels = transfer_kernels(summary.transfer_map, ((None, 1),), len(carry_in) > 1)
    maps = tuple(np.ascontiguousarray(part).reshape(-1) for part in summary.maps)
    before = tuple(np.ascontiguousarray(part).reshape(-1) for part in carry_in)
    after = tuple(np.empty_like(part) for part in before)
    kernels.act(maps, before, after)
    return tuple(part.reshape(carry_in[0].shape) for part in after)


def determine(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays) -> None:
    """Write the states after every step to C-contiguous arrays (outer, steps, inner)."""
    if chunk.shape[2] == 1:
        _determine_rows(transfer_map, chunk, carry_in, results)
    else:
        determine_columns(transfer_map, chunk, carry_in, results, 0, chunk.shape[2])


def determine_columns(
    transfer_map: TransferMap,
    chunk: Chunk,
    carry_in: Arrays,
    results: Arrays,
    start: int,
    stop: int,
) -> None:
    """Write the states of the columns from `start` to `stop`."""
    flat = flatten(chunk)
    if transfer_map.capabilities.is_affine and _is_plain(flat, chunk):
        s, t = (writable(operand) for operand in chunk.operands)
        if affine_columns.can_determine(s, t, results[0], start, stop):
            states = np.ascontiguousarray(carry_in[0], chunk.dtype)
            s, t, result = map(affine_columns.flat_rows, (s, t, results[0]))
            return affine_columns.determine_columns((s, t), states, result, start, stop)
    kernel = transfer_kernels(transfer_map, flat.sources, len(carry_in) > 1).determine_columns
    before = tuple(writable(np.ascontiguousarray(part, chunk.dtype)) for part in carry_in)
    kernel(flat.operands, before, results, chunk.reverse, start, stop)


def _determine_rows(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
    flat = flatten(chunk)
    before = tuple(writable(np.ascontiguousarray(part[:, 0], chunk.dtype)) for part in carry_in)
    after = tuple(part[:, :, 0] for part in results)
    is_affine = transfer_map.capabilities.is_affine
    if is_affine and chunk.dtype.kind == "f" and chunk.steps >= LONG:
        return _determine_long_rows(chunk, flat, before[0], after[0])
    kernel = transfer_kernels(transfer_map, flat.sources, len(carry_in) > 1).determine_rows
    kernel(flat.operands, before, after, chunk.reverse)


def _determine_long_rows(
    chunk: Chunk, flat: Flat, carry_in: np.ndarray, result: np.ndarray
) -> None:
    bounds = affine_rows.safe_limits(chunk.dtype)
    if is_direct(flat, chunk):
        s = flat.operands[0]
        if s.ndim == 2:
            affine_rows.determine_arrays(flat.operands, carry_in, result, bounds)
            return None
        if affine_rows.is_constant_safe(s):
            return affine_rows.determine_constant(flat.operands, carry_in, result, bounds)
    fused = fused_lift(affine_map, flat.sources)
    affine_rows.determine_filled(fused.lift, *fused.key)(
        flat.operands, carry_in, result, bounds, chunk.reverse
    )


def _precompute_segments(transfer_map: SegmentedMap, chunk: Chunk) -> SegmentedSummary:
    carry_outs = tuple(np.zeros(chunk.row_shape, chunk.dtype) for _ in range(transfer_map.states))
    is_reset = np.zeros(chunk.row_shape, bool)
    flat = flatten_columns(chunk)
    kernel = _carry_outs(transfer_map, flat.sources)
    kernel(flat.operands, chunk.steps, carry_outs, is_reset, chunk.reverse)
    if is_reset.all():
        return SegmentedSummary(None, carry_outs, is_reset)
    inner_chunk = replace(chunk, operands=chunk.operands[1 + transfer_map.states :])
    return SegmentedSummary(precompute(transfer_map.inner, inner_chunk), carry_outs, is_reset)


def _propagate_segments(summary: SegmentedSummary, carry_in: Arrays) -> Arrays:
    if summary.inner is None:
        return summary.carry_outs
    after = propagate(summary.inner, carry_in)
    return tuple(
        np.where(summary.is_reset, after_reset, without_reset)
        for after_reset, without_reset in zip(summary.carry_outs, after, strict=True)
    )


@lru_cache(maxsize=CACHE_SIZE)
def _carry_outs(transfer_map: SegmentedMap, sources: Sources) -> Any:
    fused, several = fused_lift(transfer_map, sources), transfer_map.states > 1
    apply = tupled(compile_step(transfer_map.apply), several)
    kernel = _last_segment_kernel(fused.lift, apply)
    return compile_kernel(kernel, transfer_map.fingerprint, *fused.key, repr(several))


def _last_segment_kernel(lift: Any, apply: Any) -> Callable[..., None]:
    def carry_outs_of_last_segments(
        operands: Any, steps: int, carry_outs: Any, is_reset: Any, reverse: bool
    ) -> None:
        rows, columns = is_reset.shape
        for row in range(rows):
            for column in range(columns):
                last = 0
                while last < steps:
                    index = last if reverse else steps - 1 - last
                    if cell_at(operands[0], row, index, column):
                        break
                    last += 1
                is_reset[row, column] = last < steps
                if last < steps:
                    # The step with the mark does not use the state.
                    state = values_at(carry_outs, (row, column))
                    for k in range(last, -1, -1):
                        index = k if reverse else steps - 1 - k
                        step_map = lift(*cells_at(operands, row, index, column))
                        state = cast(apply(step_map, state), carry_outs)
                    store_each(carry_outs, (row, column), state)

    return carry_outs_of_last_segments
