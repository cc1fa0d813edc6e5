"""Where a recurrence runs: on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, ParamSpec

from ..families.problem import Problem
from . import local

Given = ParamSpec("Given")


def solve(problem: Problem) -> Any:
    """Solve a problem where its arrays are, and finish it as the public function returns it."""
    if not problem.is_lazy:
        return problem.finish(*local.solve(problem))
    from .dask.graph import build

    return problem.finish(*build.solve(problem))


def solved(build: Callable[Given, Problem]) -> Callable[Given, Any]:
    """Make a public function of one that builds the problem.

    Plans and ``warm_up`` use the builder, the attribute ``build``.
    """

    def recurrence(*operands: Given.args, **options: Given.kwargs) -> Any:
        return solve(build(*operands, **options))

    update_wrapper(recurrence, build)
    del recurrence.__wrapped__  # type: ignore[attr-defined]
    signature = inspect.signature(build).replace(return_annotation="Any")
    recurrence.__signature__ = signature  # type: ignore[attr-defined]
    recurrence.__annotations__ = {**build.__annotations__, "return": "Any"}
    recurrence.build = build  # type: ignore[attr-defined]
    return recurrence
