"""The phases of a chunk in host memory, on one thread.

Speculation on w = s·w + t determines and summarises a contractive chunk in one pass, from a
carry-in of 0. The true carry-in matters until |A_i|·M <= u·|w⁰_i|, where A_i is the product of the
first i coefficients, w⁰_i the result from 0, M the largest number of the dtype and u its unit
roundoff. If the state after the chunk is finite, it is that of w⁰ for any carry-in, and only these
first steps, the prefix, are determined again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import SegmentedMap, TransferMap
from ...core.algebra.transfer_map import affine as affine_map
from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import compile_kernel, writable
from ..kernels import Prefix
from ..summaries import (
    FINE,
    NAN,
    AffineSummary,
    Maps,
    SegmentedSummary,
    contractive_summary,
    propagate_affine,
    rows_to_redo,
    with_functions,
)
from . import affine_columns, affine_rows, affine_summary, kernels, one_thread
from .affine_summary import limits
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


def propagate(transfer_map: Any, functions: Sequence[Any], summary: Summary, carry_in: Arrays) -> Arrays:
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
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, start: int, stop: int
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


def _determine_rows(transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays) -> bool:
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


logger = logging.getLogger("mgrec")

# Products with the largest carry-in are scaled by 2 to the minus this power, so that they may grow.
_SCALE = {"f": 0, "d": 25}


MOST_EVIDENCE, EVIDENCE_FRACTION = 1024, 64
"""Steps whose coefficients show whether a chunk is contractive: at most so many, and at most this
fraction (1/64) of the chunk."""
PREFIX_FRACTION = 8
"""The prefix may be expected to be 1/8 of a chunk: a step of it takes four times as long."""


def speculate(
    transfer_map: TransferMap, chunk: Chunk, results: tuple[np.ndarray, ...]
) -> tuple[AffineSummary, Prefix] | None:
    """Determine a chunk from a carry-in of 0; return its summary and its prefix.

    Return None if the chunk is not contractive, or a result is not finite or near overflow; the
    results then have no meaning.
    """
    s = writable(chunk.operands[0])
    if not _may_be_contractive(s, chunk):
        return None
    (result,) = results
    carry_in = np.zeros(chunk.row_shape, chunk.dtype)
    is_positive = one_thread.determine(transfer_map, chunk, (carry_in,), results)
    carry_out, top = result[:, 0 if chunk.reverse else -1], float(limits(chunk.dtype)[0])
    growth = np.empty(chunk.row_shape)
    most, (start, unit) = chunk.steps // PREFIX_FRACTION, _scale(chunk.dtype)
    steps = int(_measure(s, result, most, chunk.reverse, start, unit, top, growth))
    # A state that is not finite stays so to the end.
    if steps < 0 or not (np.abs(carry_out) <= top).all():
        logger.debug("speculate: %d steps depend on their carry-in; determined again", chunk.steps)
        return None
    is_positive = is_positive or _are_positive(s)
    sign: Any = 1.0 if is_positive else _sign_of_product(s, chunk.steps)
    first = chunk.between(chunk.steps - steps, chunk.steps) if chunk.reverse else chunk.between(0, steps)
    # Copies: the operands can then be released.
    first = replace(first, operands=tuple(map(np.copy, first.operands)))
    kept = np.ones((1, 1, 1), chunk.dtype) if is_positive else s
    prefix = Prefix(kept, first, float(growth.max()))
    return contractive_summary(sign, carry_out.copy(), growth), prefix


def _may_be_contractive(s: np.ndarray, chunk: Chunk) -> bool:
    """Return whether the first coefficients predict a short prefix."""
    count = min(MOST_EVIDENCE, chunk.steps // EVIDENCE_FRACTION)
    if count == 0:
        return False
    first = s[0, -count:, 0] if chunk.reverse else s[0, :count, 0]
    with np.errstate(all="ignore"):
        bits = -float(np.log2(np.abs(first.astype(np.float64))).mean())
    start, unit = _scale(chunk.dtype)
    wanted = math.log2(start) - math.log2(unit)
    return bits > 0 and wanted <= bits * (chunk.steps // PREFIX_FRACTION)


def _scale(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return twice the largest number, and the unit roundoff; both times 2**-25 in float64."""
    info = np.finfo(dtype)
    bits = _SCALE[dtype.char]
    return 2.0 ** (info.maxexp + 1 - bits), float(info.eps) / 2 * 2.0**-bits


def _measured(
    s: Any, w: Any, most: int, reverse: bool, start: float, unit: float, top: float, growth: Any
) -> int:
    """Return the longest prefix of all rows, or -1; write log2 of the growth of each row."""
    outer, steps, inner = w.shape
    longest = 0
    for row in range(outer):
        for column in range(inner):
            product, largest, length = start, start, -1
            first, j = row if s.shape[0] > 1 else 0, column if s.shape[2] > 1 else 0
            for step in range(most):
                index = steps - 1 - step if reverse else step
                i = index if s.shape[1] > 1 else 0
                coefficient, size = s[first, i, j], float(abs(w[row, index, column]))
                product *= float(abs(coefficient))
                largest = max(largest, product)
                if not size <= top:
                    return -1
                if product < unit * size or coefficient == 0:
                    length = step + 1
                    break
            if length < 0 or not largest < math.inf:
                return -1
            growth[row, column] = math.log2(largest / start)
            longest = max(longest, length)
    return longest


_measure = compile_kernel(_measured, allocates=False)


# The first coefficients, whose signs are read before all others.
_FEW = 1024


def _are_positive(s: np.ndarray) -> bool:
    """Return whether all coefficients (outer, steps or 1, inner) are above 0."""
    return bool(s[:1, :_FEW].min() > 0 and s.min() > 0)


def _sign_of_product(s: np.ndarray, steps: int) -> np.ndarray:
    """Return the sign of the product of each row's coefficients, or 0.

    `s` (outer, steps or 1, inner) is that of a chunk of so many steps.
    """
    bits = s.view(f"u{s.itemsize}")
    outer, _, inner = bits.shape
    if inner == 1:
        parity = np.bitwise_xor.reduce(bits[:, :, 0], axis=1)[:, None]
    else:
        parity = np.zeros((outer, inner), bits.dtype)
        _xor_steps(bits, parity)
    is_negative = parity >> (8 * bits.itemsize - 1) != 0
    sign = np.where(is_negative & (s.shape[1] == steps or steps % 2 == 1), -1.0, 1.0)
    if not s.all():
        sign[(s == 0).any(axis=1)] = 0
    return sign


def _xor_along_steps(bits: Any, parity: Any) -> None:
    # numpy.bitwise_xor.reduce takes seven times as long for few columns.
    for row in range(bits.shape[0]):
        row_parity = parity[row]
        for step in range(bits.shape[1]):
            columns = bits[row, step]
            for column in range(row_parity.size):
                row_parity[column] ^= columns[column]


_xor_steps = compile_kernel(_xor_along_steps, allocates=False)
