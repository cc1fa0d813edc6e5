"""Correlations of signals at small lags: gradients of the coefficients of a filter."""

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

_THREADS, _MOST_LAGS, _BLOCKS = 256, 8, 8 * MULTIPROCESSORS
_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS) correlate_kernel(
    const {delayed}* delayed, {parameters}, {sums}* sums, const Extents extents) {{
  const {signal}* const signals[] = {{{names}}};
  correlate(delayed, signals, sums, extents);
}}
"""


def correlate(delayed: Any, signals: Sequence[Any], axis: int, count: int) -> list[Any]:
    """Return Σ_n delayed_{n+k}·conj(signal_n) for k = 0 … count − 1 and each signal, in float64.

    Signals have one shape and dtype. `delayed` may be longer along the axis than they are, or
    shorter: it then continues with 0.
    """
    import cupy

    signals = [as_contiguous(signal) for signal in signals]
    signal = signals[0]
    reverse = (slice(None),) * axis + (slice(None, None, -1),)
    outers, steps, inners = canonical_shape(signal.shape, axis)
    available = delayed.shape[axis]
    is_reversed = delayed[reverse].flags.c_contiguous
    delayed = delayed[reverse] if is_reversed else as_contiguous(delayed)
    origin, step = ((available - 1) * inners, -inners) if is_reversed else (0, inners)
    dtype = np.result_type(delayed, signal, np.float64)
    segments = max(1, _BLOCKS // max(outers, 1))
    length = -(-steps * inners // segments)
    parts = []
    for first in range(0, count, _MOST_LAGS):
        lags = min(_MOST_LAGS, count - first)
        sums = cupy.empty((_BLOCKS, len(signals), lags), dtype)
        extents = [
            outers, steps, inners, available, origin, available * inners, step, first,
            segments, length,
        ]  # fmt: skip
        dtypes = delayed.dtype, signal.dtype, dtype
        launch = _prepare(*dtypes, len(signals), lags, cupy.cuda.runtime.getDevice())
        launch((delayed, *signals, sums, pack_words(extents)))
        parts.append(sums.sum(axis=0))
    return [*(parts[0] if len(parts) == 1 else cupy.concatenate(parts, axis=1))]


@lru_cache(maxsize=256)
def _prepare(
    delayed: np.dtype[Any], signal: np.dtype[Any], sums: np.dtype[Any], signals: int, lags: int,
    device: int,
) -> PreparedLaunches:  # fmt: skip
    extents = Slot(signals + 2, (10,), np.dtype(np.int64), None)
    arguments = (*map(Slot, range(signals + 2)), extents)
    text = print_program(delayed, signal, sums, signals, lags)
    return PreparedLaunches(Launch(text, "correlate_kernel", _BLOCKS, _THREADS, arguments))


def print_program(
    delayed: np.dtype[Any], signal: np.dtype[Any], sums: np.dtype[Any], signals: int, lags: int
) -> str:
    """Return the program for arrays of these dtypes, and so many signals."""
    constants = {"THREADS": _THREADS, "SIGNALS": signals, "LAGS": lags}
    types = {"delayed": ctype(delayed), "signal": ctype(signal), "sums": ctype(sums)}
    header = print_definitions(kernel_text("engines/cuda/scalar/numeric"), constants)
    names = [f"signal{k}" for k in range(signals)]
    parameters = ", ".join(f"const {types['signal']}* {name}" for name in names)
    kernel = _KERNEL.format(parameters=parameters, names=", ".join(names), **types)
    return header + kernel_text("filters/cuda/correlate") + kernel
