"""Public functions: solve a problem on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any, ParamSpec

from ..core.arrays.array_types import is_lazy
from ..core.arrays.elements import Part
from ..core.contract.kernels import CacheMiss
from ..core.contract.problem import Composed, Problem
from ..distributed.expressions import accepts_expressions
from ..distributed.groups.calls import CALL
from ..distributed.groups.ends import sum_over_ranks
from . import prepared
from .interop import (
    call_native,
    has_differentiated,
    needs_interop,
    public_signature,
    redirected,
    with_interop,
)
from .labelled import refuse_labelled, solve_labelled, solve_pair, solve_with_factors
from .prepared import Call, SignatureRule, cache_entry
from .steps import StepLabels

__all__ = [
    "StepLabels",
    "aligned_operands",
    "function_of_model",
    "prepared_function",
    "public_function",
    "refuse_labelled",
    "solve",
    "solve_labelled",
    "solve_pair",
    "solve_parts",
    "solve_with_factors",
    "with_interop",
]

Arguments = ParamSpec("Arguments")


def solve(problem: Problem | Composed, call: Call | None = None) -> Any:
    """Solve a problem, and return the result of the public function.

    The prepared call of the problem is cached if it is that of a `call`.
    """
    group_call = CALL.get()
    if isinstance(problem, Composed):
        if group_call is not None:
            group_call.is_composed = True
        return problem.solve()
    if group_call is not None:
        from ..distributed.groups.solve import solve_part

        if call is not None and group_call.may_guess:
            try:
                return prepared.solve_on_ranks(problem, call, group_call.group)
            except CacheMiss:
                pass
        return solve_part(problem, group_call)
    if not problem.is_lazy:
        return prepared.solve(problem, call)
    from ..distributed.graph import build

    return problem.to_return_value(*build.solve(problem))


def solve_parts(problem: Problem, *parts: Part, is_last: bool = True) -> list[Any]:
    """Solve a problem, and return parts of its result.

    `is_last` says that the call solves no further problem.
    """
    if CALL.get() is not None:
        result = solve(replace(problem, recurrence=problem.recurrence.in_parts(parts)))
        values = [part.of_chunk(result) for part in parts]
        return [
            value if part.sum_axis is None else sum_over_ranks(value.squeeze(part.sum_axis), is_last)
            for part, value in zip(parts, values, strict=True)
        ]
    if not problem.is_lazy:
        result = prepared.solve(problem)
        return [part.of(result) for part in parts]
    from ..distributed.graph import build

    return build.solve_parts(problem, parts)


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
    build: Callable[Arguments, Problem | Composed],
    labelled: Callable[..., Any] = solve_labelled,
    rule: SignatureRule | None = None,
    takes_group: bool = False,
) -> Callable[Arguments, Any]:
    """Turn a function that builds a problem into a public function.

    `labelled`: calls the public function with DataArrays, as :func:`.labelled.solve_labelled` does.
    `rule`: calls that it gives a signature are prepared once.
    `takes_group`: whether the function has a parameter `group`, which `build` does not get.
    """
    signature = public_signature(inspect.signature(build), takes_group)
    takes_lengths = "lengths" in signature.parameters

    @accepts_expressions
    def recurrence(*operands: Arguments.args, **options: Arguments.kwargs) -> Any:
        result = redirected(recurrence, operands, options, takes_group, takes_lengths)
        if result is not NotImplemented:
            return result
        refusal: TypeError | None = None
        ranks = CALL.get()
        is_read = rule is not None and (ranks is None or ranks.may_guess)
        call = rule.read(operands, options) if rule is not None and is_read else None
        if ranks is not None and call is not None and call.is_on_host:
            call = None
        if call is not None and (known := cache_entry(call.signature).prepared):
            try:
                return known(call)
            except (CacheMiss, OverflowError, TypeError):
                pass  # Validation raises, or the general solution does.
        is_recorded = has_differentiated(operands, options) if call is None else call.is_recorded
        if not is_recorded:
            try:
                return solve(build(*operands, **options), call)
            except TypeError as error:
                if not needs_interop(error, operands, options):
                    raise
                refusal = error
        try:
            return call_native(recurrence, operands, options, refusal, labelled, call)
        finally:
            # The exception refers to this frame: the arrays would wait for the collector of cycles.
            refusal = None

    public: Any = update_wrapper(recurrence, build)
    del public.__wrapped__
    public.__signature__ = signature.replace(return_annotation="Any")
    public.__annotations__ = {**build.__annotations__, "return": "Any"}
    public.build, public.labelled, public.rule = build, labelled, rule
    return recurrence


def function_of_model(
    solve_model: Callable[[Any], Any], check: Callable[Arguments, Any], **options: Any
) -> Callable[Arguments, Any]:
    """Turn a function of a validated model into a public function with the arguments of `check`.

    ``check(...)`` returns the model. The options are those of :func:`public_function`.
    """
    signature = inspect.signature(check)

    def build(*operands: Arguments.args, **arguments: Arguments.kwargs) -> Composed:
        try:
            model = check(*operands, **arguments)
        except TypeError:
            try:
                signature.bind(*operands, **arguments)
            except TypeError as error:  # without the name of `check`
                raise TypeError(f"{solve_model.__name__}(): {error}") from None
            raise
        return Composed(solve_model.__name__, partial(solve_model, model))

    wrapped: Any = update_wrapper(build, solve_model)
    wrapped.__signature__, wrapped.__annotations__ = signature, check.__annotations__
    return public_function(build, **options)


def prepared_function(
    build: Callable[Arguments, Problem | Composed],
    *,
    by_value: Sequence[str] = (),
    by_numbers: bool = True,
    is_on_host: bool = True,
    takes_group: bool = False,
    labelled: Callable[..., Any] | None = None,
) -> Callable[Arguments, Any]:
    """Turn a function that builds a problem into a public function with prepared calls."""
    rule = SignatureRule(build, by_value, by_numbers, is_on_host)
    labelled = labelled or partial(solve_labelled, by_value=by_value)
    return public_function(build, labelled, rule, takes_group)
