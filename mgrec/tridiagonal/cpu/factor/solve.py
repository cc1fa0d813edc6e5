"""Solve with the factors of :mod:`.eliminate`: one line after the other, or lines side by side."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import INNER, compile_kernel

# Lines side by side: what a tile of them holds stays in the L1 cache.
TILE = 256


@numba.njit(**INNER)
def _chosen(is_swapped: Any, held: Any, new: Any) -> Any:
    """The right-hand sides of the pivot and of the other row."""
    return (new, held) if is_swapped else (held, new)


@numba.njit(**INNER)
def _eliminate_line(
    factor: Any, swaps: bool, own: Any, b: Any, x: Any, at: Any, middle: int
) -> Any:
    """The right-hand sides of the two rows in the middle; those of all pivots are left in x."""
    multiplier, inverse, _, _, is_swapped = factor
    (p, q), (o, k), last = own, at, b.shape[1] - 1
    down, up = b[o, 0, k], b[o, last, k]
    for i in range(last - 1 - middle):
        j = last - i
        pivot, other = up, b[o, j - 1, k]
        if swaps:
            pivot, other = _chosen(is_swapped[p, j, q], pivot, other)
        x[o, j, k] = pivot * inverse[p, j, q]
        up = other - multiplier[p, j, q] * pivot
        if i < middle:
            pivot, other = down, b[o, i + 1, k]
            if swaps:
                pivot, other = _chosen(is_swapped[p, i, q], pivot, other)
            x[o, i, k] = pivot * inverse[p, i, q]
            down = other - multiplier[p, i, q] * pivot
    return down, up


@numba.njit(**INNER)
def _substitute_line(factor: Any, swaps: bool, own: Any, x: Any, at: Any, middle: int) -> None:
    """The unknowns to both sides of the two in the middle."""
    _, _, after, second, _ = factor
    (p, q), (o, k) = own, at
    down, up = x[o, middle, k], x[o, middle + 1, k]
    before, beyond = up, down
    for i in range(x.shape[1] - 2 - middle):
        j, h = middle + 2 + i, middle - 1 - i
        value = x[o, j, k] - after[p, j, q] * up
        if swaps:
            value = value - second[p, j, q] * beyond
        x[o, j, k], up, beyond = value, value, up
        if h >= 0:
            value = x[o, h, k] - after[p, h, q] * down
            if swaps:
                value = value - second[p, h, q] * before
            x[o, h, k], down, before = value, value, down


def _solve_lines(
    factor: Any, swaps: bool, of: Any, b: Any, x: Any, middle: int, begin: int, end: int
) -> None:
    """Solve the lines `begin` to `end`, from both ends at once.

    Parameters
    ----------
    factor : five arrays (outer, steps, inner)
    swaps : bool
        Whether any row was exchanged.
    of : two arrays of int64
        The outer and the inner index in the factor of each of `b`.
    b, x : arrays (outer, steps, inner)
        `x` is written.
    middle, begin, end : int
    """
    multiplier, inverse, after, _, is_swapped = factor
    for task in range(begin, end):
        o, k = at = divmod(task, b.shape[2])
        p, q = own = of[0][o], of[1][k]
        pivot, other = _eliminate_line(factor, swaps, own, b, x, at, middle)
        if swaps:
            pivot, other = _chosen(is_swapped[p, middle, q], pivot, other)
        other = (other - multiplier[p, middle, q] * pivot) * inverse[p, middle + 1, q]
        pivot = pivot * inverse[p, middle, q] - after[p, middle, q] * other
        x[o, middle, k], x[o, middle + 1, k] = pivot, other
        _substitute_line(factor, swaps, own, x, at, middle)


@numba.njit(**INNER)
def _eliminate(
    factor: Any, at: Any, swaps: bool, is_same: bool, new: Any, held: Any, out: Any
) -> None:
    """A step of lines side by side, whose held right-hand sides are advanced."""
    o, i, k = at
    multiplier, inverse, _, _, is_swapped = factor
    if is_same:
        m, inv, is_other = multiplier[o, i, 0], inverse[o, i, 0], swaps and is_swapped[o, i, 0]
        for lane in range(out.size):
            pivot = new[lane] if is_other else held[lane]
            other = held[lane] if is_other else new[lane]
            out[lane], held[lane] = pivot * inv, other - m * pivot
        return
    ms, invs = multiplier[o, i, k : k + out.size], inverse[o, i, k : k + out.size]
    if not swaps:
        for lane in range(out.size):
            pivot = held[lane]
            out[lane], held[lane] = pivot * invs[lane], new[lane] - ms[lane] * pivot
        return
    choices = is_swapped[o, i, k : k + out.size]
    for lane in range(out.size):
        pivot, other = held[lane], new[lane]
        pivot, other = (other, pivot) if choices[lane] else (pivot, other)
        out[lane], held[lane] = pivot * invs[lane], other - ms[lane] * pivot


@numba.njit(**INNER)
def _substitute(
    factor: Any, at: Any, swaps: bool, is_same: bool, x: Any, following: Any, second: Any
) -> None:
    """Take what follows the unknowns of a step out of them."""
    o, i, k = at
    if is_same:
        one = factor[2][o, i, 0]
        other = factor[3][o, i, 0] if swaps else one - one
        for lane in range(x.size):
            x[lane] -= one * following[lane]
        if swaps:
            for lane in range(x.size):
                x[lane] -= other * second[lane]
        return
    ones = factor[2][o, i, k : k + x.size]
    for lane in range(x.size):
        x[lane] -= ones[lane] * following[lane]
    if swaps:
        others = factor[3][o, i, k : k + x.size]
        for lane in range(x.size):
            x[lane] -= others[lane] * second[lane]


def _solve_columns(
    factor: Any, swaps: bool, of: Any, b: Any, x: Any, middle: int, begin: int, end: int
) -> None:
    """Solve the tiles `begin` to `end` of lines side by side.

    Parameters
    ----------
    factor, swaps, b, x, middle
        As of `solve_lines`; the factor's inner axis has length 1, or is that of `b`.
    of : array of int64
        The outer index in the factor of each of `b`.
    begin, end : int
    """
    steps, inner = b.shape[1], b.shape[2]
    is_same, tiles = factor[0].shape[2] == 1, -(-inner // TILE)
    held, up = np.empty(TILE, b.dtype), np.empty(TILE, b.dtype)
    for task in range(begin, end):
        o, tile = divmod(task, tiles)
        p, k = of[o], tile * TILE
        stop = min(k + TILE, inner)
        down, above = held[: stop - k], up[: stop - k]
        down[:], above[:] = b[o, 0, k:stop], b[o, steps - 1, k:stop]
        for i in range(middle):
            at, new, out = (p, i, k), b[o, i + 1, k:stop], x[o, i, k:stop]
            _eliminate(factor, at, swaps, is_same, new, down, out)
        for i in range(steps - 1, middle + 1, -1):
            at, new, out = (p, i, k), b[o, i - 1, k:stop], x[o, i, k:stop]
            _eliminate(factor, at, swaps, is_same, new, above, out)
        one, other = x[o, middle, k:stop], x[o, middle + 1, k:stop]
        _eliminate(factor, (p, middle, k), swaps, is_same, above, down, one)
        for lane in range(stop - k):
            other[lane] = down[lane] * factor[1][p, middle + 1, 0 if is_same else k + lane]
        _substitute(factor, (p, middle, k), False, is_same, one, other, other)
        for i in range(middle - 1, -1, -1):
            at, own, one, other = (
                (p, i, k),
                x[o, i, k:stop],
                x[o, i + 1, k:stop],
                x[o, i + 2, k:stop],
            )
            _substitute(factor, at, swaps, is_same, own, one, other)
        for i in range(middle + 2, steps):
            at, own, one, other = (
                (p, i, k),
                x[o, i, k:stop],
                x[o, i - 1, k:stop],
                x[o, i - 2, k:stop],
            )
            _substitute(factor, at, swaps, is_same, own, one, other)


solve_lines = compile_kernel(_solve_lines)
solve_columns = compile_kernel(_solve_columns)
