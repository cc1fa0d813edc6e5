"""Whole systems by Gaussian elimination, one in each lane.

A method of elimination is four functions of a row. What they hold and keep is numbers::

    start(zero) -> held
    eliminate(row, held) -> (held, kept)
    finish(held) -> (kept, flag, nan_seen)
    substitute(kept, unknowns) -> unknowns

`eliminate` may keep what belongs to the row before: `finish` comes after the last row, and
`substitute` reads what was kept after a row. `unknowns` are the row's, the one after it and
`nan_seen`, which is added to all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from ....engines.cpu.compilation import INNER, compile_kernel
from ..memory import keep, recall, width_of
from ..numbers import constant
from .tiles import (
    HALVES,
    HELD,
    KEPT,
    RESULT,
    ROWS,
    choose_group,
    drain_tile,
    fill_tile,
    find_systems,
    pointers_of,
    tile_at,
    tile_begin,
    tile_start,
    view_of,
    work_of,
)


class Method(NamedTuple):
    """Functions of a row, and `check` of the flags of solved systems: a singular one, or -1."""

    name: str
    start: Callable[..., Any]
    eliminate: Callable[..., Any]
    finish: Callable[..., Any]
    substitute: Callable[..., Any]
    check: Callable[..., Any]


@numba.njit(**INNER)
def keep_all(pointer: Any, at: int, numbers: Any) -> None:
    lanes = width_of(pointer)
    for k in range(len(numbers)):
        keep(pointer, at + k * lanes, numbers[k])


@numba.njit(**INNER)
def _held(work: Any, half: int) -> Any:
    held, lanes = work.held, width_of(work.held)
    at = half * HELD * lanes
    first = recall(held, at), recall(held, at + lanes), recall(held, at + 2 * lanes)
    return *first, recall(held, at + 3 * lanes), recall(held, at + 4 * lanes)


@numba.njit(**INNER)
def _kept(work: Any, at: int) -> Any:
    pivots, lanes = work.pivots, width_of(work.pivots)
    return recall(pivots, at), recall(pivots, at + lanes), recall(pivots, at + 2 * lanes)


@numba.njit(**INNER)
def _row(tile: Any, half: int, row: int) -> Any:
    first = tile_at(tile, half, 0, row), tile_at(tile, half, 1, row)
    return *first, tile_at(tile, half, 2, row), tile_at(tile, half, 3, row)


def _ways_there(method: Method) -> tuple[Any, Any]:
    """Compiled functions that begin a group of systems and eliminate a tile of it."""
    start, eliminate = method.start, method.eliminate

    @numba.njit(**INNER)
    def begin_group(group: int, view: Any, work: Any) -> None:
        choose_group(group, view, work)
        find_systems(view, work)
        held = start(constant(recall(work.tile, 0), 0.0))
        for half in range(HALVES):
            keep_all(work.held, half * HELD * width_of(work.tile), held)

    @numba.njit(**INNER)
    def eliminate_tile(view: Any, work: Any, begin: int, end: int) -> None:
        size = KEPT * width_of(work.tile)
        fill_tile(view, work, begin, end)
        lower, upper = _held(work, 0), _held(work, 1)
        for row in range(end - begin):
            at = HALVES * (begin + row) * size
            lower, kept = eliminate(_row(work.tile, 0, row), lower)
            keep_all(work.pivots, at, kept)
            upper, kept = eliminate(_row(work.tile, 1, row), upper)
            keep_all(work.pivots, at + size, kept)
        lanes = width_of(work.tile)
        keep_all(work.held, 0, lower)
        keep_all(work.held, HELD * lanes, upper)

    return begin_group, eliminate_tile


def _ways_back(method: Method) -> tuple[Any, Any]:
    """Compiled functions that turn at the last row, and substitute in a tile."""
    finish, substitute = method.finish, method.substitute

    @numba.njit(**INNER)
    def turn_back(view: Any, work: Any) -> None:
        lanes = width_of(work.tile)
        zero = constant(recall(work.tile, 0), 0.0)
        for half in range(HALVES):
            kept, flag, nan_seen = finish(_held(work, half))
            keep_all(work.pivots, (HALVES * view.steps + half) * KEPT * lanes, kept)
            keep(work.flags, half * lanes, flag)
            keep_all(work.held, half * HELD * lanes, (zero, zero, nan_seen))

    @numba.njit(**INNER)
    def substitute_tile(view: Any, work: Any, begin: int, end: int) -> None:
        lanes = width_of(work.tile)
        size, unknowns = KEPT * lanes, tile_start(0, RESULT, lanes)
        others = tile_start(1, RESULT, lanes)
        lower, upper = _held(work, 0)[:3], _held(work, 1)[:3]
        for row in range(end - begin - 1, -1, -1):
            at = HALVES * (begin + row + 1) * size
            lower = substitute(_kept(work, at), lower)
            keep(work.tile, unknowns + row * lanes, lower[0] + lower[2])
            upper = substitute(_kept(work, at + size), upper)
            keep(work.tile, others + row * lanes, upper[0] + upper[2])
        drain_tile(view, work, begin, end)
        keep_all(work.held, 0, lower)
        keep_all(work.held, HELD * lanes, upper)

    return turn_back, substitute_tile


def kernel_of(method: Method) -> Any:
    """A kernel ``(operands, layout, work, count, begin, end, result) -> a singular system``.

    Parameters of the kernel
    ------------------------
    operands : four arrays, 1-d
    layout : Layout
    work : Work
    count : int
        Groups whose tiles are solved in turn.
    begin, end : int
        Groups of systems.
    result : array, 1-d
        Its axes are (outer, steps, inner), contiguous.

    The system is -1 where none is singular.
    """
    begin_group, eliminate_tile = _ways_there(method)
    turn_back, substitute_tile = _ways_back(method)
    check = method.check

    def solve(
        operands: Any, layout: Any, work: Any, count: int, begin: int, end: int, result: Any
    ) -> int:
        least = np.finfo(work.flags.dtype).tiny
        view, own, found = view_of(operands, layout, result), pointers_of(work), -1
        steps = view.steps
        tiles = -(-steps // ROWS)
        for first in range(begin, end, count):
            groups = min(count, end - first)
            for g in range(groups):
                begin_group(first + g, view, work_of(g, own, steps))
            for k in range(tiles):
                for g in range(groups):
                    rows = tile_begin(k, steps), tile_begin(k + 1, steps)
                    eliminate_tile(view, work_of(g, own, steps), *rows)
            for g in range(groups):
                turn_back(view, work_of(g, own, steps))
            for k in range(tiles - 1, -1, -1):
                for g in range(groups):
                    rows = tile_begin(k, steps), tile_begin(k + 1, steps)
                    substitute_tile(view, work_of(g, own, steps), *rows)
            for g in range(groups):
                found = max(found, check(view, work_of(g, own, steps), least))
        return found

    return compile_kernel(solve, method.name)
