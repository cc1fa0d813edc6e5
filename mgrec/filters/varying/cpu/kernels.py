"""The kernel of varying filters: it advances columns of states step by step.

One column is the states of a row. To summarise a chunk, the kernel advances the images of unit
vectors, without the signal, and a last column from states of 0.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba.cpython.unsafe.tuple import tuple_setitem

from ....engines.cpu.compilation import INNER, compile_kernel
from ....scans.matrix.cpu.kernels import rescale

_BLOCK = 256
"""Steps whose coefficients stay in the L1 cache while all rows pass them."""


@numba.njit(**INNER)
def _read(array: Any, index: int) -> float:
    """Return a number as float64; numba tests indices for negative ones if they are signed."""
    return np.float64(array[np.uintp(index)])


@cache
def _step(counts: tuple[int, int], is_unit: bool, has_gain: bool) -> Any:
    """Return the function of one step: the output and the states, in the order of SciPy's sums."""
    taps, poles = counts
    order = max(counts) - 1

    @numba.njit(**INNER)
    def step(z: Any, sample: float, b: Any, at_b: int, a: Any, at_a: int) -> Any:
        gain, tap = _read(a, at_a), _read(b, at_b)
        w = z[0]
        if not is_unit:
            w += (tap / gain if has_gain else tap) * sample
        for k in range(order):
            tap = _read(b, at_b + k + 1) if k + 1 < taps else 0.0
            pole = _read(a, at_a + k + 1) if k + 1 < poles else 0.0
            if has_gain:
                tap, pole = tap / gain, pole / gain
            # Without a signal the state keeps its sign of zero, and taps of inf do not matter.
            if is_unit:
                total = z[k + 1] if k + 1 < order else 0.0
            else:
                total = z[k + 1] + tap * sample if k + 1 < order else tap * sample
            z = tuple_setitem(z, k, total - pole * w)
        return w, z

    return step


@cache
def _advance_row(counts: tuple[int, int], is_unit: bool) -> Any:
    """Return the loop of one column over some steps.

    States are a tuple, which stays in registers. With an array in memory, order 1 took 4.0 instead
    of 2.4 ns a step. Without a branch for a gain of 1, all steps wait for divisions.
    """
    order = max(counts) - 1
    zeros = (0.0,) * order
    plain_step, step_with_gain = _step(counts, is_unit, False), _step(counts, is_unit, True)

    @numba.njit(**INNER)
    def advance_row(
        x: Any, b: Any, a: Any, marks: Any, initial: Any, places: Any, strides: Any, state: Any,
        exponent: int, y: Any, begin: int, end: int,
    ) -> int:  # fmt: skip
        z = zeros
        for k in range(order):
            z = tuple_setitem(z, k, state[k])
        for step in range(begin, end):
            if marks[np.uintp(places[3] + step * strides[3])]:
                for k in range(order):
                    z = tuple_setitem(z, k, 0.0 if is_unit else initial[places[4] + k])
            at_b, at_a = places[1] + step * strides[1], places[2] + step * strides[2]
            sample = _read(x, places[0] + step * strides[0])
            if _read(a, at_a) == 1.0:
                w, z = plain_step(z, sample, b, at_b, a, at_a)
            else:
                w, z = step_with_gain(z, sample, b, at_b, a, at_a)
            if is_unit:
                for k in range(order):
                    state[k] = z[k]
                exponent += rescale(state, order)
                for k in range(order):
                    z = tuple_setitem(z, k, state[k])
            elif len(y):
                y[np.uintp(places[5] + step * strides[5])] = w
        for k in range(order):
            state[k] = z[k]
        return exponent

    return advance_row


@cache
def advance_columns(counts: tuple[int, int]) -> Any:
    """Return the kernel of filters with so many coefficients in b and a."""
    advance_unit, advance_row = _advance_row(counts, True), _advance_row(counts, False)

    def advance(
        x: Any, x_strides: Any, b: Any, b_strides: Any, a: Any, a_strides: Any, marks: Any,
        mark_strides: Any, initial: Any, initial_strides: Any, states: Any, exponents: Any, y: Any,
        start: int, stop: int, shape: Any,
    ) -> None:  # fmt: skip
        """Advance the columns `states` (rows, columns, order) of some rows through all steps.

        Operands are flat, with strides in numbers along (outer, steps, inner). The last column has
        the signal, and its outputs are written to `y` (outer * steps * inner) if there are any.
        Other columns are scaled by 2**exponents. At a mark the last column becomes `initial`, and
        the others 0.
        """
        columns = states.shape[1]
        _, steps, inner = shape
        strides = x_strides[1], b_strides[1], a_strides[1], mark_strides[1], 0, inner
        for begin in range(0, steps, _BLOCK):
            end = min(begin + _BLOCK, steps)
            for row in range(start, stop):
                i, j = row // inner, row % inner
                places = (
                    i * x_strides[0] + j * x_strides[2],
                    i * b_strides[0] + j * b_strides[2],
                    i * a_strides[0] + j * a_strides[2],
                    i * mark_strides[0] + j * mark_strides[2],
                    i * initial_strides[0] + j * initial_strides[2],
                    i * steps * inner + j,
                )
                for column in range(columns - 1):
                    exponents[row, column] = advance_unit(
                        x, b, a, marks, initial, places, strides, states[row, column],
                        exponents[row, column], y, begin, end,
                    )  # fmt: skip
                advance_row(
                    x, b, a, marks, initial, places, strides, states[row, columns - 1], 0, y,
                    begin, end,
                )  # fmt: skip

    return compile_kernel(advance, "varying-filter", str(counts))
