"""One section along rows of any stride, direction and dtype, block by block through buffers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from .lanes import WIDTH, store_rounded
from .plain import largest_bits, line_of, plain_section
from .rows import BLOCKS, FORWARD, HEAD, STEPS
from .section import copy_line, feed_forward, in_blocks, in_steps, one_by_one, state_after

# Samples copied together: their x, y and v stay in the L1 cache.
BLOCK = 1024


def _run_forward(order: int) -> Any:
    @numba.njit(**INNER)
    def run(x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any) -> None:
        feed_forward(x[first - b.size + 1 : end], y[first:end], b)

    return run


def _run_blocks(order: int) -> Any:
    blocks = in_blocks(order, store_rounded)

    @numba.njit(**INNER)
    def run(x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any) -> None:
        recent = v[:WIDTH]
        copy_line(y[first - WIDTH : first], recent)
        full, _ = blocks(x, y, x, recent, table, first, end, np.inf)
        if full < end:
            feed_forward(x[full - order : end], v[: end - full], b)
            one_by_one(v, y, a, full, end)

    return run


def _run_steps(order: int) -> Any:
    steps = in_steps(order)

    @numba.njit(**INNER)
    def run(x: Any, y: Any, v: Any, first: int, end: int, b: Any, a: Any, table: Any) -> None:
        feed_forward(x[first - b.size + 1 : end], v[: end - first], b)
        part = v[: end - first]
        full = steps(part, y, None, a, first)
        one_by_one(part[full:], y, a, first + full, end)

    return run


_LOOPS = {FORWARD: _run_forward, BLOCKS: _run_blocks, STEPS: _run_steps}


@cache
def section_copied(kind: str, order: int) -> Any:
    """The kernel for rows of any dtype and stride.

    `order` is that of :func:`unrolled`. Unless `write`, only the states are computed.
    """
    # Computes y[first:end] from x and y, which begin with the samples before `first`.
    run = _LOOPS[kind](order)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, top: Any, redo: Any, write: bool
    ) -> None:
        order = states.shape[0]
        head = -(-max(order, WIDTH) // WIDTH) * WIDTH
        # Blocks of eight start where those of section_rows do: the same bits along either axis.
        start, block = max(order, WIDTH) + HEAD, max(BLOCK, 2 * head + WIDTH)
        v, z = np.empty(block), np.empty(order)
        source, target = np.zeros(head + block), np.zeros(head + block)
        for o in range(x.shape[0]):
            for i in range(redo.shape[1]):
                size, largest = x.shape[1], 0
                given, wanted = line_of(x, o, i), line_of(y, o if write else 0, i if write else 0)
                for k in range(order):
                    z[k] = states[k, o, i]
                for right in range(block - WIDTH + HEAD, size + block, block):
                    left = max(0, right - block)
                    count = min(right, size) - left
                    end = head + count
                    row, inputs, outputs = given[left : left + count], source[head:], target[head:]
                    for n in range(count):
                        inputs[n] = row[n]
                    first = head
                    if left == 0:
                        first = min(head + start, end)
                        plain_section(source[head:first], target[head:first], z, b, a)
                    if first < end:
                        run(source, target, v, first, end, b, a, table)
                        state_after(b, a, source, target, end, z)
                    largest = max(largest, largest_bits(target[head:end]))
                    if write:
                        result = wanted[left : left + count]
                        for n in range(count):
                            result[n] = outputs[n]
                    copy_line(source[count:end], source)
                    copy_line(target[count:end], target)
                redo[o, i] = largest > top
                for k in range(order):
                    states[k, o, i] = z[k]

    return compile_kernel(filter_rows, kind, str(order))
