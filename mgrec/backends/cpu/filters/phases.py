"""Filters on the CPU: precompute, propagate and determine for one chunk in host memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ....arrays.chunk import Chunk
from ....families.filters.blocks import BLOCK, block_noise, block_table
from ....families.filters.cascade import Cascade
from ....families.filters.summary import CascadeSummary, is_tame, propagate_cascade
from ....families.kernels import Kernels, at_once
from ..compilation.kernels import writable
from .columns import filter_columns
from .copied import section_copied
from .pipeline import pipeline_copied, pipeline_rows
from .plain import plain_rows, short_rows
from .rows import BLOCKS, FORWARD, STEPS, section_rows, unrolled

# The largest block_noise of a section that goes by blocks. block_noise leaves out that the table's
# rounding shifts the poles: resonances near 0.05 of noise 1.7 to 1.9 had 3 to 13 times the errors
# of SciPy's lfilter, and all filters of noise below 1 up to 3.4 times.
NOISE = 1.2
WIDE = 8  # columns that go side by side, or more
# The plain loop takes shorter rows: blocks bring nothing there.
LONG = 64
# dtypes that one section's loop casts to float64 as it copies samples: 10**7 of int16 took 20 to
# 35 ms by order, and 27 to 44 when cast first. Cascades gained a tenth, with other bits.
_CAST = {"h", "f"}
# The plain loop computes larger results: its order of operations decides what overflows.
_TOP = {"f": 2.0**120, "d": 2.0**1000}
# Filters whose tables are cached, 1 to 5 KB each.
_FILTERS = 1024


@dataclass(frozen=True)
class Outcome:
    """The states after a chunk, and the rows that the plain loop must do, or has done.

    Attributes
    ----------
    exit : array (states, outer, inner), float64 or complex128
    redo : array (outer, inner) of bool
    """

    exit: np.ndarray
    redo: np.ndarray


def kernels(method: str) -> Kernels:
    """The phases of a chunk, on the caller's thread or, by the method "threads", on all."""
    from .begin import begin, finish
    from .threads import determine_on_threads

    determine = determine_on_threads if method == "threads" else _determine
    precompute = at_once(precompute_filter)
    return Kernels(determine, precompute, propagate_filter, begin=at_once(begin), finish=finish)


def _determine(cascade: Cascade, chunk: Chunk, entry: Any, result: np.ndarray) -> np.ndarray:
    entry = at_rest(cascade, chunk) if entry is None else np.ascontiguousarray(entry)
    return determine_filter(cascade, chunk, entry, result).exit


def at_rest(cascade: Cascade, chunk: Chunk) -> np.ndarray:
    """States (states, outer, inner) of 0."""
    return np.zeros((cascade.states, *chunk.row_shape), _wide(cascade, chunk.dtype))


def determine_filter(
    cascade: Cascade, chunk: Chunk, entry: np.ndarray, result: np.ndarray
) -> Outcome:
    """Write the outputs of a chunk, whose operand is x and whose dtype is that of the results.

    `entry` is an array (states, outer, inner) of float64 or complex128.
    """
    x = _samples(cascade, chunk)
    outcome = _in_float64(cascade, x, entry, result, chunk)
    redo = outcome.redo
    if not redo.any():
        return outcome
    exit, _ = _plain(cascade, x, entry, result, chunk.reverse, redo, chunk.dtype)
    return Outcome(np.where(redo, exit, outcome.exit), redo)


def precompute_filter(cascade: Cascade, chunk: Chunk) -> CascadeSummary:
    """The states after a chunk that begins with states of 0, or the chunk to be done again."""
    entry = at_rest(cascade, chunk)
    outcome = _in_float64(cascade, _samples(cascade, chunk), entry, None, chunk)
    redo = chunk if outcome.redo.any() or not is_tame(cascade, chunk.steps) else None
    return CascadeSummary(cascade, chunk.steps, outcome.exit, redo)


def propagate_filter(summary: CascadeSummary, entry: np.ndarray) -> np.ndarray:
    """The states (states, outer, inner) after a chunk, from those before it."""
    if summary.redo is not None:
        result = np.empty(summary.redo.shape, summary.redo.dtype)
        return determine_filter(summary.cascade, summary.redo, entry, result).exit
    is_finite = np.isfinite(entry)
    if is_finite.all():
        return propagate_cascade(summary, entry)
    exit = propagate_cascade(summary, np.where(is_finite, entry, 0))
    odd = ~is_finite.all(0)
    lost = _through_silence(summary.cascade, entry[:, odd], summary.steps)
    exit[:, odd] = np.where(np.isfinite(lost), exit[:, odd], lost)
    return exit


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
    is_cast = chunk.dtype == np.float64 and x.dtype.char in _CAST and x.dtype.isnative
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
        return outcome.exit, outcome.redo
    redo = np.asarray(outcome.redo.reshape(*like.shape[1:], 2).any(-1))
    return outcome.exit.view(np.complex128), redo


def _in_float64(cascade: Cascade, x: Any, entry: Any, result: Any, chunk: Chunk) -> Outcome:
    """All rows in float64 or complex128; nothing is written where `result` is None."""
    real = np.empty(0, chunk.dtype).real.dtype
    if cascade.is_complex:
        rows, wide = np.ones(x.shape[::2], bool), np.dtype(np.complex128)
        exit, y = _plain(cascade, x, entry, result, chunk.reverse, rows, wide)
        return Outcome(exit, _rows_beyond(_TOP[real.char], y))
    target = None if result is None else _halves(result)
    outcome = _filter(cascade, _halves(x), _halves(entry), target, real, chunk.reverse)
    return Outcome(*_whole(outcome, entry))


def _rows_beyond(top: float, y: np.ndarray) -> np.ndarray:
    """Which rows of complex numbers have parts beyond `top` in size, or nan."""
    parts = _halves(y)
    with np.errstate(all="ignore"):
        # A maximum by rows takes 50 times as long.
        if max(parts.max(initial=0), -parts.min(initial=0)) <= top:
            return np.zeros(y.shape[::2], bool)
        is_low = np.abs(parts).max(1, initial=0) <= top
    return np.asarray(~is_low.reshape(*y.shape[::2], 2).all(-1))


def _filter(
    cascade: Cascade, x: np.ndarray, entry: np.ndarray, result: Any, dtype: Any, reverse: bool
) -> Outcome:
    """Real numbers by the fastest loop; nothing is written where `result` is None."""
    write = result is not None
    target = result if write else np.empty((1, 1, 1), dtype)
    states = np.array(entry, np.float64, order="C")
    redo = np.zeros(states.shape[1:], bool)
    top = np.float64(_TOP[dtype.char]).view(np.int64)
    x = writable(x)
    if reverse:
        x, target = x[:, ::-1], target[:, ::-1] if write else target
    if x.shape[2] >= WIDE:
        b, a = cascade.coefficients(np.float64)
        shape = (len(cascade.sections), cascade.order, *redo.shape)
        filter_columns(x, target, states.reshape(shape), b, a, top, redo, write)
    elif x.shape[1] < LONG:
        b, a = cascade.coefficients(np.float64)
        shape = (len(cascade.sections), cascade.order, *redo.shape)
        short_rows(x, target, states.reshape(shape), b, a, top, redo, write)
    elif len(cascade.sections) > 1:
        states = _pipeline(cascade, x, target, states, top, redo, write)
    else:
        _section(cascade, x, target, states, top, redo, write)
    return Outcome(states, redo)


def _section(
    cascade: Cascade, x: Any, target: Any, states: Any, top: Any, redo: Any, write: bool
) -> None:
    (section,) = cascade.sections
    kind, table = _kind(cascade)
    b, a = (part[0] for part in cascade.coefficients(np.float64))
    order = unrolled(kind, section.order)
    if x.dtype == target.dtype and _is_straight(x) and (not write or _is_straight(target)):
        views = x[:, :, 0], target[:, :, 0] if write else None, states[:, :, 0]
        kernel = section_rows(kind, order, x.dtype == np.float64, write)
        kernel(*views, b, a, table, top, redo[:, 0])
    else:
        kernel = section_copied(kind, order)
        kernel(*_lines(x, target), states, b, a, table, top, redo, write)


def _is_straight(x: np.ndarray) -> bool:
    """Contiguous rows."""
    return x.shape[2] == 1 and x.flags.c_contiguous


def _lines(x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contiguous rows as arrays (outer, steps), which are copied twice as fast."""
    if x.shape[2] == target.shape[2] == 1 and x.flags.c_contiguous and target.flags.c_contiguous:
        return x[:, :, 0], target[:, :, 0]
    return x, target


@lru_cache(maxsize=_FILTERS)
def _kind(cascade: Cascade) -> tuple[str, np.ndarray]:
    (section,) = cascade.sections
    if section.is_feed_forward:
        return FORWARD, np.zeros(0)
    if section.order <= BLOCK and block_noise(section) <= NOISE:
        return BLOCKS, block_table(section)
    return STEPS, np.zeros(0)


def _pipeline(
    cascade: Cascade, x: Any, target: Any, states: Any, top: Any, redo: Any, write: bool
) -> np.ndarray:
    width, b, a, table = _lanes(cascade)
    count, groups = len(cascade.sections), len(b)
    # Sections that pass their input on pad the front, so that the last section is the last lane.
    z = np.zeros((groups * width, 2, *redo.shape))
    z[groups * width - count :] = states.reshape(count, 2, *redo.shape)
    grouped = z.reshape(groups, width, 2, *redo.shape).swapaxes(1, 2).copy()
    if groups == 1 and _is_straight(x) and (not write or _is_straight(target)):
        views = x[:, :, 0], target[:, :, 0] if write else None
        pipeline_rows(width, write)(*views, grouped, b, a, table, top, redo)
    else:
        pipeline_copied(width)(*_lines(x, target), grouped, b, a, table, top, redo, write)
    z = grouped.swapaxes(1, 2).reshape(z.shape)
    return z[groups * width - count :].reshape(states.shape)


@lru_cache(maxsize=_FILTERS)
def _lanes(cascade: Cascade) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Lanes, b and a (groups, lanes, 3), and each group's registers, the last section first."""
    b, a = cascade.coefficients(np.float64)
    width = 4 if len(b) <= 4 else 8
    front = np.tile([1.0, 0.0, 0.0], (-len(b) % width, 1))
    b, a = (np.concatenate([front, part]).reshape(-1, width, 3) for part in (b, a))
    table = np.concatenate([b.swapaxes(1, 2), -a.swapaxes(1, 2)[:, 1:]], 1)[:, :, ::-1]
    return width, b, a, table.reshape(len(b), -1).copy()


def _plain(
    cascade: Cascade, x: Any, entry: Any, result: Any, reverse: bool, rows: Any,
    dtype: np.dtype[Any],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The plain loop in `dtype` over some rows: their exit, and what goes into `result`."""
    with np.errstate(all="ignore"):
        shape = (len(cascade.sections), cascade.order, *rows.shape)
        states = np.array(entry, dtype).reshape(shape)
        b, a = cascade.coefficients(dtype)
        target = (
            result if result is not None and result.dtype == dtype else np.empty(x.shape, dtype)
        )
        source = writable(x.astype(dtype, copy=False))
        views = (source[:, ::-1], target[:, ::-1]) if reverse else (source, target)
        plain_rows(*views, states, b, a, rows)
        if result is not None and target is not result:
            result[...] = target
    return states.reshape(entry.shape).astype(entry.dtype), target
