"""Tridiagonal systems by three recurrences, Wakatani's P-scheme.

Gaussian elimination without pivoting, from top to bottom (Wakatani 2012, equations 5 and 6)::

    p_i = du_i / (d_i - dl_i·p_{i-1})
    q_i = (b_i - dl_i·q_{i-1}) / (d_i - dl_i·p_{i-1})
    x_i = q_i - p_i·x_{i+1}

p is a rational recurrence; q and x are linear ones. Each has three phases. The chunks of a Dask
array are the processors of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy
from ..core.arrays.validation import check_out
from ..core.contract.problem import Problem
from ..scans.functions import linear_recurrence, rational_recurrence
from ..solve import aligned_operands, solve
from ..solve.adjoint import shifted
from ..solve.functions import full_like
from .errors import check_entries, singular_error


def solve_by_p_scheme(problem: Problem) -> Any:
    """Solve the tridiagonal systems of a problem without pivoting."""
    system, shape = problem.recurrence, problem.shape
    if problem.out is not None:
        check_out(problem.out, shape, system.dtype, problem.operands)
    # Operands are aligned as those of other methods: no kernel of tridiagonal systems is called.
    by_auto = replace(problem, recurrence=replace(system, method="auto"))
    if system.length == 0:
        return solve(by_auto)
    dl, d, du, b = _inside(problem, aligned_operands(by_auto))
    axis = system.axis - len(shape)
    options = {"axis": axis, "memory": problem.memory}
    with np.errstate(all="ignore"):
        p = rational_recurrence(0, du, -dl, d, 0, **options)
        pivots = _checked(_check_pivots, d - dl * shifted(p, p.ndim + axis, -1), system, len(shape))
        q = linear_recurrence(-dl / pivots, b / pivots, **options)
        return linear_recurrence(-p, q, reverse=True, out=problem.out, **options)


def _inside(problem: Problem, operands: Sequence[Any]) -> list[Any]:
    """Return the operands with 0 outside the matrix, checked for nan and inf; d has all steps."""
    system, ndim = problem.recurrence, len(problem.shape)
    ends = {0: slice(1), 2: slice(-1, None)}
    inside: list[Any] = []
    for number, operand in enumerate(operands):
        if number in ends:
            operand = _without_end(operand, system, ndim, ends[number])
        if system.check_finite:
            operand = _checked(_check_operand, operand, system, ndim, number)
        inside.append(operand)
    inside[1] = inside[1] + _steps_of_0(inside, system.axis - ndim)
    return inside


def _without_end(operand: Any, system: Any, ndim: int, end: slice) -> Any:
    """Return dl or du with 0 in its ignored entry; a constant is returned unchanged."""
    axis = system.axis - ndim + operand.ndim
    if system.length == 1:
        return full_like(operand, 0)[()]
    if axis < 0 or operand.shape[axis] == 1:
        return operand
    inside = operand.copy()
    inside[(slice(None),) * axis + (end,)] = 0
    return inside


def _steps_of_0(operands: Sequence[Any], axis: int) -> Any:
    """Return zeros for all steps along the axis, which counts from the end."""
    with_axis = [operand for operand in operands if operand.ndim >= -axis]
    longest = max(with_axis, key=lambda operand: operand.shape[axis])
    index = [slice(1)] * longest.ndim
    index[axis] = slice(None)
    return full_like(longest[tuple(index)], 0)


def _checked(check: Callable[..., Any], array: Any, *arguments: Any) -> Any:
    """Apply a check to an array, or lazily to each of its blocks."""
    if is_lazy(array):
        return array.map_blocks(check, *arguments, dtype=array.dtype, meta=array._meta)
    return check(array, *arguments)


def _check_operand(block: Any, system: Any, ndim: int, number: int, block_info: Any = None) -> Any:
    """Return the block; raise ValueError if it contains nan or inf."""
    check_entries(system, number, block, _starts(block, ndim, block_info))
    return block


def _check_pivots(block: Any, system: Any, ndim: int, block_info: Any = None) -> Any:
    """Return the block with nan in place of inf; raise LinAlgError if it contains 0.

    A pivot of inf would have no effect on the unknowns.
    """
    if (block == 0).any():
        position, starts = np.argwhere(block == 0)[0], _starts(block, ndim, block_info)
        position = (0,) * (ndim - block.ndim) + tuple(map(int, position))
        row = position[system.axis] + starts[system.axis]
        raise singular_error(system, position, starts, f" in row {row}")
    with np.errstate(invalid="ignore"):
        return block + (block - block)


def _starts(block: Any, ndim: int, block_info: Any) -> tuple[int, ...]:
    """Return the index of the first element of a block in the result, which has `ndim` axes."""
    location = block_info[0]["array-location"] if block_info else [(0, 0)] * block.ndim
    return (0,) * (ndim - block.ndim) + tuple(int(start) for start, _ in location)
