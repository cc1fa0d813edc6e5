"""A pipeline of second-order sections, with one section in each lane of a register.

A section waits for its previous output, and the next section waits for that section. A loop over S
sections therefore waits S times a step. In the pipeline each lane reads the output of the previous
lane from LAG steps ago, and all sections compute at the same time, on samples t, t − LAG, …

Because an output is read LAG steps later, a section can add its last two outputs last:

    u = b_0·x_n + b_1·x_{n−1} + b_2·x_{n−2},    y_n = (u − a_2·y_{n−2}) − a_1·y_{n−1}.

A step then waits for one multiply-add. Eight sections take 1.8 ns a sample; a lag of one and
SciPy's order of additions took 3.9. The last section is in the first lane, whose output can be
stored without a shuffle.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.lanes import fma, multiply, store
from ...engines.cpu.scalars import larger_of
from ...engines.cpu.simd import extract_lane, shift_back
from ...engines.cpu.stack import stack_empty
from .lanes import load_float64
from .scipy_loops import copy_states, largest_bits, scipy_pair

LAG = 4
# Number of outputs checked together, while they are in the L1 cache.
CHECKED = 1024


@cache
def _steps(width: int) -> Any:
    """Return the loop of the full pipeline, which returns the largest bits of its outputs.

    Unless `write`, `target` has CHECKED outputs, which the following ones overwrite.
    """
    load = load_float64(width)

    @numba.njit(**INNER)
    def step(x: Any, y1: Any, y2: Any, v0: Any, v1: Any, table: Any) -> Any:
        b0, b1, b2, a1, a2 = table
        y = fma(a1, y1, fma(a2, y2, fma(b0, x, v0)))
        return y, fma(b1, x, v1), multiply(b2, x)

    @numba.njit(**INNER)
    def filter_steps(source: Any, target: Any, table: Any, lanes: Any, write: bool) -> Any:
        b0, b1 = load(table, 0), load(table, width)
        b2, a1 = load(table, 2 * width), load(table, 3 * width)
        taps = b0, b1, b2, a1, load(table, 4 * width)
        y1, y2 = load(lanes[0], 0), load(lanes[1], 0)
        y3, y4 = load(lanes[2], 0), load(lanes[3], 0)
        v0, v1 = load(lanes[4], 0), load(lanes[5], 0)
        largest = np.int64(0)
        for left in range(0, source.size, CHECKED):
            inputs = source[left : left + CHECKED]
            outputs = target[left if write else 0 :][: inputs.size]
            for t in range(0, inputs.size, LAG):
                y4, v0, v1 = step(shift_back(y4, np.float64(inputs[t])), y1, y2, v0, v1, taps)
                outputs[t] = extract_lane(y4, 0)
                y3, v0, v1 = step(shift_back(y3, np.float64(inputs[t + 1])), y4, y1, v0, v1, taps)
                outputs[t + 1] = extract_lane(y3, 0)
                y2, v0, v1 = step(shift_back(y2, np.float64(inputs[t + 2])), y3, y4, v0, v1, taps)
                outputs[t + 2] = extract_lane(y2, 0)
                y1, v0, v1 = step(shift_back(y1, np.float64(inputs[t + 3])), y2, y3, v0, v1, taps)
                outputs[t + 3] = extract_lane(y1, 0)
            largest = larger_of(largest, largest_bits(outputs))
        store(lanes[0], 0, y1)
        store(lanes[1], 0, y2)
        store(lanes[2], 0, y3)
        store(lanes[3], 0, y4)
        store(lanes[4], 0, v0)
        store(lanes[5], 0, v1)
        return largest

    return filter_steps


@numba.njit(**INNER)
def _fill_lanes(data: Any, z: Any, a: Any, lanes: Any) -> None:
    """Compute the lanes, which are last outputs and terms of past inputs, from the states."""
    width = lanes.shape[1]
    lanes[:] = 0
    for s in range(width):
        lane = width - 1 - s
        for k in range(LAG if lane else 0):
            lanes[k, lane] = data[data.size - LAG * s - 1 - k]
        lanes[LAG, lane] = z[s, 0] + a[s, 1] * lanes[0, lane] + a[s, 2] * lanes[1, lane]
        lanes[LAG + 1, lane] = z[s, 1] + a[s, 2] * lanes[0, lane]


@numba.njit(**INNER)
def _empty_lanes(data: Any, z: Any, a: Any, lanes: Any) -> None:
    """Compute the states from the lanes; write outputs that the next section has not read."""
    width = lanes.shape[1]
    for s in range(width):
        lane = width - 1 - s
        z[s, 0] = lanes[LAG, lane] - a[s, 1] * lanes[0, lane] - a[s, 2] * lanes[1, lane]
        z[s, 1] = lanes[LAG + 1, lane] - a[s, 2] * lanes[0, lane]
        for k in range(LAG if lane else 0):
            data[data.size - LAG * s - 1 - k] = lanes[k, lane]


@cache
def _pipeline(width: int) -> Any:
    """Return the loop of `width` sections over a row of 2·LAG·(width − 1) samples or more.

    z is (width, 2). `source` and `target` may be the same row of float64. The ends of a row, where
    the pipeline fills and drains, are filtered section by section.
    """
    delay, filter_steps = LAG * (width - 1), _steps(width)

    @numba.njit(**INNER)
    def advance(
        source: Any, target: Any, z: Any, b: Any, a: Any, table: Any, ends: Any, lanes: Any, write: bool
    ) -> Any:
        size = source.size
        remainder = (size - delay) % LAG
        first, last = ends[: remainder + delay], ends[:delay]
        for n in range(first.size):
            first[n] = source[n]
        for s in range(width):
            part = first[: remainder + delay - LAG * s]
            z[s, 0], z[s, 1] = scipy_pair(part, part, z[s, 0], z[s, 1], b[s], a[s])
        _fill_lanes(first, z, a, lanes)
        if write:
            for n in range(remainder):
                target[n] = first[n]
        inputs = source[remainder + delay :]
        outputs = target[remainder : size - delay] if write else target
        largest = larger_of(
            largest_bits(first[:remainder]), filter_steps(inputs, outputs, table, lanes, write)
        )
        _empty_lanes(last, z, a, lanes)
        for s in range(1, width):
            part = last[delay - LAG * s :]
            z[s, 0], z[s, 1] = scipy_pair(part, part, z[s, 0], z[s, 1], b[s], a[s])
        if write:
            for n in range(delay):
                target[size - delay + n] = last[n]
        return larger_of(largest, largest_bits(last))

    return advance


@cache
def pipeline_rows(width: int) -> Any:
    """Return the kernel for contiguous rows of 64 samples or more, and at most `width` sections."""
    advance = _pipeline(width)

    def filter_rows(
        x: Any, y: Any, states: Any, b: Any, a: Any, table: Any, limit_bits: Any, redo: Any, write: bool
    ) -> None:
        ends, lanes = (stack_empty(LAG * width, np.float64), stack_empty((LAG + 2, width), np.float64))
        z, spare = stack_empty((width, 2), np.float64), stack_empty(CHECKED, y.dtype)
        for row in range(x.shape[0]):
            copy_states(states[:, :, row], z)
            target = y[row] if write else spare
            largest = advance(x[row], target, z, b, a, table, ends, lanes, write)
            redo[row] = largest > limit_bits
            copy_states(z, states[:, :, row])

    return compile_kernel(filter_rows, str(width), allocates=False)
