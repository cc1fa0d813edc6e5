"""Phases of tridiagonal systems on a GPU, for chunks of CuPy arrays, and gradients by windows.

Every thread has a partition in shared memory, and reduces it to its two interface rows by the
elimination of :mod:`mgrec.tridiagonal.cpu.elimination`. Runs of partitions are merged to one pair
of rows, level by level, until one thread solves the reduced system. Back substitution repeats the
elimination of each level, which gives the unknowns at the cuts, at last those of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import PreparedSolver, Summarise
from ...engines.cuda.device import after_launches, on_device, raise_if_capturing
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ..errors import SingularSystemError
from ..recurrence import Ends, TridiagonalKernels
from ..systems import InterfaceRows, prepared
from .nopivot import UNCAPTURED, cyclic_reduction, launch_whole, pcr, thomas
from .partitions import (
    APART,
    CELL,
    NONE,
    addresses_with,
    allocator,
    copied_scalars,
    layout_of,
    neighbour_addresses,
    print_program,
    readable,
    reduce_ends,
)
from .shards import prepare_shard
from .windows import Try, prepare_tries, start_windows, tries_of

WITHOUT_PIVOTING = {"thomas": thomas, "cyclic-reduction": cyclic_reduction, "pcr": pcr}
"""Methods of whole systems, by the plans of their launches."""
_THREADS = 256


def kernels(method: str) -> TridiagonalKernels:
    """Return the phases of a chunk."""
    if method in WITHOUT_PIVOTING:
        return TridiagonalKernels(determine_without_pivoting)
    return TridiagonalKernels(
        determine,
        precompute,
        precompute_ends=precompute_ends,
        launch_determine=launch_determine,
        prepare_solver=prepare_solver,
        differentiate=differentiate,
        prepare_shard=prepare_shard,
    )


def precompute(ends: Ends, chunk: Chunk) -> Summarise:
    """Launch the reduction of every system of a chunk to its two interface rows."""
    chunk = chunk.map_arrays(on_device, chunk.shape)
    wait = allocator(ends, chunk, None)(_addresses_of(chunk), 0).reduce()
    return lambda: InterfaceRows(wait().reshape(*chunk.row_shape, 2, CELL // 2))


def precompute_ends(ends: Ends, chunk: Chunk, rows: int) -> Summarise | None:
    """Launch the reduction of the first and of the last rows of a chunk with one outer row.

    Its interface rows have an outer axis of length 2. The kernel writes them to memory of the host.
    None if the GPU has too little shared memory.
    """
    from cupyx import empty_pinned

    chunk = chunk.map_arrays(on_device, chunk.shape)
    cells = empty_pinned((2, chunk.shape[2], 2, CELL // 2), chunk.dtype)
    if not reduce_ends(layout_of(chunk), ends, rows, _addresses_of(chunk), cells.ctypes.data):
        return None
    wait = after_launches(cells)
    return lambda: InterfaceRows(wait())


def determine(ends: Ends, chunk: Chunk, carry_in: Any, result: Any) -> bool:
    """Write the unknowns of a chunk; return whether all operands are finite.

    `carry_in` (outer, inner, 4) is the unknown before each system, its first, its last and the one
    after it, or None for whole systems. `result` (outer, steps, inner) is C-contiguous. Raise
    SingularSystemError if the elimination of a whole system meets a pivot of 0.
    """
    if carry_in is not None:
        return launch_determine(ends, chunk, carry_in, result)()
    chunk = chunk.map_arrays(on_device, chunk.shape)
    return _solver_of(ends, chunk, result, windows_solved=False)(_addresses_of(chunk), result.data.ptr)


def launch_determine(ends: Ends, chunk: Chunk, carry_in: Any, result: Any) -> Callable[[], bool]:
    """Launch `determine` with a carry-in; the returned function waits, and returns what that returns."""
    raise_if_capturing(*UNCAPTURED)
    chunk = chunk.map_arrays(on_device, chunk.shape)
    known, addresses = readable(carry_in, chunk.dtype), _addresses_of(chunk)
    neighbours = neighbour_addresses(ends, known)
    wait = start_windows(_tries_of(ends, chunk), addresses, result.data.ptr, neighbours)

    def finish() -> bool:
        return wait() or allocator(ends, chunk, result)(addresses, result.data.ptr).solve_chunk(known)

    return finish


def prepare_solver(ends: Ends, chunk: Chunk, carry_in: None, result: Any) -> PreparedSolver:
    """Prepare a solver for whole systems of the shape of a chunk; see :class:`Kernels`."""
    on_gpu = chunk.map_arrays(on_device, chunk.shape)
    scalars, solve_at = copied_scalars(on_gpu, chunk), _solver_of(ends, on_gpu, result)

    return prepared(lambda operands, results: solve_at(addresses_with(scalars, operands), results[0]))


def _solver_of(
    ends: Ends, chunk: Chunk, result: Any, windows_solved: bool = True
) -> Callable[[Sequence[int], int], bool]:
    """Return `determine` of whole systems, by the addresses of operands and of the result."""
    raise_if_capturing(*UNCAPTURED)
    tries, allocate = _tries_of(ends, chunk), allocator(ends, chunk, result)

    def solve(addresses: Sequence[int], target: int) -> bool:
        nonlocal windows_solved
        raise_if_capturing(*UNCAPTURED)
        wait = start_windows(tries, addresses, target)
        try:
            # Allocate while the windows run, unless they solved the last call.
            memory = None if windows_solved else allocate(addresses, target)
        finally:
            windows_solved = wait()
        return windows_solved or (memory or allocate(addresses, target)).solve_whole()

    return solve


def _tries_of(ends: Ends, chunk: Chunk) -> tuple[Try, ...]:
    return prepare_tries(chunk, apart=APART) if ends.method == "auto" else ()


def _addresses_of(chunk: Chunk) -> list[int]:
    return [operand.data.ptr for operand in chunk.operands]


def determine_without_pivoting(ends: Ends, chunk: Chunk, carry_in: None, result: Any) -> bool:
    """Write the unknowns of whole systems by the method of `ends`.

    Return whether all operands are finite; a system that contains nan or inf becomes nan. Raise
    SingularSystemError if a pivot is 0, or overflows.
    """
    raise_if_capturing(*UNCAPTURED)
    chunk = chunk.map_arrays(on_device, chunk.shape)
    singular, are_finite = launch_whole(WITHOUT_PIVOTING[ends.method], chunk, result)[:2].get()
    if singular != NONE:
        raise SingularSystemError(int(singular))
    return bool(are_finite)


def differentiate(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: int,
    addresses: Sequence[int],
    results: Sequence[int],
) -> bool:
    """Write the gradients of real contiguous systems along the last axis.

    `addresses` are those of the gradient of x, of x, dl, d and du, all of one shape and dtype on
    the current device; `results` are those of the gradients of dl, d, du and b, or 0 for those of
    diagonals that are not wanted. Return False if the
    transposed system needs pivoting or is not finite: the results have no meaning then.

    The diagonals below and above of the transposed system are du and dl, shifted by one entry in
    memory. Windows ignore the entries that are those of another system, and do not read those
    outside.
    """
    raise_if_capturing(*UNCAPTURED)
    grad, x, dl, d, du = addresses
    *of_diagonals, of_b = results
    steps, size = shape[-1], prod(shape)
    layout = size // steps, steps, 1
    tries = tries_of(layout, dtype, ((steps, 1, 1),) * 4, False, device)

    def launch_products() -> None:
        if any(of_diagonals):
            blocks = -(-size * dtype.itemsize // (16 * _THREADS))
            _prepare(dtype, device, blocks)([of_b, x, *of_diagonals, size, steps])

    operands = du - dtype.itemsize, d, dl + dtype.itemsize, grad
    return start_windows(tries, operands, of_b, launch_next=launch_products)()


@lru_cache(maxsize=256)
def _prepare(dtype: np.dtype[Any], device: int, blocks: int) -> LaunchByAddress:
    number = np.dtype(np.int64)
    arguments = (*map(Slot, range(5)), *(Slot(k, (), number, None) for k in (5, 6)))
    launch = Launch(
        print_program("products", dtype, THREADS=_THREADS), "products_kernel", blocks, _THREADS, arguments
    )
    return LaunchByAddress(PreparedLaunches(launch))
