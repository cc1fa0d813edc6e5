"""Argument validation of functions for clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dask.array.core as da
from distributed import Client, default_client

from ...core.arrays.interop import require_native
from ...core.contract.grid import Grid, Swept, Traceback
from ...core.contract.problem import Composed, Problem
from ...core.contract.recurrence import AlongAxis
from ..expressions import as_graphs


def client_of(client: Any) -> Client:
    """Return the client, or the default one for None."""
    if client is None:
        return default_client()
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client; got {type(client).__name__}")
    return client


def check_dask_array(name: str, array: Any) -> None:
    if not isinstance(array, da.Array):
        raise TypeError(f"{name} must be a Dask array; got {type(array).__name__}")


def problem_of(
    recurrence: Any,
    operands: Sequence[Any],
    options: Mapping[str, Any],
    *,
    may_be_grid: bool = False,
) -> Problem:
    """Return the problem that a call of a public function would solve over Dask arrays.

    It must go along an axis, or over a grid if `may_be_grid`.
    """
    operands, options = as_graphs((operands, options))
    if not callable(recurrence):
        raise TypeError(f"recurrence must be a function of mgrec; got {recurrence!r}")
    for operand in operands:
        require_native("operands", operand)
    if not any(isinstance(operand, da.Array) for operand in (*operands, *options.values())):
        raise TypeError("the recurrence needs a Dask array among its operands; got none")
    build = getattr(recurrence, "build", None)
    problem = build(*operands, **options) if build else None
    if isinstance(problem, Composed):
        raise TypeError(
            f"recurrence must be one recurrence here; got {problem.name}, which is several, one "
            f"after the other: plan or solve them one by one"
        )
    solved = getattr(problem, "recurrence", None)
    name = getattr(recurrence, "__name__", recurrence)
    if may_be_grid:
        _check_grid(solved, name)
    topologies = (AlongAxis, Grid) if may_be_grid else AlongAxis
    if isinstance(problem, Problem) and isinstance(solved, topologies):
        return problem
    grids = ", or over a grid once, such as summed_area_table" if may_be_grid else ""
    raise TypeError(
        f"recurrence must be a function that solves one recurrence along an axis, such as "
        f"linear_recurrence, scan or lfilter{grids}; got {name}"
    )


def _check_grid(recurrence: Any, name: str) -> None:
    """Raise TypeError if tiles are visited more than once."""
    if isinstance(recurrence, Traceback):
        raise TypeError(
            f"output of {name} must be 'score' or 'matrix' here; got 'alignment', whose path goes "
            f"back over the tiles: call {name} itself, which gives a value to compute()"
        )
    if isinstance(recurrence, Swept):
        raise TypeError(
            f"recurrence must go over its grid once here; got {name}, which sweeps it several "
            f"times: call {name} itself, which gives a Dask array to persist()"
        )
