"""Operands, states and maps as tuples of any length, which numba unrolls.

An operand is of one of three types, so that each kernel is compiled for those it meets and a
constant is never expanded:

* an array: one value a step (or a step and column);
* a scalar: the same value at every step;
* ``Steps``: the index of the step itself.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from ...engines.cpu.compilation import INNER


class Steps(NamedTuple):
    """The index of a step as an operand; `first` belongs to the chunk's first step."""

    first: int


def value_at(operand: Any, at: Any) -> Any:
    """The operand's value at one step, which is not negative."""
    raise NotImplementedError  # compiled code only


@overload(value_at, strict=False)
def _value_at(operand: Any, at: Any) -> Any:
    if isinstance(operand, types.NamedUniTuple):
        return lambda operand, at: operand.first + at
    if isinstance(operand, types.Array) and isinstance(at, types.Integer):
        # numba counts negative indices from the end: signed ones do not vectorise.
        return lambda operand, at: operand[np.uint64(at)]
    if isinstance(operand, types.Array):
        return lambda operand, at: operand[at]
    return lambda operand, at: operand


def row_of(operand: Any, row: Any) -> Any:
    """One row of an operand: an array along the steps, a scalar, or the index."""
    raise NotImplementedError


@overload(row_of, strict=False)
def _row_of(operand: Any, row: Any) -> Any:
    if isinstance(operand, types.Array):
        # A single row is broadcast over all.
        return lambda operand, row: operand[row if operand.shape[0] > 1 else 0]
    return lambda operand, row: operand


def part_of(row: Any, left: Any, right: Any) -> Any:
    """A run of steps of a row."""
    raise NotImplementedError


@overload(part_of, strict=False)
def _part_of(row: Any, left: Any, right: Any) -> Any:
    if isinstance(row, types.NamedUniTuple):
        return lambda row, left, right: Steps(row.first + left)
    if isinstance(row, types.Array):
        return lambda row, left, right: row[left:right]
    return lambda row, left, right: row


def cell_at(operand: Any, row: Any, at: Any, column: Any) -> Any:
    """The operand's value in one column of one step."""
    raise NotImplementedError


@overload(cell_at, strict=False)
def _cell_at(operand: Any, row: Any, at: Any, column: Any) -> Any:
    if isinstance(operand, types.NamedUniTuple):
        return lambda operand, row, at, column: operand.first + at
    if isinstance(operand, types.Array) and operand.ndim == 3:
        return lambda operand, row, at, column: operand[
            row if operand.shape[0] > 1 else 0, at if operand.shape[1] > 1 else 0, column
        ]
    if isinstance(operand, types.Array):
        return lambda operand, row, at, column: operand[
            row if operand.shape[0] > 1 else 0, at if operand.shape[1] > 1 else 0
        ]
    return lambda operand, row, at, column: operand


def _each(name: str, arguments: str, element: Any) -> Any:
    """A function that maps `element` over a tuple; numba has no generator expressions."""

    def over_tuple(*_: Any) -> Any:
        raise NotImplementedError

    over_tuple.__name__ = name

    def implementation(values: Any, *rest: Any) -> Any:
        count = len(values.types if hasattr(values, "types") else values)
        items = "".join(f"element(values[{i}]{arguments}), " for i in range(count))
        scope = {"element": element}
        exec(f"def unrolled(values{arguments}): return ({items})", scope)
        return scope["unrolled"]

    parameters = f"values{arguments}"
    scope = {"implementation": implementation}
    exec(f"def typed({parameters}): return implementation({parameters})", scope)
    overload(over_tuple, strict=False)(scope["typed"])
    return over_tuple


values_at = _each("values_at", ", at", value_at)
rows_of = _each("rows_of", ", row", row_of)
parts_of = _each("parts_of", ", left, right", part_of)
cells_at = _each("cells_at", ", row, at, column", cell_at)


@njit(**INNER)
def _store(array: Any, at: Any, value: Any) -> None:
    array[at] = value


def store_each(arrays: Any, at: Any, values: Any) -> None:
    """``arrays[k][at] = values[k]`` for every k; each value is cast to its array's dtype."""
    raise NotImplementedError


@overload(store_each, strict=False)
def _store_all(arrays: Any, at: Any, values: Any) -> Any:
    lines = "".join(f"    element(arrays[{i}], at, values[{i}])\n" for i in range(len(arrays)))
    scope = {"element": _store}
    exec(f"def unrolled(arrays, at, values):\n{lines}    return None", scope)
    return scope["unrolled"]


def cast(values: Any, like: Any) -> Any:
    """Each value in the dtype of the arrays `like`, so that a carried state keeps its type."""
    raise NotImplementedError


@overload(cast, strict=False)
def _cast(values: Any, like: Any) -> Any:
    dtype = like.dtype.dtype if isinstance(like, types.UniTuple) else like.types[0].dtype
    items = "".join(f"dtype(values[{i}]), " for i in range(len(values)))
    scope = {"dtype": dtype}
    exec(f"def unrolled(values, like): return ({items})", scope)
    return scope["unrolled"]


def are_same(first: Any, second: Any) -> Any:
    """Whether two states have the same bits, or both are nan."""
    raise NotImplementedError


@overload(are_same, strict=False)
def _are_same(first: Any, second: Any) -> Any:
    pairs = " and ".join(f"element(first[{i}], second[{i}])" for i in range(len(first)))
    scope = {"element": _is_same}
    exec(f"def unrolled(first, second): return {pairs}", scope)
    return scope["unrolled"]


def _is_same(x: Any, y: Any) -> Any:
    raise NotImplementedError


@overload(_is_same, strict=False)
def _is_same_of(x: Any, y: Any) -> Any:
    if isinstance(x, types.Complex):
        return lambda x, y: _is_same(x.real, y.real) and _is_same(x.imag, y.imag)
    if isinstance(x, types.Float):
        # 0 and -0 are equal and have other reciprocals.
        return lambda x, y: (
            (x == y and (x != 0 or math.copysign(1.0, x) == math.copysign(1.0, y)))
            or (x != x and y != y)
        )
    return lambda x, y: x == y
