"""The operands of kernels for any transfer map, and tuples of any length, which numba unrolls.

An operand has one of three types, so that each kernel is compiled for the types that it gets, and a
constant is never expanded:

* an array: one value a step (or a step and column);
* a scalar: the same value at every step;
* ``Steps``: the index of the step itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from ...core.algebra.fingerprint import StepFunction
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...engines.cpu.compilation import INNER, writable


class Steps(NamedTuple):
    """The index of a step as an operand; `first` is that of the chunk's first step."""

    first: int


def value_at(operand: Any, index: Any) -> Any:
    """Return the value of an operand at a step, whose index is not negative."""
    raise NotImplementedError  # compiled code only


@overload(value_at, strict=False)
def _value_at(operand: Any, index: Any) -> Any:
    if isinstance(operand, types.NamedUniTuple):
        return lambda operand, index: operand.first + index
    if isinstance(operand, types.Array) and isinstance(index, types.Integer):
        # numba counts negative indices from the end: signed ones do not vectorise.
        return lambda operand, index: operand[np.uint64(index)]
    if isinstance(operand, types.Array):
        return lambda operand, index: operand[index]
    return lambda operand, index: operand


def row_of(operand: Any, row: Any) -> Any:
    """Return one row of an operand: an array along the steps, a scalar, or ``Steps``."""
    raise NotImplementedError


@overload(row_of, strict=False)
def _row_of(operand: Any, row: Any) -> Any:
    if isinstance(operand, types.Array):
        # One row is broadcast.
        return lambda operand, row: operand[row if operand.shape[0] > 1 else 0]
    return lambda operand, row: operand


def part_of(row: Any, left: Any, right: Any) -> Any:
    """Return the steps from `left` to `right` of a row."""
    raise NotImplementedError


@overload(part_of, strict=False)
def _part_of(row: Any, left: Any, right: Any) -> Any:
    if isinstance(row, types.NamedUniTuple):
        return lambda row, left, right: Steps(row.first + left)
    if isinstance(row, types.Array):
        return lambda row, left, right: row[left:right]
    return lambda row, left, right: row


def cell_at(operand: Any, row: Any, index: Any, column: Any) -> Any:
    """Return the value of an operand in one column of one step."""
    raise NotImplementedError


@overload(cell_at, strict=False)
def _cell_at(operand: Any, row: Any, index: Any, column: Any) -> Any:
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


def _mapped(name: str, arguments: str, element: Any) -> Any:
    """Return a function that maps `element` over a tuple; numba has no generator expressions."""

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


values_at = _mapped("values_at", ", index", value_at)
rows_of = _mapped("rows_of", ", row", row_of)
parts_of = _mapped("parts_of", ", left, right", part_of)
cells_at = _mapped("cells_at", ", row, index, column", cell_at)


@njit(**INNER)
def _store(array: Any, index: Any, value: Any) -> None:
    array[index] = value


def store_each(arrays: Any, index: Any, values: Any) -> None:
    """Write ``arrays[k][index] = values[k]`` for every k, cast to the dtype of the array."""
    raise NotImplementedError


@overload(store_each, strict=False)
def _store_all(arrays: Any, index: Any, values: Any) -> Any:
    lines = "".join(f"    element(arrays[{i}], index, values[{i}])\n" for i in range(len(arrays)))
    scope = {"element": _store}
    exec(f"def unrolled(arrays, index, values):\n{lines}    return None", scope)
    return scope["unrolled"]


def cast(values: Any, like: Any) -> Any:
    """Return values in the dtype of the arrays `like`, so that a state keeps its type."""
    raise NotImplementedError


@overload(cast, strict=False)
def _cast(values: Any, like: Any) -> Any:
    dtype = like.dtype.dtype if isinstance(like, types.UniTuple) else like.types[0].dtype
    items = "".join(f"dtype(values[{i}]), " for i in range(len(values)))
    scope = {"dtype": dtype}
    exec(f"def unrolled(values, like): return ({items})", scope)
    return scope["unrolled"]


def are_same(first: Any, second: Any) -> Any:
    """Return whether two states have the same bits, or both are nan."""
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
        # 0 and -0 are equal, but have different reciprocals.
        return lambda x, y: (
            (x == y and (x != 0 or math.copysign(1.0, x) == math.copysign(1.0, y)))
            or (x != x and y != y)
        )
    return lambda x, y: x == y


Sources = tuple[tuple[StepFunction | None, int], ...]
"""For each operand of ``lift``, the function of a coefficient or None, and its flat operands."""


@dataclass(frozen=True)
class Flat:
    """The operands of all operands of ``lift``, in one tuple.

    Attributes
    ----------
    operands : tuple
        Along rows: 2-d (varying) or 1-d (constant along a row) arrays; along columns: 3-d
        (varying) or 2-d (the same in all columns) arrays; ``Steps`` for an index.
    sources : Sources
    """

    operands: tuple[Any, ...]
    sources: Sources


def flatten(chunk: Chunk) -> Flat:
    """Return the operands of a chunk for kernels along rows (inner = 1) or columns."""
    return _flatten(chunk, _along_row if chunk.shape[2] == 1 else _along_columns)


def flatten_columns(chunk: Chunk) -> Flat:
    """Return the operands of a chunk for kernels along columns, of which there may be one."""
    return _flatten(chunk, _along_columns)


def _flatten(chunk: Chunk, lay_out: Callable[[np.ndarray, Chunk], np.ndarray]) -> Flat:
    operands: list[Any] = []
    sources: list[tuple[Any, int]] = []
    for operand in chunk.operands:
        if isinstance(operand, CoefficientOperand):
            arrays = [lay_out(array, chunk) for array in operand.operands]
            operands += [Steps(operand.first), *arrays]
            sources.append((operand.function, 1 + len(arrays)))
        else:
            operands.append(lay_out(operand, chunk))
            sources.append((None, 1))
    return Flat(tuple(operands), tuple(sources))


def _along_row(array: np.ndarray, chunk: Chunk) -> np.ndarray:
    array = writable(array)
    if array.shape[1] == chunk.steps:
        return array[:, :, 0]
    return array[:, 0, 0]


def _along_columns(array: np.ndarray, chunk: Chunk) -> np.ndarray:
    array = writable(array)
    return array[:, :, 0] if array.shape[2] == 1 else array
