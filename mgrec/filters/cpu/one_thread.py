"""Filters on the CPU: precompute, propagate and determine for one chunk in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cpu.compilation import writable
from ..cascade import Cascade
from ..summary import CascadeSummary, is_tame, propagate_cascade
from .loops import LONG, TOP, Outcome, filter_real
from .plain import plain_rows

# dtypes that one section's loop casts to float64 as it copies samples: 10**7 of int16 took 20 to
# 35 ms by order, and 27 to 44 when cast first. Cascades gained a tenth, with other bits.
_CAST = {"h", "f"}


def at_rest(cascade: Cascade, chunk: Chunk) -> np.ndarray:
    """States (states, outer, inner) of 0."""
    return np.zeros((cascade.states, *chunk.row_shape), _wide(cascade, chunk.dtype))


def determine_filter(
    cascade: Cascade, chunk: Chunk, carry_in: np.ndarray, result: np.ndarray
) -> Outcome:
    """Write the outputs of a chunk, whose operand is x and whose dtype is that of the results.

    `carry_in` is an array (states, outer, inner) of float64 or complex128.
    """
    x = _samples(cascade, chunk)
    outcome = _in_float64(cascade, x, carry_in, result, chunk)
    redo = outcome.redo
    if not redo.any():
        return outcome
    carry_out, _ = _plain(cascade, x, carry_in, result, chunk.reverse, redo, chunk.dtype)
    return Outcome(np.where(redo, carry_out, outcome.carry_out), redo)


def precompute_filter(cascade: Cascade, chunk: Chunk) -> CascadeSummary:
    """The states after a chunk that begins with states of 0, or the chunk to be done again."""
    carry_in = at_rest(cascade, chunk)
    outcome = _in_float64(cascade, _samples(cascade, chunk), carry_in, None, chunk)
    redo = chunk if outcome.redo.any() or not is_tame(cascade, chunk.steps) else None
    return CascadeSummary(cascade, chunk.steps, outcome.carry_out, redo)


def propagate_filter(summary: CascadeSummary, carry_in: np.ndarray) -> np.ndarray:
    """The states (states, outer, inner) after a chunk, from those before it."""
    if summary.redo is not None:
        result = np.empty(summary.redo.shape, summary.redo.dtype)
        return determine_filter(summary.cascade, summary.redo, carry_in, result).carry_out
    is_finite = np.isfinite(carry_in)
    if is_finite.all():
        return propagate_cascade(summary, carry_in)
    carry_out = propagate_cascade(summary, np.where(is_finite, carry_in, 0))
    odd = ~is_finite.all(0)
    lost = _through_silence(summary.cascade, carry_in[:, odd], summary.steps)
    carry_out[:, odd] = np.where(np.isfinite(lost), carry_out[:, odd], lost)
    return carry_out


def _through_silence(cascade: Cascade, states: np.ndarray, steps: int) -> np.ndarray:
    """States (states, rows) after `steps` samples of 0 by the plain loop.

    No finite sample changes which of them are nan, inf or -inf. Once LONG steps leave these
    where they are, all further ones do.
    """
    states = states[:, :, None]
    rows = np.ones(states.shape[1:], bool)
    silence = np.zeros((len(rows), min(steps, LONG), 1), states.dtype)

    def after(count: int) -> np.ndarray:
        return _plain(cascade, silence[:, :count], states, None, False, rows, states.dtype)[0]

    while steps >= LONG:
        steps -= LONG
        before, states = states, after(LONG)
        if np.array_equal(_non_finite(before), _non_finite(states), equal_nan=True):
            steps %= LONG
    return after(steps)[:, :, 0]


def _non_finite(states: np.ndarray) -> np.ndarray:
    """nan, inf and -inf where they are, 0 elsewhere."""
    parts = _halves(states)
    return np.where(np.isfinite(parts), 0, parts)


def _samples(cascade: Cascade, chunk: Chunk) -> np.ndarray:
    """x in the dtype of the results, or as it is where a loop casts it block by block."""
    x: np.ndarray = chunk.operands[0]
    _, steps, inner = chunk.shape
    is_cast = chunk.dtype == np.float64 and x.dtype.char in _CAST
    if is_cast and len(cascade.sections) == 1 and steps >= LONG and inner == 1:
        return x
    return x.astype(chunk.dtype, copy=False)


def _wide(cascade: Cascade, dtype: np.dtype[Any]) -> np.dtype[Any]:
    is_complex = cascade.is_complex or dtype.kind == "c"
    return np.dtype(np.complex128 if is_complex else np.float64)


def _halves(array: np.ndarray) -> np.ndarray:
    """Complex columns as twice as many real ones."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).view(array.real.dtype)


def _whole(outcome: Outcome, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if like.dtype.kind != "c":
        return outcome.carry_out, outcome.redo
    redo = np.asarray(outcome.redo.reshape(*like.shape[1:], 2).any(-1))
    return outcome.carry_out.view(np.complex128), redo


def _in_float64(cascade: Cascade, x: Any, carry_in: Any, result: Any, chunk: Chunk) -> Outcome:
    """All rows in float64 or complex128; nothing is written where `result` is None."""
    real = np.empty(0, chunk.dtype).real.dtype
    if cascade.is_complex:
        rows, wide = np.ones(x.shape[::2], bool), np.dtype(np.complex128)
        carry_out, y = _plain(cascade, x, carry_in, result, chunk.reverse, rows, wide)
        return Outcome(carry_out, _rows_beyond(TOP[real.char], y))
    target = None if result is None else _halves(result)
    outcome = filter_real(cascade, _halves(x), _halves(carry_in), target, real, chunk.reverse)
    return Outcome(*_whole(outcome, carry_in))


def _rows_beyond(top: float, y: np.ndarray) -> np.ndarray:
    """Which rows of complex numbers have parts beyond `top` in size, or nan."""
    parts = _halves(y)
    with np.errstate(all="ignore"):
        # A maximum by rows takes 50 times as long.
        if max(parts.max(initial=0), -parts.min(initial=0)) <= top:
            return np.zeros(y.shape[::2], bool)
        is_low = np.abs(parts).max(1, initial=0) <= top
    return np.asarray(~is_low.reshape(*y.shape[::2], 2).all(-1))


def _plain(
    cascade: Cascade, x: Any, carry_in: Any, result: Any, reverse: bool, rows: Any,
    dtype: np.dtype[Any],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The plain loop in `dtype` over some rows: their carry-out, and what goes into `result`."""
    with np.errstate(all="ignore"):
        shape = (len(cascade.sections), cascade.order, *rows.shape)
        states = np.array(carry_in, dtype).reshape(shape)
        b, a = cascade.coefficients(dtype)
        target = (
            result if result is not None and result.dtype == dtype else np.empty(x.shape, dtype)
        )
        source = writable(x.astype(dtype, copy=False))
        views = (source[:, ::-1], target[:, ::-1]) if reverse else (source, target)
        plain_rows(*views, states, b, a, rows)
        if result is not None and target is not result:
            result[...] = target
    return states.reshape(carry_in.shape).astype(carry_in.dtype), target
