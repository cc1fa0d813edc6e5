"""Correlations of signals at small lags: gradients of the coefficients of a filter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numba
import numpy as np

from ...core.arrays.chunk import as_contiguous, canonical_shape
from ...engines.cpu.compilation import INNER, compile_kernel, writable
from ...engines.cpu.threads import call_in_parts, threads_for
from ..coefficient_adjoint import AdjointCoefficients, groups_of_one_dtype

# Samples that stay in the first cache while they are read once for each lag.
_BLOCK = 1 << 10
# Samples that one entry of the sums belongs to. Threads share segments, so that the bits do not
# depend on their number.
_SEGMENT = 1 << 16


_SUM: dict[str, Any] = {**INNER, "fastmath": {"reassoc", "contract", "nsz"}}


@numba.njit(**_SUM)
def _dot(delayed: Any, signal: Any, zero: Any) -> Any:
    total = zero
    for n in range(signal.size):
        total += (zero + delayed[n]) * np.conj(zero + signal[n])
    return total


@numba.njit(**_SUM)
def _dot_reversed(delayed: Any, signal: Any, zero: Any) -> Any:
    # Unsigned indices: those that could be negative took three times as long.
    total, last = zero, np.uint64(delayed.size - 1)
    for n in range(np.uint64(signal.size)):
        total += (zero + delayed[last - n]) * np.conj(zero + signal[n])
    return total


def _correlate_segments(
    delayed: Any, signals: Any, inner: int, is_reversed: bool, sums: Any, first: int, last: int
) -> None:
    """Write the sums (segments, signals, lags) of some segments of rows (outer, samples)."""
    size, available = signals[0].shape[1], delayed.shape[1]
    segments, zero = sums.shape[0] // delayed.shape[0], sums.dtype.type(0)
    for segment in range(first, last):
        row, start = segment // segments, segment % segments * _SEGMENT
        sums[segment] = 0
        for left in range(start, min(start + _SEGMENT, size), _BLOCK):
            right = min(left + _BLOCK, start + _SEGMENT, size)
            for number in range(len(signals)):
                for k in range(sums.shape[2]):
                    origin = left + k * inner
                    count = min(right - left, available - origin)
                    if count <= 0:
                        break
                    part = signals[number][row, left : left + count]
                    if is_reversed:
                        end = available - origin
                        total = _dot_reversed(delayed[row, end - count : end], part, zero)
                    else:
                        total = _dot(delayed[row, origin : origin + count], part, zero)
                    sums[segment, number, k] += total


_kernel = compile_kernel(_correlate_segments, allocates=False)


def correlate(delayed: Any, signals: Sequence[Any], axis: int, count: int) -> list[Any]:
    """Return Σ_n delayed_{n+k}·conj(signal_n) for k = 0 … count − 1 and each signal, in float64.

    Signals have one shape and dtype. `delayed` may be longer along the axis than they are, or
    shorter: it then continues with 0. A row that is reversed in memory is not copied.
    """
    outer, steps, inner = canonical_shape(signals[0].shape, axis)
    backward = np.flip(delayed, axis)
    is_reversed = inner == 1 and backward.flags.c_contiguous
    delayed = backward if is_reversed else as_contiguous(delayed)
    delayed, *signals = (
        writable(as_contiguous(array)).reshape(outer, array.shape[axis] * inner)
        for array in (delayed, *signals)
    )
    segments = outer * max(1, -(-steps * inner // _SEGMENT))
    dtype = np.result_type(delayed, signals[0], np.float64)
    sums = np.zeros((segments, len(signals), count), dtype)
    correlate_part = partial(_kernel, delayed, tuple(signals), inner, is_reversed, sums)
    call_in_parts(correlate_part, segments, threads_for(signals[0].size))
    return [*sums.sum(axis=0)]


def differentiate_coefficients(
    adjoint: Any, signals: Sequence[Any], axis: int, coefficients: AdjointCoefficients
) -> tuple[Any, Any]:
    """Return the gradients of b and a."""
    sums: list[Any] = []
    for numbers in groups_of_one_dtype([signal.dtype for signal in signals]):
        sums += correlate(adjoint, [signals[k] for k in numbers], axis, coefficients.count)
    return coefficients.gradients(sums)
