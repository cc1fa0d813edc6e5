"""Expression arrays as arguments of public functions; see graph/expressions.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

from ..core.algebra.coefficient import Coefficient

Function = TypeVar("Function", bound=Callable[..., Any])

# Dask imports this module only if query planning is on.
_EXPRESSIONS = "dask.array._array_expr"


def accepts_expressions(function: Function) -> Function:
    """Make a function of Dask arrays with graphs accept and return expressions, too.

    Functions that it calls get graphs, and return graphs.
    """

    @wraps(function)
    def called(*operands: Any, **options: Any) -> Any:
        if _EXPRESSIONS not in sys.modules:
            return function(*operands, **options)
        from .graph.expressions import Array, are_enabled

        is_nested = any(isinstance(leaf, Array) for leaf in leaves((operands, options)))
        operands, options = as_graphs((operands, options))
        results = function(*operands, **options)
        return results if is_nested or not are_enabled() else as_expressions(results)

    return called  # type: ignore[return-value]


def as_graphs(arguments: Any) -> Any:
    """Return arguments of a function with graphs in place of expressions."""
    if _EXPRESSIONS not in sys.modules:
        return arguments
    from .graph.expressions import ExpressionArray, as_graph

    return mapped(arguments, ExpressionArray, as_graph)


def as_expressions(results: Any) -> Any:
    """Return results of a function with expressions in place of graphs."""
    from .graph.expressions import Array, as_expression

    return mapped(results, Array, as_expression)


def leaves(value: object, parents: tuple[int, ...] = ()) -> Iterator[Any]:
    """Yield all values inside of tuples, lists, dicts and Coefficients.

    `parents` are the identities of the containers of `value`: a list may contain itself.
    """
    if id(value) in parents:
        return
    inside = (*parents, id(value))
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item, inside)
    elif isinstance(value, dict):
        yield from leaves([*value.values()], inside)
    elif isinstance(value, Coefficient):
        yield from leaves(value.arrays, inside)
    else:
        yield value


def mapped(
    value: Any, cls: type, function: Callable[[Any], Any], parents: tuple[int, ...] = ()
) -> Any:
    """Apply a function to all arrays of a class inside of a value; `parents` as in `leaves`."""
    if isinstance(value, cls):
        return function(value)
    if id(value) in parents:
        return value
    inside = (*parents, id(value))
    if isinstance(value, Coefficient):
        return Coefficient.of(value.function, *mapped(value.arrays, cls, function, inside))
    if isinstance(value, dict):
        return {name: mapped(item, cls, function, inside) for name, item in value.items()}
    if type(value) in (tuple, list) or hasattr(value, "_make"):  # or a named tuple
        items = [mapped(item, cls, function, inside) for item in value]
        # The same object if nothing changed: a call returns the tuple that was passed as out.
        if any(a is not b for a, b in zip(items, value, strict=True)):
            return value._make(items) if hasattr(value, "_make") else type(value)(items)
    return value
