"""Where a recurrence runs: on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arrays.door import Problem, arrays_of
from ..arrays.kinds import is_on_gpu
from . import local

METHODS = ("auto", "single-pass", "p-scheme")


def solve(
    problem: Problem, memory: str = "stream", method: str = "auto", out: Any = None
) -> tuple[Any, ...]:
    """Solve a problem where its arrays are.

    Parameters
    ----------
    problem : Problem
    memory : {"stream", "two-pass"}
        For Dask arrays: see :func:`mgrec.linear_recurrence`.
    method : {"auto", "single-pass", "p-scheme"}
        The kernels of a GPU: see :func:`mgrec.linear_recurrence`.
    out : array, or tuple of one a scalar of the state, optional
        Where to write the results; not for Dask arrays.

    Returns
    -------
    tuple of arrays
        Of the kind of the operands.
    """
    if memory not in ("stream", "two-pass"):
        raise ValueError(f"memory must be 'stream' or 'two-pass'; got {memory!r}")
    arrays = (*arrays_of(problem.operands), *problem.initial)
    _check_method(method, arrays)
    if any(hasattr(array, "dask") for array in arrays):
        if out is not None:
            raise TypeError("out must be None where an operand is a Dask array: results are lazy")
        from .dask.graph import build as dask

        return dask.solve(problem, memory, method)
    return local.solve(problem, method, out)


def _check_method(method: str, arrays: Sequence[Any]) -> None:
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; got {method!r}")
    if method != "auto" and not any(map(is_on_gpu, arrays)):
        raise ValueError(
            f"method must be 'auto' for arrays in host memory; got {method!r}, which names "
            f"kernels of a GPU"
        )
