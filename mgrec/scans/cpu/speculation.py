"""Speculation on chunks of w = s·w + t: determine and summarise a contractive chunk in one pass.

A chunk is determined from 0. A carry-in matters until |A_i|·M <= u·|w⁰_i|, where A_i is the
product of the first i coefficients, w⁰_i the result from 0, M the largest number of the dtype and u
its unit roundoff. If the state after the chunk is finite, it is that of w⁰ for any carry-in, and
only these first steps, the prefix, are determined again.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap, affine
from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import compile_kernel, writable
from ...engines.cpu.simd.checks import sign_mask, zero_mask
from ...engines.cpu.simd.lanes import load_64_bytes
from ..summaries import AffineSummary, contractive_summary
from . import one_thread
from .affine_summary import limits
from .kernels import kernel_of, rejoin_speculative_rows

logger = logging.getLogger("mgrec")

# Products with the largest carry-in are scaled by 2 to the minus this power, so that they may grow.
_SCALE = {"f": 0, "d": 25}


MOST_EVIDENCE, EVIDENCE_FRACTION = 1024, 64
"""Steps whose coefficients show whether a chunk is contractive: at most so many, and at most this
fraction (1/64) of the chunk."""
PREFIX_FRACTION = 8
"""The prefix may be expected to be 1/8 of a chunk: a step of it takes four times as long."""


@dataclass(frozen=True)
class Signs:
    """The signs of a chunk's coefficients, which decide what becomes of an infinite state.

    `negative` and `zero` have a bit for each coefficient, in their order in the chunk: whether its
    sign bit is set, and whether it is 0; `zero` is None if none is 0. `product` (outer, inner) is
    the sign of the product of each row's coefficients, or 0. In `shape` (outer, steps, inner) and
    in `product` axes of length 1 are broadcast.
    """

    negative: np.ndarray
    zero: np.ndarray | None
    product: np.ndarray
    shape: tuple[int, int, int]

    def propagate_infinite(
        self, states: np.ndarray, is_infinite: np.ndarray, results: np.ndarray, reverse: bool
    ) -> None:
        """Write the last `results`, in the order of the recurrence, of rows with infinite states.

        `states` and `is_infinite` (outer, inner) describe the rows before these results.
        """
        count = results.shape[1]
        negative, zero = (
            self._last_flags(bits, count, reverse) for bits in (self.negative, self.zero)
        )
        for row, column in np.argwhere(is_infinite):
            i, j = row if len(negative) > 1 else 0, column if negative.shape[2] > 1 else 0
            state = states[row, column]
            is_negated = np.cumsum(np.broadcast_to(negative[i, :, j], count)) % 2
            signed = np.where(is_negated, -state, state)
            is_nan = np.logical_or.accumulate(zero[i, :, j])
            results[row, :, column] = np.where(is_nan, np.nan, signed)

    def _last_flags(self, bits: np.ndarray | None, count: int, reverse: bool) -> np.ndarray:
        """Return a flag for each of the last `count` steps of all rows, or one for all of them."""
        if bits is None:
            return np.zeros((self.shape[0], 1, self.shape[2]), bool)
        flags = np.unpackbits(bits, bitorder="little", count=math.prod(self.shape)).reshape(
            self.shape
        )
        return (flags[:, ::-1] if reverse else flags)[:, -count:]


@dataclass(frozen=True)
class Prefix:
    """The first steps of every row of w = s·w + t, in the order of the recurrence.

    The results after them are right for any finite carry-in whose states stay finite. Arrays are
    (rows, steps); `provisional` has the results from a carry-in of 0. `signs` are those of the
    chunk's coefficients, None if all are above 0. `reverse` is that of the chunk.
    """

    s: np.ndarray
    t: np.ndarray
    provisional: np.ndarray
    signs: Signs | None
    reverse: bool

    @property
    def operand_bytes(self) -> int:
        return int(self.s.nbytes)


def speculate(
    transfer_map: TransferMap, chunk: Chunk, results: tuple[np.ndarray, ...]
) -> tuple[AffineSummary, Prefix] | None:
    """Determine a chunk from a carry-in of 0; return its summary and its prefix.

    Return None if the chunk is not contractive, or a result is not finite or near overflow; the
    results then have no meaning.
    """
    s, t = map(writable, chunk.operands)
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
    signs = None if is_positive else signs_of(s, chunk.steps)
    first = [_first_steps(array, chunk, steps) for array in (s, t, result)]
    prefix = Prefix(first[0], first[1], first[2], signs, chunk.reverse)
    sign = signs.product if signs else np.float64(1)
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


def _first_steps(array: np.ndarray, chunk: Chunk, steps: int) -> np.ndarray:
    """Copy the first steps of every row, in the order of the recurrence: (rows, steps)."""
    if array.shape[1] == chunk.steps:
        array = array[:, : -steps - 1 : -1] if chunk.reverse else array[:, :steps]
    full = np.broadcast_to(array, (chunk.shape[0], steps, chunk.shape[2]))
    return np.array(full.transpose(0, 2, 1), order="C").reshape(-1, steps)


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


def correct(
    prefix: Prefix, carry_in: tuple[np.ndarray, ...], results: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Write the first results of a chunk from its carry-in, and those after infinite states.

    Provisional results are written, but not read: the function may run twice.
    """
    (result,), dtype = results, prefix.s.dtype
    values, lengths = prefix.provisional.copy(), np.empty(len(prefix.s), np.int64)
    before = np.ascontiguousarray(carry_in[0], dtype).reshape(-1)
    distances = np.abs(before).astype(np.float64) * 2.0 ** -_SCALE[dtype.char]
    operands, (_, steps), unit = (prefix.s, prefix.t), values.shape, _scale(dtype)[1]
    rejoin = kernel_of(rejoin_speculative_rows, affine, ((None, 1), (None, 1)))
    rejoin(operands, (before,), (values,), steps, False, distances, unit, lengths)
    outer, _, inner = result.shape
    ordered = result[:, ::-1] if prefix.reverse else result
    first = values.reshape(outer, inner, -1).transpose(0, 2, 1)
    ordered[:, :steps] = first
    is_infinite = (lengths < 0).reshape(outer, inner)
    if is_infinite.any():
        states = first[:, -1]
        later = ordered[:, steps:]
        if prefix.signs:
            prefix.signs.propagate_infinite(states, is_infinite, later, prefix.reverse)
        else:
            np.copyto(later, states[:, None], where=is_infinite[:, None])
    return results


_REGISTER = 64  # bytes
# The first coefficients, whose signs are read before all others.
_FEW = 1024


def signs_of(s: np.ndarray, steps: int) -> Signs | None:
    """Return the signs of finite coefficients (outer, steps or 1, inner), None if all are > 0."""
    if s[:1, :_FEW].min() > 0 and s.min() > 0:
        return None
    flat = s.reshape(-1)
    whole = flat.size - flat.size % (_REGISTER // s.itemsize)
    negative = np.empty(-(-flat.size // 8), np.uint8)
    words = negative[: whole // 8].view(f"u{_REGISTER // s.itemsize // 8}")
    has_zero = bool(_pack(flat[:whole], words)) or not flat[whole:].all()
    negative[whole // 8 :] = _packed(np.signbit(flat[whole:]))
    is_negative = _is_product_negative(s.view(f"u{s.itemsize}"))
    product = np.where(is_negative & (s.shape[1] == steps or steps % 2 == 1), -1.0, 1.0)
    if not has_zero:
        return Signs(negative, None, product, s.shape)
    product[(s == 0).any(axis=1)] = 0
    return Signs(negative, _packed(flat == 0), product, s.shape)


def _packed(flags: np.ndarray) -> np.ndarray:
    return np.packbits(flags, bitorder="little")


def _pack_signs(s: Any, words: Any) -> bool:
    """Pack the signs of whole registers; return whether a number is 0."""
    width, is_zero = 64 // s.itemsize, 0
    for k in range(words.size):
        lanes = load_64_bytes(s, k * width)
        words[k] = sign_mask(lanes)
        is_zero |= zero_mask(lanes)
    return is_zero != 0


def _is_product_negative(bits: np.ndarray) -> np.ndarray:
    """Return whether an odd number of the coefficients of each row is negative."""
    outer, _, inner = bits.shape
    if inner == 1:
        parity = np.bitwise_xor.reduce(bits[:, :, 0], axis=1)[:, None]
    else:
        parity = np.zeros((outer, inner), bits.dtype)
        _xor_steps(bits, parity)
    return parity >> (8 * bits.itemsize - 1) != 0


def _xor_along_steps(bits: Any, parity: Any) -> None:
    # numpy.bitwise_xor.reduce takes seven times as long for few columns.
    for row in range(bits.shape[0]):
        row_parity = parity[row]
        for step in range(bits.shape[1]):
            columns = bits[row, step]
            for column in range(row_parity.size):
                row_parity[column] ^= columns[column]


_pack, _xor_steps = compile_kernel(_pack_signs), compile_kernel(_xor_along_steps)
