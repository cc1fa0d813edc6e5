"""Kernels that filter rows by one section: contiguous rows, and rows that need a copy.

All kernels compute in float64. Rows of float32 are cast a few samples at a time, and their outputs
are rounded when they are stored.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.simd.lanes import CACHE_LINE, MIN_STREAMED_BYTES, fence, stream
from .lanes import WIDTH, store_rounded
from .scipy_loops import largest_bits, put_value, row_of, scipy_section, target_part
from .section import (
    NEAR,
    copy_values,
    feed_forward,
    in_blocks,
    in_steps,
    in_widened_blocks,
    one_by_one,
    state_after,
)

# Number of samples before the first block, besides the first max(order, 8). Large arrays start 16
# bytes into a page, so that blocks then start at a line of memory. Blocks start at the same sample
# for every alignment of the array, because the bits of the results depend on it.
LEAD = 6
# Number of samples that pass through feed_forward, then through the feedback. With fewer, the
# feedback starts too often; with more, memory is idle during the feedback.
BATCH = 256

FORWARD, BLOCKS, STEPS = "feed-forward", "blocks", "steps"


def compiled_order(loop: str, order: int) -> int:
    """Return the order that a kernel is compiled for; several orders may share a kernel."""
    if loop == FORWARD:
        return 0
    return order if loop == BLOCKS else min(order, NEAR + 1)


@cache
def section_rows(loop: str, order: int, is_wide: bool, write: bool) -> Any:
    """Return the kernel for contiguous rows (outer, steps) of float64, or float32 if not `is_wide`.

    `order` is that of :func:`compiled_order`. y is None unless `write`.
    """
    along = _along(loop, order, is_wide, write)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, limit_bits: Any, redo: Any
    ) -> None:
        order = states.shape[0]
        past = max(order, WIDTH)
        # The last `past` inputs and outputs, and space for the following ones.
        wide_x, wide_y = np.zeros(past + BATCH), np.zeros(past + BATCH)
        z, v = np.empty(order), np.empty(BATCH)
        is_large = x.size * x.itemsize >= MIN_STREAMED_BYTES
        for row in range(x.shape[0]):
            source, size = x[row], x.shape[1]
            target = y[row] if write else None
            for i in range(order):
                z[i] = states[i, row]
            first = min(past + LEAD, size)
            copy_values(source[:first], wide_x)
            scipy_section(wide_x[:first], wide_y[:first], z, b, a)
            is_low = largest_bits(wide_y[:first]) <= limit_bits
            for n in range(first):
                put_value(target, n, wide_y[n])
            if size > first:
                copy_values(wide_x[LEAD:first], wide_x)
                copy_values(wide_y[LEAD:first], wide_y)
                remainder, is_remainder_low = along(
                    source, target, wide_x, wide_y, v, first, b, a, table, limit_bits, is_large
                )
                is_low &= is_remainder_low
                state_after(b, a, wide_x, wide_y, past + remainder, z)
            redo[row] = not is_low
            for i in range(order):
                states[i, row] = z[i]
        fence()

    return compile_kernel(filter_rows, loop, str(order), str(is_wide), str(write))


def _along(loop: str, order: int, is_wide: bool, write: bool) -> Any:
    """Return the loop over a row from sample `first` on.

    The loop returns the number of samples after the first `past` ones in `wide_x` and `wide_y`,
    and whether the bits of all outputs are at most `limit_bits`.
    """
    if loop == BLOCKS:
        return _blocks_along(order, is_wide, write)
    return _steps_along(order) if loop == STEPS else _forward_along(write)


def _blocks_along(order: int, is_wide: bool, write: bool) -> Any:
    blocks = _float64_blocks(order) if is_wide and write else _other_blocks(order, is_wide)

    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        limit_bits: Any, is_large: bool,
    ) -> Any:  # fmt: skip
        limit = np.int64(limit_bits).view(np.float64)
        full, is_low = blocks(x, y, wide_x, wide_y[:WIDTH], table, first, limit, is_large)
        remainder = x.size - full
        copy_values(x[full - WIDTH :], wide_x)
        feed_forward(wide_x[WIDTH - order : WIDTH + remainder], v[:remainder], b)
        one_by_one(v, wide_y, a, WIDTH, WIDTH + remainder)
        for n in range(remainder):
            put_value(y, full + n, wide_y[WIDTH + n])
        return remainder, is_low and largest_bits(wide_y[WIDTH : WIDTH + remainder]) <= limit_bits

    return along


def _float64_blocks(order: int) -> Any:
    """Return the loop of blocks, whose stores bypass the caches for large aligned results."""
    into_caches, past_caches = in_blocks(order, store_rounded), in_blocks(order, stream)

    @numba.njit(**INNER)
    def blocks(
        x: Any, y: Any, wide: Any, recent: Any, table: Any, first: int, limit: float, is_large: bool
    ) -> Any:
        if is_large and (y.ctypes.data + first * y.itemsize) % CACHE_LINE == 0:
            outcome = past_caches(x, y, wide, recent, table, first, x.size, limit)
            fence()
            return outcome
        return into_caches(x, y, wide, recent, table, first, x.size, limit)

    return blocks


def _other_blocks(order: int, is_wide: bool) -> Any:
    advance = (in_blocks if is_wide else in_widened_blocks)(order, store_rounded)

    @numba.njit(**INNER)
    def blocks(
        x: Any, y: Any, wide: Any, recent: Any, table: Any, first: int, limit: float, is_large: bool
    ) -> Any:
        return advance(x, y, wide, recent, table, first, x.size, limit)

    return blocks


def _steps_along(order: int) -> Any:
    steps = in_steps(order)

    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        limit_bits: Any, is_large: bool,
    ) -> Any:  # fmt: skip
        order, largest = b.size - 1, np.int64(0)
        past = max(order, WIDTH)
        for left in range(first, x.size, BATCH):
            count = min(BATCH, x.size - left)
            part, target = v[:count], target_part(y, left, count, None)
            feed_forward(x[left - order : left + count], part, b)
            full = steps(part, wide_y, target, a, past)
            one_by_one(part[full:], wide_y, a, past + full, past + count)
            for n in range(full, count):
                put_value(target, n, wide_y[past + n])
            largest = max(largest, largest_bits(wide_y[past : past + count]))
            copy_values(wide_y[count : past + count], wide_y)
        copy_values(x[x.size - past :], wide_x)
        return 0, largest <= limit_bits

    return along


def _forward_along(write: bool) -> Any:
    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        limit_bits: Any, is_large: bool,
    ) -> Any:  # fmt: skip
        order, largest = b.size - 1, np.int64(0)
        past = max(order, WIDTH)
        for left in range(first, x.size, BATCH):
            right = min(left + BATCH, x.size)
            target = y[left:right] if write else v[: right - left]
            feed_forward(x[left - order : right], target, b)
            largest = max(largest, largest_bits(target))
        copy_values(x[x.size - past :], wide_x)
        return 0, largest <= limit_bits

    return along


# Number of samples copied together: their x, y and v stay in the L1 cache.
BLOCK = 1024


def _forward_part(order: int) -> Any:
    @numba.njit(**INNER)
    def filter_part(
        x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any
    ) -> None:
        feed_forward(x[first - b.size + 1 : end], y[first:end], b)

    return filter_part


def _blocks_part(order: int) -> Any:
    blocks = in_blocks(order, store_rounded)

    @numba.njit(**INNER)
    def filter_part(
        x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any
    ) -> None:
        recent = v[:WIDTH]
        copy_values(y[first - WIDTH : first], recent)
        full, _ = blocks(x, y, x, recent, table, first, end, np.inf)
        if full < end:
            feed_forward(x[full - order : end], v[: end - full], b)
            one_by_one(v, y, a, full, end)

    return filter_part


def _steps_part(order: int) -> Any:
    steps = in_steps(order)

    @numba.njit(**INNER)
    def filter_part(
        x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any
    ) -> None:
        feed_forward(x[first - b.size + 1 : end], v[: end - first], b)
        part = v[: end - first]
        full = steps(part, y, None, a, first)
        one_by_one(part[full:], y, a, first + full, end)

    return filter_part


_LOOPS = {FORWARD: _forward_part, BLOCKS: _blocks_part, STEPS: _steps_part}


@cache
def section_copied(loop: str, order: int) -> Any:
    """Return the kernel for rows of any dtype and stride.

    `order` is that of :func:`compiled_order`. Unless `write`, only the states are computed.
    """
    # Computes y[first:end] from x and from the outputs before `first`.
    filter_part = _LOOPS[loop](order)

    def filter_rows(
        x: Any,
        y: Any,
        states: Any,
        b: Any,
        a: Any,
        table: Any,
        limit_bits: Any,
        redo: Any,
        write: bool,
    ) -> None:
        order = states.shape[0]
        margin = -(-max(order, WIDTH) // WIDTH) * WIDTH
        # Blocks start at the same samples as in section_rows: the same bits along either axis.
        start, block = max(order, WIDTH) + LEAD, max(BLOCK, 2 * margin + WIDTH)
        v, z = np.empty(block), np.empty(order)
        source, target = np.zeros(margin + block), np.zeros(margin + block)
        for o in range(x.shape[0]):
            for i in range(redo.shape[1]):
                size, largest = x.shape[1], 0
                x_row, y_row = row_of(x, o, i), row_of(y, o if write else 0, i if write else 0)
                for k in range(order):
                    z[k] = states[k, o, i]
                for right in range(block - WIDTH + LEAD, size + block, block):
                    left = max(0, right - block)
                    count = min(right, size) - left
                    end = margin + count
                    part = x_row[left : left + count]
                    inputs, outputs = source[margin:], target[margin:]
                    for n in range(count):
                        inputs[n] = part[n]
                    first = margin
                    if left == 0:
                        first = min(margin + start, end)
                        scipy_section(source[margin:first], target[margin:first], z, b, a)
                    if first < end:
                        filter_part(source, target, v, first, end, b, a, table)
                        state_after(b, a, source, target, end, z)
                    largest = max(largest, largest_bits(target[margin:end]))
                    if write:
                        result = y_row[left : left + count]
                        for n in range(count):
                            result[n] = outputs[n]
                    copy_values(source[count:end], source)
                    copy_values(target[count:end], target)
                redo[o, i] = largest > limit_bits
                for k in range(order):
                    states[k, o, i] = z[k]

    return compile_kernel(filter_rows, loop, str(order))
