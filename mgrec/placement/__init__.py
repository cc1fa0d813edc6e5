"""Where a recurrence runs: on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any

from ..phases.door import Problem, arrays_of
from . import local


def solve(problem: Problem, memory: str = "stream") -> tuple[Any, ...]:
    """Solve a problem where its arrays are.

    Parameters
    ----------
    problem : Problem
    memory : {"stream", "two-pass"}
        For Dask arrays: see :func:`mgrec.linear_recurrence`.

    Returns
    -------
    tuple of arrays
        Of the kind of the operands.
    """
    if memory not in ("stream", "two-pass"):
        raise ValueError(f"memory must be 'stream' or 'two-pass'; got {memory!r}")
    arrays = (*arrays_of(problem.operands), *problem.initial)
    if any(hasattr(array, "dask") for array in arrays):
        from . import dask

        return dask.solve(problem, memory)
    return local.solve(problem)
