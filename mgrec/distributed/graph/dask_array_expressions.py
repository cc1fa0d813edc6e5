"""Expression arrays of the package dask-array, which the first use of an attribute imports."""

from __future__ import annotations

from functools import cache
from typing import Any

from .expressions import Library, SolvedExpression


@cache
def _library() -> Library:
    from dask_array._collection import Array
    from dask_array._expr import ArrayExpr
    from dask_array.io._from_graph import FromGraph

    class Solved(SolvedExpression, ArrayExpr):  # type: ignore[misc]
        """An array of a solve."""

    Solved.__qualname__ = "Solved"  # processes unpickle the attribute of this module
    return Library(Array, FromGraph, Solved)


def __getattr__(name: str) -> Any:
    if name == "LIBRARY":
        return _library()
    if name == "Solved":
        return _library().solved
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
