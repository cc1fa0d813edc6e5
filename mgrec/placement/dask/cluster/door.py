"""The door of cluster functions: checks of their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dask.array.core as da
from distributed import Client, default_client

from ....families.family import AlongAxis
from ....families.problem import Composed, Problem
from ...expressions import as_graphs


def client_of(client: Any) -> Client:
    """The client that was given, or the default one."""
    if client is None:
        return default_client()
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client; got {type(client).__name__}")
    return client


def check_dask_array(name: str, array: Any) -> None:
    if not isinstance(array, da.Array):
        raise TypeError(f"{name} must be a Dask array; got {type(array).__name__}")


def problem_of(recurrence: Any, operands: Sequence[Any], options: Mapping[str, Any]) -> Problem:
    """The problem that a call of a public function would solve along an axis of Dask arrays."""
    operands, options = as_graphs((operands, options))
    if not callable(recurrence):
        raise TypeError(f"recurrence must be a function of mgrec; got {recurrence!r}")
    if not any(isinstance(operand, da.Array) for operand in (*operands, *options.values())):
        raise TypeError("the recurrence needs a Dask array among its operands; got none")
    build = getattr(recurrence, "build", None)
    problem = build(*operands, **options) if build else None
    if isinstance(problem, Composed):
        raise TypeError(
            f"recurrence must be one recurrence here; got {problem.name}, which is several, one "
            f"after the other: plan or solve them one by one"
        )
    if not isinstance(problem, Problem) or not isinstance(problem.recurrence, AlongAxis):
        raise TypeError(
            "recurrence must be a function that solves one recurrence along an axis, such as "
            f"linear_recurrence, scan or lfilter; got {getattr(recurrence, '__name__', recurrence)}"
        )
    return problem
