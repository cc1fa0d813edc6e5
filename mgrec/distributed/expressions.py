"""Expression arrays as arguments of public functions; see graph/expressions.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from ..core.algebra.coefficient import Coefficient
from ..core.arrays.interop import is_traced_by_torch

Function = TypeVar("Function", bound=Callable[..., Any])

# Dask imports the first module only if query planning is on; the second is a package of its own.
_DASK, _DASK_ARRAY = "dask.array._array_expr", "dask_array"
# Functions of NumPy for Dask arrays with graphs, also where ``dask.array`` makes expressions.
_FUNCTIONS = {
    "apply_gufunc": "gufunc",
    "broadcast_to": "core",
    "concatenate": "core",
    "from_array": "core",
    "full_like": "creation",
    "where": "routines",
}


def accepts_expressions(function: Function) -> Function:
    """Make a function of Dask arrays with graphs accept and return expressions, too."""

    @wraps(function)
    def called(*operands: Any, **options: Any) -> Any:
        has_expressions = _DASK in sys.modules or _DASK_ARRAY in sys.modules
        if not has_expressions or is_traced_by_torch():
            return function(*operands, **options)
        library = _library_of_results((operands, options))
        operands, options = as_graphs((operands, options))
        results = function(*operands, **options)
        return results if library is None else _as_expressions(results, library)

    return called  # type: ignore[return-value]


def function_of_graphs(name: str) -> Any:
    """Return the function of NumPy of this name for Dask arrays with graphs."""
    return getattr(import_module(f"dask.array.{_FUNCTIONS[name]}"), name)


def _libraries() -> dict[str, Any]:
    """Return the libraries of expression arrays that this process has imported."""
    from .graph.expressions import library_of

    names = {_DASK: "dask", _DASK_ARRAY: "dask_array"}
    return {name: library_of(package) for name, package in names.items() if name in sys.modules}


def _library_of_results(arguments: Any) -> Any:
    """Return the library of the results of a public function; None for graphs."""
    from dask.array.core import Array

    libraries, types = _libraries(), {type(leaf) for leaf in leaves(arguments)}
    dask_array, dask = libraries.get(_DASK_ARRAY), libraries.get(_DASK)
    if dask_array is not None and dask_array.array in types:
        return dask_array
    is_nested = Array in types  # called by a public function of the package
    is_on = dask is not None and sys.modules["dask.array"].Array is dask.array
    return dask if is_on and not is_nested else None


def as_graphs(arguments: Any) -> Any:
    """Return arguments of a function with graphs in place of expressions."""
    if _DASK in sys.modules or _DASK_ARRAY in sys.modules:
        for library in _libraries().values():
            arguments = mapped(arguments, library.array, library.as_graph)
    return arguments


def _as_expressions(results: Any, library: Any) -> Any:
    """Return results of a function with expressions in place of graphs."""
    from dask.array.core import Array

    return mapped(results, Array, library.as_expression)


def leaves(value: object, parents: tuple[int, ...] = ()) -> Iterator[Any]:
    """Yield all values inside of tuples, lists, dicts and Coefficients.

    `parents` are the identities of the containers of `value`: a list may contain itself.
    """
    if isinstance(value, (list, dict)):
        if id(value) not in parents:
            inside = (*parents, id(value))
            yield from leaves(tuple(value.values() if isinstance(value, dict) else value), inside)
    elif isinstance(value, tuple):
        # torch.compile has no identities of tuples and numbers.
        for item in value:
            yield from leaves(item, parents)
    elif isinstance(value, Coefficient):
        yield from leaves(value.arrays, parents)
    else:
        yield value


def mapped(value: Any, cls: type, function: Callable[[Any], Any], parents: tuple[int, ...] = ()) -> Any:
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
