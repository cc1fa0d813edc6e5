"""Filter one chunk in host memory on the calling thread: precompute, propagate and determine."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

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
# Short rows are copied side by side if they are many, so many at once.
MANY, SIDE_BY_SIDE = 64, 4096
# Rows with larger outputs are filtered by SciPy's loop, whose order of operations decides what
# overflows. These are the bits of the limits.
LARGEST = {char: np.float64(limit).view(np.int64) for char, limit in (("f", 2.0**120), ("d", 2.0**1000))}
# Number of filters whose tables are cached, 1 to 5 KB each.
_CACHED = 1024
# Dtypes that one section casts to float64 tile by tile: 10**7 samples of int16 took 20 to 35 ms by
# order, and 27 to 44 if cast first. Cascades gained a tenth, with other bits.
_CAST_IN_TILES = {"h", "f"}


Loop = Callable[[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray], None]
"""``(x, y, states, redo)``: filters x (outer, steps, inner), and writes the outputs to y unless it is None.

It updates the states (states, outer, inner), and marks in `redo` (outer, inner) the rows whose
outputs are too large.
"""


class Outcome(NamedTuple):
    """The states after a chunk, and the rows that need, or took, SciPy's loop."""

    carry_out: np.ndarray  # (states, outer, inner), float64 or complex128
    redo: np.ndarray  # (outer, inner), bool


class ChunkFilter(NamedTuple):
    """The filter ``(x, carry_in, result) -> outcome`` of chunks of one shape, dtype and layout.

    It writes the outputs of x to `result` unless it is None; then `redo` has the rows that need
    SciPy's loop. `carry_in` is an array (states, outer, inner) of float64 or complex128.
    """

    cascade: Cascade
    dtype: np.dtype[Any]  # of the results
    input_dtype: np.dtype[Any]  # to which x is cast first
    has_pairs: bool  # whether complex columns are filtered as twice as many real ones
    loop: Loop

    def __call__(self, x: np.ndarray, carry_in: np.ndarray, result: np.ndarray | None) -> Outcome:
        if x.dtype != self.input_dtype:
            x = x.astype(self.input_dtype)
        carry_out = carry_in.copy()
        inputs, outputs, states = writable(x), result, carry_out
        if self.has_pairs:
            inputs, states = as_real(inputs), as_real(states)
            outputs = None if result is None else as_real(result)
        redo = np.zeros(states.shape[1:], bool)
        self.loop(inputs, outputs, states, redo)
        if self.has_pairs:
            redo = np.asarray(redo.reshape(*carry_out.shape[1:], 2).any(-1))
        if result is not None and np.count_nonzero(redo):  # a fifth of the time of any()
            with np.errstate(all="ignore"):
                states = np.array(carry_in, self.dtype, order="C")
            _filter_by_scipy(self.cascade, MARKED_ROWS, x, result, states, redo)
            carry_out = np.where(redo, states.astype(carry_in.dtype), carry_out)
        return Outcome(carry_out, redo)


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
    filter_chunk = chunk_filter(cascade, chunk, result.flags.c_contiguous, threads)
    return filter_chunk(chunk.operands[0], carry_in, result)


def precompute_filter(cascade: Cascade, chunk: Chunk) -> CascadeSummary:
    """Return the summary of a chunk."""
    filter_chunk, x = chunk_filter(cascade, chunk), chunk.operands[0]
    outcome = filter_chunk(x, zero_states(cascade, chunk), None)
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
    states = np.array(states[:, :, None], order="C")
    rows = np.ones(states.shape[1:], bool)
    zeros = np.zeros((len(rows), min(steps, LONG), 1), states.dtype)

    def after(count: int) -> np.ndarray:
        later = states.copy()
        _filter_by_scipy(cascade, MARKED_ROWS, zeros[:, :count], None, later, rows)
        return later

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


def as_real(array: np.ndarray) -> np.ndarray:
    """Return complex columns as twice as many real columns."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).view(array.real.dtype)


def _filter_by_scipy(
    cascade: Cascade,
    limit_bits: Any,
    x: np.ndarray,
    y: np.ndarray | None,
    states: np.ndarray,
    redo: np.ndarray,
    threads: int = 1,
) -> None:
    """Filter rows by SciPy's loop in the dtype of the states: a :data:`Loop`.

    If the bits of the limit are MARKED_ROWS, filter the rows marked in `redo` alone.
    """
    filters_columns = states.dtype == np.float64 and limit_bits != MARKED_ROWS
    if filters_columns and x.shape[2] == 1 and x.shape[0] >= MANY:
        for first in range(0, x.shape[0], SIDE_BY_SIDE):
            part = slice(first, first + SIDE_BY_SIDE)
            inputs = x[part].swapaxes(0, 2).copy()
            outputs = np.empty_like(inputs)
            after, marks = states[:, part].swapaxes(1, 2).copy(), redo[part].T.copy()
            _filter_by_scipy(cascade, limit_bits, inputs, None if y is None else outputs, after, marks)
            states[:, part], redo[part] = after.swapaxes(1, 2), marks.T
            if y is not None:
                y[part] = outputs.swapaxes(0, 2)
        return
    by_section = states.reshape(len(cascade.sections), cascade.order, *redo.shape)
    if states.dtype == np.float64:
        b, a = cascade.float64_coefficients
    else:
        with np.errstate(all="ignore"):
            b, a = cascade.coefficients(states.dtype)
    target = np.empty((1, 1, 1), x.dtype) if y is None else y
    arguments = writable(x), target, by_section, b, a, limit_bits, redo, y is not None
    if filters_columns and x.shape[2] >= WIDE:
        call_in_parts(partial(scipy_columns, *arguments), x.shape[2], threads)
    else:
        scipy_rows(*arguments)


def chunk_filter(cascade: Cascade, chunk: Chunk, is_contiguous: bool = True, threads: int = 1) -> ChunkFilter:
    """Return the filter of chunks like this one, by the fastest loop.

    `is_contiguous` says whether results are; `threads` share WIDE columns and more.
    """
    x, dtype, (_, steps, inner) = chunk.operands[0], chunk.dtype, chunk.shape
    char, is_long = np.empty(0, dtype).real.dtype.char, columns.is_long(chunk.size)
    parts = 2 if dtype.kind == "c" and not cascade.is_complex else 1
    if cascade.is_complex or inner * parts >= WIDE or steps < LONG:
        loop: Loop = partial(_filter_by_scipy, cascade, LARGEST[char], threads=threads)
        return ChunkFilter(cascade, dtype, dtype, parts == 2, loop)
    is_row, is_one = inner * parts == 1, len(cascade.sections) == 1
    is_cast_in_tiles = dtype == np.float64 and x.dtype.char in _CAST_IN_TILES and is_row and is_one
    are_rows = is_row and is_contiguous and (x.dtype != dtype or x.flags.c_contiguous)
    if are_rows and not is_cast_in_tiles and _filters_rows(cascade, char, is_long):
        loop = partial(_filter_contiguous, rows_filter(cascade, char, char, is_long))
    elif parts * chunk.size <= TILE:
        loop = partial(filter_in_copies, rows_filter(cascade, "d", char, is_long))
    else:
        # Blocks of one section start at the same samples as along rows: the same bits along
        # either axis.
        past, lead = (max(cascade.order, WIDTH), LEAD) if is_one else (0, 0)
        filter_rows = rows_filter(cascade, "d", char, is_long)
        loop = partial(filter_in_tiles, filter_rows, past=past, lead=lead)
    return ChunkFilter(cascade, dtype, x.dtype if is_cast_in_tiles else dtype, parts == 2, loop)


def _filter_contiguous(
    filter_rows: FilterRows, x: np.ndarray, y: np.ndarray | None, states: np.ndarray, redo: np.ndarray
) -> None:
    target = None if y is None else y[:, :, 0]
    filter_rows(x[:, :, 0], target, states[:, :, 0], redo[:, 0])


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
