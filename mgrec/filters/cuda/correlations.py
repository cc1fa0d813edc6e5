"""Gradients of the coefficients of a filter: correlations of signals at small lags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.chunk import as_contiguous, canonical_shape
from ...engines.cuda.backend import prepare_reversal
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import MULTIPROCESSORS
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ...solve.prepared import PreparedCall
from ..coefficient_adjoint import AdjointCoefficients, groups_of_one_dtype

_THREADS, _MOST_LAGS, _BLOCKS = 256, 8, 8 * MULTIPROCESSORS
# Coefficients that a kernel takes by value: 2 KB of complex numbers.
_MOST_COEFFICIENTS = 64
_FLOATS = "fdFD"


def differentiate_coefficients(
    adjoint: Any, signals: Sequence[Any], axis: int, coefficients: AdjointCoefficients
) -> tuple[Any, Any]:
    """Return the gradients of b and a.

    One kernel for all of the formula: 15 operations of CuPy took 0.15 ms of the host's time.
    """
    import cupy

    sums = sum_lags(adjoint, signals, axis, coefficients.count)
    if coefficients.count > _MOST_COEFFICIENTS:
        return coefficients.gradients(sums.sum(axis=0))
    of_b, of_a = (
        cupy.empty(len(c), c.dtype if c.dtype.char in _FLOATS else sums.dtype)
        for c in (coefficients.b, coefficients.a)
    )
    device = cupy.cuda.runtime.getDevice()
    dtypes = of_b.dtype, of_a.dtype
    _prepare_gradients(coefficients, sums.dtype, dtypes, device)(sums.data.ptr, of_b.data.ptr, of_a.data.ptr)
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
    is_reversed = delayed[reverse].flags.c_contiguous
    in_memory = delayed[reverse] if is_reversed else as_contiguous(delayed)
    layout = _Layout(
        canonical_shape(signals[0].shape, axis),
        delayed.shape[axis],
        is_reversed,
        delayed.dtype,
        tuple(signal.dtype for signal in signals),
        count,
    )
    sum_at = _prepare_sums(layout, cupy.cuda.runtime.getDevice())
    return sum_at([array.data.ptr for array in (in_memory, *signals)])


def prepare_adjoint(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: int,
    coefficients: AdjointCoefficients,
    solvers: Sequence[PreparedCall],
) -> Callable[[Sequence[int], Sequence[int]], None] | None:
    """Return a function that writes the gradients of signals along rows, by their addresses.

    It takes the addresses of the gradient of y, of y and of x, and those of the gradients of b, a
    and x, or 0. The public functions took 0.5 ms of the host's time for them.
    """
    b, a = coefficients.b.dtype, coefficients.a.dtype
    if coefficients.count > _MOST_COEFFICIENTS or not {b.char, a.char} <= {*_FLOATS}:
        return None
    layout = _Layout(
        (prod(shape[:-1]), shape[-1], 1), shape[-1], True, dtype, (dtype, dtype), coefficients.count
    )
    reverse, sum_at = prepare_reversal(shape, dtype, device), _prepare_sums(layout, device)
    differentiate = _prepare_gradients(coefficients, layout.result_dtype, (b, a), device)
    size, (for_x, for_adjoint) = prod(shape) * dtype.itemsize, solvers

    def write(addresses: Sequence[int], results: Sequence[int]) -> None:
        import cupy

        (grad, y, x), (of_b, of_a, of_x) = addresses, results
        memory = [cupy.empty(size, np.uint8) for _ in range(2)]
        backward, filtered = (array.data.ptr for array in memory)
        reverse(grad, backward)
        if of_x:
            for_x.solve_at((backward,), (filtered,))
            reverse(filtered, of_x)
        if of_b or of_a:
            for_adjoint.solve_at((backward,), (filtered,))
            sums = sum_at([filtered, x, y])
            differentiate(sums.data.ptr, of_b, of_a)

    return write


class _Layout(NamedTuple):
    """The layout of the adjoint and of signals.

    `shape`, (int, int, int): outer rows, steps and inner rows of the signals.
    `available`: steps of the adjoint, which may run against memory.
    """

    shape: tuple[int, int, int]
    available: int
    is_reversed: bool
    dtype: np.dtype[Any]
    signals: tuple[np.dtype[Any], ...]
    lags: int

    @property
    def result_dtype(self) -> np.dtype[Any]:
        return np.result_type(self.dtype, *self.signals, np.float64)


@lru_cache(maxsize=256)
def _prepare_sums(layout: _Layout, device: int) -> Callable[[Sequence[int]], Any]:
    """Return a function that sums arrays at addresses: those of the adjoint and of the signals."""
    (outers, steps, inners), available, count = layout.shape, layout.available, layout.lags
    origin, step = ((available - 1) * inners, -inners) if layout.is_reversed else (0, inners)
    segments, width = max(1, _BLOCKS // max(outers, 1)), len(layout.signals)
    length, dtype = -(-steps * inners // segments), layout.result_dtype
    launches = []
    for first in range(0, count, _MOST_LAGS):
        for numbers in groups_of_one_dtype(layout.signals):
            extents = [outers, steps, inners, available, origin, available * inners, step, first]
            extents += [segments, length, first + numbers[0] * count, width * count, count]
            lags = min(_MOST_LAGS, count - first)
            program = layout.dtype, layout.signals[numbers[0]], dtype, len(numbers), lags
            launches.append((_compile_sums(*program, device), numbers, np.array(extents)))

    def sum_at(addresses: Sequence[int]) -> Any:
        import cupy

        sums = cupy.empty((_BLOCKS, width, count), dtype)
        delayed, *signals = addresses
        for launch, numbers, extents in launches:
            first, last = (signals[k] for k in (numbers[0], numbers[-1]))
            launch([delayed, first, last, sums.data.ptr, extents])
        return sums

    return sum_at


def _prepare_gradients(
    coefficients: AdjointCoefficients, sums: np.dtype[Any], results: tuple[np.dtype[Any], ...], device: int
) -> Callable[[int, int, int], None]:
    """Return a function that writes the gradients of b and a; it takes addresses.

    They are those of the sums, and of the gradients of b and a, or 0.
    """
    launch = _compile_gradients(*results, sums, len(coefficients.b), len(coefficients.a), device)
    count = coefficients.count
    numbers = np.empty(2 * count + 1, sums)
    numbers[:count], numbers[count:-1] = coefficients.numerator, coefficients.denominator
    numbers[-1] = coefficients.scale
    return lambda *addresses: launch([*addresses, numbers])


@lru_cache(maxsize=256)
def _compile_sums(
    delayed: np.dtype[Any], signal: np.dtype[Any], sums: np.dtype[Any], signals: int, lags: int, device: int
) -> LaunchByAddress:
    """Return the launch that sums products of arrays of these dtypes, and so many signals."""
    arguments = (*map(Slot, range(4)), Slot(4, (13,), np.dtype(np.int64), None))
    types = {"U": delayed, "X": signal, "S": sums}
    return _compile("correlate", {"SIGNALS": signals, "LAGS": lags}, types, _BLOCKS, arguments)


@lru_cache(maxsize=256)
def _compile_gradients(
    of_b: np.dtype[Any], of_a: np.dtype[Any], sums: np.dtype[Any], b: int, a: int, device: int
) -> LaunchByAddress:
    """Return the launch that computes gradients of these dtypes, of so many coefficients."""
    arguments = (*map(Slot, range(3)), Slot(3, (2 * max(b, a) + 1,), sums, None))
    constants = {"BLOCKS": _BLOCKS, "B_COUNT": b, "A_COUNT": a, "COUNT": max(b, a)}
    types = {"B": of_b, "A": of_a, "S": sums}
    return _compile("coefficient_gradients", constants, types, 1, arguments)


def _compile(
    name: str, constants: dict[str, int], types: dict[str, Any], blocks: int, arguments: Sequence[Any]
) -> LaunchByAddress:
    numeric = kernel_text("engines/cuda/numeric")
    text = print_definitions(numeric, {"THREADS": _THREADS, **constants}, **types)
    text += kernel_text(f"filters/cuda/{name}")
    launch = Launch(text, f"{name}_kernel", blocks, _THREADS, tuple(arguments))
    return LaunchByAddress(PreparedLaunches(launch))
