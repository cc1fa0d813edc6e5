"""Chunks of a kind in host memory: what was checked and laid out for one is not for the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...core.contract.kernels import PreparedSolver
from .one_thread import determine

Arrays = tuple[Any, ...]


def prepare_solver(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedSolver:
    """Prepare what determines chunks of the kind of this one, on the caller's thread.

    Returns
    -------
    callable, ``(given, targets) -> None``
        `given` are the chunk's operands, those of coefficients included, and the states before
        the first step: arrays and numbers.
    """
    functions = [
        (operand.function, operand.first, len(operand.operands))
        if isinstance(operand, CoefficientOperand)
        else None
        for operand in chunk.operands
    ]
    shape, dtype, reverse, states = chunk.shape, chunk.dtype, chunk.reverse, len(carry_in)
    takers = [_like(array) for array in (*_arrays_of(chunk), *carry_in)]
    is_plain = not any(functions)

    def solve(given: Sequence[Any], targets: Sequence[Any]) -> None:
        laid_out = [take(value) for take, value in zip(takers, given, strict=True)]
        operands = laid_out[:-states]
        own = tuple(operands if is_plain else _evaluated(functions, iter(operands)))
        after = tuple([target.reshape(shape) for target in targets])
        determine(transfer_map, Chunk(own, shape, dtype, reverse), tuple(laid_out[-states:]), after)

    return solve


def _arrays_of(chunk: Chunk) -> Iterator[Any]:
    for operand in chunk.operands:
        yield from operand.operands if isinstance(operand, CoefficientOperand) else (operand,)


def _evaluated(functions: Sequence[Any], arrays: Iterator[Any]) -> Iterator[Any]:
    """The operands of a chunk, made of the arrays of each."""
    for each in functions:
        if each is None:
            yield next(arrays)
        else:
            function, first, count = each
            yield CoefficientOperand(function, first, tuple([next(arrays) for _ in range(count)]))


def _like(array: np.ndarray) -> Callable[[Any], np.ndarray]:
    """What lays a number or an array out as another one of its kind was."""
    shape, dtype = array.shape, array.dtype

    def lay_out(value: Any) -> np.ndarray:
        if type(value) is np.ndarray and value.ndim:
            return value.reshape(shape)
        return np.full(shape, value, dtype)

    def lay_out_number(value: Any) -> np.ndarray:
        return np.array(value, dtype).reshape(shape)

    return lay_out if array.size > 1 else lay_out_number
