"""SciPy's loops, in SciPy's order of operations: they define the result."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from ...engines.cpu.compilation import INNER, compile_kernel

MASK, _SHORT_MASK = (1 << 63) - 1, (1 << 31) - 1


def line_of(array: Any, outer: Any, inner: Any) -> Any:
    """One row of (outer, steps, inner), or of (outer, steps), whose rows are contiguous."""
    raise NotImplementedError  # compiled code only


@overload(line_of, strict=False)
def _line_of(array: types.Array, outer: Any, inner: Any) -> Any:
    if array.ndim == 2:
        return lambda array, outer, inner: array[outer]
    return lambda array, outer, inner: array[outer, :, inner]


def put_number(array: Any, at: int, value: float) -> None:
    """``array[at] = value``; nothing where `array` is None."""
    raise NotImplementedError  # compiled code only


@overload(put_number, strict=False)
def _put_number(array: Any, at: Any, value: Any) -> Any:
    if array == types.none:
        return lambda array, at, value: None

    def put(array: Any, at: int, value: float) -> None:
        array[at] = value

    return put


def target_part(array: Any, left: int, count: int, spare: Any) -> Any:
    """``array[left:left + count]``; where `array` is None, as much of `spare`, or None."""
    raise NotImplementedError  # compiled code only


@overload(target_part, strict=False)
def _target_part(array: Any, left: Any, count: Any, spare: Any) -> Any:
    if array != types.none:
        return lambda array, left, count, spare: array[left : left + count]
    if spare != types.none:
        return lambda array, left, count, spare: spare[:count]
    return lambda array, left, count, spare: None


@numba.njit(**INNER)
def copy_states(source: Any, target: Any) -> None:
    """``target[...] = source`` of two axes, as loops: the assignment took 0.4 s to compile."""
    for s in range(target.shape[0]):
        for k in range(target.shape[1]):
            target[s, k] = source[s, k]


@numba.njit(**INNER)
def plain_section(x: Any, y: Any, z: Any, b: Any, a: Any) -> None:
    """One section as ``scipy.signal.lfilter`` runs it; x and y may be the same."""
    order = z.size
    for n in range(x.size):
        value = x[n]
        if order == 0:
            y[n] = value * b[0]
            continue
        given = z[0] + b[0] * value
        if a.size == 1:
            for i in range(order - 1):
                z[i] = z[i + 1] + value * b[i + 1]
            z[order - 1] = value * b[order]
        else:
            for i in range(order - 1):
                z[i] = z[i + 1] + value * b[i + 1] - given * a[i + 1]
            z[order - 1] = value * b[order] - given * a[order]
        y[n] = given


@numba.njit(**INNER)
def plain_pair(x: Any, y: Any, z0: Any, z1: Any, b: Any, a: Any) -> Any:
    """One section of order 2 as ``scipy.signal.sosfilt`` runs it; its state afterwards."""
    for n in range(x.size):
        value = x[n]
        given = b[0] * value + z0
        z0 = b[1] * value - a[1] * given + z1
        z1 = b[2] * value - a[2] * given
        y[n] = given
    return z0, z1


@numba.njit(**INNER)
def plain_row(x: Any, y: Any, z: Any, b: Any, a: Any) -> None:
    """A whole cascade along one row, z of shape (sections, order)."""
    source = x
    for s in range(z.shape[0]):
        if z.shape[0] > 1 and z.shape[1] == 2:
            z[s, 0], z[s, 1] = plain_pair(source, y, z[s, 0], z[s, 1], b[s], a[s])
        else:
            plain_section(source, y, z[s], b[s], a[s])
        source = y


def _plain_rows(x: Any, y: Any, states: Any, b: Any, a: Any, asked: Any) -> None:
    """Rows (outer, inner) where `asked`; advances states (sections, order, outer, inner)."""
    for o in range(x.shape[0]):
        for i in range(x.shape[2]):
            if asked[o, i]:
                z = states[:, :, o, i].copy()
                plain_row(x[o, :, i], y[o, :, i], z, b, a)
                copy_states(z, states[:, :, o, i])


plain_rows = compile_kernel(_plain_rows)


@numba.njit(**INNER)
def _largest_of_float32(y: Any) -> Any:
    bits = y.view(np.int32)
    largest = np.int64(0)
    for i in range(bits.size):
        largest = max(largest, np.int64(bits[i]) & _SHORT_MASK)
    return np.float64(np.int32(largest).view(np.float32)).view(np.int64)


@numba.njit(**INNER)
def largest_bits(y: Any) -> Any:
    """The bits of the largest size in float64; they order as sizes do, nan above inf."""
    if y.itemsize == 4:
        return _largest_of_float32(y)
    bits = y.view(np.int64)
    largest = np.int64(0)
    for i in range(bits.size):
        largest = max(largest, bits[i] & MASK)
    return largest


def _short_rows(
    x: Any, y: Any, states: Any, b: Any, a: Any, top: Any, redo: Any, write: bool
) -> None:
    """Rows in float64, whatever dtype x and y have."""
    size = x.shape[1]
    data, z = np.empty(size), np.empty(states.shape[:2])
    for o in range(x.shape[0]):
        for i in range(x.shape[2]):
            row = x[o, :, i]
            for n in range(size):
                data[n] = row[n]
            copy_states(states[:, :, o, i], z)
            plain_row(data, data, z, b, a)
            redo[o, i] = largest_bits(data) > top
            copy_states(z, states[:, :, o, i])
            if write:
                result = y[o, :, i]
                for n in range(size):
                    result[n] = data[n]


short_rows = compile_kernel(_short_rows)
