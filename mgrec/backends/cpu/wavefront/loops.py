"""Wavefront loops of any weights and operators, for one tile in host memory.

A tile of several threads is cut into smaller ones; those of an antidiagonal run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numba
import numpy as np

from ....algebra.fingerprint import StepFunction, require_unchanged
from ....algebra.operators import Operators
from ....families.wavefront.loops.recurrence import Borders, Loop
from ..compilation.kernels import INNER, KEPT, compile_kernel, writable
from ..compilation.steps import compile_step
from ..threads import cuts, threads_for, together

_TILE = 256  # rows and columns

Part = tuple[int, int, int, int, int, int]
"""Begin and end of grids, of rows and of columns."""


def determine_loop(
    loop: Loop,
    local: np.ndarray,
    weights: Sequence[np.ndarray],
    borders: Borders,
    table: np.ndarray,
    is_shared: bool,
) -> None:
    """Write the table of a tile.

    Parameters
    ----------
    local : array (..., rows, columns)
    weights : three arrays that broadcast to `local`'s shape
        As many axes; those of length 1 are not expanded.
    borders : Borders
        Around the tile.
    table : array (..., rows, columns)
        Written.
    """
    if table.size == 0:
        return
    rows, columns = table.shape[-2:]
    whole = table if table.flags.c_contiguous else np.empty(table.shape, table.dtype)
    results = whole.reshape(-1, rows, columns)
    operands = tuple(_grids(operand, table.shape[:-2]) for operand in (local, *weights))
    strides = tuple(tuple(int(n > 1) for n in operand.shape) for operand in operands[1:])
    around = borders.row.reshape(-1, columns + 1), borders.column.reshape(-1, rows + 1)
    floor = table.dtype.type(0 if loop.floor is None else loop.floor)
    kernel = _kernel(loop.operators, table.dtype)
    run = partial(kernel, results, operands, strides, around, floor, loop.floor is not None)
    threads = threads_for(table.size) if is_shared else 1
    for parts in _parts(results.shape, threads):
        together([partial(_all, run, parts[a:b]) for a, b in cuts(len(parts), threads)])
    if whole is not table:
        table[...] = whole


def _all(run: Any, parts: Sequence[Part]) -> None:
    for part in parts:
        run(part)


def _grids(operand: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """An operand (grids, rows, columns); any may be 1."""
    if any(n != 1 for n in operand.shape[:-2]):
        operand = np.broadcast_to(operand, (*batch, *operand.shape[-2:]))
    return writable(np.ascontiguousarray(operand.reshape(-1, *operand.shape[-2:])))


def _parts(shape: tuple[int, ...], threads: int) -> Iterator[list[Part]]:
    """Parts that need nothing of each other, list by list."""
    grids, rows, columns = shape
    if grids >= threads:
        yield [(a, b, 0, rows, 0, columns) for a, b in cuts(grids, threads)]
        return
    down, right = (cuts(n, -(-n // _TILE)) for n in (rows, columns))
    for diagonal in range(len(down) + len(right) - 1):
        first, end = max(0, diagonal - len(right) + 1), min(diagonal + 1, len(down))
        yield [(0, grids, *down[i], *right[diagonal - i]) for i in range(first, end)]


def _operator(operator: str | StepFunction, number: Any) -> Any:
    """An operator of two numbers of a dtype; numba would widen integers."""
    if isinstance(operator, StepFunction):
        require_unchanged("pair of operators", operator.fingerprint, operator.function)
        step = compile_step(operator.function)

        @numba.njit(**INNER)
        def own(a: Any, b: Any) -> Any:
            return number(step(a, b))

        return own

    @numba.njit(**INNER)
    def plus(a: Any, b: Any) -> Any:
        return number(a + b)

    @numba.njit(**INNER)
    def times(a: Any, b: Any) -> Any:
        return number(a * b)

    @numba.njit(**INNER)
    def larger(a: Any, b: Any) -> Any:
        return np.maximum(a, b)

    @numba.njit(**INNER)
    def smaller(a: Any, b: Any) -> Any:
        return np.minimum(a, b)

    return {"+": plus, "*": times, "max": larger, "min": smaller}[operator]


@lru_cache(maxsize=KEPT)
def _kernel(operators: Operators, dtype: np.dtype[Any]) -> Any:
    """The loop over a part, compiled for two operators and a dtype."""
    number = dtype.type
    accumulate = _operator(operators.accumulate, number)
    distribute = _operator(operators.distribute, number)
    larger = _operator("max", number)

    def run(
        table: Any, operands: Any, strides: Any, around: Any, floor: Any, has_floor: bool, part: Any
    ) -> None:
        local, b0, b1, b2 = operands
        over, beside = around
        (k0, i0, j0), (k1, i1, j1), (k2, i2, j2) = strides
        first_k, end_k, first, end, begin, last = part
        for k in range(first_k, end_k):
            for i in range(first, end):
                above = table[k, i - 1] if i > 0 else over[k, 1:]
                left = table[k, i, begin - 1] if begin > 0 else beside[k, i + 1]
                corner = above[begin - 1] if begin > 0 else beside[k, i]
                w0, w1, w2 = b0[k * k0, i * i0], b1[k * k1, i * i1], b2[k * k2, i * i2]
                term, row = local[k, i], table[k, i]
                for j in range(begin, last):
                    up = above[j]
                    value = accumulate(distribute(left, w0[j * j0]), distribute(up, w1[j * j1]))
                    value = accumulate(value, distribute(corner, w2[j * j2]))
                    value = accumulate(value, term[j])
                    if has_floor:
                        value = larger(value, floor)
                    row[j] = value
                    left, corner = value, up

    pair = operators.accumulate, operators.distribute
    names = [each if isinstance(each, str) else each.fingerprint for each in pair]
    return compile_kernel(run, *names, dtype.str)
