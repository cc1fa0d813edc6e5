"""Where a recurrence runs: on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, ParamSpec

from ..arrays.kinds import is_lazy
from ..families.problem import Composed, Problem
from . import local
from .expressions import keeps_kind
from .replays import call_of, keep, ordered_leaves, replayed

Given = ParamSpec("Given")


def solve(problem: Problem | Composed) -> Any:
    """Solve a problem where its arrays are, and finish it as the public function returns it."""
    if isinstance(problem, Composed):
        return problem.solve()
    if not problem.is_lazy:
        return problem.finish(*local.solve(problem))
    from .dask.graph import build

    return problem.finish(*build.solve(problem))


def aligned(problem: Problem) -> list[Any]:
    """The operands of a problem, cut like its result where that is lazy; scalars as they are."""
    operands = problem.operands
    if problem.is_lazy:
        from .dask.graph import build

        operands = build.cut(problem).blocks
    return [
        given[()] if given.ndim == 0 and not is_lazy(given) else own
        for given, own in zip(problem.operands, operands, strict=True)
    ]


def solved(build: Callable[Given, Problem | Composed]) -> Callable[Given, Any]:
    """Make a public function of one that builds the problem.

    Plans and ``warm_up`` use the builder, the attribute ``build``.
    """

    @keeps_kind
    def recurrence(*operands: Given.args, **options: Given.kwargs) -> Any:
        return solve(build(*operands, **options))

    return _public(recurrence, build)


def solved_by_kind(
    build: Callable[Given, Problem | Composed], *, by_numbers: bool = True
) -> Callable[Given, Any]:
    """The same where a recurrence can be solved ``again``: calls of a kind are prepared once.

    `by_numbers`: numbers are of different kinds where their values differ. Otherwise those among
    operands and states are not: kernels take them as they come.
    """

    @keeps_kind
    def recurrence(*operands: Given.args, **options: Given.kwargs) -> Any:
        call = call_of(build, operands, options, by_numbers)
        if call is not None and (found := replayed(call)) is not None:
            return found
        problem = build(*operands, **options)
        result = solve(problem)
        if call is not None and isinstance(problem, Problem):
            keep(call, *ordered_leaves(build, operands, options, call), problem, result)
        return result

    return _public(recurrence, build)


def _public(recurrence: Any, build: Any) -> Any:
    """A function as its builder is documented."""
    update_wrapper(recurrence, build)
    del recurrence.__wrapped__
    recurrence.__signature__ = inspect.signature(build).replace(return_annotation="Any")
    recurrence.__annotations__ = {**build.__annotations__, "return": "Any"}
    recurrence.build = build
    return recurrence
