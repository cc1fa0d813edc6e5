"""The phases of a chunk in host memory, on one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import SegmentedMap, TransferMap
from ...core.algebra.transfer_map import affine as affine_map
from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import writable
from ..summaries import (
    FINE,
    NAN,
    AffineSummary,
    Maps,
    SegmentedSummary,
    propagate_affine,
    rows_to_redo,
    with_functions,
)
from . import affine_columns, affine_rows, affine_summary, kernels
from .kernels import kernel_of
from .operands import Flat, flatten

# Shorter rows gain nothing from composing steps first.
LONG = 64

Arrays = tuple[np.ndarray, ...]
Summary = AffineSummary | Maps | SegmentedSummary


def precompute(transfer_map: TransferMap, chunk: Chunk) -> Summary:
    """Return the summary of a chunk."""
    if isinstance(transfer_map, SegmentedMap):
        return _precompute_segments(transfer_map, chunk)
    if transfer_map.redoes_rows_of(chunk.dtype):
        return _precompute_affine(chunk)
    if chunk.steps == 0:
        return None
    flat = flatten(chunk)
    rows = chunk.row_shape if chunk.shape[2] != 1 else chunk.row_shape[:1]
    maps = tuple(np.empty(rows, chunk.dtype) for _ in transfer_map.identity)
    build = kernels.precompute_columns if len(rows) == 2 else kernels.precompute_rows
    kernel = kernel_of(build, transfer_map, flat.sources)
    kernel(flat.operands, chunk.steps, maps, chunk.reverse)
    return tuple(part.reshape(chunk.row_shape) for part in maps)


def _precompute_affine(chunk: Chunk) -> AffineSummary:
    flat = flatten(chunk)
    has_columns = chunk.shape[2] != 1
    rows = chunk.row_shape if has_columns else chunk.row_shape[:1]
    wide = np.result_type(chunk.dtype, np.float64)
    dtypes = (wide, np.int64, chunk.dtype, np.float64, np.uint8)
    summary = tuple(np.empty(rows, dtype) for dtype in dtypes)
    bounds = affine_summary.limits(chunk.dtype)
    arguments = (flat.operands, chunk.steps, summary, bounds, chunk.reverse)
    s = flat.operands[0]
    if has_columns:
        for array, value in zip(summary, (1, 0, 0, 0, FINE), strict=True):
            array.fill(value)
        kernel_of(affine_summary.precompute_columns, affine_map, flat.sources)(*arguments)
        if summary[4].any():
            kernel_of(affine_summary.retrack_columns, affine_map, flat.sources)(*arguments)
    elif is_direct(flat, chunk, is_constant=False):
        affine_summary.precompute_arrays(flat.operands, summary, bounds)
    elif (
        is_direct(flat, chunk)
        and (np.abs(s) <= 1).all()
        and affine_rows.is_constant_safe(s, affine_summary.FOLD)
    ):
        affine_summary.precompute_constant(flat.operands, summary, bounds)
    else:
        kernel_of(affine_summary.precompute_filled, affine_map, flat.sources)(*arguments)
    product, exponent, offset, growth, flag = (part.reshape(chunk.row_shape) for part in summary)
    offset[flag == NAN] = np.nan
    return AffineSummary(product, exponent, offset, growth, rows_to_redo(chunk, flag))


def _is_plain(flat: Flat, chunk: Chunk) -> bool:
    """Return whether the operands are real arrays in the order of the recurrence."""
    if chunk.reverse or chunk.dtype.kind != "f":
        return False
    return not any(function for function, _ in flat.sources)


def is_long(transfer_map: TransferMap, chunk: Chunk) -> bool:
    """Return whether rows are those of w = s·w + t, and too long for the plain loop."""
    is_real = transfer_map.capabilities.is_affine and chunk.dtype.kind == "f"
    return is_real and chunk.steps >= LONG


def is_direct(flat: Flat, chunk: Chunk, is_constant: bool = True) -> bool:
    """Return whether, also, t has a value for each step, as has s unless it may be constant."""
    s, t = flat.operands[:2]
    return _is_plain(flat, chunk) and t.ndim == 2 and (is_constant or s.ndim == 2)


def propagate(
    transfer_map: Any, functions: Sequence[Any], summary: Summary, carry_in: Arrays
) -> Arrays:
    """Return the carry-out of a chunk: an array (outer, inner) for each scalar of the state.

    `functions` are those of the operands that are coefficients, for rows to redo; others are None.
    """
    if isinstance(summary, SegmentedSummary):
        if summary.is_reset.all():
            return summary.carry_outs
        functions = functions[1 + transfer_map.states :]
        after = propagate(transfer_map.inner, functions, summary.inner, carry_in)
        ends = zip(summary.carry_outs, after, strict=True)
        return tuple(np.where(summary.is_reset, reset, other) for reset, other in ends)
    if isinstance(summary, AffineSummary):
        carry_out = propagate_affine(summary, carry_in[0])
        for row, chunk in summary.redo.items():
            results = (np.empty(chunk.shape, chunk.dtype),)
            chunk = with_functions(chunk, functions)
            determine(affine_map, chunk, (carry_in[0][row].reshape(1, 1),), results)
            carry_out[row] = results[0][0, 0 if chunk.reverse else -1, 0]
        return (carry_out,)
    if summary is None:
        return carry_in
    kernel = kernel_of(kernels.propagate_maps, transfer_map, ((None, 1),), len(carry_in) > 1)
    maps = tuple(np.ascontiguousarray(part).reshape(-1) for part in summary)
    before = tuple(np.ascontiguousarray(part).reshape(-1) for part in carry_in)
    after = tuple(np.empty_like(part) for part in before)
    kernel(maps, before, after)
    return tuple(part.reshape(carry_in[0].shape) for part in after)


def determine(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays) -> bool:
    """Write the states after every step to C-contiguous arrays (outer, steps, inner).

    Return True if the kernel has found that all coefficients of w = s·w + t are above 0.
    """
    if chunk.shape[2] == 1:
        return _determine_rows(transfer_map, chunk, carry_in, results)
    determine_columns(transfer_map, chunk, carry_in, results, 0, chunk.shape[2])
    return False


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
    kernel = kernel_of(kernels.determine_columns, transfer_map, flat.sources, len(carry_in) > 1)
    before = tuple(writable(np.ascontiguousarray(part, chunk.dtype)) for part in carry_in)
    kernel(flat.operands, before, results, chunk.reverse, start, stop)


def _determine_rows(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> bool:
    flat = flatten(chunk)
    before = tuple(writable(np.ascontiguousarray(part[:, 0], chunk.dtype)) for part in carry_in)
    after = tuple(part[:, :, 0] for part in results)
    if is_long(transfer_map, chunk):
        if is_direct(flat, chunk):
            return determine_direct(flat, before[0], after[0])
        kernel = kernel_of(affine_rows.determine_filled, affine_map, flat.sources)
        bounds = affine_rows.safe_limits(chunk.dtype)
        kernel(flat.operands, before[0], after[0], bounds, chunk.reverse)
        return False
    kernel = kernel_of(kernels.determine_rows, transfer_map, flat.sources, len(carry_in) > 1)
    kernel(flat.operands, before, after, chunk.reverse)
    return False


def determine_direct(flat: Flat, carry_in: np.ndarray, result: np.ndarray) -> bool:
    """Solve w = s·w + t along long rows that :func:`is_direct`; see :func:`determine`."""
    s, bounds = flat.operands[0], affine_rows.safe_limits(result.dtype)
    if s.ndim == 2:
        return bool(affine_rows.determine_arrays(flat.operands, carry_in, result, bounds))
    if affine_rows.is_constant_safe(s):
        affine_rows.determine_constant(flat.operands, carry_in, result, bounds)
    else:
        kernel = kernel_of(affine_rows.determine_filled, affine_map, flat.sources)
        kernel(flat.operands, carry_in, result, bounds, False)
    return False


def _precompute_segments(transfer_map: SegmentedMap, chunk: Chunk) -> SegmentedSummary:
    carry_outs = tuple(np.zeros(chunk.row_shape, chunk.dtype) for _ in range(transfer_map.states))
    is_reset = np.zeros(chunk.row_shape, bool)
    flat, several = flatten(chunk, as_columns=True), transfer_map.states > 1
    kernel = kernel_of(kernels.carry_outs_of_last_segments, transfer_map, flat.sources, several)
    kernel(flat.operands, chunk.steps, carry_outs, is_reset, chunk.reverse)
    if is_reset.all():
        return SegmentedSummary(None, carry_outs, is_reset)
    inner_chunk = replace(chunk, operands=chunk.operands[1 + transfer_map.states :])
    return SegmentedSummary(precompute(transfer_map.inner, inner_chunk), carry_outs, is_reset)
