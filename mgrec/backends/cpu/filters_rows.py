"""One section along rows: each row by the fastest loop that its section allows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from .compilation import OPTIONS, compile_kernel
from .filters_lanes import WIDTH
from .filters_plain import largest_bits, line_of, plain_section
from .filters_section import (
    BLOCK,
    feed_forward,
    in_blocks,
    in_steps,
    one_by_one,
    state_after,
)
from .lanes import LARGE, LINE, fence, stream

# Samples before the first block: what follows starts a line of memory where malloc maps pages,
# 16 bytes into the first, since a block's order of additions may not depend on the place.
HEAD = 6

FORWARD, BLOCKS, STEPS = "feed-forward", "blocks", "steps"


def _forward_span(order: int) -> Any:
    @numba.njit(**OPTIONS)
    def span(x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any) -> None:
        feed_forward(x[first - order : end], y[first:end], b)

    return span


def _block_span(order: int) -> Any:
    blocks = in_blocks(order)

    @numba.njit(**OPTIONS)
    def span(x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any) -> None:
        full, _ = blocks(x, y, table, first, end, 0.0)
        if full < end:
            feed_forward(x[full - order : end], v[: end - full], b)
            one_by_one(v, y, a, full, end)

    return span


def _step_span(order: int) -> Any:
    steps = in_steps(order)

    @numba.njit(**OPTIONS)
    def span(x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any) -> None:
        feed_forward(x[first - order : end], v[: end - first], b)
        full = steps(v, y, a, first, end)
        one_by_one(v[full - first :], y, a, full, end)

    return span


@cache
def _span(kind: str, order: int) -> Any:
    """The loop over y[first:end] of one kind of section, with `order` samples before it."""
    spans = {FORWARD: _forward_span, BLOCKS: _block_span, STEPS: _step_span}
    return spans[kind](order)


@cache
def section_rows(kind: str, order: int) -> Any:
    """The kernel for contiguous rows of float64: inputs and results are their own history."""
    along = _blocks_along(order) if kind == BLOCKS else _spans_along(kind, order)
    head = max(order, WIDTH) + HEAD

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, top: Any, bad: Any
    ) -> None:
        z, v = np.empty(order), np.empty(BLOCK)
        is_large = y.size * y.itemsize >= LARGE
        for row in range(x.shape[0]):
            source, target, size = x[row], y[row], x.shape[1]
            z[:] = states[:, row]
            first = min(head, size)
            plain_section(source[:first], target[:first], z, b, a)
            is_low = largest_bits(target[:first]) <= top
            if size > first:
                is_low &= along(source, target, v, first, b, a, table, top, is_large)
                state_after(b, a, source, target, size, z)
            bad[row] = not is_low
            states[:, row] = z
        fence()

    return compile_kernel(filter_rows, kind, str(order))


def _spans_along(kind: str, order: int) -> Any:
    span = _span(kind, order)

    @numba.njit(**OPTIONS)
    def along(
        x: Any, y: Any, v: Any, first: int, b: Any, a: Any, table: Any, top: Any, is_large: bool
    ) -> bool:
        largest = np.int64(0)
        for left in range(first, x.size, BLOCK):
            right = min(left + BLOCK, x.size)
            span(x, y, v, left, right, b, a, table)
            largest = max(largest, largest_bits(y[left:right]))
        return largest <= top

    return along


def _blocks_along(order: int) -> Any:
    into_caches, past_caches = in_blocks(order), in_blocks(order, stream)

    @numba.njit(**OPTIONS)
    def along(
        x: Any, y: Any, v: Any, first: int, b: Any, a: Any, table: Any, top: Any, is_large: bool
    ) -> bool:
        limit = np.int64(top).view(np.float64)
        if is_large and (y.ctypes.data + first * y.itemsize) % LINE == 0:
            full, is_low = past_caches(x, y, table, first, x.size, limit)
            fence()
        else:
            full, is_low = into_caches(x, y, table, first, x.size, limit)
        feed_forward(x[full - order :], v[: x.size - full], b)
        one_by_one(v, y, a, full, x.size)
        return is_low and largest_bits(y[full:]) <= top

    return along


@cache
def section_copied(kind: str, order: int) -> Any:
    """The kernel for rows of any dtype and stride: blocks of them in buffers of float64.

    Where `y` is as short as a block nothing is written: only the states are wanted.
    """
    span = _span(kind, order)
    head = -(-max(order, WIDTH) // WIDTH) * WIDTH
    # Blocks of eight stand where section_rows has them: the same bits along either axis.
    start, block = max(order, WIDTH) + HEAD, max(BLOCK, 2 * head + WIDTH)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, top: Any, bad: Any, write: bool
    ) -> None:
        v, z = np.empty(block), np.empty(order)
        source, target = np.zeros(head + block), np.zeros(head + block)
        for o in range(x.shape[0]):
            for i in range(bad.shape[1]):
                size, largest = x.shape[1], 0
                given, wanted = line_of(x, o, i), line_of(y, o if write else 0, i if write else 0)
                z[:] = states[:, o, i]
                for right in range(block - WIDTH + HEAD, size + block, block):
                    left = max(0, right - block)
                    count = min(right, size) - left
                    end = head + count
                    row = given[left : left + count]
                    for n in range(count):
                        source[head + n] = row[n]
                    first = head
                    if left == 0:
                        first = min(head + start, end)
                        plain_section(source[head:first], target[head:first], z, b, a)
                    if first < end:
                        span(source, target, v, first, end, b, a, table)
                        state_after(b, a, source, target, end, z)
                    largest = max(largest, largest_bits(target[head:end]))
                    if write:
                        result = wanted[left : left + count]
                        for n in range(count):
                            result[n] = target[head + n]
                    source[:head] = source[count:end]
                    target[:head] = target[count:end]
                bad[o, i] = largest > top
                states[:, o, i] = z

    return compile_kernel(filter_rows, kind, str(order))
