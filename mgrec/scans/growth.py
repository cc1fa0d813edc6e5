"""Affine maps that neither overflow nor underflow: :class:`AffineSummary` as a transfer map.

A product is (mantissa, exponent), 1/2 <= |mantissa| < 1. Beside the product of all coefficients
a map has the largest product of the first ones (growth: does a carry-in overflow on its way?) and
of the last ones (rebound: could a state that underflowed come back?).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..core.algebra.transfer_map import Map, TransferMap
from .affine import FINE, NAN, REDO
from .margins import margins

Scaled = tuple[Any, Any]


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
    """A product of two mantissas, brought back to 1/2 or more."""
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
    """The larger of two sizes; `y` where `x` is 0 or nan."""
    is_larger = (x[0] > 0) & ((x[1] > y[1]) | ((x[1] == y[1]) & (x[0] > y[0])))
    return np.where(is_larger, x[0], y[0]), np.where(is_larger, x[1], y[1])


@cache
def guarded_affine(dtype: np.dtype[Any]) -> TransferMap:
    """The maps of w = s·w + t with a flag that says whether they can be trusted.

    Parameters
    ----------
    dtype : numpy.dtype
        Floating or complex; of all components.

    Returns
    -------
    TransferMap
        Of eight components: mantissa and exponent of the product, offset, mantissa and
        exponent of the growth and of the rebound, and the flag: NAN where an operand is nan,
        REDO where one is infinite or a number is beyond its margin, else FINE.
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
