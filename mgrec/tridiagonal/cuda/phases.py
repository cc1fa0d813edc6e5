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
from ...core.contract.kernels import CacheMiss, PreparedSolver, Summarise
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import ctype, print_definitions
from ...engines.cuda.device import after_launches, fetch, on_device, pack_words, raise_if_capturing
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ..errors import SingularSystemError
from ..recurrence import Ends, TridiagonalKernels
from ..systems import InterfaceRows
from .chunks import (
    addresses_of,
    allocator,
    are_aligned,
    launch_of_ends,
    neighbour_addresses,
    readable,
    solve_chunk,
)
from .nopivot import UNCAPTURED, cyclic_reduction, pcr, solve_whole, thomas
from .partitions import ADDRESSES, APART, CELL, LaunchMemory
from .shards import prepare_shard
from .windows import prepare_tries, start_windows, tries_of

WITHOUT_PIVOTING = {"thomas": thomas, "cyclic-reduction": cyclic_reduction, "pcr": pcr}
"""Methods of whole systems, by the plans of their launches."""
_THREADS = 256
_KERNEL = """
typedef {number} T;
constexpr int N = 16 / sizeof(T);
struct alignas(16) Word {{ T v[N]; }};
DEVICE inline void store(T* to, const Word& word, int length) {{
  if (!to) return;
  if (length == N) *reinterpret_cast<Word*>(to) = word;
  else
    for (int r = 0; r < length; ++r) to[r] = word.v[r];
}}
extern "C" __global__ void __launch_bounds__(THREADS) products_kernel(
    const T* solution, const T* x, T* of_dl, T* of_d, T* of_du, long long count, long long steps) {{
  const long long first = (blockIdx.x * (long long)THREADS + threadIdx.x) * N;
  if (first >= count) return;
  const int length = count - first < N ? int(count - first) : N;
  Word factor = {{}}, below, middle, above;
  if (length == N) factor = *reinterpret_cast<const Word*>(solution + first);
  else
    for (int r = 0; r < length; ++r) factor.v[r] = solution[first + r];
  // A division of 64 bits would take as long as the loads.
  long long step = first;
  if (steps < count) step = count >> 32 ? first % steps : unsigned(first) % unsigned(steps);
#pragma unroll
  for (int r = 0; r < N; ++r) {{
    const long long k = first + r;
    const bool is_there = r < length, has_before = step > 0, has_after = step < steps - 1;
    const T minus = -factor.v[r];
    below.v[r] = is_there && has_before ? minus * x[k - 1] : T(0);
    middle.v[r] = is_there ? minus * x[k] : T(0);
    above.v[r] = is_there && has_after ? minus * x[k + 1] : T(0);
    if (++step == steps) step = 0;
  }}
  store(of_dl ? of_dl + first : of_dl, below, length);
  store(of_d ? of_d + first : of_d, middle, length);
  store(of_du ? of_du + first : of_du, above, length);
}}
"""


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
    """Launch the reduction of every system of a chunk to its two interface rows.

    The operands of the chunk are dl, d, du and b. The returned function waits for the kernels, and
    returns the rows in host memory.
    """
    chunk = chunk.map_arrays(on_device, chunk.shape)
    return _reduce(allocator(ends, chunk, None)(addresses_of(chunk), 0))


def precompute_ends(ends: Ends, chunk: Chunk, rows: int) -> Summarise | None:
    """Launch the reduction of the first and of the last rows of a chunk with one outer row.

    They are two outer systems for one launch: its interface rows have an outer axis of length 2.
    The kernel writes them to memory of the host. None if the GPU has too little shared memory.
    """
    import cupy
    from cupyx import empty_pinned

    chunk = chunk.map_arrays(on_device, chunk.shape)
    shapes = tuple([operand.shape for operand in chunk.operands])
    layout = chunk.shape, chunk.dtype, shapes, are_aligned(chunk.operands)
    words, launch = launch_of_ends(*layout, ends[:2], rows, cupy.cuda.runtime.getDevice())
    if launch is None:
        return None
    cells = empty_pinned((2, chunk.shape[2], 2, CELL // 2), chunk.dtype)
    words = words.copy()
    words[ADDRESSES] = [*addresses_of(chunk), 0, cells.ctypes.data, 0]
    launch((pack_words(words),))
    wait = after_launches(cells)
    return lambda: InterfaceRows(wait())


def _reduce(memory: LaunchMemory) -> Summarise:
    memory.run("reduce")
    plan = memory.plan
    outer, _, inner = plan.shape
    wait = fetch(memory.numbers(plan.cells(plan.top)))
    return lambda: InterfaceRows(wait().reshape(outer, inner, 2, CELL // 2))


def determine(ends: Ends, chunk: Chunk, carry_in: Any, result: Any) -> bool:
    """Write the unknowns of a chunk; return whether all operands are finite.

    `carry_in` (outer, inner, 4) is the unknown before each system, its first, its last and the one
    after it, or None for whole systems. `result` (outer, steps, inner) is C-contiguous. Raise
    SingularSystemError if the elimination of a whole system meets a pivot of 0.
    """
    return launch_determine(ends, chunk, carry_in, result)()


def launch_determine(ends: Ends, chunk: Chunk, carry_in: Any, result: Any) -> Callable[[], bool]:
    """Launch `determine`; the returned function waits, and returns what that returns."""
    raise_if_capturing(*UNCAPTURED)
    chunk = chunk.map_arrays(on_device, chunk.shape)
    known = None if carry_in is None else readable(carry_in, chunk.dtype)
    tries = prepare_tries(chunk, apart=APART) if ends.method == "auto" else ()
    addresses = addresses_of(chunk)
    wait = start_windows(tries, addresses, result.data.ptr, neighbour_addresses(ends, known))

    def allocate() -> LaunchMemory:
        return allocator(ends, chunk, result)(addresses, result.data.ptr)

    try:
        # While the windows run, so that the solution with pivoting can be launched at once.
        memory = allocate() if known is None else None
    except BaseException:
        wait()
        raise

    def finish() -> bool:
        if wait():
            return True
        return solve_chunk(allocate(), known) if memory is None else _solve_whole(memory)

    return finish


def prepare_solver(ends: Ends, chunk: Chunk, carry_in: None, result: Any) -> PreparedSolver:
    """Prepare a solver for whole systems of the shape of a chunk; see :class:`Kernels`."""
    raise_if_capturing(*UNCAPTURED)
    on_gpu = chunk.map_arrays(on_device, chunk.shape)
    tries = prepare_tries(on_gpu, apart=APART) if ends.method == "auto" else ()
    allocate = allocator(ends, on_gpu, result)
    # Copies of scalars on the device only: no reference to the caller's arrays is retained.
    scalars: list[Any] = [
        None if on_device_operand is operand else on_device_operand
        for on_device_operand, operand in zip(on_gpu.operands, chunk.operands, strict=True)
    ]
    windows_solved = True

    def solve(operands: Sequence[Any], results: Sequence[int]) -> None:
        nonlocal windows_solved
        raise_if_capturing(*UNCAPTURED)
        (target,) = results
        addresses = [
            address if scalar is None else scalar.data.ptr
            for scalar, address in zip(scalars, operands, strict=True)
        ]
        wait = start_windows(tries, addresses, target)
        try:
            # Allocate while the windows run if they failed in the last call.
            memory = None if windows_solved else allocate(addresses, target)
        finally:
            windows_solved = wait()
        if windows_solved:
            return
        try:
            is_finite = _solve_whole(memory or allocate(addresses, target))
        except SingularSystemError as error:
            raise CacheMiss from error
        if not is_finite:
            raise CacheMiss

    return solve


def determine_without_pivoting(ends: Ends, chunk: Chunk, carry_in: None, result: Any) -> bool:
    """Write the unknowns of whole systems by the method of `ends`.

    Return whether all operands are finite; a system that contains nan or inf becomes nan. Raise
    SingularSystemError if a pivot is 0, or overflows.
    """
    raise_if_capturing(*UNCAPTURED)
    chunk = chunk.map_arrays(on_device, chunk.shape)
    return solve_whole(WITHOUT_PIVOTING[ends.method], chunk, result)


def _solve_whole(memory: LaunchMemory) -> bool:
    """Solve whole systems. The host knows of singular ones before the last kernels start."""
    memory.run("solve")
    wait = memory.fetch_status()
    memory.run("substitute_whole")
    singular, not_finite = wait()
    if singular is not None:
        raise SingularSystemError(singular)
    return not_finite is None


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
    tries = tries_of(layout, dtype, (layout,) * 4, False, device)
    wait = start_windows(tries, (du - dtype.itemsize, d, dl + dtype.itemsize, grad), of_b)
    try:
        # While the windows run: they seldom fail.
        if tries and any(of_diagonals):
            blocks = -(-size * dtype.itemsize // (16 * _THREADS))
            _prepare(dtype, device, blocks)([of_b, x, *of_diagonals, size, steps])
    finally:
        is_solved = wait()
    return is_solved


@lru_cache(maxsize=256)
def _prepare(dtype: np.dtype[Any], device: int, blocks: int) -> LaunchByAddress:
    number = np.dtype(np.int64)
    arguments = (*map(Slot, range(5)), *(Slot(k, (), number, None) for k in (5, 6)))
    text = print_definitions(kernel_text("engines/cuda/numeric"), {"THREADS": _THREADS})
    text += _KERNEL.format(number=ctype(dtype))
    launch = Launch(text, "products_kernel", blocks, _THREADS, arguments)
    return LaunchByAddress(PreparedLaunches(launch))
