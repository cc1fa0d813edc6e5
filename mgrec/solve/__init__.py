"""Where a recurrence runs: on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, ParamSpec

from ..core.arrays.array_types import is_lazy
from ..core.arrays.interop import NonNativeArray
from ..core.contract.problem import Composed, Problem
from ..distributed.expressions import keeps_kind
from . import local
from .foreign import at_home, takes_foreign
from .labelled import solve_beside, solve_labelled, solve_pair
from .replays import Function, is_awaited, keep, replayed

__all__ = [
    "aligned",
    "solve",
    "solve_beside",
    "solve_labelled",
    "solve_pair",
    "solved",
    "solved_by_kind",
    "takes_foreign",
]

Given = ParamSpec("Given")


def solve(problem: Problem | Composed) -> Any:
    """Solve a problem where its arrays are, and finish it as the public function returns it."""
    if isinstance(problem, Composed):
        return problem.solve()
    if not problem.is_lazy:
        return problem.to_return_value(*local.solve(problem))
    from ..distributed.graph import build

    return problem.to_return_value(*build.solve(problem))


def aligned(problem: Problem) -> list[Any]:
    """The operands of a problem, cut like its result where that is lazy; scalars as they are."""
    operands = problem.operands
    if problem.is_lazy:
        from ..distributed.graph import build

        operands = build.cut(problem).blocks
    return [
        given[()] if given.ndim == 0 and not is_lazy(given) else own
        for given, own in zip(problem.operands, operands, strict=True)
    ]


def solved(
    build: Callable[Given, Problem | Composed], labelled: Callable[..., Any] = solve_labelled
) -> Callable[Given, Any]:
    """Make a public function of one that builds the problem.

    Plans and ``warm_up`` use the builder, the attribute ``build``; `labelled` is that of
    :func:`takes_foreign`.
    """

    @keeps_kind
    def recurrence(*operands: Given.args, **options: Given.kwargs) -> Any:
        try:
            return solve(build(*operands, **options))
        except NonNativeArray as error:
            met = error
        return at_home(recurrence, operands, options, met, labelled)

    return _public(recurrence, build, labelled)


def solved_by_kind(
    build: Callable[Given, Problem | Composed],
    *,
    by_value: Sequence[str] = (),
    by_numbers: bool = True,
    is_on_host: bool = True,
) -> Callable[Given, Any]:
    """The same where a recurrence can be solved ``again``: calls of a kind are prepared once.

    Parameters
    ----------
    build : callable
    by_value : sequence of str
        Parameters whose numbers are known when calls are prepared: kinds differ where these do.
    by_numbers : bool
        So it is with numbers beside arrays. Otherwise those among operands and states tell no
        kinds: kernels take them as they come.
    is_on_host : bool
        Calls of NumPy arrays are prepared as well, not those of CuPy arrays alone.
    """
    function = Function.of(build, by_value, by_numbers, is_on_host)
    labelled = partial(solve_labelled, by_value=by_value)

    @keeps_kind
    def recurrence(*operands: Given.args, **options: Given.kwargs) -> Any:
        try:
            call = function.call(operands, options)
            if call is not None and (found := replayed(call)) is not None:
                return found[0]
            problem = build(*operands, **options)
            result = solve(problem)
            if call is not None and is_awaited(call) and isinstance(problem, Problem):
                keep(call, *function.ordered(operands, options, call), problem, result)
            return result
        except NonNativeArray as error:
            met = error
        return at_home(recurrence, operands, options, met, labelled)

    return _public(recurrence, build, labelled)


def _public(recurrence: Any, build: Any, labelled: Callable[..., Any]) -> Any:
    """A function as its builder is documented."""
    update_wrapper(recurrence, build)
    del recurrence.__wrapped__
    recurrence.__signature__ = inspect.signature(build).replace(return_annotation="Any")
    recurrence.__annotations__ = {**build.__annotations__, "return": "Any"}
    recurrence.build, recurrence.labelled = build, labelled
    return recurrence
