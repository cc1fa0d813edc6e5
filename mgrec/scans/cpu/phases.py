"""The phases of a chunk in host memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...core.contract.kernels import PreparedSolver, at_once
from ...engines.cpu.compilation import writable
from ..kernels import ScanKernels
from ..speculation import correct
from .kernels import determine_rows, kernel_of
from .one_thread import determine, determine_direct, is_direct, is_long, precompute, propagate
from .operands import Flat, flatten
from .speculation import speculate
from .threads import determine_on_threads


def kernels(method: str) -> ScanKernels:
    """Return the phases of a chunk, on the calling thread or, for method "threads", on all."""
    return ScanKernels(
        determine_on_threads if method == "threads" else determine,
        at_once(precompute),
        propagate,
        speculate=at_once(speculate),
        correct=partial(correct, determine),
        prepare_solver=prepare_solver,
    )


Arrays = tuple[Any, ...]


def prepare_solver(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> PreparedSolver:
    """Return a solver for chunks of the same shapes and dtypes, on the calling thread.

    The solver takes the chunk's operands, those of coefficients included, with the states before
    the first step, as arrays and numbers; and the results.
    """
    functions = [
        (operand.function, operand.first, len(operand.operands))
        if isinstance(operand, CoefficientOperand)
        else None
        for operand in chunk.operands
    ]
    shape, dtype, reverse, states = chunk.shape, chunk.dtype, chunk.reverse, len(carry_in)
    layouts = [_lay_out_like(array) for array in (*_arrays_of(chunk), *carry_in)]
    is_plain = not any(functions)
    if is_plain and shape[2] == 1:
        flat = flatten(chunk)
        if not is_long(transfer_map, chunk):
            return _prepare_rows(transfer_map, chunk, flat, states)
        if is_direct(flat, chunk):
            return _prepare_direct(flat, shape, dtype)

    def solve(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
        arrays = [lay_out(value) for lay_out, value in zip(layouts, arguments, strict=True)]
        operands = arrays[:-states]
        if not is_plain:
            operands = list(_with_coefficients(functions, iter(operands)))
        laid_out = Chunk(tuple(operands), shape, dtype, reverse)
        results = tuple([target.reshape(shape) for target in targets])
        determine(transfer_map, laid_out, tuple(arrays[-states:]), results)

    return solve


def _prepare_direct(
    flat: Flat, shape: tuple[int, int, int], dtype: np.dtype[Any]
) -> PreparedSolver:
    """Return the solver for rows that kernels solve as they are."""
    row_shape = shape[:2]
    lay_out_s, lay_out_t = map(_lay_out_like, flat.operands)
    lay_out_state = _lay_out_like(np.empty(shape[0], dtype))

    def solve(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
        s, t, state = arguments
        operands = writable(lay_out_s(s)), writable(lay_out_t(t))
        carry_in = writable(lay_out_state(state))
        determine_direct(Flat(operands, flat.sources), carry_in, targets[0].reshape(row_shape))

    return solve


def _prepare_rows(
    transfer_map: TransferMap, chunk: Chunk, flat: Flat, states: int
) -> PreparedSolver:
    """Return the solver for rows that the plain loop solves."""
    row_shape, reverse = chunk.shape[:2], chunk.reverse
    kernel = kernel_of(determine_rows, transfer_map, flat.sources, states > 1)
    layouts = [*map(_lay_out_like, flat.operands)]
    layouts += [_lay_out_like(np.empty(row_shape[0], chunk.dtype))] * states

    def solve(arguments: Sequence[Any], targets: Sequence[Any]) -> None:
        arrays = [
            writable(lay_out(value)) for lay_out, value in zip(layouts, arguments, strict=True)
        ]
        after = tuple([target.reshape(row_shape) for target in targets])
        kernel(tuple(arrays[:-states]), tuple(arrays[-states:]), after, reverse)

    return solve


def _arrays_of(chunk: Chunk) -> Iterator[Any]:
    for operand in chunk.operands:
        yield from operand.operands if isinstance(operand, CoefficientOperand) else (operand,)


def _with_coefficients(functions: Sequence[Any], arrays: Iterator[Any]) -> Iterator[Any]:
    """Yield the operands of a chunk, which consist of these arrays."""
    for coefficient in functions:
        if coefficient is None:
            yield next(arrays)
        else:
            function, first, count = coefficient
            yield CoefficientOperand(function, first, tuple([next(arrays) for _ in range(count)]))


def _lay_out_like(array: np.ndarray) -> Callable[[Any], np.ndarray]:
    """Return a function that gives a number or an array the shape of `array`."""
    shape, dtype = array.shape, array.dtype

    def lay_out(value: Any) -> np.ndarray:
        if type(value) is np.ndarray and value.ndim:
            return value.reshape(shape)
        return np.full(shape, value, dtype)

    def lay_out_number(value: Any) -> np.ndarray:
        return np.array(value, dtype).reshape(shape)

    return lay_out if array.size > 1 else lay_out_number
