"""precompute, propagate and determine for one chunk in host memory, on one thread."""

from __future__ import annotations

import numpy as np

from ...core.algebra.segmented_map import SegmentedMap
from ...core.algebra.transfer_map import TransferMap
from ...core.algebra.transfer_map import affine as affine_map
from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import writable
from ..affine import NAN, REDO, AffineSummary, propagate_affine
from ..summary import ComposedMaps, SegmentedSummary
from .affine import blocks as affine_blocks
from .affine import columns as affine_columns
from .affine import precompute as affine_precompute
from .affine import rows as affine
from .affine.columns import flat_rows
from .affine.summary import FOLD, limits
from .kernels import Fused, fused_lift, transfer_kernels
from .operands import Flat, flatten
from .segments import propagate_segments, summarise_segments

# Shorter rows gain nothing from composing steps first.
LONG = 64

Arrays = tuple[np.ndarray, ...]
Summary = AffineSummary | ComposedMaps | SegmentedSummary


def precompute(transfer_map: TransferMap, chunk: Chunk) -> Summary:
    """Reduce every row of a chunk to one map."""
    if isinstance(transfer_map, SegmentedMap):
        return summarise_segments(transfer_map, chunk, precompute)
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
    columns = chunk.shape[2] != 1
    rows = chunk.row_shape if columns else chunk.row_shape[:1]
    wide = np.result_type(chunk.dtype, np.float64)
    kinds = (wide, np.int64, chunk.dtype, np.float64, np.uint8)
    summary = tuple(np.empty(rows, kind) for kind in kinds)
    fused = fused_lift(affine_map, flat.sources)
    bounds = limits(chunk.dtype)
    if columns:
        arguments = (flat.operands, chunk.steps, summary, bounds, chunk.reverse)
        affine_precompute.precompute_columns(fused.lift, *fused.key)(*arguments)
        if summary[4].any():
            affine_precompute.retrack_columns(fused.lift, *fused.key)(*arguments)
    else:
        _precompute_affine_rows(fused, flat, chunk, summary)
    product, exponent, offset, growth, flag = (part.reshape(chunk.row_shape) for part in summary)
    offset[flag == NAN] = np.nan
    redo = {
        (int(o), int(i)): _row_alone(chunk, int(o), int(i)) for o, i in np.argwhere(flag == REDO)
    }
    return AffineSummary(product, exponent, offset, growth, redo)


def _precompute_affine_rows(fused: Fused, flat: Flat, chunk: Chunk, summary: Arrays) -> None:
    bounds = limits(chunk.dtype)
    is_real = chunk.dtype.kind == "f"
    if is_real and is_direct(flat, chunk):
        s = flat.operands[0]
        if s.ndim == 2:
            return affine_precompute.precompute_arrays(flat.operands, summary, bounds)
        if (np.abs(s) <= 1).all() and affine_blocks.is_constant_safe(s, FOLD):
            return affine_precompute.precompute_constant(flat.operands, summary, bounds)
    kernel = affine_precompute.precompute_filled(fused.lift, is_real, *fused.key)
    kernel(flat.operands, chunk.steps, summary, bounds, chunk.reverse)


def _is_plain(flat: Flat, chunk: Chunk) -> bool:
    """Whether real operands are plain arrays in the order of the recurrence."""
    if chunk.reverse or chunk.dtype.kind != "f":
        return False
    return not any(function for function, _ in flat.sources)


def is_direct(flat: Flat, chunk: Chunk, is_constant: bool = True) -> bool:
    """Whether, besides, t has one value a step, and s where it may not be constant."""
    s, t = flat.operands[:2]
    return _is_plain(flat, chunk) and t.ndim == 2 and (is_constant or s.ndim == 2)


def _row_alone(chunk: Chunk, outer: int, inner: int) -> Chunk:
    """One row with its operands copied: what travels when a row must be done again."""
    part = chunk.rows(outer, outer + 1)
    return part.map_arrays(
        lambda array: np.array(array[:, :, inner : inner + 1] if array.shape[2] > 1 else array),
        shape=(1, chunk.steps, 1),
    )


def propagate(summary: Summary, carry_in: Arrays) -> Arrays:
    """Return the carry-out of a chunk: arrays (outer, inner), one a scalar of the state."""
    if isinstance(summary, SegmentedSummary):
        return propagate_segments(summary, carry_in, propagate)
    if isinstance(summary, AffineSummary):
        carry_out = propagate_affine(summary, carry_in[0])
        for row, chunk in summary.redo.items():
            before = carry_in[0][row].reshape(1, 1)
            results = (np.empty(chunk.shape, chunk.dtype),)
            determine(affine_map, chunk, (before,), results)
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
    """Write the states after every step of a chunk to C-contiguous arrays (outer, steps, inner)."""
    if chunk.shape[2] == 1:
        _determine_rows(transfer_map, chunk, carry_in, results)
    else:
        determine_columns(transfer_map, chunk, carry_in, results, 0, chunk.shape[2])


def determine_columns(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, begin: int, end: int
) -> None:
    """Write the states of the columns from `begin` to `end`."""
    flat = flatten(chunk)
    if transfer_map.capabilities.is_affine and _is_plain(flat, chunk):
        s, t = (writable(operand) for operand in chunk.operands)
        if affine_columns.can_determine(s, t, results[0], begin, end):
            states = np.ascontiguousarray(carry_in[0], chunk.dtype)
            operands, result = tuple(map(flat_rows, (s, t))), flat_rows(results[0])
            return affine_columns.determine_columns(operands, states, result, begin, end)
    kernel = transfer_kernels(transfer_map, flat.sources, len(carry_in) > 1).determine_columns
    before = tuple(writable(np.ascontiguousarray(part, chunk.dtype)) for part in carry_in)
    kernel(flat.operands, before, results, chunk.reverse, begin, end)


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
    bounds = affine_blocks.safe_limits(chunk.dtype)
    if is_direct(flat, chunk):
        s = flat.operands[0]
        if s.ndim == 2:
            affine.determine_arrays(flat.operands, carry_in, result, bounds)
            return None
        if affine_blocks.is_constant_safe(s):
            return affine.determine_constant(flat.operands, carry_in, result, bounds)
    fused = fused_lift(affine_map, flat.sources)
    affine.determine_filled(fused.lift, *fused.key)(
        flat.operands, carry_in, result, bounds, chunk.reverse
    )
