"""Second-order sections side by side: lane s of a register is section s, one sample behind.

A section waits for its own output, and the next section for it: one after the other, a loop
over S sections waits S times a step. In a pipeline each lane takes what the lane before it
returned a step ago, so that all sections work at once, on samples t, t − 1, t − 2, … A step
of eight sections takes 2.6 ns then; one of a single section takes 1.5 ns.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from .compilation import OPTIONS, compile_kernel
from .filters_lanes import load_lanes, pass_on
from .filters_plain import largest_bits, line_of, plain_pair
from .lanes import fma, last, multiply, store

# A block's ends, where the pipeline fills and empties, go section by section.
BLOCK = 4096


@cache
def _pipeline(width: int) -> Any:
    """`width` sections over a block in place; z is (2, width)."""

    @numba.njit(**OPTIONS)
    def fill_up(data: Any, z: Any, b: Any, a: Any) -> None:
        for s in range(width - 1):
            part = data[: width - 1 - s]
            z[0, s], z[1, s] = plain_pair(part, part, z[0, s], z[1, s], b[s], a[s])

    @numba.njit(**OPTIONS)
    def empty_out(data: Any, z: Any, b: Any, a: Any) -> None:
        for s in range(1, width):
            part = data[data.size - s :]
            z[0, s], z[1, s] = plain_pair(part, part, z[0, s], z[1, s], b[s], a[s])

    @numba.njit(**OPTIONS)
    def advance(data: Any, z: Any, b: Any, a: Any, table: Any) -> None:
        size, behind = data.size, width - 1
        if size < 2 * width:
            for s in range(width):
                z[0, s], z[1, s] = plain_pair(data, data, z[0, s], z[1, s], b[s], a[s])
            return
        fill_up(data, z, b, a)
        given = np.zeros(width)
        given[:behind] = data[:behind][::-1]
        b0, b1 = load_lanes(table, 0, width), load_lanes(table, width, width)
        b2, a1 = load_lanes(table, 2 * width, width), load_lanes(table, 3 * width, width)
        a2 = load_lanes(table, 4 * width, width)
        y, z0 = load_lanes(given, 0, width), load_lanes(z[0], 0, width)
        z1 = load_lanes(z[1], 0, width)
        for t in range(behind, size):
            x = pass_on(y, load_lanes(data, t - behind, width))
            y = fma(b0, x, z0)
            z0 = fma(a1, y, fma(b1, x, z1))
            z1 = fma(a2, y, multiply(b2, x))
            data[t - behind] = last(y)
        store(z[0], 0, z0)
        store(z[1], 0, z1)
        store(given, 0, y)
        data[size - behind :] = given[:behind][::-1]
        empty_out(data, z, b, a)

    return advance


@cache
def pipeline_rows(width: int) -> Any:
    """The kernel for rows of any dtype and stride, `width` sections at a time."""
    advance = _pipeline(width)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, top: Any, bad: Any, write: bool
    ) -> None:
        groups = b.shape[0]
        data, z = np.empty(BLOCK), np.empty((groups, 2, width))
        for o in range(x.shape[0]):
            for i in range(bad.shape[1]):
                size, largest = x.shape[1], 0
                given, wanted = line_of(x, o, i), line_of(y, o if write else 0, i if write else 0)
                z[:] = states[:, :, :, o, i]
                for left in range(0, size, BLOCK):
                    count = min(BLOCK, size - left)
                    part, row = data[:count], given[left : left + count]
                    for n in range(count):
                        part[n] = row[n]
                    for group in range(groups):
                        advance(part, z[group], b[group], a[group], table[group])
                    largest = max(largest, largest_bits(part))
                    if write:
                        result = wanted[left : left + count]
                        for n in range(count):
                            result[n] = part[n]
                bad[o, i] = largest > top
                states[:, :, :, o, i] = z

    return compile_kernel(filter_rows, str(width))
