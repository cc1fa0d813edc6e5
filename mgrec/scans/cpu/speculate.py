"""Chunks of w = s·w + t that forget any carry-in: determined and summarised in one pass.

A chunk is determined from 0. Its first steps tell for how long a carry-in can matter: until
|A_i|·M <= u·|w⁰_i|, where A_i is the product of the first i coefficients, w⁰_i the result from 0, M
the largest number of the dtype and u its unit roundoff. The state after the chunk is then that of
w⁰ whatever the carry-in, if it is finite, and only these steps are determined again.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import compile_kernel, writable
from ..affine import AffineSummary
from ..prefix import Prefix
from . import one_thread as cpu
from .affine import rows as affine_rows
from .affine.blocks import safe_limits
from .affine.summary import limits
from .operands import flatten
from .signs import signs_of

logger = logging.getLogger("mgrec")

# Steps that are looked at first, and the share of a chunk that its head may take: a step of it
# takes four times as long as another.
_MOST_EVIDENCE, _EVIDENCE_SHARE, _PREFIX_FRACTION = 1024, 64, 8
# Products of carry-ins are scaled by 2 to the minus this: from 2**1000 they may grow.
_OVER = {"f": 0, "d": 25}
# The exponent of a product below all numbers, whatever it is multiplied by.
_VANISHED = -5000


def speculate(
    transfer_map: TransferMap, chunk: Chunk, results: tuple[np.ndarray, ...]
) -> tuple[AffineSummary, Prefix] | None:
    """Determine a chunk from a carry-in of 0: its summary, and what its true carry-in may change.

    Returns
    -------
    (AffineSummary, Head) or None
        None where the chunk does not forget soon, or a result is not finite or near overflow;
        the results are then of no use.
    """
    s, t = map(writable, chunk.operands)
    if not _may_forget(s, chunk):
        return None
    (result,) = results
    is_positive = _determine(transfer_map, chunk, result)
    carry_out, top = result[:, 0 if chunk.reverse else -1], float(limits(chunk.dtype)[0])
    growth = np.empty(chunk.row_shape)
    most, (start, unit) = chunk.steps // _PREFIX_FRACTION, _scale(chunk.dtype)
    steps = int(_measure(s, result, most, chunk.reverse, start, unit, top, growth))
    # What is not finite once stays so to the end.
    if steps < 0 or not (np.abs(carry_out) <= top).all():
        logger.debug("speculate: %d steps depend on their carry-in; determined again", chunk.steps)
        return None
    signs = None if is_positive else signs_of(s, chunk.steps)
    product = signs.product if signs else 1.0
    mantissa = np.broadcast_to(0.5 * product, chunk.row_shape).copy()
    exponent = np.full(chunk.row_shape, _VANISHED, np.int64)
    first = [_first_steps(array, chunk, steps) for array in (s, t, result)]
    prefix = Prefix(first[0], first[1], first[2], signs, chunk.reverse)
    return AffineSummary(mantissa, exponent, carry_out.copy(), growth), prefix


def _may_forget(s: np.ndarray, chunk: Chunk) -> bool:
    """Whether the first coefficients say that the head will be short."""
    count = min(_MOST_EVIDENCE, chunk.steps // _EVIDENCE_SHARE)
    if count == 0:
        return False
    first = s[0, -count:, 0] if chunk.reverse else s[0, :count, 0]
    with np.errstate(all="ignore"):
        bits = -float(np.log2(np.abs(first.astype(np.float64))).mean())
    start, unit = _scale(chunk.dtype)
    wanted = math.log2(start) - math.log2(unit)
    return bits > 0 and wanted <= bits * (chunk.steps // _PREFIX_FRACTION)


def _scale(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Twice the largest number, and the unit roundoff; both times 2**-25 in float64."""
    info = np.finfo(dtype)
    over = _OVER[dtype.char]
    return 2.0 ** (info.maxexp + 1 - over), float(info.eps) / 2 * 2.0**-over


def _determine(transfer_map: TransferMap, chunk: Chunk, result: np.ndarray) -> bool:
    """Determine from 0; whether all coefficients are known to be positive."""
    carry_in = np.zeros(chunk.row_shape, chunk.dtype)
    flat = flatten(chunk)
    if chunk.shape[2] == 1 and cpu.is_direct(flat, chunk, is_constant=False):
        given = flat.operands, carry_in[:, 0], result[:, :, 0], safe_limits(chunk.dtype)
        return bool(affine_rows.determine_arrays(*given))
    cpu.determine(transfer_map, chunk, (carry_in,), (result,))
    return False


def _first_steps(array: np.ndarray, chunk: Chunk, steps: int) -> np.ndarray:
    """The first steps of every row in the order of the recurrence, copied: (rows, steps)."""
    if array.shape[1] == chunk.steps:
        array = array[:, : -steps - 1 : -1] if chunk.reverse else array[:, :steps]
    full = np.broadcast_to(array, (chunk.shape[0], steps, chunk.shape[2]))
    return np.array(full.transpose(0, 2, 1), order="C").reshape(-1, steps)


def _measured(
    s: Any, w: Any, most: int, reverse: bool, start: float, unit: float, top: float, growth: Any
) -> int:
    """The longest head of all rows, or -1; log2 of the largest product of first coefficients."""
    outer, steps, inner = w.shape
    longest = 0
    for row in range(outer):
        for column in range(inner):
            product, largest, length = start, start, -1
            first, j = row if s.shape[0] > 1 else 0, column if s.shape[2] > 1 else 0
            for step in range(most):
                at = steps - 1 - step if reverse else step
                i = at if s.shape[1] > 1 else 0
                coefficient, there = s[first, i, j], float(abs(w[row, at, column]))
                product *= float(abs(coefficient))
                largest = max(largest, product)
                if not there <= top:
                    return -1
                if product < unit * there or coefficient == 0:
                    length = step + 1
                    break
            if length < 0 or not largest < math.inf:
                return -1
            growth[row, column] = math.log2(largest / start)
            longest = max(longest, length)
    return longest


def _rejoined(
    s: Any, t: Any, carry_in: Any, results: Any, scale: float, unit: float, left: Any
) -> None:
    """Determine rows again until their results stand; `left` are the rows where none stands."""
    for row in range(results.shape[0]):
        state, difference = carry_in[row], float(abs(carry_in[row])) * scale
        left[row] = True
        for i in range(results.shape[1]):
            state = s[row, i] * state + t[row, i]
            difference *= float(abs(s[row, i]))
            there = results[row, i]
            is_near = difference < unit * float(abs(there))
            # What overflows on its way does not come back, however small the product becomes.
            if (is_near and abs(state) < math.inf) or state == there:
                left[row] = False
                break
            results[row, i] = state


_measure, _rejoin = compile_kernel(_measured), compile_kernel(_rejoined)


def correct(
    prefix: Prefix, carry_in: tuple[np.ndarray, ...], results: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Write the first results of a chunk from its carry-in, over the provisional ones.

    It reads none of these: it may run twice. A state that is not finite stays so to the end.
    """
    (result,), dtype = results, prefix.s.dtype
    values, left = prefix.provisional.copy(), np.empty(len(prefix.s), bool)
    before = np.ascontiguousarray(carry_in[0], dtype).reshape(-1)
    _rejoin(prefix.s, prefix.t, before, values, 2.0 ** -_OVER[dtype.char], _scale(dtype)[1], left)
    outer, _, inner = result.shape
    ordered = result[:, ::-1] if prefix.reverse else result
    turned = values.reshape(outer, inner, -1).transpose(0, 2, 1)
    ordered[:, : prefix.steps] = turned
    if left.any():
        states, is_lost = turned[:, -1], left.reshape(outer, inner)
        rest = ordered[:, prefix.steps :]
        if prefix.signs:
            prefix.signs.carry(states, is_lost, rest, prefix.reverse)
        else:
            np.copyto(rest, states[:, None], where=is_lost[:, None])
    return results
