"""Expression arrays at the doors of public functions: see dask/graph/expressions.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

from ..core.algebra.coefficient import Coefficient

Function = TypeVar("Function", bound=Callable[..., Any])

# Dask imports it where query planning is on, and nowhere else.
_EXPRESSIONS = "dask.array._array_expr"


def keeps_kind(function: Function) -> Function:
    """Make a function of Dask arrays with graphs one of expressions, too.

    Functions that it calls in turn are given graphs, and return them.
    """

    @wraps(function)
    def called(*operands: Any, **options: Any) -> Any:
        if _EXPRESSIONS not in sys.modules:
            return function(*operands, **options)
        from .graph.expressions import Array, are_on

        is_inside = any(isinstance(each, Array) for each in leaves((operands, options)))
        own, named = as_graphs((operands, options))
        results = function(*own, **named)
        return results if is_inside or not are_on() else as_expressions(results)

    return called  # type: ignore[return-value]


def as_graphs(given: Any) -> Any:
    """What a function was given, with graphs in place of expressions."""
    if _EXPRESSIONS not in sys.modules:
        return given
    from .graph.expressions import ExpressionArray, as_graph

    return mapped(given, ExpressionArray, as_graph)


def as_expressions(results: Any) -> Any:
    """The results of a function, with expressions in place of graphs."""
    from .graph.expressions import Array, as_expression

    return mapped(results, Array, as_expression)


def leaves(given: Any, around: tuple[int, ...] = ()) -> Iterator[Any]:
    """All that tuples, lists, dicts and Coefficients hold; a list of itself holds no more.

    `around` are the identities of those that hold `given`.
    """
    if id(given) in around:
        return
    inside = (*around, id(given))
    if isinstance(given, (tuple, list)):
        for each in given:
            yield from leaves(each, inside)
    elif isinstance(given, dict):
        yield from leaves([*given.values()], inside)
    elif isinstance(given, Coefficient):
        yield from leaves(given.arrays, inside)
    else:
        yield given


def mapped(
    given: Any, kind: type, function: Callable[[Any], Any], around: tuple[int, ...] = ()
) -> Any:
    """The same with a function applied to all arrays of a kind; `around` as of :func:`leaves`."""
    if isinstance(given, kind):
        return function(given)
    if id(given) in around:
        return given
    inside = (*around, id(given))
    if isinstance(given, Coefficient):
        return Coefficient.of(given.function, *mapped(given.arrays, kind, function, inside))
    if isinstance(given, dict):
        return {name: mapped(each, kind, function, inside) for name, each in given.items()}
    if type(given) in (tuple, list):
        results = type(given)(mapped(each, kind, function, inside) for each in given)
        # The same object where nothing changed: a call returns the tuple that it was given as out.
        return results if any(a is not b for a, b in zip(results, given, strict=True)) else given
    return given
