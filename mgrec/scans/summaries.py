"""Summaries of a chunk: a few numbers for each row, in host memory, and whether they are valid.

A row beyond the margins below gets the flag REDO: the loop solves it from its true carry-in. M is
the largest number of float32 (in brackets: float64), also of the parts of a complex number.

*Offsets.* Half a unit in the last place of M is 2^-25·M (2^-54·M). A sum with a smaller offset
overflows only if the product alone overflows.

- A CPU adds offsets step by step and checks each: 2^-40·M (2^-60·M).
- A GPU composes maps, and up to 300 offsets may add up after their checks: 300 of 2^-40·M
  (2^-72·M) are below 2^-31·M (2^-63·M), but 300 of 2^-60·M would exceed 2^-54·M.

*Rebound.* A state that underflowed in the loop was below 2^-149 (2^-1074). Products of up to 2^200
(2^500) return it below 2^51 (2^-574), far from overflow at 2^128 (2^1024).

*Safe blocks* of a CPU need no test of single steps. Their coefficients are 0 or from 2^-30 to
2^0.25. The product of all is scaled every 16 steps: from 2^-500 it falls to 2^-980 at least, a
normal float64. 128 steps grow by 2^32 at most, and 128 offsets to 2^39 times the largest, so that
each t and the first offset stay 2^40 below the margin.

The kernels of ``trust/bounded.cuh`` have constants of their own, rounded down: 1e26 (1e286) for
offsets, 1e30 (1e140) for growth and rebound, within the steps of a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import frexp, inf, isfinite, isnan, ldexp, nan
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import Map, TransferMap
from ..core.arrays.chunk import Chunk, CoefficientOperand

FINE, REDO, NAN = 0, 1, 2
"""Flags of a row: its summary is valid, the row must be redone, or it ends in nan.

The flag of several rows or parts is the largest."""

# Up to this many rows, carry-ins are computed by Python numbers: a chunk of one row takes 27 us
# with arrays, and 3.6 us with numbers.
FEW_ROWS = 8


@dataclass(frozen=True)
class AffineSummary:
    """Summary of w = s·w + t: ``carry_out = mantissa * 2**exponent * carry_in + offset``.

    The product of the coefficients is scaled, so that it neither overflows nor underflows: a
    large state passes through a product of 1e-400, as it does in the loop.

    `mantissa`, `exponent`, array (outer, inner), float64 or complex128, and int64: the product of
      all coefficients.
    `offset`, array (outer, inner): the carry-out for a carry-in of 0; nan if an operand of the row
      is nan.
    `growth`, array (outer, inner), float64: log2 of the largest product of the first i
      coefficients, i = 0, 1, ... It decides whether a carry-in overflows on its way. The loop then
      never returns to a finite number, whatever the product of all coefficients is.
    `redo`, dict, (outer, inner) -> Chunk: rows to redo, with their operands: an operand is
      infinite, or an offset near overflow.
    """

    mantissa: np.ndarray
    exponent: np.ndarray
    offset: np.ndarray
    growth: np.ndarray
    redo: dict[tuple[int, int], Chunk] = field(default_factory=dict)

    def __reduce__(self) -> Any:
        # Numbers for one row: other workers wait for the message, and four arrays take 0.1 ms.
        if self.offset.size != 1 or self.redo:
            return AffineSummary, (self.mantissa, self.exponent, self.offset, self.growth, self.redo)
        numbers = [x.item() for x in (self.mantissa, self.exponent, self.offset, self.growth)]
        return _of_one_row, (self.offset.dtype.char, self.offset.shape, *numbers)


def _of_one_row(
    char: str, shape: tuple[int, ...], mantissa: complex, exponent: int, offset: complex, growth: float
) -> AffineSummary:
    dtype = np.dtype(char)
    wide = np.complex128 if dtype.kind == "c" else np.float64
    return AffineSummary(
        np.full(shape, mantissa, wide),
        np.full(shape, exponent, np.int64),
        np.full(shape, offset, dtype),
        np.full(shape, growth),
    )


_VANISHED = -5000
"""An exponent below that of all numbers, whatever the product is multiplied by."""


def contractive_summary(sign: Any, carry_out: np.ndarray, growth: Any) -> AffineSummary:
    """Return the summary of a chunk that ends in `carry_out` for any finite carry-in.

    `sign` is that of the product of all coefficients, or 0.
    """
    shape = carry_out.shape
    mantissa, growth = (np.broadcast_to(value, shape).copy() for value in (0.5 * sign, growth))
    return AffineSummary(mantissa, np.full(shape, _VANISHED, np.int64), carry_out, growth)


def rows_to_redo(chunk: Chunk, flags: np.ndarray) -> dict[tuple[int, int], Chunk]:
    """Return the rows with the flag REDO, with their operands copied to host memory."""
    is_redone = flags == REDO
    indices = np.argwhere(is_redone).tolist() if is_redone.any() else []
    return {(outer, inner): _row_on_host(chunk, outer, inner) for outer, inner in indices}


def _row_on_host(chunk: Chunk, outer: int, inner: int) -> Chunk:
    def copied(array: Any) -> np.ndarray:
        part = array[:, :, inner : inner + 1] if array.shape[2] > 1 else array
        return np.array(part.get() if hasattr(part, "get") else part)

    row = replace(chunk, kept=None).rows(outer, outer + 1)
    row = row.map_arrays(copied, (1, chunk.steps, 1))
    return with_functions(row, [None] * len(row.operands))


def with_functions(row: Chunk, functions: Sequence[Any]) -> Chunk:
    """Replace the functions of coefficients: other workers get numbers, and know the functions."""
    operands = [
        replace(operand, function=function) if isinstance(operand, CoefficientOperand) else operand
        for operand, function in zip(row.operands, functions, strict=True)
    ]
    return replace(row, operands=tuple(operands))


def propagate_affine(summary: AffineSummary, carry_in: np.ndarray) -> np.ndarray:
    """Return the carry-outs of all rows; those in ``summary.redo`` have no meaning.

    A row overflows if |carry-in| * 2**growth exceeds the largest number of the dtype: rows with
    offsets that could prevent or cause an overflow are in ``redo``.
    """
    dtype = summary.offset.dtype
    wide: Any = np.complex128 if dtype.kind == "c" else np.float64
    largest = float(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        # A mantissa within 2**±500 times an unscaled carry-in may overflow.
        unit, shift = _frexp(summary.mantissa)
        state, more = _frexp(carry_in.astype(wide))
        scaled = unit * state
        exponent = np.clip(summary.exponent + shift + more, -4400, 4400).astype(np.int32)
        carry_out = (_ldexp(scaled, exponent) + summary.offset).astype(dtype)
        most = _largest_carry_in(summary.growth, largest)
        # A chunk with a nan operand ends in nan, whether or not the state overflowed before.
        overflows = np.isfinite(carry_in) & (_magnitude(carry_in) > most) & ~np.isnan(carry_out)
        lost = np.where(summary.mantissa == 0, np.nan, scaled * np.inf)
        if dtype.kind == "c":
            lost = np.full_like(lost, complex(np.nan, np.nan))
        return np.where(overflows, lost, carry_out).astype(dtype)


def are_short(summaries: Sequence[Any]) -> bool:
    """Return whether :func:`propagate_short` applies: few rows, all real and valid."""
    return all(
        isinstance(summary, AffineSummary)
        and not summary.redo
        and summary.offset.dtype.kind == "f"
        and 0 < summary.offset.size <= FEW_ROWS
        for summary in summaries
    )


def propagate_short(summaries: Sequence[AffineSummary], carry_in: np.ndarray) -> list[np.ndarray]:
    """Return the carry-outs of consecutive chunks, with the bits of :func:`propagate_affine`."""
    if not summaries:
        return []
    first = summaries[0].offset
    carry_ins = np.broadcast_to(carry_in, first.shape).ravel().tolist()
    parts = ("mantissa", "exponent", "offset", "growth")
    mantissa, exponent, offset, growth = (
        np.stack([getattr(summary, part).ravel() for summary in summaries], axis=1) for part in parts
    )
    largest = float(np.finfo(first.dtype).max)
    with np.errstate(all="ignore"):
        unit, shift = _frexp(mantissa)
        most = _largest_carry_in(growth, largest)
        rows = zip(
            carry_ins, unit.tolist(), (exponent + shift).tolist(), offset.tolist(), most.tolist(), strict=True
        )
        carry_outs = np.array([list(_carry_outs(first.dtype, *row)) for row in rows], first.dtype)
    return [carry_outs[:, k].reshape(first.shape) for k in range(len(summaries))]


def _carry_outs(
    dtype: np.dtype[Any],
    carry_in: float,
    units: list[float],
    exponents: list[int],
    offsets: list[float],
    mosts: list[float],
) -> Iterator[float]:
    """Yield the carry-outs of one row, chunk by chunk."""
    rounded, is_narrow = dtype.type, dtype.itemsize < 8
    for unit, exponent, offset, most in zip(units, exponents, offsets, mosts, strict=True):
        state, more = frexp(carry_in)
        scaled = unit * state
        try:
            carry_out = ldexp(scaled, min(max(exponent + more, -4400), 4400)) + offset
        except OverflowError:
            carry_out = (inf if scaled > 0 else -inf) + offset
        carry_out = float(rounded(carry_out)) if is_narrow else carry_out
        if abs(carry_in) > most and isfinite(carry_in) and not isnan(carry_out):
            carry_out = nan if unit == 0 else scaled * inf
        carry_in = carry_out
        yield carry_out


def _largest_carry_in(growth: np.ndarray, largest: float) -> np.ndarray:
    """Return the largest carry-in that does not overflow: largest * 2**-growth."""
    whole = np.minimum(np.floor(growth), 4400)
    return np.ldexp(largest * np.exp2(whole - growth), -whole.astype(np.int32))


def _frexp(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values scaled to a magnitude from 1/2 to 1, and the exponents of the scales."""
    _, exponent = np.frexp(_magnitude(values))
    return _ldexp(values, -exponent), exponent


def _ldexp(values: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "c":
        return np.ldexp(values.real, exponent) + 1j * np.ldexp(values.imag, exponent)
    return np.ldexp(values, exponent)


def _magnitude(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "c":
        return np.maximum(np.abs(values.real), np.abs(values.imag))
    return np.abs(values)


Maps = tuple[np.ndarray, ...]
"""The composed map of every row, an array (outer, inner) for each scalar."""


@dataclass(frozen=True)
class SegmentedSummary:
    """Summary of a chunk with resets. The carry-out of a row with a reset needs no carry-in.

    `inner` is the summary of the map without resets, valid in rows without a reset. `carry_outs`
    are those of rows with a reset, one array (outer, inner) for each scalar of the state;
    `is_reset` marks these rows.
    """

    inner: Any
    carry_outs: tuple[np.ndarray, ...]
    is_reset: np.ndarray

    @property
    def redo(self) -> Any:
        """Rows to redo, with their operands."""
        redo = getattr(self.inner, "redo", None) or {}
        return {row: chunk for row, chunk in redo.items() if not self.is_reset[row]}


SAFE_BLOCK = 128
SAFE_LOW, SAFE_HIGH = 2.0**-30, 2.0**0.25
SAFE_GROWTH = 32.0  # log2
SAFE_TERM = 2.0**-40  # of the largest offset


@dataclass(frozen=True)
class Margins:
    """The largest valid offsets, and log2 of the largest valid rebound."""

    offset_on_cpu: float
    offset_on_gpu: float
    rebound: int


@cache
def margins(dtype: np.dtype[Any]) -> Margins:
    """Return the margins of a floating or complex dtype."""
    info = np.finfo(dtype)
    largest = float(info.max)
    if info.dtype.itemsize == 4:
        return Margins(largest * 2.0**-40, largest * 2.0**-40, 200)
    return Margins(largest * 2.0**-60, largest * 2.0**-72, 500)


Scaled = tuple[Any, Any]


# A scaled number is (mantissa, exponent), 1/2 <= |mantissa| < 1. A guarded map has three of them:
# the product of all coefficients; the growth, which is the largest product of the first ones and
# says whether a carry-in overflows on its way; and the rebound, which is the largest product of the
# last ones and says whether a state that underflowed could return.


def _product_of(step: Map) -> Scaled:
    return step[0], step[1].real


def _growth_of(step: Map) -> Scaled:
    return step[3].real, step[4].real


def _rebound_of(step: Map) -> Scaled:
    return step[5].real, step[6].real


def _times_two_to(x: Any, exponent: Any) -> Any:
    shift = np.minimum(np.maximum(exponent, -5000), 5000).astype(np.int32)
    return np.ldexp(x, shift)


def _complex_times_two_to(x: Any, exponent: Any) -> Any:
    return _times_two_to(x.real, exponent) + 1j * _times_two_to(x.imag, exponent)


def _complex_size(x: Any) -> Any:
    return np.maximum(np.absolute(x.real), np.absolute(x.imag))


def _normal(mantissa: Any, exponent: Any) -> Scaled:
    """Return a product of two mantissas with a mantissa of 1/2 or more."""
    is_small = np.absolute(mantissa) < 0.5
    return np.where(is_small, 2 * mantissa, mantissa), np.where(is_small, exponent - 1, exponent)


def _complex_normal(mantissa: Any, exponent: Any) -> Scaled:
    # The larger part of a product of two mantissas is from 0.17 to 2.
    size = _complex_size(mantissa)
    shift = np.where(size >= 1, 1, np.where(size < 0.25, -2, np.where(size < 0.5, -1, 0)))
    factor = np.where(size >= 1, 0.5, np.where(size < 0.25, 4.0, np.where(size < 0.5, 2.0, 1.0)))
    return mantissa * factor, exponent + shift


def _complex_scaled(s: Any) -> Scaled:
    exponent = np.frexp(_complex_size(s))[1]
    return np.ldexp(s.real, -exponent) + 1j * np.ldexp(s.imag, -exponent), exponent


_REAL = np.absolute, np.frexp, _normal, _times_two_to
_COMPLEX = _complex_size, _complex_scaled, _complex_normal, _complex_times_two_to


def _times(x: Scaled, y: Scaled) -> Scaled:
    return _normal(x[0] * y[0], x[1] + y[1])


def _larger(x: Scaled, y: Scaled) -> Scaled:
    """Return the larger of two sizes; `y` if `x` is 0 or nan."""
    is_larger = (x[0] > 0) & ((x[1] > y[1]) | ((x[1] == y[1]) & (x[0] > y[0])))
    return np.where(is_larger, x[0], y[0]), np.where(is_larger, x[1], y[1])


@cache
def guarded_affine(dtype: np.dtype[Any]) -> TransferMap:
    """Return the transfer map of w = s·w + t with a flag of its validity, in one dtype.

    The eight components are mantissa and exponent of the product, the offset, mantissa and exponent
    of the growth and of the rebound, and the flag: NAN if an operand is nan, REDO if an operand is
    infinite or a number is beyond its margin, else FINE.
    """
    most, top = margins(dtype).rebound, margins(dtype).offset_on_gpu
    largest = float(np.finfo(dtype).max)
    size, scaled, normal, shifted = _COMPLEX if dtype.kind == "c" else _REAL

    def lift(s: Any, t: Any) -> Map:
        mantissa, exponent = scaled(s)
        growth = _larger((size(mantissa), exponent), (0.5, 1))
        is_safe = (size(t) <= top) & (size(s) <= largest) & (growth[1] <= most)
        is_nan = (s != s) | (t != t)
        flag = np.where(is_nan, NAN, np.where(is_safe, FINE, REDO))
        return mantissa, exponent, t, *growth, *growth, flag

    def compose(earlier: Map, later: Map) -> Map:
        first, second = _product_of(earlier), _product_of(later)
        product = normal(second[0] * first[0], second[1] + first[1])
        offset = shifted(second[0] * earlier[2], second[1]) + later[2]
        later_growth, earlier_rebound = _growth_of(later), _rebound_of(earlier)
        growth = _larger(_times((size(first[0]), first[1]), later_growth), _growth_of(earlier))
        rebound = _larger(_times((size(second[0]), second[1]), earlier_rebound), _rebound_of(later))
        on_its_way = _times_two_to(later_growth[0] * size(earlier[2]), later_growth[1])
        is_safe = (size(offset) <= top) & (on_its_way <= top) & (rebound[1] <= most)
        flags = np.maximum(earlier[7].real, later[7].real)
        flag = np.where(is_safe, flags, np.maximum(flags, REDO))
        return *product, offset, *growth, *rebound, flag

    def apply(step: Map, w: Any) -> Any:
        mantissa, exponent = _product_of(step)
        return shifted(mantissa * w, exponent) + step[2]

    identity = (0.5, 1, 0, 0.5, 1, 0.5, 1, 0)
    return TransferMap(lift, compose, apply, identity, "guarded_affine")
