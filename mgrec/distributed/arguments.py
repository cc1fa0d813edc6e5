"""Argument validation of functions for clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dask.array.core as da
from distributed import Client, default_client

from ..core.arrays.interop import require_native
from ..core.arrays.resets import replace_lengths
from ..core.arrays.validation import as_integer, as_real
from ..core.contract.grid import Swept, Traceback
from ..core.contract.problem import Composed, Problem
from .expressions import as_graphs


def client_of(client: Any) -> Client:
    """Return the client, or the default one for None."""
    if client is None:
        return default_client()
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client; got {type(client).__name__}")
    return client


def name_of(function: Any) -> str:
    """Return the name of a function, for messages."""
    return str(getattr(function, "__name__", repr(function)))


def check_dask_array(name: str, array: Any) -> None:
    if not isinstance(array, da.Array):
        raise TypeError(f"{name} must be a Dask array; got {type(array).__name__}")


def as_timeout(timeout: Any) -> float:
    """Return a number of seconds above 0."""
    seconds = float(as_real("timeout", timeout))
    if not seconds > 0:
        raise ValueError(f"timeout must be above 0 seconds; got {timeout}")
    return seconds


def as_in_flight(in_flight: Any) -> int | None:
    """Return the number of unfinished solves: None, or an integer above 0."""
    if in_flight is None:
        return None
    number = as_integer("in_flight", in_flight)
    if number < 1:
        raise ValueError(f"in_flight must be at least 1, or None; got {in_flight}")
    return number


def problem_of(recurrence: Any, operands: Sequence[Any], options: Mapping[str, Any]) -> Problem | Composed:
    """Return the problem that a call of a function would solve over Dask arrays."""
    operands, options = as_graphs((operands, options))
    if not callable(recurrence):
        raise TypeError(f"recurrence must be a function of mgrec; got {recurrence!r}")
    for operand in operands:
        require_native("operands", operand)
    if not any(isinstance(operand, da.Array) for operand in (*operands, *options.values())):
        raise TypeError("the recurrence needs a Dask array among its operands; got none")
    build = getattr(recurrence, "build", None)
    if build and "lengths" in options:
        options = {**options}
        replace_lengths(options)
    name = name_of(recurrence)
    problem: Problem | Composed = (
        build(*operands, **options) if build else Composed(name, partial(recurrence, *operands, **options))
    )
    if isinstance(problem, Problem):
        _check_grid(problem.recurrence, name)
    return problem


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
