"""w = s·w + t along the slow axis: the columns of a step side by side in registers.

Each column multiplies and adds as the plain loop does, so the results have its bits. In narrow
arrays 64 bytes of columns take GROUP steps before the next 64: their states are read and written
once for all of these.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import types

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.lanes import (
    CACHE_LINE,
    MIN_STREAMED_BYTES,
    fence,
    load_64_bytes,
    multiply,
    splat_64_bytes,
    store,
    stream,
)
from ...engines.cpu.simd import plus
from .operands import compiled_only, rows_of, value_at

# The steps of wide arrays are solved one by one: with groups of two to eight steps, 1,000 columns
# took 1.1 to 1.4 times as long.
GROUP, NARROW = 4, 64


@compiled_only
def _wide_at(operand: Any, index: Any) -> Any:
    if isinstance(operand, types.Array):
        return lambda operand, index: load_64_bytes(operand, index)
    return lambda operand, index: splat_64_bytes(operand)


def _advance_columns(write: Any) -> Any:
    @numba.njit(**INNER)
    def advance(
        s: Any, t: Any, result: Any, states: Any, first: int, pitch: int, steps: int, width: int
    ) -> None:
        wide, group = CACHE_LINE // result.itemsize, GROUP if width <= NARROW else 1
        for top in range(0, steps, group):
            count = min(group, steps - top)
            for column in range(0, width, wide):
                # The last registers of a step overlap if its width is no multiple of theirs.
                index = first + top * pitch + min(column, width - wide)
                w = load_64_bytes(states, column)
                for _ in range(count):
                    w = plus(multiply(_wide_at(s, index), w), load_64_bytes(t, index))
                    write(result, index, w)
                    index += pitch
                store(states, column, w)

    return advance


_into_caches, _past_caches = _advance_columns(store), _advance_columns(stream)


@numba.njit(**INNER)
def _advance_window(s: Any, t: Any, result: Any, carry_in: Any, states: Any, start: int, stop: int) -> None:
    wide = CACHE_LINE // result.itemsize
    for column in range(start, stop, wide):
        left = min(column, stop - wide)
        for k in range(wide):
            states[column - start + k] = carry_in[left + k]
    steps = result.size // carry_in.size
    _into_caches(s, t, result, states, start, carry_in.size, steps, stop - start)


@numba.njit(**INNER)
def _advance_past_caches(
    s: Any, t: Any, result: Any, carry_in: Any, states: Any, start: int, stop: int
) -> None:
    """Solve columns of the flat recurrence w_i = s_i·w_(i-columns) + t_i, from a cache line on.

    Columns are counted from there: the last ones are the first of the array, a step later.
    """
    columns = carry_in.size
    offset = -result.ctypes.data % CACHE_LINE // result.itemsize
    for column in range(start, stop):
        i = column + offset - columns
        if i < 0:
            states[column - start] = carry_in[column + offset]
        else:
            result[i] = value_at(s, i) * carry_in[i] + t[i]
            states[column - start] = result[i]
    steps = (result.size - offset) // columns
    _past_caches(s, t, result, states, offset + start, columns, steps, stop - start)
    fence()
    tail = offset + steps * columns
    for i in range(tail + start, min(tail + stop, result.size)):
        result[i] = value_at(s, i) * states[i - tail - start] + t[i]


def _determine(operands: Any, carry_in: Any, result: Any, start: int, stop: int) -> None:
    wide, columns = CACHE_LINE // result.itemsize, carry_in.shape[1]
    states = np.empty(columns + wide, result.dtype)
    is_large = result.size * result.itemsize >= MIN_STREAMED_BYTES
    are_whole = columns % wide == 0 and start % wide == 0 and stop % wide == 0
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        if is_large and are_whole:
            _advance_past_caches(s, t, result[row], carry_in[row], states, start, stop)
        else:
            _advance_window(s, t, result[row], carry_in[row], states, start, stop)


determine_columns = compile_kernel(_determine)


def can_determine(s: np.ndarray, t: np.ndarray, result: np.ndarray, start: int, stop: int) -> bool:
    """Return whether the kernel applies to arrays (outer, steps, columns); s may be constant."""
    shape = result.shape[1:]
    if t.shape[1:] != shape or s.shape[1:] not in (shape, (1, 1)):
        return False
    if (stop - start) * result.itemsize < CACHE_LINE:
        return False
    return all(array.flags.c_contiguous for array in (s, t, result))


def flat_rows(array: np.ndarray) -> np.ndarray:
    """Return an array (outer, steps * columns), or (outer,) if each row has one number."""
    # NumPy cannot infer a length of -1 if there are no rows.
    flat = array.reshape(array.shape[0], math.prod(array.shape[1:]))
    return flat[:, 0] if flat.shape[1] == 1 else flat
