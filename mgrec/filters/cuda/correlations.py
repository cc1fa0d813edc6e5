"""Gradients of the coefficients of a filter: correlations of signals at small lags."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.arrays.chunk import as_contiguous, canonical_shape
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import MULTIPROCESSORS, pack_words
from ...engines.cuda.launches import Launch, PreparedLaunches, Slot
from ...engines.cuda.tracing.cpp import ctype, print_definitions
from ..coefficient_adjoint import AdjointCoefficients, of_one_dtype

_THREADS, _MOST_LAGS, _BLOCKS = 256, 8, 8 * MULTIPROCESSORS
# Coefficients that a kernel takes by value: 2 KB of complex numbers.
_MOST_COEFFICIENTS = 64
_FLOATS = "fdFD"
_CORRELATE = """
extern "C" __global__ void __launch_bounds__(THREADS) correlate_kernel(
    const {delayed}* delayed, {parameters}, {sums}* sums, const Extents extents) {{
  const {signal}* const signals[] = {{{names}}};
  correlate(delayed, signals, sums, extents);
}}
"""
_DIFFERENTIATE = """
extern "C" __global__ void __launch_bounds__(THREADS) differentiate_kernel(
    const {sums}* sums, {b}* of_b, {a}* of_a, const Coefficients<{sums}> coefficients) {{
  differentiate_coefficients(sums, BLOCKS, of_b, of_a, coefficients);
}}
"""


def differentiate_coefficients(
    adjoint: Any, signals: Sequence[Any], axis: int, coefficients: AdjointCoefficients
) -> tuple[Any, Any]:
    """Return the gradients of b and a.

    One kernel for all of the formula: 15 operations of CuPy took 0.15 ms of the host's time.
    """
    import cupy

    b, a, count = coefficients.b, coefficients.a, coefficients.count
    sums = sum_lags(adjoint, signals, axis, count)
    if count > _MOST_COEFFICIENTS:
        return coefficients.gradients(sums.sum(axis=0))
    of_b, of_a = (
        cupy.empty(len(c), c.dtype if c.dtype.char in _FLOATS else sums.dtype) for c in (b, a)
    )
    numbers = np.empty(2 * count + 1, sums.dtype)
    numbers[:count], numbers[count:-1] = coefficients.numerator, coefficients.denominator
    numbers[-1] = coefficients.scale
    launch = _prepare_gradients(
        of_b.dtype, of_a.dtype, sums.dtype, len(b), len(a), cupy.cuda.runtime.getDevice()
    )
    launch((sums, of_b, of_a, numbers.view(f"V{numbers.nbytes}")))
    return of_b, of_a


def sum_lags(delayed: Any, signals: Sequence[Any], axis: int, count: int) -> Any:
    """Return Σ_n delayed_{n+k}·conj(signal_n) for k = 0 … count − 1 and each signal, in float64.

    The result has the shape (blocks, signals, count): each block has a part of each sum. Signals
    have one shape. `delayed` may be longer along the axis than they are, or shorter: it then
    continues with 0.
    """
    import cupy

    signals = [as_contiguous(signal) for signal in signals]
    reverse = (slice(None),) * axis + (slice(None, None, -1),)
    outers, steps, inners = canonical_shape(signals[0].shape, axis)
    available = delayed.shape[axis]
    is_reversed = delayed[reverse].flags.c_contiguous
    delayed = delayed[reverse] if is_reversed else as_contiguous(delayed)
    origin, step = ((available - 1) * inners, -inners) if is_reversed else (0, inners)
    segments = max(1, _BLOCKS // max(outers, 1))
    length = -(-steps * inners // segments)
    dtype = np.result_type(delayed, *signals, np.float64)
    sums, device = cupy.empty((_BLOCKS, len(signals), count), dtype), cupy.cuda.runtime.getDevice()
    for first in range(0, count, _MOST_LAGS):
        first_sum, lags = first, min(_MOST_LAGS, count - first)
        for group in of_one_dtype(signals):
            extents = [
                outers, steps, inners, available, origin, available * inners, step, first,
                segments, length, first_sum, len(signals) * count, count,
            ]  # fmt: skip
            launch = _prepare_sums(delayed.dtype, group[0].dtype, dtype, len(group), lags, device)
            launch((delayed, *group, sums, pack_words(extents)))
            first_sum += len(group) * count
    return sums


@lru_cache(maxsize=256)
def _prepare_sums(
    delayed: np.dtype[Any], signal: np.dtype[Any], sums: np.dtype[Any], signals: int, lags: int,
    device: int,
) -> PreparedLaunches:  # fmt: skip
    extents = Slot(signals + 2, (13,), np.dtype(np.int64), None)
    arguments = (*map(Slot, range(signals + 2)), extents)
    text = print_sums(delayed, signal, sums, signals, lags)
    return PreparedLaunches(Launch(text, "correlate_kernel", _BLOCKS, _THREADS, arguments))


@lru_cache(maxsize=256)
def _prepare_gradients(
    of_b: np.dtype[Any], of_a: np.dtype[Any], sums: np.dtype[Any], b: int, a: int, device: int
) -> PreparedLaunches:
    arguments = (*map(Slot, range(3)), Slot(3, (2 * max(b, a) + 1,), sums, None))
    text = print_gradients(of_b, of_a, sums, b, a)
    return PreparedLaunches(Launch(text, "differentiate_kernel", 1, _THREADS, arguments))


def print_sums(
    delayed: np.dtype[Any], signal: np.dtype[Any], sums: np.dtype[Any], signals: int, lags: int
) -> str:
    """Return the program that sums products of arrays of these dtypes, and so many signals."""
    names = [f"signal{k}" for k in range(signals)]
    types = {"delayed": ctype(delayed), "signal": ctype(signal), "sums": ctype(sums)}
    parameters = ", ".join(f"const {types['signal']}* {name}" for name in names)
    kernel = _CORRELATE.format(parameters=parameters, names=", ".join(names), **types)
    return _print({"SIGNALS": signals, "LAGS": lags}, "correlate", kernel)


def print_gradients(
    of_b: np.dtype[Any], of_a: np.dtype[Any], sums: np.dtype[Any], b: int, a: int
) -> str:
    """Return the program that computes gradients of these dtypes, of so many coefficients."""
    constants = {"BLOCKS": _BLOCKS, "B_COUNT": b, "A_COUNT": a, "COUNT": max(b, a)}
    kernel = _DIFFERENTIATE.format(b=ctype(of_b), a=ctype(of_a), sums=ctype(sums))
    return _print(constants, "coefficient_gradients", kernel)


def _print(constants: dict[str, int], name: str, kernel: str) -> str:
    numeric = kernel_text("engines/cuda/scalar/numeric")
    header = print_definitions(numeric, {"THREADS": _THREADS, **constants})
    return header + kernel_text(f"filters/cuda/{name}") + kernel
