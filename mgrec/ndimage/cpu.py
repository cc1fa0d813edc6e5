"""Filters of rows side by side in memory: sums of exponentials, and averages over windows without drift.

Kernels get samples and results as flat arrays, and a block of rows as an array of numbers: see
:class:`.axes.Block`. They copy some rows at a time to memory where these are side by side, in lanes, and the
results to the array for them, which may be that of the samples.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..engines.cpu.compilation import INLINED, INNER, RARE, compile_kernel
from ..engines.cpu.pointers import advance_pointer, copy_numbers, count_up, pointer_to, stack_vector
from ..engines.cpu.scalars import larger_of, smaller_of


@numba.njit(**RARE)
def _copy(source: Any, strides: Any, target: Any, targets: Any, shape: Any) -> None:
    """Copy numbers (rows, steps, columns); strides are those of rows and of steps."""
    rows, steps, columns = shape
    if columns >= rows:
        for i in count_up(0, steps):
            for row in count_up(0, rows):
                numbers = advance_pointer(source, row * strides[0] + i * strides[1])
                copies = advance_pointer(target, row * targets[0] + i * targets[1])
                copy_numbers(numbers, copies, columns)
        return
    # Lines of the cache of more than eight rows replaced each other where rows are 8 KB apart.
    for part in count_up(0, (rows + 7) // 8):
        first, last = part * 8, smaller_of(part * 8 + 8, rows)
        for i in count_up(0, steps):
            for column in count_up(0, columns):
                numbers = advance_pointer(source, i * strides[1] + column)
                copies = advance_pointer(target, i * targets[1] + column)
                for row in count_up(first, last):
                    copies[row * targets[0]] = numbers[row * strides[0]]


@numba.njit(**INLINED)
def _numbers_of(block: Any) -> Any:
    """Return the strides of samples and of results, the shape, and the other numbers of a block."""
    numbers = pointer_to(block)
    inner = numbers[2]
    shape = numbers[3], numbers[4], numbers[5]
    return (numbers[0], inner), (numbers[1], inner), shape, numbers[6], numbers[7], numbers[8], numbers[9]


@numba.njit(**INNER)
def _add(weights: Any, count: Any, samples: Any, x: Any, lanes: Any, states: Any) -> None:
    """Add weighted sums of so many samples of x to so many states."""
    for k in count_up(0, count):
        state = advance_pointer(states, k * lanes)
        for i in count_up(0, samples):
            weight, values = weights[k * samples + i], advance_pointer(x, i * lanes)
            for lane in count_up(0, lanes):
                state[lane] += weight * values[lane]


@numba.njit(**INLINED)
def _advance(
    values: Any, lanes: Any, poles: Any, weights: Any, count: Any, re: Any, im: Any, total: Any
) -> None:
    """Add the weighted states to the totals of a step, and its values to the states."""
    for k in count_up(0, count):
        pole_re, pole_im = poles[k], poles[count + k]
        weight_re, weight_im = weights[k], weights[count + k]
        start = k * lanes
        for lane in count_up(0, lanes):
            c, d = re[start + lane], im[start + lane]
            total[lane] += weight_re * c - weight_im * d
            re[start + lane] = values[lane] + (pole_re * c - pole_im * d)
            im[start + lane] = pole_re * d + pole_im * c


def _filter_rows(
    states: Any, first: Any, last: Any, coefficients: Any, x: Any, out: Any, block: Any, memory: Any
) -> None:
    """Filter rows: see :func:`.axes.fill_rows`.

    The states (outer, 4·poles, inner) are the real and imaginary parts of those before the samples,
    and of those after; those of (1, 4·poles, 2) are of all rows, for even and odd inner indices. Sums
    of the first and of the last samples are added to them, with the weights `first` and `last`
    (4·poles, samples). The coefficients are poles and the weights of both passes, real and imaginary
    parts (2, poles), and the weight h[0]. `memory` has steps + 4·poles numbers a lane besides samples.
    """
    strides, targets, shape, lanes, groups, first_outer, first_inner = _numbers_of(block)
    rows, steps, columns = shape
    poles, behind, ahead, middle = coefficients
    count = poles.shape[1]
    poles, behind, ahead = pointer_to(poles), pointer_to(behind), pointer_to(ahead)
    sums = pointer_to(memory)
    ends = advance_pointer(sums, steps * lanes)
    outside, inner = pointer_to(states), states.shape[2]
    is_of_all_rows = states.shape[0] == 1 and inner == 2
    re, im = stack_vector(count * lanes, np.float64), stack_vector(count * lanes, np.float64)
    total = stack_vector(lanes, np.float64)
    for group in count_up(0, groups):
        samples = advance_pointer(pointer_to(x), group * steps * lanes)
        if len(out):
            samples = advance_pointer(ends, 4 * count * lanes)
            source = advance_pointer(pointer_to(x), (first_outer + group * rows) * strides[0] + first_inner)
            _copy(source, strides, samples, (columns, lanes), shape)
        if is_of_all_rows:
            for k in count_up(0, 4 * count):
                state, even, odd = advance_pointer(ends, k * lanes), outside[2 * k], outside[2 * k + 1]
                for lane in count_up(0, lanes):
                    state[lane] = odd if (first_inner + lane) & 1 else even
        else:
            of_rows = advance_pointer(outside, (first_outer + group * rows) * 4 * count * inner + first_inner)
            _copy(of_rows, (4 * count * inner, inner), ends, (columns, lanes), (rows, 4 * count, columns))
        _add(pointer_to(first), 4 * count, first.shape[1], samples, lanes, ends)
        later = advance_pointer(samples, (steps - last.shape[1]) * lanes)
        _add(pointer_to(last), 4 * count, last.shape[1], later, lanes, ends)
        copy_numbers(ends, re, count * lanes)
        copy_numbers(advance_pointer(ends, count * lanes), im, count * lanes)
        for i in count_up(0, steps):
            values, results = advance_pointer(samples, i * lanes), advance_pointer(sums, i * lanes)
            for lane in count_up(0, lanes):
                total[lane] = middle * values[lane]
            _advance(values, lanes, poles, behind, count, re, im, total)
            copy_numbers(total, results, lanes)
        copy_numbers(advance_pointer(ends, 2 * count * lanes), re, count * lanes)
        copy_numbers(advance_pointer(ends, 3 * count * lanes), im, count * lanes)
        for i in count_up(0, steps):
            step = (steps - 1 - i) * lanes
            values, results = advance_pointer(samples, step), advance_pointer(sums, step)
            copy_numbers(results, total, lanes)
            _advance(values, lanes, poles, ahead, count, re, im, total)
            copy_numbers(total, values, lanes)
        if len(out):
            target = advance_pointer(pointer_to(out), (first_outer + group * rows) * targets[0] + first_inner)
            _copy(samples, (columns, lanes), target, targets, shape)


filter_rows = compile_kernel(_filter_rows, allocates=False)


def _average_rows(size: Any, border: Any, x: Any, out: Any, block: Any, memory: Any) -> None:
    """Average over windows of rows, at the start of each window: see :func:`.axes.fill_rows`.

    Steps are in blocks of the size of a window. A window is the end of a block and the start of the
    next one. The sums of both start at their common border (van Herk 1992), and none is ever
    subtracted. The border is (before, sources, constants): samples begin `before` steps after the
    first. The steps before and after them are copies of the samples that `sources` names, or −1 for
    the constant of even or of odd inner indices. `memory` has `size` numbers a lane besides samples.
    """
    strides, targets, shape, lanes, groups, first_outer, first_inner = _numbers_of(block)
    rows, steps, columns = shape
    before, sources, constants = border
    beyond, sources = len(sources), pointer_to(sources)
    even, odd = constants
    ends = pointer_to(memory)
    sums = stack_vector(lanes, np.float64)
    count = steps + beyond - size + 1
    for group in count_up(0, groups):
        samples = advance_pointer(pointer_to(x), group * (steps + beyond) * lanes)
        if len(out):
            samples = advance_pointer(ends, size * lanes)
            source = advance_pointer(pointer_to(x), (first_outer + group * rows) * strides[0] + first_inner)
            _copy(source, strides, advance_pointer(samples, before * lanes), (columns, lanes), shape)
        inside = advance_pointer(samples, before * lanes)
        for k in count_up(0, beyond):
            values = advance_pointer(inside, larger_of(sources[k], 0) * lanes)
            copies = advance_pointer(samples, (k if k < before else steps + k) * lanes)
            for lane in count_up(0, lanes):
                constant = odd if (first_inner + lane) & 1 else even
                copies[lane] = values[lane] if sources[k] >= 0 else constant
        for window in count_up(0, (count + size - 1) // size):
            first = window * size
            for lane in count_up(0, lanes):
                sums[lane] = 0.0
            for k in count_up(0, size):
                r = size - 1 - k
                values, end = advance_pointer(samples, (first + r) * lanes), advance_pointer(ends, r * lanes)
                for lane in count_up(0, lanes):
                    sums[lane] += values[lane]
                    end[lane] = sums[lane]
            averages = advance_pointer(samples, first * lanes)
            for lane in count_up(0, lanes):
                sums[lane] = 0.0
                averages[lane] = ends[lane] / size
            for r in count_up(1, smaller_of(size, count - first)):
                values = advance_pointer(samples, (first + size + r - 1) * lanes)
                averages = advance_pointer(samples, (first + r) * lanes)
                end = advance_pointer(ends, r * lanes)
                for lane in count_up(0, lanes):
                    sums[lane] += values[lane]
                    averages[lane] = (end[lane] + sums[lane]) / size
        if len(out):
            target = advance_pointer(pointer_to(out), (first_outer + group * rows) * targets[0] + first_inner)
            _copy(samples, (columns, lanes), target, targets, (rows, count, columns))


average_rows = compile_kernel(_average_rows, allocates=False)
