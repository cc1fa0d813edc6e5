"""The cell of a wavefront loop, and its operators, compiled for a dtype."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....core.algebra.fingerprint import StepFunction, require_unchanged
from ....core.algebra.operators import Operators
from ....engines.cpu.compilation import INNER, compile_step


def operator_of(operator: str | StepFunction, number: Any) -> Any:
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
        return a if (a >= b) | (a != a) else b

    @numba.njit(**INNER)
    def smaller(a: Any, b: Any) -> Any:
        return a if (a <= b) | (a != a) else b

    return {"+": plus, "*": times, "max": larger, "min": smaller}[operator]


@numba.njit(**INNER)
def row_of(operands: Any, i: int) -> Any:
    """Row i of `local` and of the weights, with their steps along it, for unsigned indices."""
    (local, b0, b1, b2), ((i0, j0), (i1, j1), (i2, j2)) = operands
    steps = np.uintp(j0), np.uintp(j1), np.uintp(j2)
    return local[i], b0[i * i0], b1[i * i1], b2[i * i2], steps


def cell_of(operators: Operators, number: Any) -> Any:
    """One cell, compiled for two operators and a dtype."""
    accumulate = operator_of(operators.accumulate, number)
    distribute = operator_of(operators.distribute, number)
    larger = operator_of("max", number)

    @numba.njit(**INNER)
    def cell(left: Any, up: Any, corner: Any, row: Any, j: Any, floor: Any, has_floor: bool) -> Any:
        term, b0, b1, b2, (j0, j1, j2) = row
        value = accumulate(distribute(left, b0[j * j0]), distribute(up, b1[j * j1]))
        value = accumulate(value, distribute(corner, b2[j * j2]))
        value = accumulate(value, term[j])
        return larger(value, floor) if has_floor else value

    return cell
