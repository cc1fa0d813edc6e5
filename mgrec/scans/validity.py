"""Whether the summary of a row of w = s·w + t is valid, on a CPU and on a GPU.

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

The kernels of ``trust/calm.cuh`` have constants of their own, rounded down: 1e26 (1e286) for
offsets, 1e30 (1e140) for growth and rebound, within the steps of a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import Map, TransferMap
from .summaries import FINE, NAN, REDO

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
