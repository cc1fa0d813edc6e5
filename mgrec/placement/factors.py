"""Factored tridiagonal matrices where they are: in host memory, or nowhere yet."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..arrays.kinds import is_on_gpu
from ..arrays.out import check_out
from ..families.family import Pack, Shape
from ..families.problem import Problem
from ..families.tridiagonal.finite import check_operands, is_all_finite
from ..families.tridiagonal.singular import named


def factor(problem: Problem) -> Any:
    """The factors of a problem's matrices; None where their systems are solved anew instead.

    That is for arrays of Dask and on a GPU, periodic systems, and matrices whose factors overflow.

    Raises
    ------
    numpy.linalg.LinAlgError
        A matrix is singular, or so close to it that a pivot is 0.
    """
    system, shape = problem.recurrence, problem.shape
    if problem.is_lazy or any(map(is_on_gpu, problem.operands)):
        return None
    starts = (0,) * len(shape)
    if system.check_finite:
        check_operands(system, Pack(problem.operands, starts, starts), shape)
    if system.is_periodic or system.length == 0:
        return None
    from ..backends.cpu.tridiagonal.factor import matrices

    layout = prod(shape[: system.axis]), shape[system.axis], prod(shape[system.axis + 1 :])
    diagonals = (
        np.array(np.broadcast_to(diagonal, shape).reshape(layout), order="C")
        for diagonal in problem.operands[:3]
    )
    with named(system, starts, shape), np.errstate(all="ignore"):
        own = matrices.factored(*diagonals)
    return own if own.is_finite else None


def solve(own: Any, of: Shape, problem: Problem) -> Any:
    """x for the right-hand sides of a problem, or None where it is to be solved anew.

    Parameters
    ----------
    own : what `factor` returned
    of : tuple of int
        The shape of its matrices, with as many axes as the result has.
    problem : Problem
    """
    from ..backends.cpu.tridiagonal.factor import matrices

    shape, axis, b = problem.shape, problem.recurrence.axis, problem.operands[3]
    layout = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    if not matrices.is_worth(layout[0] * layout[2], prod(shape)):
        return None
    out = check_out(problem.out, shape, b.dtype, problem.operands)
    x = out[0] if out else np.empty(shape, b.dtype)
    outer, inner = _index(of[:axis], shape[:axis]), _index(of[axis + 1 :], shape[axis + 1 :])
    sides = np.ascontiguousarray(b if b.shape == shape else np.broadcast_to(b, shape))
    with np.errstate(all="ignore"):
        matrices.solve(own, outer, inner, sides.reshape(layout), x.reshape(layout))
    # What holds nan or inf, or overflows, is that of a solve.
    return x if is_all_finite(x) else None


def _index(own: Shape, shape: Shape) -> np.ndarray:
    """The index, in C order, in an array that broadcasts to a shape, of each place of it."""
    index = np.arange(prod(own), dtype=np.int64)
    if own == shape:
        return index
    index = index.reshape(own)
    return np.ascontiguousarray(np.broadcast_to(index, shape)).reshape(-1)
