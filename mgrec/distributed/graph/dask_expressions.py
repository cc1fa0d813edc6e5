"""Dask's own expression arrays (``array.query-planning``)."""

from __future__ import annotations

from dask.array._array_expr._collection import Array
from dask.array._array_expr._expr import ArrayExpr
from dask.array._array_expr._io import FromGraph

from .expressions import Library, SolvedExpression


class Solved(SolvedExpression, ArrayExpr):  # type: ignore[misc]
    """An array of a solve."""


LIBRARY = Library(Array, FromGraph, Solved)
