"""Products of a signal with another one at several lags: gradients of coefficients."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from ....core.arrays.chunk import canonical_shape
from ....engines.cpu.compilation import compile_kernel, writable
from ....engines.cpu.threads import call_in_parts, threads_for


def multiply(
    extended: Any, factor: Any, gain: Any, products: Any, strides: Any, is_new: bool, count: int,
    first: int, sign: int, shape: Any, has_gain: bool, u: Any, v: Any, q: Any, start: int,
    stop: int,
) -> None:  # fmt: skip
    """Add the products of some steps with values at `count` lags, divided by the gain.

    Arrays but the gain (outer, steps, inner) are flat. `strides` are those of the products along
    these axes. With `has_gain` the products are negative, and the first is that of the gain.
    """
    outer, steps, inner = shape
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
                    products[np.uintp(to)] += (
                        number * difference - u[index] * v[index] / gain_of_step
                    )
                for k in range(int(has_gain), count):
                    products[np.uintp(to + k)] += (
                        number * extended[np.uintp(position + sign * k * inner)]
                    )


_multiply = compile_kernel(multiply, "multiply-lags")


def multiply_lags(
    extended: np.ndarray, factor: np.ndarray, gain: np.ndarray, coefficients: np.ndarray, axis: int,
    is_before: bool, of_gain: tuple[np.ndarray, ...] | None,
) -> np.ndarray | None:  # fmt: skip
    """Return the result of ``Lags.times`` of the adjoint, with the rows of the coefficients.

    `gain` is conjugate. None if the coefficients are constant, or vary along some axes of rows.
    """
    shape, rows, count = factor.shape, coefficients.shape[:-1], coefficients.shape[-1]
    parts = slice(axis), slice(axis, axis + 1), slice(axis + 1, len(shape))
    is_shared = [rows[part] != shape[part] for part in parts]
    is_merged = [
        not shared or prod(rows[part]) == 1 for shared, part in zip(is_shared, parts, strict=True)
    ]
    if is_shared[1] or not all(is_merged) or not factor.size:
        return None
    layout = canonical_shape(shape, axis)
    lengths = [1 if shared else length for shared, length in zip(is_shared, layout, strict=True)]
    is_new = not any(is_shared)
    products = (np.empty if is_new else np.zeros)(
        (*lengths, count), np.result_type(extended, factor)
    )
    strides = [
        0 if shared else stride // products.itemsize
        for shared, stride in zip(is_shared, products.strides, strict=False)
    ]
    extended, factor, *terms = (
        _flat(array, products.dtype) for array in (extended, factor, *(of_gain or ()))
    )
    gain = writable(np.broadcast_to(gain[..., 0], shape).reshape(layout))
    order = len(extended) // (layout[0] * layout[2]) - layout[1]
    multiply_part = partial(
        _multiply, extended, factor, gain, products.reshape(-1), tuple(strides), is_new, count,
        order if is_before else 0, -1 if is_before else 1, layout, of_gain is not None,
        *(terms or [factor] * 3),
    )  # fmt: skip
    call_in_parts(multiply_part, layout[1], threads_for(factor.size * count))
    return products.reshape(coefficients.shape)


def _flat(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    return writable(np.ascontiguousarray(array, dtype).reshape(-1))
