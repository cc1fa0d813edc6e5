"""Filters of rows and of columns by SciPy's loops, whose order of operations defines the result."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.scalars import opaque
from .lanes import float64_bits, magnitude_at


@numba.njit(**INNER)
def copy_states(source: Any, target: Any) -> None:
    """Set ``target[...] = source``, of two axes. The assignment itself took 0.4 s to compile."""
    for s in range(target.shape[0]):
        for k in range(target.shape[1]):
            target[s, k] = source[s, k]


@numba.njit(**INNER)
def scipy_section(x: Any, y: Any, z: Any, b: Any, a: Any) -> None:
    """Filter by one section as ``scipy.signal.lfilter`` does; x and y may be the same array."""
    order = z.size
    for n in range(x.size):
        value = x[n]
        if order == 0:
            y[n] = value * b[0]
            continue
        output = z[0] + b[0] * value
        if a.size == 1:
            for i in range(order - 1):
                z[i] = z[i + 1] + value * b[i + 1]
            z[order - 1] = value * b[order]
        else:
            for i in range(order - 1):
                z[i] = z[i + 1] + value * b[i + 1] - output * a[i + 1]
            z[order - 1] = value * b[order] - output * a[order]
        y[n] = output


@numba.njit(**INNER)
def scipy_pair(x: Any, y: Any, z0: Any, z1: Any, b: Any, a: Any) -> Any:
    """Filter by one section as ``scipy.signal.sosfilt`` does, and return its state."""
    for n in range(x.size):
        value = x[n]
        output = b[0] * value + z0
        z0 = b[1] * value - a[1] * output + z1
        z1 = b[2] * value - a[2] * output
        y[n] = output
    return z0, z1


@numba.njit(**INNER)
def scipy_row(x: Any, y: Any, z: Any, b: Any, a: Any) -> None:
    """Filter one row by a cascade, whose states z are (sections, order)."""
    source = x
    for s in range(z.shape[0]):
        if z.shape[0] > 1 and z.shape[1] == 2:
            z[s, 0], z[s, 1] = scipy_pair(source, y, z[s, 0], z[s, 1], b[s], a[s])
        else:
            scipy_section(source, y, z[s], b[s], a[s])
        source = y


@numba.njit(**INNER)
def largest_bits(y: Any) -> Any:
    """Return the bits of the largest absolute value of a component, in float64.

    Bits have the order of absolute values, and nan is above inf.
    """
    largest = np.int64(0)
    for i in range(y.size):
        bits = magnitude_at(y, i)
        largest = bits if bits > largest else largest
    return float64_bits(largest, y)


# Number of samples of a row filtered together, in the L1 cache.
BLOCK = 1024
# In place of a limit: filter marked rows.
MARKED_ROWS = -1


def _scipy_rows(x: Any, y: Any, states: Any, b: Any, a: Any, limit_bits: Any, redo: Any, write: bool) -> None:
    """Filter rows in the dtype of `states`, and update them.

    Mark the rows in `redo` whose outputs are above the limit. If `limit_bits` is MARKED_ROWS, only
    filter the marked rows instead.
    """
    size, is_marked_only = x.shape[1], limit_bits == MARKED_ROWS
    data, z = np.empty(min(size, BLOCK), states.dtype), np.empty(states.shape[:2], states.dtype)
    for o in range(x.shape[0]):
        for i in range(x.shape[2]):
            if is_marked_only and not redo[o, i]:
                continue
            largest = np.int64(0)
            copy_states(states[:, :, o, i], z)
            for left in range(0, size, BLOCK):
                part, row = data[: size - left], x[o, left : left + BLOCK, i]
                for n in range(part.size):
                    part[n] = row[n]
                scipy_row(part, part, z, b, a)
                largest = max(largest, largest_bits(part))
                if write:
                    result = y[o, left : left + BLOCK, i]
                    for n in range(part.size):
                        result[n] = part[n]
            copy_states(z, states[:, :, o, i])
            if not is_marked_only:
                redo[o, i] = largest > limit_bits


scipy_rows = compile_kernel(_scipy_rows)


# Number of columns whose states, inputs and outputs stay in the L1 cache.
COLUMNS = 256


@numba.njit(**INNER)
def _step_of_pairs(row: Any, z0: Any, z1: Any, b: Any, a: Any, count: int) -> None:
    """Filter one step of all columns by a section of a cascade of second order.

    One loop has half the loads and stores of a loop for each state. Two passes of 5 sections over
    16 columns took 10.1 ns a sample, instead of 15.1.
    """
    b0, b1, b2, a1, a2 = b[0], b[1], b[2], a[1], a[2]
    for j in range(count):
        value = row[j]
        output = z0[j] + b0 * value
        z0[j] = (b1 * value - a1 * output) + z1[j]
        z1[j] = (b2 * value - a2 * output) + 0.0
        row[j] = output


@numba.njit(**INNER)
def step_of_columns(row: Any, value: Any, z: Any, b: Any, a: Any, count: int) -> None:
    """Replace one step of `count` columns by its outputs, and update z (sections, order + 1, ...).

    The last state of each section is 0, and `value` is memory for inputs.
    """
    sections, order = z.shape[0], z.shape[1] - 1
    is_cascade = sections > 1  # SciPy then adds in another order.
    for s in range(sections):
        state, b0 = z[opaque(s)], b[s, 0]
        if is_cascade and order == 2 and a.shape[1] == 3:
            _step_of_pairs(row, state[0], state[1], b[s], a[s], count)
            continue
        for j in range(count):
            value[j] = row[j]
            row[j] = state[0, j] + b0 * row[j]
        for k in range(order):
            current, following = state[k], state[k + 1]
            bk, ak = b[s, k + 1], a[s, (k + 1) % a.shape[1]]
            if a.shape[1] == 1:
                for j in range(count):
                    current[j] = following[j] + bk * value[j]
            elif is_cascade:
                for j in range(count):
                    current[j] = (bk * value[j] - ak * row[j]) + following[j]
            else:
                for j in range(count):
                    current[j] = (following[j] + bk * value[j]) - ak * row[j]


def _scipy_columns(
    x: Any,
    y: Any,
    states: Any,
    b: Any,
    a: Any,
    limit_bits: Any,
    redo: Any,
    write: bool,
    start: int,
    stop: int,
) -> None:
    """Filter the columns `start` to `stop`, those of a step together.

    As `_scipy_rows`, but states are (sections, order, outer, inner), and no rows are marked before.
    """
    sections, order = states.shape[:2]
    row, value = np.empty(COLUMNS), np.empty(COLUMNS)
    largest = np.empty(COLUMNS, np.int64)
    z = np.empty((sections, order + 1, COLUMNS))
    for o in range(x.shape[0]):
        for left in range(start, stop, COLUMNS):
            count = min(COLUMNS, stop - left)
            largest[:] = 0
            z[:, order] = 0
            for s in range(sections):
                copy_states(states[s, :, o, left : left + count], z[s, :order, :count])
            for n in range(x.shape[1]):
                source = x[o, n, left : left + count]
                for j in range(count):
                    row[j] = source[j]
                step_of_columns(row, value, z, b, a, count)
                for j in range(count):
                    bits = magnitude_at(row, j)
                    largest[j] = bits if bits > largest[j] else largest[j]
                if write:
                    target = y[o, n, left : left + count]
                    for j in range(count):
                        target[j] = row[j]
            for s in range(sections):
                copy_states(z[s, :order, :count], states[s, :, o, left : left + count])
            for j in range(count):
                redo[o, left + j] = largest[j] > limit_bits


scipy_columns = compile_kernel(_scipy_columns)


def _filter_columns(x: Any, rows: Any, y: Any, targets: Any, states: Any, b: Any, a: Any) -> None:
    """Filter some rows of x (steps, columns), and write outputs to y; see `step_of_columns`.

    `rows` are the first row and column of x, the direction in which rows follow, 1 or -1, and
    their number. `targets` are the first row and column of y, the number of outputs to leave out
    at first, and that from one output written to the next. There are at most COLUMNS columns.

    Samples are read in their own dtype, and outputs are written in that of the results. Integers
    need no check for overflow if the response of the filter is bounded.
    """
    (x_row, x_left, direction, steps), (y_row, y_left, wait, step) = rows, targets
    count = states.shape[2]
    row, value = np.empty(COLUMNS), np.empty(COLUMNS)
    for _ in range(steps):
        source = x[x_row, x_left : x_left + count]
        for j in range(count):
            row[j] = source[j]
        step_of_columns(row, value, states, b, a, count)
        if wait == 0:
            target = y[y_row, y_left : y_left + count]
            for j in range(count):
                target[j] = row[j]
            y_row += direction
            wait = step
        wait -= 1
        x_row += direction


filter_columns = compile_kernel(_filter_columns)
