"""Launches of a chunk's ends and of a chunk whose unknowns at the ends are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import Device, on_device, pack_words
from ...engines.cuda.launches import PreparedLaunches, RunLaunches
from ..errors import SingularSystemError
from ..recurrence import Ends
from ..systems import END_ROWS, strides_of
from .partitions import ADDRESSES, CELL, LaunchMemory, plan_partitions

IN_HOST_MEMORY = 64
Layout = tuple[tuple[int, int, int], np.dtype[Any], tuple[tuple[int, int, int], ...], bool]
"""Shape and dtype of a chunk, shapes of its operands, and whether these start at multiples of 16 bytes."""


def reduce_ends(layout: Layout, ends: Ends, rows: int, addresses: Sequence[int], cells: int) -> bool:
    """Launch the reduction of the first and of the last rows of a chunk to cells at an address.

    They are two outer systems for one launch. Return False if the GPU has too little shared memory.
    """
    import cupy

    words, launch = _launch_of_ends(*layout, ends[:2], rows, cupy.cuda.runtime.getDevice())
    if launch is None:
        return False
    words = words.copy()
    words[ADDRESSES] = [*addresses, 0, cells, 0]
    launch((pack_words(words),))
    return True


@lru_cache(maxsize=1024)
def _launch_of_ends(
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    shapes: tuple[tuple[int, int, int], ...],
    is_aligned: bool,
    ends: tuple[bool, bool],
    rows: int,
    number: int,
) -> tuple[np.ndarray, RunLaunches | None]:
    """Return the kernel's struct, without addresses, and the launch over the ends of a chunk."""
    start, strides = shape[1] - rows, []
    for operand_shape in shapes:
        _, step, along_inner = strides_of(operand_shape, shape)
        strides.append((start * step, step, along_inner))
    is_aligned &= start * dtype.itemsize % 16 == 0
    device = Device.current()
    plan = plan_partitions((2, rows, shape[2]), dtype, is_aligned, device)
    plan = replace(plan, threads=END_ROWS // plan.rows)
    words = plan.words(strides, (2 * ends[0], 2 * ends[1]))
    has_memory = plan.shared_bytes + CELL * plan.threads * dtype.itemsize <= device.shared_bytes
    return words, PreparedLaunches(plan.reduce_short()) if has_memory else None


def readable(carry_in: Any, dtype: np.dtype[Any]) -> Any:
    """Return the unknowns at the ends of systems as an array that kernels can read.

    A copy of few numbers to the device would take the host 45 us: kernels read them in its memory.
    """
    if carry_in.size > IN_HOST_MEMORY:
        return on_device(carry_in).astype(dtype, order="C", copy=False)
    from cupyx import empty_pinned

    known = empty_pinned(carry_in.shape, dtype)
    known[...] = carry_in
    return known


def neighbour_addresses(ends: Ends, known: Any) -> tuple[int, int]:
    """Return the addresses of the unknowns before and after each system, or 0."""
    if known is None:
        return 0, 0
    address = known.ctypes.data if isinstance(known, np.ndarray) else known.data.ptr
    return 0 if ends.has_first else address, 0 if ends.has_last else address + 3 * known.itemsize


def allocator(ends: Ends, chunk: Chunk, result: Any) -> Callable[[Sequence[int], int], LaunchMemory]:
    """Return ``(addresses of operands, address of the result) -> memory`` of a chunk's launches."""
    strides = [strides_of(operand.shape, chunk.shape) for operand in chunk.operands]
    arrays = [*chunk.operands, *([] if result is None else [result])]
    is_aligned = _are_aligned(arrays) and all(array.shape[0] in (1, chunk.shape[0]) for array in arrays)
    plan = plan_partitions(chunk.shape, chunk.dtype, is_aligned, Device.current())
    return partial(LaunchMemory, plan, ends[:2], strides)


def layout_of(chunk: Chunk) -> Layout:
    """Return the layout of a chunk whose operands are on the device."""
    shapes = tuple([operand.shape for operand in chunk.operands])
    return chunk.shape, chunk.dtype, shapes, _are_aligned(chunk.operands)


def _are_aligned(arrays: Iterable[Any]) -> bool:
    return all(array.data.ptr % 16 == 0 for array in arrays)


def copied_scalars(on_gpu: Chunk, chunk: Chunk) -> list[Any]:
    """Return the copy on the device of each operand that is a scalar; None for arrays.

    Prepared calls retain no reference to the caller's arrays.
    """
    pairs = zip(on_gpu.operands, chunk.operands, strict=True)
    return [None if here is operand else here for here, operand in pairs]


def addresses_with(scalars: Sequence[Any], operands: Sequence[Any]) -> list[int]:
    """Return the addresses of all operands, of which `operands` has those of arrays."""
    pairs = zip(scalars, operands, strict=True)
    return [address if scalar is None else scalar.data.ptr for scalar, address in pairs]


def solve_chunk(memory: LaunchMemory, known: Any) -> bool:
    """Solve a chunk whose unknowns at the ends are known."""
    plan = memory.plan
    memory.run("reduce")
    memory.numbers(plan.cuts(plan.top))[...] = on_device(known).reshape(-1)
    memory.run("substitute")
    rows = memory.numbers(plan.cells(plan.top)).get().reshape(-1, CELL)
    # The coefficients of both rows; see InterfaceRows.
    is_singular = (rows.reshape(-1, 2, CELL // 2)[..., :4] == 0).all((1, 2))
    if is_singular.any():
        raise SingularSystemError(int(is_singular.argmax()))
    return bool(np.isfinite(rows).all())
