"""One section along contiguous rows, by the fastest loop that the section allows.

Everything is computed in float64: rows of float32 are widened a few samples at a time, and their
outputs rounded as they are stored.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.simd.lanes import CACHE_LINE, MIN_STREAMED_BYTES, fence, stream
from .lanes import WIDTH, store_rounded
from .plain import largest_bits, plain_section, put_number, target_part
from .section import (
    NEAR,
    copy_line,
    feed_forward,
    in_blocks,
    in_steps,
    in_widened_blocks,
    one_by_one,
    state_after,
)

# Samples before the first block. Large arrays start 16 bytes into a page, so that blocks then start
# at a line of memory. They start at the same sample wherever the array lies: the bits depend on it.
HEAD = 6
# Samples that go through feed_forward, then through the feedback: with fewer the second half starts
# too often, with more memory waits for it.
BATCH = 256

FORWARD, BLOCKS, STEPS = "feed-forward", "blocks", "steps"


def unrolled(kind: str, order: int) -> int:
    """The order that a kernel is compiled for; orders with the same loop share a kernel."""
    if kind == FORWARD:
        return 0
    return order if kind == BLOCKS else min(order, NEAR + 1)


@cache
def section_rows(kind: str, order: int, is_wide: bool, write: bool) -> Any:
    """The kernel for contiguous rows (outer, steps) of float64, or of float32 if not `is_wide`.

    `order` is that of :func:`unrolled`. y is None where nothing is written.
    """
    along = _along(kind, order, is_wide, write)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, top: Any, redo: Any
    ) -> None:
        order = states.shape[0]
        past = max(order, WIDTH)
        # The last `past` inputs and outputs, and room for those that follow.
        wide_x, wide_y = np.zeros(past + BATCH), np.zeros(past + BATCH)
        z, v = np.empty(order), np.empty(BATCH)
        is_large = x.size * x.itemsize >= MIN_STREAMED_BYTES
        for row in range(x.shape[0]):
            source, size = x[row], x.shape[1]
            target = y[row] if write else None
            for i in range(order):
                z[i] = states[i, row]
            first = min(past + HEAD, size)
            copy_line(source[:first], wide_x)
            plain_section(wide_x[:first], wide_y[:first], z, b, a)
            is_low = largest_bits(wide_y[:first]) <= top
            for n in range(first):
                put_number(target, n, wide_y[n])
            if size > first:
                copy_line(wide_x[HEAD:first], wide_x)
                copy_line(wide_y[HEAD:first], wide_y)
                rest, is_rest_low = along(
                    source, target, wide_x, wide_y, v, first, b, a, table, top, is_large
                )
                is_low &= is_rest_low
                state_after(b, a, wide_x, wide_y, past + rest, z)
            redo[row] = not is_low
            for i in range(order):
                states[i, row] = z[i]
        fence()

    return compile_kernel(filter_rows, kind, str(order), str(is_wide), str(write))


def _along(kind: str, order: int, is_wide: bool, write: bool) -> Any:
    """The loop over a row from `first` on.

    It returns how many samples follow the first `past` ones in `wide_x` and `wide_y`, and whether
    all outputs are at most `top`.
    """
    if kind == BLOCKS:
        return _blocks_along(order, is_wide, write)
    return _steps_along(order) if kind == STEPS else _forward_along(write)


def _blocks_along(order: int, is_wide: bool, write: bool) -> Any:
    blocks = _float64_blocks(order) if is_wide and write else _other_blocks(order, is_wide)

    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        top: Any, is_large: bool,
    ) -> Any:  # fmt: skip
        limit = np.int64(top).view(np.float64)
        full, is_low = blocks(x, y, wide_x, wide_y[:WIDTH], table, first, limit, is_large)
        rest = x.size - full
        copy_line(x[full - WIDTH :], wide_x)
        feed_forward(wide_x[WIDTH - order : WIDTH + rest], v[:rest], b)
        one_by_one(v, wide_y, a, WIDTH, WIDTH + rest)
        for n in range(rest):
            put_number(y, full + n, wide_y[WIDTH + n])
        return rest, is_low and largest_bits(wide_y[WIDTH : WIDTH + rest]) <= top

    return along


def _float64_blocks(order: int) -> Any:
    """Blocks, written past the caches where they fill lines of memory."""
    into_caches, past_caches = in_blocks(order, store_rounded), in_blocks(order, stream)

    @numba.njit(**INNER)
    def blocks(
        x: Any, y: Any, wide: Any, recent: Any, table: Any, first: int, limit: float, is_large: bool
    ) -> Any:
        if is_large and (y.ctypes.data + first * y.itemsize) % CACHE_LINE == 0:
            found = past_caches(x, y, wide, recent, table, first, x.size, limit)
            fence()
            return found
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
        top: Any, is_large: bool,
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
                put_number(target, n, wide_y[past + n])
            largest = max(largest, largest_bits(wide_y[past : past + count]))
            copy_line(wide_y[count : past + count], wide_y)
        copy_line(x[x.size - past :], wide_x)
        return 0, largest <= top

    return along


def _forward_along(write: bool) -> Any:
    @numba.njit(**INNER)
    def along(
        x: Any, y: Any, wide_x: Any, wide_y: Any, v: Any, first: int, b: Any, a: Any, table: Any,
        top: Any, is_large: bool,
    ) -> Any:  # fmt: skip
        order, largest = b.size - 1, np.int64(0)
        past = max(order, WIDTH)
        for left in range(first, x.size, BATCH):
            right = min(left + BATCH, x.size)
            target = y[left:right] if write else v[: right - left]
            feed_forward(x[left - order : right], target, b)
            largest = max(largest, largest_bits(target))
        copy_line(x[x.size - past :], wide_x)
        return 0, largest <= top

    return along
