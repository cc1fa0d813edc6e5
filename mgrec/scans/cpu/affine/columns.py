"""w = s·w + t along the slow axis: the columns of a step side by side in registers.

Each column multiplies and adds as the plain loop does, so the results have its bits. In narrow
lines 64 bytes of columns take GROUP steps before the next 64: their states are read and written
once for all of these.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from ....engines.cpu.compilation import INNER, compile_kernel
from ....engines.cpu.simd.lanes import (
    CACHE_LINE,
    MIN_STREAMED_BYTES,
    add,
    fence,
    load_64_bytes,
    multiply,
    splat_64_bytes,
    store,
    stream,
)
from ..tuples import rows_of, value_at

# Wide lines go one by one: with two to eight of them open at once 1,000 columns took 1.1 to 1.4
# times as long.
GROUP, NARROW = 4, 64


def _wide_at(operand: Any, at: Any) -> Any:
    raise NotImplementedError  # compiled code only


@overload(_wide_at, strict=False)
def _wide_at_of(operand: Any, at: Any) -> Any:
    if isinstance(operand, types.Array):
        return lambda operand, at: load_64_bytes(operand, at)
    return lambda operand, at: splat_64_bytes(operand)


def _columns_written_by(put: Any) -> Any:
    @numba.njit(**INNER)
    def advance(
        s: Any, t: Any, result: Any, states: Any, first: int, pitch: int, lines: int, width: int
    ) -> None:
        wide, group = CACHE_LINE // result.itemsize, GROUP if width <= NARROW else 1
        for top in range(0, lines, group):
            count = min(group, lines - top)
            for column in range(0, width, wide):
                # The last registers of a line overlap where its width is no multiple of theirs.
                at = first + top * pitch + min(column, width - wide)
                w = load_64_bytes(states, column)
                for _ in range(count):
                    w = add(multiply(_wide_at(s, at), w), load_64_bytes(t, at))
                    put(result, at, w)
                    at += pitch
                store(states, column, w)

    return advance


_into_caches, _past_caches = _columns_written_by(store), _columns_written_by(stream)


@numba.njit(**INNER)
def _advance_window(
    s: Any, t: Any, result: Any, carry_in: Any, states: Any, begin: int, end: int
) -> None:
    wide = CACHE_LINE // result.itemsize
    for column in range(begin, end, wide):
        left = min(column, end - wide)
        for k in range(wide):
            states[column - begin + k] = carry_in[left + k]
    steps = result.size // carry_in.size
    _into_caches(s, t, result, states, begin, carry_in.size, steps, end - begin)


@numba.njit(**INNER)
def _advance_past_caches(
    s: Any, t: Any, result: Any, carry_in: Any, states: Any, begin: int, end: int
) -> None:
    """Columns of one flat recurrence w_i = s_i·w_(i-columns) + t_i, from a whole line of memory on.

    Columns are counted from there: the last ones are the first of the array, a step later.
    """
    columns = carry_in.size
    prefix = -result.ctypes.data % CACHE_LINE // result.itemsize
    for column in range(begin, end):
        i = column + prefix - columns
        if i < 0:
            states[column - begin] = carry_in[column + prefix]
        else:
            result[i] = value_at(s, i) * carry_in[i] + t[i]
            states[column - begin] = result[i]
    lines = (result.size - prefix) // columns
    _past_caches(s, t, result, states, prefix + begin, columns, lines, end - begin)
    fence()
    tail = prefix + lines * columns
    for i in range(tail + begin, min(tail + end, result.size)):
        result[i] = value_at(s, i) * states[i - tail - begin] + t[i]


def _determine(operands: Any, carry_in: Any, result: Any, begin: int, end: int) -> None:
    wide, columns = CACHE_LINE // result.itemsize, carry_in.shape[1]
    states = np.empty(columns + wide, result.dtype)
    is_large = result.size * result.itemsize >= MIN_STREAMED_BYTES
    are_whole = columns % wide == 0 and begin % wide == 0 and end % wide == 0
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        if is_large and are_whole:
            _advance_past_caches(s, t, result[row], carry_in[row], states, begin, end)
        else:
            _advance_window(s, t, result[row], carry_in[row], states, begin, end)


determine_columns = compile_kernel(_determine)


def can_determine(s: np.ndarray, t: np.ndarray, result: np.ndarray, begin: int, end: int) -> bool:
    """Whether the kernel takes these (outer, steps, columns): s an array, or one number a row."""
    shape = result.shape[1:]
    if t.shape[1:] != shape or s.shape[1:] not in (shape, (1, 1)):
        return False
    if (end - begin) * result.itemsize < CACHE_LINE:
        return False
    return all(array.flags.c_contiguous for array in (s, t, result))


def flat_rows(array: np.ndarray) -> np.ndarray:
    """(outer, steps * columns), or (outer,) for one number a row."""
    # NumPy cannot infer a length of -1 where there are no rows.
    flat = array.reshape(array.shape[0], math.prod(array.shape[1:]))
    return flat[:, 0] if flat.shape[1] == 1 else flat
