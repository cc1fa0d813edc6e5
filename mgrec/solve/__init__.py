"""Public functions: solve a problem on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, ParamSpec

from ..core.arrays.array_types import is_lazy
from ..core.arrays.interop import NonNativeArray
from ..core.contract.problem import Composed, Problem
from ..distributed.expressions import accepts_expressions
from . import local
from .interop import call_native, with_interop
from .labelled import solve_labelled, solve_pair, solve_with_factors
from .prepared import call_prepared, prepare, should_prepare
from .signature import SignatureRule

__all__ = [
    "aligned_operands",
    "prepared_function",
    "public_function",
    "solve",
    "solve_labelled",
    "solve_pair",
    "solve_with_factors",
    "with_interop",
]

Arguments = ParamSpec("Arguments")


def solve(problem: Problem | Composed) -> Any:
    """Solve a problem, and return the result of the public function."""
    if isinstance(problem, Composed):
        return problem.solve()
    if not problem.is_lazy:
        return problem.to_return_value(*local.solve(problem))
    from ..distributed.graph import build

    return problem.to_return_value(*build.solve(problem))


def aligned_operands(problem: Problem) -> list[Any]:
    """Return the operands in the chunks of the result, if it is lazy; scalars are unchanged."""
    operands = problem.operands
    if problem.is_lazy:
        from ..distributed.graph.aligned import align_problem

        operands = align_problem(problem).blocks
    return [
        operand[()] if operand.ndim == 0 and not is_lazy(operand) else blocks
        for operand, blocks in zip(problem.operands, operands, strict=True)
    ]


def public_function(
    build: Callable[Arguments, Problem | Composed], labelled: Callable[..., Any] = solve_labelled
) -> Callable[Arguments, Any]:
    """Turn a function that builds a problem into a public function.

    The attribute ``build`` is the original function, which plans and ``warm_up`` call. `labelled`
    calls the public function with DataArrays, as :func:`.labelled.solve_labelled` does.
    """

    @accepts_expressions
    def recurrence(*operands: Arguments.args, **options: Arguments.kwargs) -> Any:
        try:
            return solve(build(*operands, **options))
        except NonNativeArray as error:
            refusal = error
        return call_native(recurrence, operands, options, refusal, labelled)

    return _public(recurrence, build, labelled)


def prepared_function(
    build: Callable[Arguments, Problem | Composed],
    *,
    by_value: Sequence[str] = (),
    by_numbers: bool = True,
    is_on_host: bool = True,
) -> Callable[Arguments, Any]:
    """Turn a function that builds a problem into a public function with prepared calls.

    The parameters are those of :class:`.signature.SignatureRule`.
    """
    rule = SignatureRule.of(build, by_value, by_numbers, is_on_host)
    labelled = partial(solve_labelled, by_value=by_value)

    @accepts_expressions
    def recurrence(*operands: Arguments.args, **options: Arguments.kwargs) -> Any:
        try:
            call = rule.read(operands, options)
            if call is not None and (prepared := call_prepared(call)) is not None:
                return prepared[0]
            problem = build(*operands, **options)
            result = solve(problem)
            if call is not None and should_prepare(call) and isinstance(problem, Problem):
                prepare(call, *rule.order(operands, options, call), problem, result)
            return result
        except NonNativeArray as error:
            refusal = error
        return call_native(recurrence, operands, options, refusal, labelled)

    return _public(recurrence, build, labelled)


def _public(recurrence: Any, build: Any, labelled: Callable[..., Any]) -> Any:
    """Return a function with the signature and the docstring of `build`."""
    update_wrapper(recurrence, build)
    del recurrence.__wrapped__
    recurrence.__signature__ = inspect.signature(build).replace(return_annotation="Any")
    recurrence.__annotations__ = {**build.__annotations__, "return": "Any"}
    recurrence.build, recurrence.labelled = build, labelled
    return recurrence
