"""Kernels that filter contiguous rows by one section.

All kernels compute in float64. Rows of float32 are cast a few samples at a time, and their outputs
are rounded when they are stored.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.simd.lanes import CACHE_LINE, MIN_STREAMED_BYTES, fence
from .lanes import WIDTH
from .scipy_loops import largest_bits, scipy_section
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
def section_rows(loop: str, order: int, is_wide: bool) -> Any:
    """Return the kernel for contiguous rows (outer, steps) of float64, or float32 if not `is_wide`.

    `order` is that of :func:`compiled_order`. Unless `write`, only the states are computed, and y
    is any array of two axes of the same dtype. The first `start` samples of float64 have been
    filtered: x and y have them, and `start` is 0 or at least max(order, WIDTH).
    """
    along = _blocks_along(order, is_wide) if loop == BLOCKS else _batches_along(loop, order)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, limit_bits: Any, redo: Any,
        start: int, write: bool,
    ) -> None:  # fmt: skip
        order = states.shape[0]
        past = max(order, WIDTH)
        # The last `past` inputs and outputs, and space for the following ones.
        wide_x, wide_y = np.zeros(past + BATCH), np.zeros(past + BATCH)
        z, v, spare = np.empty(order), np.empty(BATCH), np.empty(BATCH, y.dtype)
        is_large = write and x.size * x.itemsize >= MIN_STREAMED_BYTES
        for row in range(x.shape[0]):
            source, size, is_low = x[row], x.shape[1], True
            target = y[row] if write else spare
            for i in range(order):
                z[i] = states[i, row]
            first = start
            if start == 0:
                first = min(past + LEAD, size)
                copy_values(source[:first], wide_x)
                scipy_section(wide_x[:first], wide_y[:first], z, b, a)
                is_low = largest_bits(wide_y[:first]) <= limit_bits
                if write:
                    for n in range(first):
                        target[n] = wide_y[n]
                copy_values(wide_x[max(first - past, 0) : first], wide_x)
                copy_values(wide_y[max(first - past, 0) : first], wide_y)
            else:
                copy_values(source[start - past : start], wide_x)
                copy_values(target[start - past : start], wide_y)
            if size > first:
                remainder, is_remainder_low = along(
                    source, target, wide_x, wide_y, v, first, b, a, table, limit_bits, write,
                    is_large,
                )  # fmt: skip
                is_low &= is_remainder_low
                state_after(b, a, wide_x, wide_y, past + remainder, z)
            redo[row] = not is_low
            for i in range(order):
                states[i, row] = z[i]
        fence()

    return compile_kernel(filter_rows, loop, str(order), str(is_wide))


# The loops of a section over a row, from sample `first` on, return the number of samples after the
# first `past` ones in `wide_x` and `wide_y`, and whether the bits of all outputs are at most
# `limit_bits`. Unless `write`, y has BATCH outputs, which the following ones overwrite.


def _blocks_along(order: int, is_wide: bool) -> Any:
    blocks = in_blocks(order, is_wide)

    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        limit_bits: Any, write: bool, is_large: bool,
    ) -> Any:  # fmt: skip
        limit = np.int64(limit_bits).view(np.float64)
        # Stores bypass the caches for large aligned results.
        past_caches = is_large and (y.ctypes.data + first * y.itemsize) % CACHE_LINE == 0
        full, is_low = blocks(x, y, wide_x, wide_y[:WIDTH], table, first, limit, write, past_caches)
        remainder = x.size - full
        copy_values(x[full - WIDTH :], wide_x)
        feed_forward(wide_x[WIDTH - order : WIDTH + remainder], v[:remainder], b)
        one_by_one(v, wide_y, a, WIDTH, WIDTH + remainder)
        if write:
            for n in range(remainder):
                y[full + n] = wide_y[WIDTH + n]
        return remainder, is_low and largest_bits(wide_y[WIDTH : WIDTH + remainder]) <= limit_bits

    return along


def _batches_along(loop: str, order: int) -> Any:
    is_forward = loop == FORWARD
    steps: Any = None if is_forward else in_steps(order)

    @numba.njit(**INNER)
    def filter_batch(
        source: Any, outputs: Any, past: int, target: Any, v: Any, b: Any, a: Any
    ) -> Any:
        if is_forward:
            feed_forward(source, target, b)
            return largest_bits(target)
        count = target.size
        part = v[:count]
        feed_forward(source, part, b)
        full = steps(part, outputs, target, a, past)
        one_by_one(part[full:], outputs, a, past + full, past + count)
        for n in range(full, count):
            target[n] = outputs[past + n]
        return largest_bits(outputs[past : past + count])

    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        limit_bits: Any, write: bool, is_large: bool,
    ) -> Any:  # fmt: skip
        largest, past = np.int64(0), max(b.size - 1, WIDTH)
        for left in range(first, x.size, BATCH):
            count, to = min(BATCH, x.size - left), left if write else 0
            source, target = x[left - b.size + 1 : left + count], y[to : to + count]
            largest = max(largest, filter_batch(source, wide_y, past, target, v, b, a))
            copy_values(wide_y[count : past + count], wide_y)
        copy_values(x[x.size - past :], wide_x)
        return 0, largest <= limit_bits

    return along
