"""The kernels of varying filters in host memory, and the phases of a chunk.

The kernel advances columns of states step by step. One column is the states of a row. To summarise
a chunk, the kernel advances the images of unit vectors, without the signal, and a last column from
states of 0.
"""

from __future__ import annotations

from functools import cache, partial
from math import prod
from typing import Any

import numba
import numpy as np
from numba.cpython.unsafe.tuple import tuple_setitem

from ...core.arrays.chunk import Chunk, canonical_shape
from ...core.contract.kernels import Kernels
from ...engines.cpu.columns import flat_operands, kernels_of_columns, with_marks
from ...engines.cpu.compilation import INNER, compile_kernel, writable
from ...engines.cpu.pointers import advance_pointers, inputs_of
from ...engines.cpu.threads import call_in_parts, threads_for
from ...scans.matrix.cpu import brief_columns, propagate_by, rescale, summarise_maps
from ...scans.matrix.recurrence import MatrixSummary, with_rows_to_redo
from .recurrence import VaryingFilter

_BLOCK = 256
"""Steps whose coefficients stay in the L1 cache while all rows pass them."""
_IN_REGISTERS = 8
"""Largest order whose states stay in registers, in a loop that LLVM unrolls: it unrolls fewer
than 16 states, and with these in an array in memory order 1 took 4.0 instead of 2.4 ns a step."""


@numba.njit(**INNER)
def _as_real(vector: Any, index: int) -> float:
    return np.float64(vector[index])


@numba.njit(**INNER)
def _as_complex(vector: Any, index: int) -> complex:
    return np.complex128(vector[index])


@numba.njit(**INNER)
def _item(z: Any, state: Any, k: int) -> Any:
    return z[k]


@numba.njit(**INNER)
def _with_item(z: Any, state: Any, k: int, value: Any) -> Any:
    return tuple_setitem(z, k, value)


@numba.njit(**INNER)
def _item_in_memory(z: Any, state: Any, k: int) -> Any:
    return state[np.uintp(k)]


@numba.njit(**INNER)
def _with_item_in_memory(z: Any, state: Any, k: int, value: Any) -> Any:
    # An array as the result would be counted: 130 instead of 20 ns a step of order 20.
    state[np.uintp(k)] = value
    return z


def _access(order: int) -> tuple[Any, Any]:
    """Return the functions that read and replace a number of a state."""
    if order <= _IN_REGISTERS:
        return _item, _with_item
    return _item_in_memory, _with_item_in_memory


@cache
def _step(counts: tuple[int, int], form: str, is_complex: bool, is_unit: bool, has_gain: bool) -> Any:
    """Return the function of one step: the output and the states.

    The sums of the transposed form are those of SciPy in their order.
    """
    taps, poles = counts
    order = max(counts) - 1
    read, zero = (_as_complex, 0j) if is_complex else (_as_real, 0.0)
    item, with_item = _access(order)

    @numba.njit(**INNER)
    def coefficient(vector: Any, index: int, gain: Any) -> Any:
        return read(vector, index) / gain if has_gain else read(vector, index)

    @numba.njit(**INNER)
    def step_transposed(z: Any, state: Any, x_n: Any, b: Any, a: Any) -> Any:
        gain = read(a, 0)
        w = item(z, state, 0)
        if not is_unit:
            w += coefficient(b, 0, gain) * x_n
        for k in range(order):
            # Without a signal the state keeps its sign of zero, and taps of inf do not matter.
            total = item(z, state, k + 1) if k + 1 < order else zero
            if not is_unit:
                term = (coefficient(b, k + 1, gain) if k + 1 < taps else zero) * x_n
                total = total + term if k + 1 < order else term
            pole = coefficient(a, k + 1, gain) if k + 1 < poles else zero
            z = with_item(z, state, k, total - pole * w)
        return w, z

    @numba.njit(**INNER)
    def step_direct(z: Any, state: Any, x_n: Any, b: Any, a: Any) -> Any:
        gain = read(a, 0)
        w = zero if is_unit else x_n
        # The latest state last: the others are known before the step before this one ends.
        for k in range(poles - 1, 0, -1):
            w -= coefficient(a, k, gain) * item(z, state, k - 1)
        total = w
        if not is_unit:
            total = coefficient(b, 0, gain) * w
            for k in range(1, taps):
                total += coefficient(b, k, gain) * item(z, state, k - 1)
        for k in range(order - 1, 0, -1):
            z = with_item(z, state, k, item(z, state, k - 1))
        return total, with_item(z, state, 0, w)

    return step_direct if form == "direct" else step_transposed


@cache
def _advance_row(counts: tuple[int, int], form: str, is_complex: bool, is_unit: bool) -> Any:
    """Return the loop of one column over some steps.

    Without a branch for a gain of 1, all steps wait for divisions.
    """
    order = max(counts) - 1
    read, zero = (_as_complex, 0j) if is_complex else (_as_real, 0.0)
    zeros = (zero,) * (order if order <= _IN_REGISTERS else 1)
    item, with_item = _access(order)
    plain_step, step_with_gain = (
        _step(counts, form, is_complex, is_unit, has_gain) for has_gain in (False, True)
    )

    @numba.njit(**INNER)
    def advance_row(model: Any, row: Any, block: Any, state: Any, exponent: int, y: Any, failed: Any) -> int:
        (inputs, strides, reverse), (i, j, (_, steps, inner)) = model, row
        z = zeros
        for k in range(order):
            z = with_item(z, state, k, state[k])
        for step in range(block[0], block[1]):
            index = steps - 1 - step if reverse else step
            x, b, a, marks, initial = advance_pointers(inputs, strides, (i, index, j))
            if marks[0]:
                for k in range(order):
                    z = with_item(z, state, k, zero if is_unit else read(initial, k))
            x_n, gain = read(x, 0), read(a, 0)
            if gain == 1.0:
                w, z = plain_step(z, state, x_n, b, a)
            elif gain == 0.0:
                failed[0] = True
                return exponent
            else:
                w, z = step_with_gain(z, state, x_n, b, a)
            if is_unit:
                for k in range(order):
                    state[k] = item(z, state, k)
                numbers = state.view(np.float64)
                exponent += rescale(numbers, len(numbers))
                for k in range(order):
                    z = with_item(z, state, k, state[k])
            elif len(y):
                y[np.uintp((i * steps + index) * inner + j)] = w
        for k in range(order):
            state[k] = item(z, state, k)
        return exponent

    return advance_row


@cache
def advance_columns(counts: tuple[int, int], form: str, is_complex: bool) -> Any:
    """Return the kernel of filters with so many coefficients in b and a."""
    advance_unit, advance_row = (_advance_row(counts, form, is_complex, is_unit) for is_unit in (True, False))

    def advance(
        model: Any, states: Any, exponents: Any, outputs: Any, start: int, stop: int, shape: Any, form: Any
    ) -> None:
        """Advance the columns `states` (rows, columns, order) of some rows through all steps.

        `model` are flat operands and their strides: x, b, a, marks and the states at marks. The last
        column has the signal, and its outputs are written to the first of the `outputs`
        (outer * steps * inner) if there are any. Other columns are scaled by 2**exponents. At a mark
        the last column becomes the states given, and the others 0. The other of the `outputs`
        becomes true if a_0 of a step is 0. `form` says whether the last step acts first, and how
        many columns advance through how many first steps alone, which are in the first block.
        """
        (y, failed), (_, steps, inner), (reverse, brief, first) = outputs, shape, form
        (inputs, strides), columns = inputs_of(model), states.shape[1]
        for left in range(0, steps, _BLOCK):
            block = left, min(left + _BLOCK, steps)
            for k in range(start, stop):
                row = k // inner, k % inner, shape
                for column in range(0 if left == 0 else brief, columns - 1):
                    before = exponents[k, column]
                    steps_of_column = (0, first) if column < brief else block
                    exponents[k, column] = advance_unit(
                        (inputs, strides, reverse), row, steps_of_column, states[k, column], before, y, failed
                    )
                advance_row((inputs, strides, reverse), row, block, states[k, columns - 1], 0, y, failed)

    return compile_kernel(advance, "varying-filter", str((counts, form, is_complex)))


def multiply(
    arrays: Any, gain: Any, products: Any, is_new: bool, lags: Any, terms: Any, start: int, stop: int
) -> None:
    """Add the products of some steps with values at `count` lags, divided by the gain.

    Arrays but the gain (outer, steps, inner) are flat. `products` has strides along these axes,
    `lags` is (count, first, sign), and `terms` are u, v and q of the gain, and whether there are any:
    then the products are negative, and the first is that of the gain.
    """
    (extended, factor), (products, strides), (count, first, sign) = arrays, products, lags
    (u, v, q, has_gain), (outer, steps, inner) = terms, gain.shape
    length = len(extended) // (outer * inner)
    for i in range(outer):
        for step in range(start, stop):
            for j in range(inner):
                index = np.uintp((i * steps + step) * inner + j)
                position = (i * length + step + first) * inner + j
                to = i * strides[0] + step * strides[1] + j * strides[2]
                if is_new:  # A page that is read before it is written to is mapped twice.
                    for k in range(count):
                        products[np.uintp(to + k)] = 0.0
                gain_of_step = gain[np.uintp(i), np.uintp(step), np.uintp(j)]
                number = factor[index] / gain_of_step
                if has_gain:
                    number = -number
                    difference = extended[np.uintp(position)] - q[index]
                    products[np.uintp(to)] += number * difference - u[index] * v[index] / gain_of_step
                for k in range(int(has_gain), count):
                    products[np.uintp(to + k)] += number * extended[np.uintp(position + sign * k * inner)]


_multiply = compile_kernel(multiply, "multiply-lags", allocates=False)


def multiply_lags(
    extended: np.ndarray,
    factor: np.ndarray,
    gain: np.ndarray,
    coefficients: np.ndarray,
    axis: int,
    is_before: bool,
    of_gain: tuple[np.ndarray, ...] | None,
) -> np.ndarray | None:
    """Return the result of ``Lags.times`` of the adjoint, with the rows of the coefficients.

    All lags are computed in one pass. `gain` is conjugate. None if the coefficients are constant,
    or vary along some axes of rows.
    """
    shape, rows, count = factor.shape, coefficients.shape[:-1], coefficients.shape[-1]
    parts = slice(axis), slice(axis, axis + 1), slice(axis + 1, len(shape))
    is_shared = [rows[part] != shape[part] for part in parts]
    is_merged = [not shared or prod(rows[part]) == 1 for shared, part in zip(is_shared, parts, strict=True)]
    if is_shared[1] or not all(is_merged) or not factor.size:
        return None
    layout = canonical_shape(shape, axis)
    lengths = [1 if shared else length for shared, length in zip(is_shared, layout, strict=True)]
    is_new = not any(is_shared)
    products = (np.empty if is_new else np.zeros)((*lengths, count), np.result_type(extended, factor))
    strides = [
        0 if shared else stride // products.itemsize
        for shared, stride in zip(is_shared, products.strides, strict=False)
    ]
    extended, factor, *terms = (
        _flat(array, products.dtype) for array in (extended, factor, *(of_gain or ()))
    )
    gain = writable(np.broadcast_to(gain[..., 0], shape).reshape(layout))
    order = len(extended) // (layout[0] * layout[2]) - layout[1]
    lags = count, *((order, -1) if is_before else (0, 1))
    multiply_part = partial(
        _multiply,
        (extended, factor),
        gain,
        (products.reshape(-1), tuple(strides)),
        is_new,
        lags,
        (*(terms or [factor] * 3), of_gain is not None),
    )
    call_in_parts(multiply_part, layout[1], threads_for(factor.size * count))
    return products.reshape(coefficients.shape)


def _flat(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    return writable(np.ascontiguousarray(array, dtype).reshape(-1))


_MARKS = 3


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk: see :func:`kernels_of_columns`."""
    return kernels_of_columns(method, _advance, precompute, propagate_rows, _work)


def _work(recurrence: VaryingFilter) -> tuple[int, float]:
    return recurrence.order, 0.8 * (recurrence.state_numbers + 1)


def precompute(recurrence: VaryingFilter, chunk: Chunk) -> MatrixSummary:
    """Return the summary of a chunk."""
    return with_rows_to_redo(recurrence, chunk, summarise_maps(_advance, recurrence, chunk, _MARKS))


def _advance(
    recurrence: VaryingFilter, chunk: Chunk, states: np.ndarray, outputs: np.ndarray, threads: int
) -> np.ndarray:
    """Advance states through a chunk, and return the exponents of their columns."""
    exponents, failed = np.zeros(states.shape[:2], np.int64), np.zeros(1, bool)
    states = states.view(recurrence.state_dtype)
    *operands, initial = with_marks(chunk.operands, _MARKS, recurrence.order)
    model = flat_operands((*operands, initial.astype(states.dtype, copy=False)))
    kernel = advance_columns(recurrence.counts, recurrence.form, states.dtype.kind == "c")
    form = chunk.reverse, *brief_columns(chunk, (states.shape[1], recurrence.state_numbers))

    def advance(start: int, stop: int) -> None:
        kernel(model, states, exponents, (outputs, failed), start, stop, chunk.shape, form)

    call_in_parts(advance, len(states), threads)
    if failed[0]:
        raise ValueError("a[..., 0] must not be 0 at any step: the filter would need later samples")
    return exponents


propagate_rows = partial(propagate_by, _advance)
