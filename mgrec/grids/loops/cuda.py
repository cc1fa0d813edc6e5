"""Wavefront loops of CuPy arrays: operands by address and strides, programs and launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ...core.algebra.fingerprint import StepFunction
from ...core.backends import CPU, backend_of
from ...core.contract.kernels import Kernels, PreparedSolver, TileParts
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import Device, on_device, pack_words
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches
from ...engines.cuda.tracing import trace_operator
from ..cuda import Shape, assign, contiguous, is_transposed, prepare_copy
from ..recurrence import part_of_gpu
from .api import Borders, Loop, is_compensable, log_strategy
from .layout import (
    Hyperplanes,
    LoopLayout,
    LoopPartition,
    Signature,
    Traversal,
    Variation,
    choose_partition,
    choose_traversal,
)

Strides = tuple[int, int, int]
LANES = Hyperplanes.threads
# The smallest normal number, and 32 times its rounding.
_LIMITS = {4: ("0x1p-126", "0x1p-19"), 8: ("0x1p-1022", "0x1p-48")}
_NAMES = {"+": "np_add", "*": "np_multiply", "max": "np_maximum", "min": "np_minimum"}
# Positions of the operands of the loop over transposed arrays among those of the loop.
_TRANSPOSED = 0, 2, 1, 3, 5, 4, 6
# Words of an operand in the kernel's struct, and the position of the table there.
_WORDS, _TABLE = 4, 28


def kernels(method: str) -> Kernels:
    """Return the phases of a tile."""
    return Kernels(determine_loop, prepare_solver=prepare_loop, part=_part)


@dataclass(frozen=True)
class KernelOperand:
    """An array on the device, and its strides in numbers: over grids, rows and columns."""

    array: Any
    strides: Strides

    @property
    def variation(self) -> Variation:
        _, row, column = self.strides
        if column == 0:
            return Variation.CONSTANT
        return Variation.ROW if row == 0 else Variation.ARRAY

    @property
    def words(self) -> tuple[int, ...]:
        return (self.array.data.ptr, *self.strides)

    @property
    def is_aligned(self) -> bool:
        """Whether all rows start at multiples of 16 bytes."""
        size = self.array.dtype.itemsize
        grid, row, _ = self.strides
        return not any(n % 16 for n in (self.array.data.ptr, grid * size, row * size))


def as_kernel_operand(operand: Any, batch: Sequence[int], is_border: bool = False) -> KernelOperand:
    """Return an operand (..., rows, columns) of a batch of grids, copied only if necessary.

    Lengths of 1 are broadcast. Columns must be contiguous, except those of borders.
    """
    import cupy

    array = on_device(operand)
    if array.size == 1:
        return KernelOperand(array, (0, 0, 0))
    strides = _strides(array, batch, is_border)
    if strides is None:
        array = contiguous(array)
        strides = _strides(array, batch, is_border)
    if strides is None:
        array = cupy.ascontiguousarray(cupy.broadcast_to(array, (*batch, *array.shape[-2:])))
        strides = _strides(array, batch, is_border)
    assert strides is not None
    return KernelOperand(array, strides)


def variation_of(operand: Any) -> Variation:
    """Return how an operand (..., rows, columns) varies, if it is not a broadcast view."""
    rows, columns = operand.shape[-2:]
    if columns == 1:
        return Variation.CONSTANT
    return Variation.ROW if rows == 1 else Variation.ARRAY


def as_kernel_table(table: Any, batch: Sequence[int]) -> KernelOperand | None:
    """Return a table that kernels can write, or None if its columns are not contiguous."""
    strides = _strides(table, batch, is_border=False)
    is_writable = strides is not None and (strides[2] == 1 or table.shape[-1] == 1)
    return KernelOperand(table, strides) if strides is not None and is_writable else None


def _strides(array: Any, batch: Sequence[int], is_border: bool) -> Strides | None:
    """Return strides in numbers; None if grids have no single stride, or columns are apart."""
    size, byte_strides = array.dtype.itemsize, array.strides
    if array.data.ptr % size or any(stride % size for stride in byte_strides):
        return None
    strides = [0 if n == 1 else s // size for n, s in zip(array.shape, byte_strides, strict=True)]
    *outer, row, column = strides
    if not (is_border or column in (0, 1)):
        return None
    if not any(outer):
        return 0, row, column
    outer = [0] * (len(batch) - len(outer)) + outer
    grids = [(n, stride) for n, stride in zip(batch, outer, strict=True) if n > 1]
    is_even = all(stride == n * inner for (_, stride), (n, inner) in pairwise(grids))
    return (grids[-1][1], row, column) if is_even else None


def skew(operand: Any, shape: tuple[int, ...]) -> KernelOperand:
    """Return a skewed copy of an operand that broadcasts to grids of this shape.

    The antidiagonals of a strip of 32 rows follow each other in memory, and the strips as well.
    """
    import cupy

    copy = empty_skewed(shape, operand.dtype)
    for view, rows in _strip_views(copy.array, shape):
        view[...] = cupy.broadcast_to(operand, shape)[..., rows, :].reshape(view.shape)
    return copy


def empty_skewed(shape: tuple[int, ...], dtype: Any) -> KernelOperand:
    """Allocate a skewed copy of grids: each strip has 31 columns more than the grids."""
    import cupy

    strips, size = _strip_sizes(shape)
    return KernelOperand(cupy.empty(strips * size, dtype), (size, LANES + 1, LANES))


def unskew(copy: KernelOperand, table: Any) -> None:
    """Write grids (..., rows, columns) from a skewed copy."""
    for view, rows in _strip_views(copy.array, table.shape):
        part = table[..., rows, :]
        part[...] = view.reshape(part.shape)


def _strip_sizes(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of strips, and the numbers in each."""
    *batch, rows, columns = shape
    return prod(batch) * -(-rows // LANES), (columns + LANES - 1) * LANES


def _strip_views(copy: Any, shape: tuple[int, ...]) -> Iterator[tuple[Any, slice]]:
    """Yield views (grids, strips, rows, columns) of the whole strips, and of the last one."""
    from cupy.lib.stride_tricks import as_strided

    grids, rows, columns = prod(shape[:-2]), shape[-2], shape[-1]
    strips, size = -(-rows // LANES), _strip_sizes(shape)[1]
    strides = [n * copy.itemsize for n in (strips * size, size, LANES + 1, LANES)]
    whole, remaining = divmod(rows, LANES)
    if whole:
        yield as_strided(copy, (grids, whole, LANES, columns), strides), slice(whole * LANES)
    if remaining:
        last = copy[whole * size :]
        yield as_strided(last, (grids, 1, remaining, columns), strides), slice(whole * LANES, rows)


def _print_operator(name: str, operator: str | StepFunction, dtype: np.dtype[Any]) -> str:
    """Return ◇ or ∘ as a C++ function of two numbers."""
    if isinstance(operator, StepFunction):
        return trace_operator(operator, name, dtype)
    return f"DEVICE inline T {name}(T a, T b) {{ return {_NAMES[operator]}(a, b); }}\n"


def _flags(signature: Signature) -> dict[str, int]:
    """Return the flags of a signature; the last four are the errors of a scan that are corrected.

    Sums and products modulo 2**bits are exact in any order. Products of weights lose digits
    below the smallest normal number, and nothing is known about functions of the user.
    """
    operators, is_custom = signature.operators, bool(signature.operators.functions)
    return {
        "ALIGNED": signature.is_aligned,
        "FLOORED": signature.is_floored,
        "TURNED": signature.is_transposed,
        "SAME": operators.accumulate == operators.distribute,
        "CHECKED": signature.dtype.kind == "f" or is_custom or operators.accumulate != "+",
        "LOSES": operators.distribute == "*" or is_custom,
        "ALWAYS_LOSES": is_custom,
    }


def _print_loop(layout: LoopLayout) -> str:
    signature = layout.signature
    operators, dtype = signature.operators, signature.dtype
    kinds = " : ".join(f"o == {o} ? {int(v)}" for o, v in enumerate(signature.variations))
    smallest, tolerance = _LIMITS[dtype.itemsize]
    numeric = kernel_text("engines/cuda/numeric")
    text = print_definitions(numeric, _flags(signature) | layout.constants, T=dtype)
    text += f"constexpr double SMALLEST = {smallest}, TOLERANCE = {tolerance};\n"
    text += f"DEVICE constexpr int kind_of(int o) {{ return {kinds} : 0; }}\n"
    text += _print_operator("accumulate", operators.accumulate, dtype)
    text += _print_operator("distribute", operators.distribute, dtype)
    return text + kernel_text(f"grids/loops/{layout.strategy}")


def build_launch(partition: LoopPartition, device: Device) -> Launch:
    """Return the launch over grids.

    Products are rounded before they are added, as in the plain loop.
    """
    layout = partition.layout
    text, function = _print_loop(layout), f"solve_{layout.strategy}"
    return partition.launch(device, text, "loop_kernel", function, layout.most_blocks, words=36)


@lru_cache(maxsize=1024)
def prepare_launch(
    strategy: str, signature: Signature, shape: Shape, device_id: int
) -> tuple[LoopPartition, PreparedLaunches]:
    """Return how grids are divided into strips, and the launch of their loop on a device."""
    device = Device.current()
    partition = choose_partition(strategy, signature, shape, device)
    return partition, PreparedLaunches(build_launch(partition, device), units=partition.words)


def _part(loop: Loop, shape: Sequence[int], side: int) -> TileParts | None:
    return part_of_gpu(shape) if loop.strategy == "tiles" else None


def determine_loop(loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any) -> None:
    """Write the table of a tile. Scalars, and borders that are edges, may be in host memory."""
    if table.size == 0:
        return
    traversal = _choose(loop, (local, *weights), table)
    log_strategy(loop, str(traversal), table)
    if traversal.is_transposed:
        local, weights, borders, table = _transposed(local, weights, borders, table)
    call = _prepare_call(loop, traversal, local, weights, borders, table)
    call.prepared((pack_words(call.words),))
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

    prepared: PreparedLaunches
    operands: list[KernelOperand]  # `local`, the weights and the borders
    table: KernelOperand  # the table, or memory for it
    words: list[int]  # the kernel's struct: four words of each operand, then those of the table


def _prepare_call(
    loop: Loop, traversal: Traversal, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> KernelCall:
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
    signature = Signature(loop.operators, dtype, variations, has_floor, is_aligned, traversal.is_transposed)
    corners = borders.above[..., None, :], borders.left[..., None], borders.corner[..., None, None]
    operands += [as_kernel_operand(border, batch, is_border=True) for border in corners]
    device_id = cupy.cuda.runtime.getDevice()
    partition, prepared = prepare_launch(traversal.strategy, signature, shape, device_id)
    words = [word for operand in operands for word in operand.words]
    words += [*whole.words[:3], *shape, partition.strips, _bits(loop.floor, dtype)]
    return KernelCall(prepared, operands, whole, words)


def _bits(floor: Any, dtype: np.dtype[Any]) -> int:
    """Return a number of a dtype as a word of 64 bits."""
    number = np.zeros(8 // dtype.itemsize, dtype)
    number[0] = 0 if floor is None else floor
    return int(number.view(np.int64)[0])


def prepare_loop(
    loop: Loop, local: Any, weights: Sequence[Any], borders: Borders, table: Any
) -> PreparedSolver | None:
    """Return a solver for other arrays of these shapes and dtypes, by their addresses."""
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
        self._bound, self._words, self._positions = (LaunchByAddress(call.prepared), call.words, positions)
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
