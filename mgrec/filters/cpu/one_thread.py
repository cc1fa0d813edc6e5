"""Filter one chunk in host memory on the calling thread: precompute, propagate and determine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cpu import columns
from ...engines.cpu.compilation import writable
from ...engines.cpu.threads import call_in_parts
from ..cascade import Cascade
from ..recurrence import CascadeSummary, advance_states, is_safe
from .lanes import WIDTH
from .pipeline import pipeline_rows
from .scipy_loops import MARKED_ROWS, scipy_columns, scipy_rows
from .section import (
    BATCH,
    BLOCKS,
    FORWARD,
    LEAD,
    STEPS,
    block_noise,
    block_table,
    compiled_order,
    section_rows,
)
from .tiles import TILE, FilterRows, filter_in_copies, filter_in_tiles

# Largest block_noise of a section that is computed in blocks. block_noise ignores that rounding of
# the table shifts the poles: resonances near 0.05 of noise 1.7 to 1.9 had 3 to 13 times the errors
# of SciPy's lfilter, and all filters of noise below 1 up to 3.4 times.
NOISE = 1.2
# From WIDE columns on, all columns of a step are computed together.
WIDE = 8
# Shorter rows are filtered by SciPy's loop: blocks are not faster there.
LONG = 64
# Rows with larger outputs are filtered by SciPy's loop, whose order of operations decides what
# overflows. These are the bits of the limits.
LARGEST = {char: np.float64(limit).view(np.int64) for char, limit in (("f", 2.0**120), ("d", 2.0**1000))}
# Number of filters whose tables are cached, 1 to 5 KB each.
_CACHED = 1024
# Dtypes that one section casts to float64 tile by tile: 10**7 samples of int16 took 20 to 35 ms by
# order, and 27 to 44 if cast first. Cascades gained a tenth, with other bits.
_CAST_IN_TILES = {"h", "f"}


@dataclass(frozen=True)
class Outcome:
    """The states after a chunk, and the rows that need, or took, SciPy's loop."""

    carry_out: np.ndarray  # (states, outer, inner), float64 or complex128
    redo: np.ndarray  # (outer, inner), bool


def zero_states(cascade: Cascade, chunk: Chunk) -> np.ndarray:
    """Return states (states, outer, inner) of 0."""
    return np.zeros((cascade.states, *chunk.row_shape), cascade.state_dtype(chunk.dtype))


def determine_filter(
    cascade: Cascade, chunk: Chunk, carry_in: np.ndarray, result: np.ndarray, threads: int = 1
) -> Outcome:
    """Write the outputs of a chunk, whose operand is x and whose dtype is that of the results.

    `carry_in` is an array (states, outer, inner) of float64 or complex128. `threads` share WIDE
    columns and more.
    """
    x = _input(cascade, chunk)
    outcome = _in_float64(cascade, x, carry_in, result, chunk, threads)
    redo = outcome.redo
    if not redo.any():
        return outcome
    carry_out = _by_scipy_loop(cascade, x, carry_in, result, redo, chunk.dtype)
    return Outcome(np.where(redo, carry_out, outcome.carry_out), redo)


def precompute_filter(cascade: Cascade, chunk: Chunk) -> CascadeSummary:
    """Return the summary of a chunk."""
    carry_in = zero_states(cascade, chunk)
    outcome = _in_float64(cascade, _input(cascade, chunk), carry_in, None, chunk)
    redo = chunk if outcome.redo.any() or not is_safe(cascade, chunk.steps) else None
    return CascadeSummary(cascade, chunk.steps, outcome.carry_out, redo)


def propagate_filter(summary: CascadeSummary, carry_in: np.ndarray) -> np.ndarray:
    """Return the states (states, outer, inner) after a chunk, from those before it."""
    if summary.redo is not None:
        result = np.empty(summary.redo.shape, summary.redo.dtype)
        return determine_filter(summary.cascade, summary.redo, carry_in, result).carry_out
    is_finite = np.isfinite(carry_in)
    if is_finite.all():
        return advance_states(summary, carry_in)
    carry_out = advance_states(summary, np.where(is_finite, carry_in, 0))
    rows = ~is_finite.all(0)
    states = _after_zeros(summary.cascade, carry_in[:, rows], summary.steps)
    carry_out[:, rows] = np.where(np.isfinite(states), carry_out[:, rows], states)
    return carry_out


def _after_zeros(cascade: Cascade, states: np.ndarray, steps: int) -> np.ndarray:
    """Return states (states, rows) after `steps` samples of 0, by SciPy's loop.

    Finite samples do not change which states are nan, inf or -inf. If LONG steps do not change
    them either, no further step does.
    """
    states = states[:, :, None]
    rows = np.ones(states.shape[1:], bool)
    zeros = np.zeros((len(rows), min(steps, LONG), 1), states.dtype)

    def after(count: int) -> np.ndarray:
        return _by_scipy_loop(cascade, zeros[:, :count], states, None, rows, states.dtype)

    while steps >= LONG:
        steps -= LONG
        before, states = states, after(LONG)
        if np.array_equal(_non_finite(before), _non_finite(states), equal_nan=True):
            steps %= LONG
    return after(steps)[:, :, 0]


def _non_finite(states: np.ndarray) -> np.ndarray:
    """Return nan, inf and -inf as they are, and 0 for finite states."""
    parts = as_real(states)
    return np.where(np.isfinite(parts), 0, parts)


def _input(cascade: Cascade, chunk: Chunk) -> np.ndarray:
    """Return x in the dtype of the results, or as it is if tiles are cast."""
    x: np.ndarray = chunk.operands[0]
    _, steps, inner = chunk.shape
    is_cast = chunk.dtype == np.float64 and x.dtype.char in _CAST_IN_TILES
    if is_cast and len(cascade.sections) == 1 and steps >= LONG and inner == 1:
        return x
    return x.astype(chunk.dtype, copy=False)


def as_real(array: np.ndarray) -> np.ndarray:
    """Return complex columns as twice as many real columns."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).view(array.real.dtype)


def _in_float64(
    cascade: Cascade, x: Any, carry_in: Any, result: Any, chunk: Chunk, threads: int = 1
) -> Outcome:
    """Filter all rows in float64 or complex128. Nothing is written if `result` is None."""
    real = np.empty(0, chunk.dtype).real.dtype
    if cascade.is_complex:
        redo, limit = np.zeros(x.shape[::2], bool), LARGEST[real.char]
        states = _by_scipy_loop(cascade, x, carry_in, result, redo, np.complex128, limit)
        return Outcome(states, redo)
    target = None if result is None else as_real(result)
    is_long = columns.is_long(chunk.size)
    outcome = _filter_real(cascade, as_real(x), as_real(carry_in), target, real, is_long, threads)
    if carry_in.dtype.kind != "c":
        return outcome
    redo = np.asarray(outcome.redo.reshape(*carry_in.shape[1:], 2).any(-1))
    return Outcome(outcome.carry_out.view(np.complex128), redo)


def _by_scipy_loop(
    cascade: Cascade, x: Any, carry_in: Any, result: Any, redo: Any, dtype: Any, limit: Any = MARKED_ROWS
) -> np.ndarray:
    """Filter the rows in the mask `redo` by SciPy's loop in `dtype`, and return the carry-out.

    If the bits `limit` are given, filter all rows, and mark those with larger outputs.
    """
    with np.errstate(all="ignore"):
        states = np.array(carry_in, dtype, order="C")
        b, a = cascade.coefficients(dtype)
    by_section = states.reshape(len(cascade.sections), cascade.order, *redo.shape)
    write = result is not None
    target = result if write else np.empty((1, 1, 1), dtype)
    scipy_rows(writable(x), target, by_section, b, a, limit, redo, write)
    return states.astype(carry_in.dtype)


def _filter_real(
    cascade: Cascade,
    x: np.ndarray,
    carry_in: np.ndarray,
    result: Any,
    dtype: Any,
    is_long: bool,
    threads: int,
) -> Outcome:
    """Filter real numbers by the fastest loop. Nothing is written if `result` is None."""
    states = np.array(carry_in, np.float64, order="C")
    redo = np.zeros(states.shape[1:], bool)
    x = writable(x)
    if x.shape[2] >= WIDE or x.shape[1] < LONG:
        by_section = states.reshape(len(cascade.sections), cascade.order, *redo.shape)
        b, a = cascade.float64_coefficients
        write = result is not None
        target = result if write else np.empty((1, 1, 1), dtype)
        arguments = x, target, by_section, b, a, LARGEST[dtype.char], redo, write
        if x.shape[2] >= WIDE:
            call_in_parts(partial(scipy_columns, *arguments), x.shape[2], threads)
        else:
            scipy_rows(*arguments)
    elif _are_rows(x, result, dtype) and _filters_rows(cascade, dtype.char, is_long):
        filter_rows = rows_filter(cascade, dtype.char, dtype.char, is_long)
        _filter_contiguous(filter_rows, x, result, states, redo)
    else:
        filter_tile = rows_filter(cascade, "d", dtype.char, is_long)
        if x.size <= TILE:
            filter_in_copies(filter_tile, x, result, states, redo)
        else:
            # Blocks of one section start at the same samples as along rows: the same bits along
            # either axis.
            past, lead = (0, 0) if len(cascade.sections) > 1 else (max(cascade.order, WIDTH), LEAD)
            filter_in_tiles(filter_tile, x, result, states, redo, past, lead)
    return Outcome(states, redo)


def _are_rows(x: np.ndarray, result: np.ndarray | None, dtype: np.dtype[Any]) -> bool:
    """Return whether all rows are contiguous and of one dtype."""
    arrays = (x,) if result is None else (x, result)
    is_row = (array.shape[2] == 1 and array.flags.c_contiguous for array in arrays)
    return x.dtype == dtype and all(is_row)


def _filter_contiguous(
    filter_rows: FilterRows, x: np.ndarray, y: np.ndarray | None, states: np.ndarray, redo: np.ndarray
) -> None:
    target = None if y is None else y[:, :, 0]
    filter_rows(x[:, :, 0], target, states[:, :, 0], redo[:, 0])


def chunk_filter(cascade: Cascade, chunk: Chunk) -> Callable[..., None] | None:
    """Return the filter ``(x, y, states, redo) -> None`` of chunks of the same shape and dtype.

    The chunks are contiguous. Complex columns are passed as twice as many real columns. Return None
    if one kernel does not filter the whole chunk.
    """
    x, char, steps = chunk.operands[0], np.empty(0, chunk.dtype).real.dtype.char, chunk.steps
    parts = 2 if chunk.dtype.kind == "c" else 1
    inner = chunk.shape[2] * parts
    if cascade.is_complex or steps < LONG or inner >= WIDE:
        return None
    is_cast, is_long = x.dtype != chunk.dtype, columns.is_long(chunk.size)
    if inner == 1 and not is_cast and _filters_rows(cascade, char, is_long):
        return partial(_filter_contiguous, rows_filter(cascade, char, char, is_long))
    # Copies are float64: other dtypes may be cast to these at once.
    if x.size * parts <= TILE and (not is_cast or chunk.dtype == np.float64):
        return partial(filter_in_copies, rows_filter(cascade, "d", char, is_long))
    return None


def _filters_rows(cascade: Cascade, char: str, is_long: bool) -> bool:
    """Return whether one kernel filters rows of a dtype by all sections, without copies."""
    if len(cascade.sections) == 1:
        return is_long or char == "d"
    return len(_lane_coefficients(cascade)[1]) == 1


@lru_cache(maxsize=_CACHED)
def rows_filter(cascade: Cascade, char: str, result_char: str, is_long: bool) -> FilterRows:
    """Return the filter of contiguous rows whose dtype has the character `char`: "f" or "d".

    `result_char` is the character of the dtype of the results, which decides what overflows.
    Filters of short calls share their kernels.
    """
    limit_bits = LARGEST[result_char]
    if len(cascade.sections) > 1:
        return _rows_filter_of_sections(cascade, limit_bits, np.empty((1, 1), char))
    loop, table = choose_loop(cascade)
    b, a = (part[0] for part in cascade.float64_coefficients)
    memory_shape = 3, max(cascade.order, WIDTH) + BATCH
    order = compiled_order(loop, cascade.order, is_long)
    if order:
        columns.log_sizes(f"filters of order {order}")
    kernel = section_rows(loop, order, char == "d")

    def filter_rows(
        x: np.ndarray, y: np.ndarray | None, states: np.ndarray, redo: np.ndarray, start: int = 0
    ) -> None:
        write = y is not None
        target, memory = y if write else np.empty((1, BATCH), char), np.empty(memory_shape)
        kernel(x, target, states, b, a, table, limit_bits, redo, start, write, memory)

    return filter_rows


def _rows_filter_of_sections(cascade: Cascade, limit_bits: np.int64, unused: np.ndarray) -> FilterRows:
    width, b, a, table = _lane_coefficients(cascade)
    groups, kernel = len(b), pipeline_rows(width)

    def filter_rows(
        x: np.ndarray, y: np.ndarray | None, states: np.ndarray, redo: np.ndarray, start: int = 0
    ) -> None:
        # Sections that pass on their input are added in front: the last one is in the last lane.
        z = np.zeros((groups * width * 2, len(redo)))
        z[len(z) - len(states) :] = states
        if y is None and groups > 1:
            y = np.empty(x.shape)
        write = y is not None
        target = y if write else unused
        for group, part in enumerate(z.reshape(groups, width, 2, len(redo))):
            arrays = target if group else x, target, part
            kernel(*arrays, b[group], a[group], table[group], limit_bits, redo, write)
        states[...] = z[len(z) - len(states) :]

    return filter_rows


@lru_cache(maxsize=_CACHED)
def choose_loop(cascade: Cascade) -> tuple[str, np.ndarray]:
    """Return the name of the loop for one section, and its table."""
    (section,) = cascade.sections
    if section.is_feed_forward:
        return FORWARD, np.zeros(0)
    if section.order <= WIDTH and block_noise(section) <= NOISE:
        return BLOCKS, block_table(section)
    return STEPS, np.zeros(0)


@lru_cache(maxsize=_CACHED)
def _lane_coefficients(cascade: Cascade) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of lanes, b and a (groups, lanes, 3), and the registers of each group.

    In the registers the last section comes first.
    """
    b, a = cascade.float64_coefficients
    width = 4 if len(b) <= 4 else 8
    front = np.tile([1.0, 0.0, 0.0], (-len(b) % width, 1))
    b, a = (np.concatenate([front, part]).reshape(-1, width, 3) for part in (b, a))
    table = np.concatenate([b.swapaxes(1, 2), -a.swapaxes(1, 2)[:, 1:]], 1)[:, :, ::-1]
    return width, b, a, table.reshape(len(b), -1).copy()
