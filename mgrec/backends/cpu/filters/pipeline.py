"""Second-order sections side by side: each lane of a register is a section, some samples behind.

A section waits for its own output, and the next section for it: one after the other, a loop
over S sections waits S times a step. In a pipeline each lane takes what the lane before it
returned LAG steps ago, so that all sections work at once, on samples t, t − LAG, … What a
section returns is wanted LAG steps later, then, and its own last two outputs come last:

    u = b_0·x_n + b_1·x_{n−1} + b_2·x_{n−2},    y_n = (u − a_2·y_{n−2}) − a_1·y_{n−1},

so that a step waits for one multiply-add: eight sections take 1.8 ns a sample, where a lag of
one and SciPy's order of additions took 3.9. The last section is the first lane, whose output
takes no shuffle to store.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from ..compilation.kernels import INNER, compile_kernel
from ..simd.lanes import fma, multiply, store
from .lanes import first, load_lanes, pass_down
from .plain import copy_states, largest_bits, line_of, part_of, plain_pair, put_number

LAG = 4
# Rows that are not in one piece are copied, and rows of more than one group of lanes; a block's
# ends, where the pipeline fills and empties, go section by section.
BLOCK = 8192
# Outputs checked together, while they are in the L1 cache.
CHECKED = 1024


@cache
def _steps(width: int) -> Any:
    """The pipeline at work; the largest bits of what it returns."""

    @numba.njit(**INNER)
    def step(x: Any, y1: Any, y2: Any, v0: Any, v1: Any, table: Any) -> Any:
        b0, b1, b2, a1, a2 = table
        y = fma(a1, y1, fma(a2, y2, fma(b0, x, v0)))
        return y, fma(b1, x, v1), multiply(b2, x)

    @numba.njit(**INNER)
    def run(source: Any, target: Any, spare: Any, table: Any, held: Any) -> Any:
        b0, b1 = load_lanes(table, 0, width), load_lanes(table, width, width)
        b2, a1 = load_lanes(table, 2 * width, width), load_lanes(table, 3 * width, width)
        taps = b0, b1, b2, a1, load_lanes(table, 4 * width, width)
        y1, y2 = load_lanes(held[0], 0, width), load_lanes(held[1], 0, width)
        y3, y4 = load_lanes(held[2], 0, width), load_lanes(held[3], 0, width)
        v0, v1 = load_lanes(held[4], 0, width), load_lanes(held[5], 0, width)
        largest = np.int64(0)
        for left in range(0, source.size, CHECKED):
            given = source[left : left + CHECKED]
            wanted = part_of(target, left, given.size, spare)
            for t in range(0, given.size, LAG):
                y4, v0, v1 = step(pass_down(y4, np.float64(given[t])), y1, y2, v0, v1, taps)
                wanted[t] = first(y4)
                y3, v0, v1 = step(pass_down(y3, np.float64(given[t + 1])), y4, y1, v0, v1, taps)
                wanted[t + 1] = first(y3)
                y2, v0, v1 = step(pass_down(y2, np.float64(given[t + 2])), y3, y4, v0, v1, taps)
                wanted[t + 2] = first(y2)
                y1, v0, v1 = step(pass_down(y1, np.float64(given[t + 3])), y2, y3, v0, v1, taps)
                wanted[t + 3] = first(y1)
            largest = max(largest, largest_bits(wanted))
        store(held[0], 0, y1)
        store(held[1], 0, y2)
        store(held[2], 0, y3)
        store(held[3], 0, y4)
        store(held[4], 0, v0)
        store(held[5], 0, v1)
        return largest

    return run


@numba.njit(**INNER)
def _take_up(data: Any, z: Any, a: Any, held: Any) -> None:
    """Lanes from the states: the last outputs, and what past inputs alone bring."""
    width = held.shape[1]
    held[:] = 0
    for s in range(width):
        lane = width - 1 - s
        for k in range(LAG if lane else 0):
            held[k, lane] = data[data.size - LAG * s - 1 - k]
        held[LAG, lane] = z[0, s] + a[s, 1] * held[0, lane] + a[s, 2] * held[1, lane]
        held[LAG + 1, lane] = z[1, s] + a[s, 2] * held[0, lane]


@numba.njit(**INNER)
def _lay_down(data: Any, z: Any, a: Any, held: Any) -> None:
    """The states from the lanes, and outputs that the next section has not taken."""
    width = held.shape[1]
    for s in range(width):
        lane = width - 1 - s
        z[0, s] = held[LAG, lane] - a[s, 1] * held[0, lane] - a[s, 2] * held[1, lane]
        z[1, s] = held[LAG + 1, lane] - a[s, 2] * held[0, lane]
        for k in range(LAG if lane else 0):
            data[data.size - LAG * s - 1 - k] = held[k, lane]


@numba.njit(**INNER)
def _one_after_the_other(row: Any, z: Any, b: Any, a: Any) -> Any:
    """All sections over a short row of float64, in place."""
    for s in range(b.shape[0]):
        z[0, s], z[1, s] = plain_pair(row, row, z[0, s], z[1, s], b[s], a[s])
    return largest_bits(row)


@cache
def _pipeline(width: int) -> Any:
    """`width` sections over a row of at least 2·LAG·(width − 1) samples; z is (2, width).

    The row may be the result if it is float64; the result may be None, and `spare` is used then.
    """
    behind, run = LAG * (width - 1), _steps(width)

    @numba.njit(**INNER)
    def advance(
        source: Any, target: Any, z: Any, b: Any, a: Any, table: Any, ends: Any, held: Any,
        spare: Any,
    ) -> Any:  # fmt: skip
        size = source.size
        odd = (size - behind) % LAG
        head, tail = ends[: odd + behind], ends[:behind]
        for n in range(head.size):
            head[n] = source[n]
        for s in range(width):
            part = head[: odd + behind - LAG * s]
            z[0, s], z[1, s] = plain_pair(part, part, z[0, s], z[1, s], b[s], a[s])
        _take_up(head, z, a, held)
        for n in range(odd):
            put_number(target, n, head[n])
        rest, wanted = source[odd + behind :], part_of(target, odd, size - odd - behind, None)
        largest = max(largest_bits(head[:odd]), run(rest, wanted, spare, table, held))
        _lay_down(tail, z, a, held)
        for s in range(1, width):
            part = tail[behind - LAG * s :]
            z[0, s], z[1, s] = plain_pair(part, part, z[0, s], z[1, s], b[s], a[s])
        for n in range(behind):
            put_number(target, size - behind + n, tail[n])
        return max(largest, largest_bits(tail))

    return advance


@cache
def pipeline_rows(width: int, write: bool) -> Any:
    """The kernel for contiguous rows of LONG samples or more, and at most `width` sections.

    y is None where nothing is to be written.
    """
    advance = _pipeline(width)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, top: Any, bad: Any
    ) -> None:
        ends, held, z = np.empty(LAG * width), np.empty((LAG + 2, width)), np.empty((2, width))
        spare = np.empty(0 if write else CHECKED)
        for row in range(x.shape[0]):
            copy_states(states[0, :, :, row, 0], z)
            target = y[row] if write else None
            largest = advance(x[row], target, z, b[0], a[0], table[0], ends, held, spare)
            bad[row, 0] = largest > top
            copy_states(z, states[0, :, :, row, 0])

    return compile_kernel(filter_rows, str(width), str(write))


@cache
def pipeline_copied(width: int) -> Any:
    """The kernel for rows of any dtype and stride, `width` sections at a time."""
    advance, least = _pipeline(width), 2 * LAG * (width - 1)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, top: Any, bad: Any, write: bool
    ) -> None:
        groups = b.shape[0]
        data, z = np.empty(BLOCK), np.empty((groups, 2, width))
        ends, held = np.empty(LAG * width), np.empty((LAG + 2, width))
        for o in range(x.shape[0]):
            for i in range(bad.shape[1]):
                size, largest = x.shape[1], np.int64(0)
                given, wanted = line_of(x, o, i), line_of(y, o if write else 0, i if write else 0)
                for g in range(groups):
                    copy_states(states[g, :, :, o, i], z[g])
                for left in range(0, size, BLOCK):
                    count = min(BLOCK, size - left)
                    part, row = data[:count], given[left : left + count]
                    for n in range(count):
                        part[n] = row[n]
                    found = np.int64(0)
                    for g in range(groups):
                        if count < least:
                            found = _one_after_the_other(part, z[g], b[g], a[g])
                            continue
                        found = advance(part, part, z[g], b[g], a[g], table[g], ends, held, part)
                    largest = max(largest, found)
                    if write:
                        result = wanted[left : left + count]
                        for n in range(count):
                            result[n] = part[n]
                bad[o, i] = largest > top
                for g in range(groups):
                    copy_states(z[g], states[g, :, :, o, i])

    return compile_kernel(filter_rows, str(width))
