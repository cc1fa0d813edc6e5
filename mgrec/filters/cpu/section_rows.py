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
from .scipy_loops import BLOCK, largest_bits, scipy_section
from .section import NEAR, copy_values, feed_forward, in_blocks, in_steps, one_by_one, state_after

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
    along = _along(loop, order, is_wide, write, in_place=False)

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
            target: Any = y[row] if write else None
            for i in range(order):
                z[i] = states[i, row]
            first = min(past + LEAD, size)
            copy_values(source[:first], wide_x)
            scipy_section(wide_x[:first], wide_y[:first], z, b, a)
            is_low = largest_bits(wide_y[:first]) <= limit_bits
            if write:
                for n in range(first):
                    target[n] = wide_y[n]
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


def _along(loop: str, order: int, is_wide: bool, write: bool, in_place: bool) -> Any:
    """Return the loop over a row from sample `first` on.

    The loop returns the number of samples after the first `past` ones in `wide_x` and `wide_y`,
    and whether the bits of all outputs are at most `limit_bits`.
    """
    if loop == BLOCKS:
        return _blocks_along(order, is_wide, is_wide and write and not in_place)
    return _batches_along(loop, order, write, in_place)


def _blocks_along(order: int, is_wide: bool, may_stream: bool) -> Any:
    into_caches = in_blocks(order, is_wide, store_rounded)
    past_caches = in_blocks(order, is_wide, stream) if may_stream else into_caches

    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        limit_bits: Any, is_large: bool,
    ) -> Any:  # fmt: skip
        limit, recent = np.int64(limit_bits).view(np.float64), wide_y[:WIDTH]
        # Stores bypass the caches for large aligned results.
        if may_stream and is_large and (y.ctypes.data + first * y.itemsize) % CACHE_LINE == 0:
            full, is_low = past_caches(x, y, wide_x, recent, table, first, limit)
            fence()
        else:
            full, is_low = into_caches(x, y, wide_x, recent, table, first, limit)
        remainder = x.size - full
        copy_values(x[full - WIDTH :], wide_x)
        feed_forward(wide_x[WIDTH - order : WIDTH + remainder], v[:remainder], b)
        one_by_one(v, wide_y, a, WIDTH, WIDTH + remainder)
        if y is not None:
            for n in range(remainder):
                y[full + n] = wide_y[WIDTH + n]
        return remainder, is_low and largest_bits(wide_y[WIDTH : WIDTH + remainder]) <= limit_bits

    return along


def _batches_along(loop: str, order: int, write: bool, in_place: bool) -> Any:
    """Return the loop over batches; if `in_place`, over one whose y has the outputs before it."""
    is_forward = loop == FORWARD
    steps: Any = None if is_forward else in_steps(order)

    @numba.njit(**INNER)
    def filter_batch(
        x: Any, left: int, count: int, outputs: Any, first: int, target: Any, v: Any, b: Any, a: Any
    ) -> Any:
        source, part = x[left - b.size + 1 : left + count], v[:count]
        if is_forward:
            results = target if write else part
            feed_forward(source, results, b)
            return largest_bits(results)
        feed_forward(source, part, b)
        full = steps(part, outputs, target, a, first)
        one_by_one(part[full:], outputs, a, first + full, first + count)
        if target is not None:
            for n in range(full, count):
                target[n] = outputs[first + n]
        return largest_bits(outputs[first : first + count])

    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        limit_bits: Any, is_large: bool,
    ) -> Any:  # fmt: skip
        if in_place:
            target = y[first:] if is_forward else None
            largest = filter_batch(x, first, x.size - first, y, first, target, v, b, a)
            return 0, largest <= limit_bits
        largest, past = np.int64(0), max(b.size - 1, WIDTH)
        for left in range(first, x.size, BATCH):
            count = min(BATCH, x.size - left)
            target = y[left : left + count] if write else None
            largest = max(largest, filter_batch(x, left, count, wide_y, past, target, v, b, a))
            copy_values(wide_y[count : past + count], wide_y)
        copy_values(x[x.size - past :], wide_x)
        return 0, largest <= limit_bits

    return along


@cache
def section_copied(loop: str, order: int) -> Any:
    """Return the kernel for rows of any dtype and stride.

    `order` is that of :func:`compiled_order`. Unless `write`, only the states are computed.
    """
    along = _along(loop, order, True, True, in_place=True)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, limit_bits: Any, redo: Any,
        write: bool,
    ) -> None:  # fmt: skip
        order = states.shape[0]
        past = max(order, WIDTH)
        margin = -(-past // WIDTH) * WIDTH
        # Blocks start at the same samples as in section_rows: the same bits along either axis.
        start, block = past + LEAD, max(BLOCK, 2 * margin + WIDTH)
        wide_x, wide_y = np.zeros(past + BATCH), np.zeros(past + BATCH)
        v, z = np.empty(block), np.empty(order)
        source, target = np.zeros(margin + block), np.zeros(margin + block)
        for o in range(x.shape[0]):
            for i in range(redo.shape[1]):
                size, is_low = x.shape[1], True
                x_row = x[o] if x.ndim == 2 else x[o, :, i]
                for k in range(order):
                    z[k] = states[k, o, i]
                for right in range(block - WIDTH + LEAD, size + block, block):
                    left = max(0, right - block)
                    count = min(right, size) - left
                    end, first = margin + count, margin
                    part, inputs = x_row[left : left + count], source[margin:]
                    for n in range(count):
                        inputs[n] = part[n]
                    if left == 0:
                        first = min(margin + start, end)
                        scipy_section(source[margin:first], target[margin:first], z, b, a)
                        is_low &= largest_bits(target[margin:first]) <= limit_bits
                    if first < end:
                        copy_values(target[first - past : first], wide_y)
                        _, is_part_low = along(
                            source[:end], target[:end], wide_x, wide_y, v, first, b, a, table,
                            limit_bits, False,
                        )  # fmt: skip
                        is_low &= is_part_low
                        state_after(b, a, source, target, end, z)
                    if write:
                        y_row = y[o] if y.ndim == 2 else y[o, :, i]
                        result, outputs = y_row[left : left + count], target[margin:]
                        for n in range(count):
                            result[n] = outputs[n]
                    copy_values(source[count:end], source)
                    copy_values(target[count:end], target)
                redo[o, i] = not is_low
                for k in range(order):
                    states[k, o, i] = z[k]

    return compile_kernel(filter_rows, loop, str(order))
