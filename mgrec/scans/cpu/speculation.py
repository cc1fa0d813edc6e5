"""Speculation on chunks of w = s·w + t: determine and summarise a contractive chunk in one pass.

A chunk is determined from 0. A carry-in matters until |A_i|·M <= u·|w⁰_i|, where A_i is the
product of the first i coefficients, w⁰_i the result from 0, M the largest number of the dtype and u
its unit roundoff. If the state after the chunk is finite, it is that of w⁰ for any carry-in, and
only these first steps, the prefix, are determined again.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import compile_kernel, writable
from ..speculation import Prefix
from ..summaries import AffineSummary, contractive_summary
from . import one_thread
from .affine_summary import limits

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
    first = (
        chunk.between(chunk.steps - steps, chunk.steps)
        if chunk.reverse
        else chunk.between(0, steps)
    )
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


_measure = compile_kernel(_measured)


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


_xor_steps = compile_kernel(_xor_along_steps)
