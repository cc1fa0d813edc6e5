"""Wavefront loops of CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ....core.arrays.array_types import is_on_gpu
from ....core.contract.kernels import Kernels, Part, PreparedSolver
from ....engines.cuda.device import pack_words
from ....engines.cuda.launches import LaunchByAddress, PreparedLaunches
from ...cuda.transposition import assign, is_transposed, prepare_copy
from ...recurrence import part_of_gpu
from ..recurrence import Borders, Loop, is_compensable, log_strategy
from .choice import Traversal, choose_traversal
from .layout import Signature, Variation
from .operands import (
    KernelOperand,
    as_kernel_operand,
    as_kernel_table,
    empty_skewed,
    skew,
    unskew,
    variation_of,
)
from .program import prepare_launch

# Positions of the operands of the loop over transposed arrays among those of the loop.
_TRANSPOSED = 0, 2, 1, 3, 5, 4, 6
# Words of an operand in the kernel's struct, and the position of the table there.
_WORDS, _TABLE = 4, 28


def kernels(method: str) -> Kernels:
    """Return the phases of a tile."""
    return Kernels(determine_loop, prepare_solver=prepare_loop, part=_part)


def _part(loop: Loop, shape: Sequence[int], side: int) -> Part | None:
    return part_of_gpu(shape) if loop.strategy == "tiles" else None


def determine_loop(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> None:
    """Write the table of a tile. Scalars, and borders that are edges, may be in host memory."""
    if table.size == 0:
        return
    traversal = _choose(loop, (local, *weights), table)
    log_strategy(loop, str(traversal), table)
    if traversal.is_transposed:
        local, weights, borders, table = _transposed(local, weights, borders, table)
    call = _prepare_call(loop, traversal, local, weights, borders, table)
    call.run((pack_words(call.words),))
    if traversal.strategy == "hyperplane":
        unskew(call.table, table)
    elif call.table.array is not table:
        assign(table, call.table.array)


def _transposed(
    local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> tuple[Any, Sequence[Any], Borders, Any]:
    """Return the arguments of the same loop over transposed grids."""
    b0, b1, b2 = (weight.swapaxes(-1, -2) for weight in weights)
    borders = Borders(borders.left, borders.above, borders.corner)
    return local.swapaxes(-1, -2), (b1, b0, b2), borders, table.swapaxes(-1, -2)


def _choose(loop: Loop, operands: Sequence[Any], table: Any) -> Traversal:
    """Return the traversal of a loop over `local` and the weights."""
    if loop.strategy == "hyperplane":
        return Traversal("hyperplane")
    *batch, rows, columns = table.shape
    variations = tuple(map(variation_of, operands))
    has_floor = loop.floor is not None
    signature = Signature(loop.operators, table.dtype, variations, has_floor, is_aligned=True)
    may_compensate = loop.strategy == "hybrid" and is_compensable(loop, table.dtype)
    shape = (prod(batch), rows, columns)
    return choose_traversal(loop.strategy, signature, shape, may_compensate)


@dataclass(frozen=True)
class KernelCall:
    """A launch and its arguments.

    Attributes
    ----------
    run : Prepared
    operands : list of KernelOperand
        `local`, the weights and the borders.
    table : KernelOperand
        The table, or memory for it.
    words : list of int
        The kernel's struct: four words of each operand, then those of the table.
    """

    run: PreparedLaunches
    operands: list[KernelOperand]
    table: KernelOperand
    words: list[int]


def _prepare_call(
    loop: Loop,
    traversal: Traversal,
    local: Any,
    weights: Sequence[Any],
    borders: Borders,
    table: Any,
) -> KernelCall:
    """Return the launch over these arrays, copied to the device or to another layout if needed."""
    import cupy

    *batch, rows, columns = table.shape
    arrays, shape = (local, *weights), (prod(batch), rows, columns)
    operands = [as_kernel_operand(array, tuple(batch)) for array in arrays]
    if traversal.strategy == "hyperplane":
        whole = empty_skewed(table.shape, table.dtype)
        signature = _signature(loop, operands, whole, columns, traversal.is_transposed)
        signature = replace(signature, is_aligned=False)
        operands = [
            skew(array, table.shape) if operand.variation == Variation.ARRAY else operand
            for operand, array in zip(operands, arrays, strict=True)
        ]
    else:
        writable = as_kernel_table(table, tuple(batch))
        whole = writable or as_kernel_operand(cupy.empty(table.shape, table.dtype), tuple(batch))
        signature = _signature(loop, operands, whole, columns, traversal.is_transposed)
    operands += _border_operands(borders, batch)
    device_id = cupy.cuda.runtime.getDevice()
    partition, run = prepare_launch(traversal.strategy, signature, shape, device_id)
    words = [word for operand in operands for word in operand.words]
    words += [*whole.words[:3], *shape, partition.strips, _bits(loop.floor, signature.dtype)]
    return KernelCall(run, operands, whole, words)


def _border_operands(borders: Borders, batch: Sequence[int]) -> list[KernelOperand]:
    """Return the values above, to the left and at the corner, with the axes that they lack."""
    grids = borders.above[..., None, :], borders.left[..., None], borders.corner[..., None, None]
    return [as_kernel_operand(border, tuple(batch), is_border=True) for border in grids]


def _signature(
    loop: Loop,
    operands: Sequence[KernelOperand],
    table: KernelOperand,
    columns: int,
    is_transposed: bool,
) -> Signature:
    dtype = table.array.dtype
    varying = [operand for operand in operands if operand.variation != Variation.CONSTANT]
    is_aligned = columns * dtype.itemsize % 16 == 0
    is_aligned = is_aligned and all(operand.is_aligned for operand in (*varying, table))
    variations = tuple(operand.variation for operand in operands)
    has_floor = loop.floor is not None
    return Signature(loop.operators, dtype, variations, has_floor, is_aligned, is_transposed)


def _bits(floor: Any, dtype: np.dtype[Any]) -> int:
    """Return a number of a dtype as a word of 64 bits."""
    number = np.zeros(8 // dtype.itemsize, dtype)
    number[0] = 0 if floor is None else floor
    return int(number.view(np.int64)[0])


def prepare_loop(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> PreparedSolver | None:
    """Return a solver for other arrays of these shapes and dtypes, by their addresses.

    None if an array needs a copy other than a transposed one.
    """
    if loop.strategy == "hyperplane":
        return None
    traversal = _choose(loop, (local, *weights), table)
    order = tuple(range(len(_TRANSPOSED)))
    if traversal.is_transposed:
        order = _TRANSPOSED
        local, weights, borders, table = _transposed(local, weights, borders, table)
    arrays = [local, *weights, borders.above, borders.left, borders.corner]
    call = _prepare_call(loop, traversal, local, weights, borders, table)
    is_written = call.table.array is table
    if not (is_written or is_transposed(table)):
        return None
    whole = None if is_written else table.swapaxes(-1, -2)
    on_gpu = [position for position, array in enumerate(arrays) if is_on_gpu(array)]
    copied = {
        position: arrays[position]
        for position in on_gpu
        if _is_copy(call, position, arrays[position])
    }
    if not all(map(is_transposed, copied.values())):
        return None
    return _PreparedLoop(call, {position: order[position] for position in on_gpu}, copied, whole)


def _is_copy(call: KernelCall, position: int, array: Any) -> bool:
    return bool(call.operands[position].array.data.ptr != array.data.ptr)


class _PreparedLoop:
    """A loop over grids by their addresses, some of which are copied transposed.

    Parameters
    ----------
    call : KernelCall
        The call for other grids. Of its arrays only scalars on the device are retained.
    positions : dict
        Position of each array among the operands: its position among the arguments of a call.
    copied : dict
        Operands that are copied, by their positions.
    whole : array or None
        The table, if the kernel writes a copy of it.
    """

    def __init__(
        self, call: KernelCall, positions: dict[int, int], copied: dict[int, Any], whole: Any
    ) -> None:
        self._bound, self._words, self._positions = LaunchByAddress(call.run), call.words, positions
        self._numbers = [
            operand.array
            for position, operand in enumerate(call.operands)
            if position not in positions
        ]
        self._copied = {position: _Copy(array) for position, array in copied.items()}
        self._whole = None if whole is None else _Copy(whole)

    def __call__(self, operands: Sequence[Any], results: Sequence[int]) -> None:
        words, buffers = list(self._words), []
        for position, argument in self._positions.items():
            address = operands[argument]
            if position in self._copied:
                buffers.append(self._copied[position].empty())
                self._copied[position](address, buffers[-1].data.ptr)
                address = buffers[-1].data.ptr
            words[position * _WORDS] = address
        (target,) = results
        if self._whole is not None:
            buffers.append(self._whole.empty())
            target = buffers[-1].data.ptr
        words[_TABLE] = target
        self._bound([words])
        if self._whole is not None:
            self._whole(target, *results)


class _Copy:
    """A transposed copy of arrays of one shape and dtype, by their addresses."""

    def __init__(self, array: Any) -> None:
        self._shape, self._dtype = array.shape, array.dtype
        self._bound = LaunchByAddress(prepare_copy(array.shape, array.dtype.itemsize))

    def empty(self) -> Any:
        import cupy

        return cupy.empty(self._shape, self._dtype)

    def __call__(self, source: int, target: int) -> None:
        self._bound([[source, target, *self._shape[-2:]]])
