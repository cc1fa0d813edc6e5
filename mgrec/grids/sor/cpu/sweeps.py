"""Sweeps over strips in registers, several of them while a part of the grid is in the caches.

Step t of strip q in sweep s needs step t + lanes − 1 of the strip above, from the same sweep,
and step t − lanes + 1 of the strip below, from the sweep before. With

    level = q + s,    time = lanes·q + t + s

nothing needs what has a later level or a later time, nor overwrites what these still need.
"""

from __future__ import annotations

from typing import Any

import numba

from ....engines.cpu.compilation import INNER, compile_kernel
from ....engines.cpu.simd.arithmetic import (
    FOUR_REGISTERS,
    both,
    choose,
    is_index,
    larger,
    load_four,
    magnitude_bits,
    minus,
    plus,
    shift_back,
    shift_in,
    splat_four,
)
from ....engines.cpu.simd.lanes import multiply, store

# Steps of a strip before the next strip's turn: 64 to 256 take the same time, and 512 take 1.3
# times that in float64, where 16 sweeps no longer fit into 2 MB.
_PIECE = 128


@numba.njit(**INNER)
def _relaxed(
    own: Any, above: Any, left: Any, below: Any, right: Any, rhs: Any, at: int, weights: Any
) -> Any:
    around = plus(plus(plus(above, left), below), right)
    if rhs is not None:
        around = minus(around, load_four(rhs, at))
    return plus(multiply(splat_four(weights[0]), own), multiply(splat_four(weights[1]), around))


@numba.njit(**INNER)
def _inside(
    strips: Any, rhs: Any, weights: Any, size: Any, codes: Any, peaks: Any, q: int, begin: int,
    end: int
) -> None:  # fmt: skip
    """Steps of a strip of which every lane is inside of the grid."""
    _, columns, lanes = size
    at = (q * (columns + lanes - 1) + begin) * lanes
    over, under = at - columns * lanes + lanes - 1, at + columns * lanes
    left, own = load_four(strips, at - lanes), load_four(strips, at)
    for _ in range(begin, end):
        right = load_four(strips, at + lanes)
        above, below = shift_in(left, strips[over]), shift_back(right, strips[under])
        left = _relaxed(own, above, left, below, right, rhs, at, weights)
        if peaks is not None:
            store(peaks, 0, larger(magnitude_bits(minus(left, own)), load_four(peaks, 0)))
        own = right
        store(strips, at, left)
        at, over, under = at + lanes, over + lanes, under + lanes


@numba.njit(**INNER)
def _border(
    strips: Any, rhs: Any, weights: Any, size: Any, codes: Any, peaks: Any, q: int, begin: int,
    end: int
) -> None:  # fmt: skip
    """Steps of a strip of which some lanes are on the border of the grid, or outside."""
    rows, columns, lanes = size
    code, zero = codes.dtype.type, strips.dtype.type(0)
    lane, none, one = load_four(codes, 0), splat_four(code(0)), splat_four(code(1))
    row, height = plus(lane, splat_four(code(q * lanes - 1))), splat_four(code(rows - 2))
    column, width = minus(splat_four(code(begin - 1)), lane), splat_four(code(columns - 2))
    is_row = is_index(row, height)
    at = (q * (columns + lanes - 1) + begin) * lanes
    over, under = at - columns * lanes + lanes - 1, at + columns * lanes
    left, own = load_four(strips, at - lanes), load_four(strips, at)
    for t in range(begin, end):
        right = load_four(strips, at + lanes)
        above = shift_in(left, strips[over] if q > 0 and t < columns else zero)
        below = shift_back(right, strips[under] if under < strips.size else zero)
        new = _relaxed(own, above, left, below, right, rhs, at, weights)
        is_inside = both(is_row, is_index(column, width))
        left = choose(is_inside, new, own)
        if peaks is not None:
            size_of = choose(is_inside, magnitude_bits(minus(left, own)), none)
            store(peaks, 0, larger(size_of, load_four(peaks, 0)))
        own = right
        store(strips, at, left)
        column = plus(column, one)
        at, over, under = at + lanes, over + lanes, under + lanes


@numba.njit(**INNER)
def _strip(
    strips: Any, rhs: Any, weights: Any, size: Any, codes: Any, peaks: Any, q: int, begin: int,
    end: int
) -> None:  # fmt: skip
    rows, columns, lanes = size
    low = high = end
    if q > 0 and (q + 1) * lanes < rows:
        low = min(max(begin, lanes), end)
        high = max(min(columns - 1, end), low)
    if begin < low:
        _border(strips, rhs, weights, size, codes, peaks, q, begin, low)
    if low < high:
        _inside(strips, rhs, weights, size, codes, peaks, q, low, high)
    if high < end:
        _border(strips, rhs, weights, size, codes, peaks, q, high, end)


def _relax(
    strips: Any, rhs: Any, weights: Any, size: Any, codes: Any, peaks: Any, sweeps: int,
    levels: Any, times: Any
) -> None:  # fmt: skip
    """The part of some sweeps that has these levels and times.

    Parameters
    ----------
    strips, rhs : array, 1-d
        The strips one after the other; `rhs` may be None.
    weights : array (2,)
        1 − ω and ω/4.
    size : (rows, columns, lanes)
    codes : array (lanes,) of integers as wide as the numbers
        0, 1, 2, …
    peaks : array (lanes,) of such integers
        Raised to the `magnitude_bits` of the last sweep's updates; may be None.
    levels, times : (int, int)
        Begin and end.
    """
    rows, columns, lanes = size
    count, steps = -(-rows // lanes), columns + lanes - 1
    for time in range(times[0], times[1], _PIECE):
        until = min(time + _PIECE, times[1])
        for level in range(levels[0], levels[1]):
            for sweep in range(max(0, level - count + 1), min(sweeps, level + 1)):
                q = level - sweep
                first = time - lanes * q - sweep
                begin, end = max(1, first), min(steps - 1, first + until - time)
                if begin < end and peaks is not None and sweep == sweeps - 1:
                    _strip(strips, rhs, weights, size, codes, peaks, q, begin, end)
                elif begin < end:
                    _strip(strips, rhs, weights, size, codes, None, q, begin, end)


relax = compile_kernel(_relax, str(FOUR_REGISTERS))
