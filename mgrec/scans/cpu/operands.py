"""The operands of kernels for any transfer map, and tuples of any length, which numba unrolls.

An operand has one of three types, so that each kernel is compiled for the types that it gets, and a
constant is never expanded:

* an array: one value a step (or a step and column);
* a scalar: the same value at every step;
* ``Steps``: the index of the step itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from ...core.algebra.fingerprint import StepFunction
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...engines.cpu.compilation import INLINED, INNER, writable


class Steps(NamedTuple):
    """The index of a step as an operand; `first` is that of the chunk's first step."""

    first: int


def compiled_only(choose: Callable[..., Any]) -> Any:
    """Return a function for compiled code, which is what `choose` returns for numba's types."""

    def function(*_: Any) -> Any:
        raise NotImplementedError

    function.__name__ = choose.__name__
    overload(function, INLINED, strict=False)(choose)
    return function


@compiled_only
def value_at(operand: Any, index: Any) -> Any:
    """Return the value of an operand at a step, whose index is not negative."""
    if isinstance(operand, types.NamedUniTuple):
        return lambda operand, index: operand.first + index
    if isinstance(operand, types.Array) and isinstance(index, types.Integer):
        # numba counts negative indices from the end: signed ones do not vectorise.
        return lambda operand, index: operand[np.uint64(index)]
    if isinstance(operand, types.Array):
        return lambda operand, index: operand[index]
    return lambda operand, index: operand


@compiled_only
def row_of(operand: Any, row: Any) -> Any:
    """Return one row of an operand: an array along the steps, a scalar, or ``Steps``."""
    if isinstance(operand, types.Array):
        # One row is broadcast.
        return lambda operand, row: operand[row if operand.shape[0] > 1 else 0]
    return lambda operand, row: operand


@compiled_only
def part_of(row: Any, left: Any, right: Any) -> Any:
    """Return the steps from `left` to `right` of a row."""
    if isinstance(row, types.NamedUniTuple):
        return lambda row, left, right: Steps(row.first + left)
    if isinstance(row, types.Array):
        return lambda row, left, right: row[left:right]
    return lambda row, left, right: row


@compiled_only
def cell_at(operand: Any, row: Any, index: Any, column: Any) -> Any:
    """Return the value of an operand in one column of one step."""
    if isinstance(operand, types.NamedUniTuple):
        return lambda operand, row, index, column: operand.first + index
    if isinstance(operand, types.Array) and operand.ndim == 3:
        return lambda operand, row, index, column: operand[
            row if operand.shape[0] > 1 else 0, index if operand.shape[1] > 1 else 0, column
        ]
    if isinstance(operand, types.Array):
        return lambda operand, row, index, column: operand[
            row if operand.shape[0] > 1 else 0, index if operand.shape[1] > 1 else 0
        ]
    return lambda operand, row, index, column: operand


def _unrolled(count: int, parameters: str, item: str, **scope: Any) -> Any:
    """Return a function of a tuple of the items; numba has no generator expressions."""
    items = "".join(f"{item}, ".replace("[k]", f"[{k}]") for k in range(count))
    exec(f"def unrolled({parameters}): return ({items})", scope)
    return scope["unrolled"]


@compiled_only
def values_at(operands: Any, index: Any) -> Any:
    parameters, item = "operands, index", "of(operands[k], index)"
    return _unrolled(len(operands), parameters, item, of=value_at)


@compiled_only
def rows_of(operands: Any, row: Any) -> Any:
    return _unrolled(len(operands), "operands, row", "of(operands[k], row)", of=row_of)


@compiled_only
def parts_of(rows: Any, left: Any, right: Any) -> Any:
    parameters, item = "rows, left, right", "of(rows[k], left, right)"
    return _unrolled(len(rows), parameters, item, of=part_of)


@compiled_only
def cells_at(operands: Any, row: Any, index: Any, column: Any) -> Any:
    parameters, item = "operands, row, index, column", "of(operands[k], row, index, column)"
    return _unrolled(len(operands), parameters, item, of=cell_at)


@njit(**INNER)
def _store(array: Any, index: Any, value: Any) -> None:
    array[index] = value


@compiled_only
def store_each(arrays: Any, index: Any, values: Any) -> Any:
    """Write ``arrays[k][index] = values[k]`` for every k, cast to the dtype of the array."""
    parameters, item = "arrays, index, values", "store(arrays[k], index, values[k])"
    return _unrolled(len(arrays), parameters, item, store=_store)


@compiled_only
def cast(values: Any, like: Any) -> Any:
    """Return values in the dtype of the arrays `like`, so that a state keeps its type."""
    return _unrolled(len(values), "values, like", "dtype(values[k])", dtype=like[0].dtype)


Sources = tuple[tuple[StepFunction | None, int], ...]
"""For each operand of ``lift``, the function of a coefficient or None, and its flat operands."""


class Flat(NamedTuple):
    """The operands of all operands of ``lift``, in one tuple, and their sources.

    Along rows: 2-d (varying) or 1-d (constant along a row) arrays; along columns: 3-d (varying) or
    2-d (the same in all columns) arrays; ``Steps`` for an index.
    """

    operands: tuple[Any, ...]
    sources: Sources


def flatten(chunk: Chunk, *, as_columns: bool = False) -> Flat:
    """Return the operands for kernels along rows, if inner = 1 and not `as_columns`, or columns."""
    along_row = chunk.shape[2] == 1 and not as_columns

    def lay_out(array: np.ndarray) -> np.ndarray:
        array = writable(array)
        if along_row and array.shape[1] != chunk.steps:
            return array[:, 0, 0]
        return array[:, :, 0] if array.shape[2] == 1 else array

    operands: list[Any] = []
    sources: list[tuple[Any, int]] = []
    for operand in chunk.operands:
        if isinstance(operand, CoefficientOperand):
            operands += [Steps(operand.first), *map(lay_out, operand.operands)]
            sources.append((operand.function, 1 + len(operand.operands)))
        else:
            operands.append(lay_out(operand))
            sources.append((None, 1))
    return Flat(tuple(operands), tuple(sources))
