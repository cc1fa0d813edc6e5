"""Tridiagonal systems by three recurrences, Wakatani's P-scheme.

Gaussian elimination without pivoting, from top to bottom (Wakatani 2012, equations 5 and 6)::

    p_i = du_i / (d_i - dl_i·p_{i-1})
    q_i = (b_i - dl_i·q_{i-1}) / (d_i - dl_i·p_{i-1})
    x_i = q_i - p_i·x_{i+1}

p is a rational recurrence, q and x are linear ones; each has three phases of its own. The chunks
of a Dask array are the processors of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays.kinds import is_lazy
from ..arrays.out import check_out
from ..families.problem import Problem
from ..families.tridiagonal.finite import NAMES, is_all_finite
from ..placement import aligned, solve
from ..placement.functions import concatenate, full_like
from .linear import linear_recurrence
from .rational import rational_recurrence


def solve_by_p_scheme(problem: Problem) -> Any:
    """The unknowns of a problem of tridiagonal systems, without pivoting."""
    system, shape = problem.recurrence, problem.shape
    if problem.out is not None:
        check_out(problem.out, shape, system.dtype, problem.operands)
    # Cut as other methods' systems: no kernel of tridiagonal systems is called.
    cut = replace(problem, recurrence=replace(system, method="auto"))
    if system.length == 0:
        return solve(cut)
    dl, d, du, b = _inside(problem, aligned(cut))
    axis = system.axis - len(shape)
    options = {"axis": axis, "memory": problem.memory}
    with np.errstate(all="ignore"):
        p = rational_recurrence(0, du, -dl, d, 0, **options)
        pivots = _checked(_check_pivots, d - dl * _after_0(p, axis), system, len(shape))
        q = linear_recurrence(-dl / pivots, b / pivots, **options)
        return linear_recurrence(-p, q, reverse=True, out=problem.out, **options)


def _inside(problem: Problem, operands: Sequence[Any]) -> list[Any]:
    """The operands, 0 outside the matrix and finite if that is asked for; d has all steps."""
    system, ndim = problem.recurrence, len(problem.shape)
    ends = {"dl": slice(1), "du": slice(-1, None)}
    found: list[Any] = []
    for name, operand in zip(NAMES, operands, strict=True):
        if name in ends:
            operand = _without_end(operand, system, ndim, ends[name])
        if system.check_finite:
            operand = _checked(_check_operand, operand, system, ndim, name)
        found.append(operand)
    found[1] = found[1] + _steps_of_0(found, system.axis - ndim)
    return found


def _without_end(operand: Any, system: Any, ndim: int, end: slice) -> Any:
    """dl or du with 0 where it does not count; a constant counts elsewhere."""
    own = system.axis - ndim + operand.ndim
    if system.length == 1:
        return full_like(operand, 0)[()]
    if own < 0 or operand.shape[own] == 1:
        return operand
    inside = operand.copy()
    inside[(slice(None),) * own + (end,)] = 0
    return inside


def _steps_of_0(operands: Sequence[Any], axis: int) -> Any:
    """As many zeros along the axis, which is counted from the end, as there are steps."""
    having = [each for each in operands if each.ndim >= -axis]
    longest = max(having, key=lambda each: each.shape[axis])
    kept = [slice(1)] * longest.ndim
    kept[axis] = slice(None)
    return full_like(longest[tuple(kept)], 0)


def _after_0(p: Any, axis: int) -> Any:
    """p one step later, and 0 at the first."""
    ahead: tuple[Any, ...] = (slice(None),) * (p.ndim + axis)
    first, others = p[(*ahead, slice(1))], p[(*ahead, slice(-1))]
    later = concatenate([full_like(first, 0), others], axis)
    return later.rechunk(p.chunks) if is_lazy(p) else later


def _checked(check: Callable[..., Any], array: Any, *about: Any) -> Any:
    """What a check makes of an array, or lazily of each of its blocks."""
    if is_lazy(array):
        return array.map_blocks(check, *about, dtype=array.dtype, meta=array._meta)
    return check(array, *about)


def _check_operand(block: Any, system: Any, ndim: int, name: str, block_info: Any = None) -> Any:
    """The block, if it holds neither nan nor inf."""
    if not is_all_finite(block):
        rhs_axis = None if name == "b" else system.rhs_axis
        place = _place(~np.isfinite(block), block_info)
        index = _without(place, [rhs_axis], ndim)
        where = f" at index {index}" if index else ""
        raise ValueError(f"{name} must hold no nan or inf{where}; see check_finite")
    return block


def _check_pivots(block: Any, system: Any, ndim: int, block_info: Any = None) -> Any:
    """The block, if it holds no 0, with nan for inf: it would leave no trace in the unknowns."""
    if (block == 0).any():
        place = _place(block == 0, block_info)
        index = _without(place, [system.axis, system.rhs_axis], ndim)
        raise np.linalg.LinAlgError(
            f"{f'system {index}' if index else 'the system'} has a pivot of 0 in row "
            f"{place[system.axis - ndim]}: method 'p-scheme' does not pivot. method='auto' does, "
            f"and says whether the system is singular"
        )
    with np.errstate(invalid="ignore"):
        return block + (block - block)


def _place(is_found: Any, block_info: Any) -> tuple[int, ...]:
    """Where the first one is, in the whole array."""
    own = np.unravel_index(int(is_found.argmax()), is_found.shape)
    location = block_info[0]["array-location"] if block_info else [(0, 0)] * len(own)
    return tuple(int(k) + int(start) for k, (start, _) in zip(own, location, strict=True))


def _without(place: tuple[int, ...], axes: list[int | None], ndim: int) -> tuple[int, ...]:
    """An index without some axes of a result of `ndim` axes."""
    lacking = ndim - len(place)
    return tuple(k for axis, k in enumerate(place, lacking) if axis not in axes)
