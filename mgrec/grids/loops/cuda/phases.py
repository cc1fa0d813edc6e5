"""Wavefront loops of CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ....core.backends import CPU, backend_of
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
    """A launch and its arguments."""

    run: PreparedLaunches
    operands: list[KernelOperand]  # `local`, the weights and the borders
    table: KernelOperand  # the table, or memory for it
    words: list[int]  # the kernel's struct: four words of each operand, then those of the table


def _prepare_call(
    loop: Loop, traversal: Traversal, local: Any, weights: Sequence[Any], borders: Borders,
    table: Any
) -> KernelCall:  # fmt: skip
    """Return the launch over these arrays, copied to the device or to another layout if needed."""
    import cupy

    *batch, rows, columns = table.shape
    arrays, shape = (local, *weights), (prod(batch), rows, columns)
    operands = [as_kernel_operand(array, batch) for array in arrays]
    variations = tuple(operand.variation for operand in operands)
    is_skewed, dtype = traversal.strategy == "hyperplane", table.dtype
    if is_skewed:
        whole = empty_skewed(table.shape, dtype)
        operands = [
            skew(array, table.shape) if operand.variation == Variation.ARRAY else operand
            for operand, array in zip(operands, arrays, strict=True)
        ]
    else:
        writable = as_kernel_table(table, batch)
        whole = writable or as_kernel_operand(cupy.empty(table.shape, dtype), batch)
    rows_in_memory = [operand for operand in operands if operand.variation != Variation.CONSTANT]
    is_aligned = not is_skewed and columns * dtype.itemsize % 16 == 0
    is_aligned = is_aligned and all(operand.is_aligned for operand in (*rows_in_memory, whole))
    has_floor = loop.floor is not None
    signature = Signature(
        loop.operators, dtype, variations, has_floor, is_aligned, traversal.is_transposed
    )
    corners = borders.above[..., None, :], borders.left[..., None], borders.corner[..., None, None]
    operands += [as_kernel_operand(border, batch, is_border=True) for border in corners]
    device_id = cupy.cuda.runtime.getDevice()
    partition, run = prepare_launch(traversal.strategy, signature, shape, device_id)
    words = [word for operand in operands for word in operand.words]
    words += [*whole.words[:3], *shape, partition.strips, _bits(loop.floor, dtype)]
    return KernelCall(run, operands, whole, words)


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
    log_strategy(loop, str(traversal), table)
    order = tuple(range(len(_TRANSPOSED)))
    if traversal.is_transposed:
        order = _TRANSPOSED
        local, weights, borders, table = _transposed(local, weights, borders, table)
    arrays = [local, *weights, borders.above, borders.left, borders.corner]
    call = _prepare_call(loop, traversal, local, weights, borders, table)
    is_written = call.table.array is table
    if not (is_written or is_transposed(table)):
        return None
    on_gpu = [position for position, array in enumerate(arrays) if backend_of(array) is not CPU]
    copied = {
        position: arrays[position]
        for position in on_gpu
        if call.operands[position].array.data.ptr != arrays[position].data.ptr
    }
    if not all(map(is_transposed, copied.values())):
        return None
    whole = None if is_written else table.swapaxes(-1, -2)
    return _PreparedLoop(call, {position: order[position] for position in on_gpu}, copied, whole)


class _PreparedLoop:
    """A loop over grids by their addresses, some of which are copied transposed.

    `positions` has the position of each operand among the arguments of a call. `copied` are the
    operands that are copied, and `whole` is the table if the kernel writes a copy of it. Of the
    arrays of the call for other grids, only scalars on the device are retained.
    """

    def __init__(
        self, call: KernelCall, positions: dict[int, int], copied: dict[int, Any], whole: Any
    ) -> None:
        self._bound, self._words, self._positions = LaunchByAddress(call.run), call.words, positions
        self._numbers = [x.array for k, x in enumerate(call.operands) if k not in positions]
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
        words[_TABLE] = results[0]
        if self._whole is not None:
            buffers.append(self._whole.empty())
            words[_TABLE] = buffers[-1].data.ptr
        self._bound([words])
        if self._whole is not None:
            self._whole(words[_TABLE], *results)


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
