"""Filters of rows in host memory: sums of exponentials, and sums over windows without drift."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..engines.cpu.compilation import INLINED, compile_kernel
from ..engines.cpu.scalars import smaller_of
from ..engines.cpu.stack import stack_empty, stack_zeros

ROWS, COLUMNS = 32, 64
"""Rows of a group. A column is read from another page at each step, so that its groups are wider:
4,096 columns of 4,096 steps took 10 ns a sample in groups of 64, and 22 ns in groups of 16."""
VECTOR = 8
"""Rows are rounded up to a multiple."""
LANES = 32
"""Rows of a group."""


@numba.njit(**INLINED)
def _load(
    states: Any, a: int, b: int, first: int, down: int, across: int, used: int, re: Any, im: Any
) -> None:
    """Copy states of some rows, which begin at (a, b), to the lanes: from the part `first` on."""
    for k in range(len(re)):
        for lane in range(used):
            re[k, lane] = states[a + down * lane, first + k, b + across * lane]
            im[k, lane] = states[a + down * lane, first + len(re) + k, b + across * lane]


@numba.njit(**INLINED)
def _advance(values: Any, i: int, width: int, poles: Any, weights: Any, re: Any, im: Any, total: Any) -> None:
    """Add the weighted states to the totals of a step, and its values to the states."""
    for k in range(len(re)):
        pole_re, pole_im = poles[0, k], poles[1, k]
        weight_re, weight_im = weights[0, k], weights[1, k]
        for lane in range(width):
            c, d = re[k, lane], im[k, lane]
            total[lane] += weight_re * c - weight_im * d
            re[k, lane] = values[i, lane] + (pole_re * c - pole_im * d)
            im[k, lane] = pole_re * d + pole_im * c


def _filter_rows(x: Any, out: Any, states: Any, rows: Any, coefficients: Any, memory: Any) -> None:
    """Write filtered rows of x (outer, steps, inner) to `out`.

    `rows` is (at, x_at, out_at, count, are_contiguous). The first row is at `x_at` (outer, inner) of
    x, at `out_at` of `out` and at `at` of the states. Others follow along the outer axis if they are
    contiguous (inner is 1), otherwise along the inner one.
    `states` (outer, 4·poles, inner) has the real and imaginary parts of the states before the rows,
    and of those after. The coefficients are poles and the weights of both passes, real and imaginary parts
    (2, poles), and the weight h[0]. The memory is zeros, and any numbers (steps, lanes).
    """
    at, x_at, out_at, row_count, are_contiguous = rows
    (poles, behind, ahead, middle), (samples, sums) = coefficients, memory
    steps, count = x.shape[1], poles.shape[1]
    lanes = samples.shape[1]
    down, across = (1, 0) if are_contiguous else (0, 1)
    re, im = stack_zeros((count, lanes), np.float64), stack_zeros((count, lanes), np.float64)
    total = stack_empty(lanes, np.float64)
    for first in range(0, row_count, lanes):
        used = smaller_of(lanes, row_count - first)
        width = -(-used // VECTOR) * VECTOR
        a, b = at[0] + down * first, at[1] + across * first
        x_a, x_b = x_at[0] + down * first, x_at[1] + across * first
        out_a, out_b = out_at[0] + down * first, out_at[1] + across * first
        _load(states, a, b, np.int64(0), down, across, used, re, im)
        for i in range(steps):
            if are_contiguous:
                for lane in range(used):
                    samples[i, lane] = x[x_a + lane, i, 0]
            else:
                step = x[x_a, i, x_b : x_b + used]
                for lane in range(used):
                    samples[i, lane] = step[lane]
            for lane in range(width):
                total[lane] = middle * samples[i, lane]
            _advance(samples, i, width, poles, behind, re, im, total)
            for lane in range(width):
                sums[i, lane] = total[lane]
        _load(states, a, b, 2 * count, down, across, used, re, im)
        for i in range(steps - 1, -1, -1):
            for lane in range(width):
                total[lane] = sums[i, lane]
            _advance(samples, i, width, poles, ahead, re, im, total)
            if are_contiguous:
                for lane in range(used):
                    out[out_a + lane, i, 0] = total[lane]
            else:
                step = out[out_a, i, out_b : out_b + used]
                for lane in range(used):
                    step[lane] = total[lane]


filter_rows = compile_kernel(_filter_rows, allocates=False)


@numba.njit(**INLINED)
def _add(x: Any, a: int, i: int, b: int, used: int, are_contiguous: bool, border: Any, sums: Any) -> None:
    """Add step i − before of some rows of x (outer, steps, inner), which begin at (a, b), to the lanes.

    Beyond the ends of the rows it is the step that its source names, or the constant.
    """
    before, sources, constants = border
    step, steps = i - before, x.shape[1]
    if step < 0:
        step = sources[i]
    elif step >= steps:
        step = sources[i - steps]
    if step < 0:
        for lane in range(used):
            sums[lane] += constants[lane & 1]
    elif are_contiguous:
        for lane in range(used):
            sums[lane] += x[a + lane, step, 0]
    else:
        values = x[a, step, b : b + used]
        for lane in range(used):
            sums[lane] += values[lane]


def _average_rows(x: Any, out: Any, block: Any, border: Any, ends: Any) -> None:
    """Write averages over windows of steps of x to `out`.

    Steps are in blocks of the size of a window. A window is the end of a block and the start of the
    next one. The sums of both start at their common border (van Herk 1992), and none is ever
    subtracted. `block` is (x_at, out_at, count, are_contiguous) as in `filter_rows`. The border is
    (before, sources, constants): the first window begins `before` steps before x. The sources
    are the steps of x before its first and after its last one, or −1 for the constant of even or of
    odd rows. `ends` is memory (size, LANES).
    """
    x_at, out_at, rows, are_contiguous = block
    steps, size = out.shape[1], len(ends)
    sums, total = stack_empty(LANES, np.float64), stack_empty(LANES, np.float64)
    down, across = (1, 0) if are_contiguous else (0, 1)
    for first in range(0, rows, LANES):
        used = smaller_of(LANES, rows - first)
        x_a, x_b = x_at[0] + down * first, x_at[1] + across * first
        out_a, out_b = out_at[0] + down * first, out_at[1] + across * first
        for start in range(0, steps, size):
            for lane in range(LANES):
                sums[lane] = 0.0
            for r in range(size - 1, -1, -1):
                _add(x, x_a, start + r, x_b, used, are_contiguous, border, sums)
                for lane in range(LANES):
                    ends[r, lane] = sums[lane]
            for lane in range(LANES):
                sums[lane] = 0.0
            for r in range(smaller_of(size, steps - start)):
                if r > 0:
                    _add(x, x_a, start + size + r - 1, x_b, used, are_contiguous, border, sums)
                for lane in range(LANES):
                    total[lane] = (ends[r, lane] + sums[lane]) / size
                if are_contiguous:
                    for lane in range(used):
                        out[out_a + lane, start + r, 0] = total[lane]
                else:
                    step = out[out_a, start + r, out_b : out_b + used]
                    for lane in range(used):
                        step[lane] = total[lane]


average_rows = compile_kernel(_average_rows, allocates=False)
