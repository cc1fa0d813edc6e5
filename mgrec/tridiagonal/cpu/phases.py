"""Phases of tridiagonal systems on the CPU, for chunks in host memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import PreparedSolver, at_once
from ...engines.cpu.compilation import writable
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..errors import check_outcomes
from ..recurrence import Ends, TridiagonalKernels, TridiagonalSystem, solve_periodic_ends
from ..systems import InterfaceRows, prepared, strides_of
from . import batched, serial
from .batched import concurrent_groups, empty_work, group_count
from .partitions import (
    ChunkLayout,
    eliminate,
    empty_scratch,
    lanes_of,
    part_count,
    partition_tasks,
    solve_reduced,
)

Call = Callable[[], Any]

# Longer systems are split into partitions, or solved one by one without pivoting: side by side
# their factors take 50 MB a thread.
MAX_BATCHED_STEPS = 1 << 17
_SERIAL = {"cyclic-reduction": serial.solve_cyclic_reduction, "pcr": serial.solve_pcr}


def kernels(method: str) -> TridiagonalKernels:
    """Return the phases of a chunk; with method "threads" all threads share a call."""

    def threads_of(chunk: Chunk) -> int:
        # An unknown takes as long as some steps of a scan: of 2**18 unknowns a second thread takes
        # 0.4 of 1.3 ms.
        return threads_for(4 * prod(chunk.shape)) if method == "threads" else 1

    def precompute(ends: Ends, chunk: Chunk) -> InterfaceRows:
        operands, layout = _layout_of(ends, chunk)
        cells = _reduced(operands, layout, threads_of(chunk))
        return InterfaceRows(np.ascontiguousarray(_merge(cells, layout.parts, chunk.row_shape)))

    def determine(ends: Ends, chunk: Chunk, carry_in: np.ndarray | None, result: np.ndarray) -> bool:
        return _determine(ends.method, *_layout_of(ends, chunk), carry_in, result, threads_of(chunk))

    return TridiagonalKernels(determine, at_once(precompute), propagate, prepare_solver=prepare_solver)


def _call(calls: Sequence[Call], threads: int) -> list[Any]:
    return run_in_threads(calls) if threads > 1 else [call() for call in calls]


def propagate(system: TridiagonalSystem, summaries: Sequence[InterfaceRows]) -> list[np.ndarray]:
    """Return the carry-in of every chunk of a system, from the summaries in order.

    Unless the system is periodic, the coefficients of x before the first chunk and of x after the
    last chunk are ignored. Raise SingularSystemError if a system is singular.
    """
    row_shape, parts = summaries[0].rows.shape[:2], len(summaries)
    cells, known = np.empty((*row_shape, parts + 1, 2, 5), summaries[0].rows.dtype), None
    for k, summary in enumerate(summaries):
        cells[:, :, k] = summary.rows
    if system.is_periodic:
        known = solve_periodic_ends(_merge(cells.flatten(), parts, row_shape))
        if parts == 1:
            return [known]
    else:
        cells[:, :, 0, :, 0] = cells[:, :, parts - 1, :, 3] = 0
    _solve_interface(cells.reshape(-1), known, parts)
    return [cells[:, :, k : k + 2, :, 4].reshape(*row_shape, 4) for k in range(parts)]


def prepare_solver(ends: Ends, chunk: Chunk, carry_in: None, result: np.ndarray) -> PreparedSolver:
    """Return a solver for whole systems of the shape of a chunk, on the calling thread."""
    _, layout = _layout_of(ends, chunk)

    def solve(operands: Sequence[Any], results: Sequence[Any]) -> bool:
        flat = tuple([writable(operand).reshape(-1) for operand in operands])
        return _determine(ends.method, flat, layout, None, results[0].reshape(layout.shape), 1)

    return prepared(solve)


def _determine(
    method: str,
    operands: tuple[np.ndarray, ...],
    layout: ChunkLayout,
    carry_in: np.ndarray | None,
    result: np.ndarray,
    threads: int,
) -> bool:
    """Write the unknowns of a chunk; return whether all operands, which are 1-d, are finite.

    A system that contains nan or inf becomes nan. `carry_in` is an array of `propagate`, or None
    for whole systems. `result` (outer, steps, inner) is C-contiguous. Raise
    SingularSystemError if a system is singular.
    """
    flat, dtype = result.reshape(-1), result.dtype
    in_partitions = method == "partition" or (method == "auto" and not _fits_batch(layout, dtype))
    if carry_in is None and not in_partitions:
        check_outcomes(_call(_whole_calls(method, operands, layout, flat, threads), threads))
        # A system that contains nan or inf is nan from its first unknown to its last.
        return _are_finite(result[:, 0])
    known = None if carry_in is None else np.ascontiguousarray(carry_in, dtype)
    cells = _reduced(operands, layout, threads)
    _solve_interface(cells, known, layout.parts, threads)
    _eliminate(operands, layout, cells, threads, flat)
    # The values at all cuts are a twentieth of the numbers. They are nan if their system contains
    # nan or inf.
    return _are_finite(cells[4::5])


def _are_finite(numbers: np.ndarray) -> bool:
    return np.count_nonzero(np.isfinite(numbers)) == numbers.size


def _fits_batch(layout: ChunkLayout, dtype: np.dtype[Any]) -> bool:
    """Return whether systems are short, and enough of them to have one in each lane."""
    outer, steps, inner = layout.shape
    return outer * inner >= lanes_of(dtype) and steps <= MAX_BATCHED_STEPS


def _whole_calls(
    method: str, operands: tuple[np.ndarray, ...], layout: ChunkLayout, result: np.ndarray, threads: int
) -> list[Call]:
    """Return calls for the threads, which return a singular system, or -1.

    `operands` and `result` are 1-d. All methods but "partition" are supported.
    """
    dtype, (outer, steps, inner) = result.dtype, layout.shape
    serial_kernel = _SERIAL.get(method)
    if method == "thomas" and not _fits_batch(layout, dtype):
        serial_kernel = serial.solve_thomas
    if serial_kernel is not None:
        return [
            partial(
                serial_kernel,
                operands,
                layout,
                np.empty((4, serial.SCRATCH + 2 * steps), dtype),
                *part,
                result,
            )
            for part in split_range(outer * inner, threads)
        ]
    kernel = batched.solve_thomas if method == "thomas" else batched.solve_pivoting
    groups = concurrent_groups(layout.shape, dtype)
    return [
        partial(kernel, operands, layout, empty_work(layout.shape, dtype), groups, *part, result)
        for part in split_range(group_count(layout.shape, dtype), threads)
    ]


def _reduced(operands: tuple[np.ndarray, ...], layout: ChunkLayout, threads: int) -> np.ndarray:
    """Return the flat cells of a chunk, with the interface rows of all parts."""
    outer, _, inner = layout.shape
    cells = np.empty(outer * inner * (layout.parts + 1) * 10, operands[-1].dtype)
    _eliminate(operands, layout, cells, threads, cells[:0])
    return cells


def _eliminate(
    operands: Any, layout: ChunkLayout, cells: np.ndarray, threads: int, result: np.ndarray
) -> None:
    """Eliminate all partitions: those of each group of one length, divided among threads."""
    calls = [
        partial(eliminate, operands, layout, cells, empty_scratch(cells.dtype), *part, result)
        for part in partition_tasks(layout.shape, lanes_of(cells.dtype), threads)
    ]
    _call(calls, threads)


def _merge(cells: np.ndarray, parts: int, row_shape: tuple[int, ...]) -> np.ndarray:
    """Return the interface rows of systems from those of their parts; overwrite the first cells."""
    if parts > 1:
        _solve_interface(cells, None, parts, is_merged=True)
    return cells.reshape(*row_shape, parts + 1, 2, 5)[:, :, 0]


def _solve_interface(
    cells: np.ndarray, known: np.ndarray | None, parts: int, threads: int = 1, is_merged: bool = False
) -> None:
    """Write the values at all cuts, or merge rows; `known` is None for whole systems."""
    is_whole, systems = known is None and not is_merged, cells.size // (10 * (parts + 1))
    known = np.zeros(4 * systems, cells.dtype) if known is None else known.reshape(-1)
    arguments = cells, known, is_whole, is_merged, parts
    calls = [partial(solve_reduced, *arguments, *part) for part in split_range(systems, threads)]
    check_outcomes(_call(calls, threads))


def _layout_of(ends: Ends, chunk: Chunk) -> tuple[tuple[np.ndarray, ...], ChunkLayout]:
    """Return the operands as 1-d arrays, and their layout."""
    _, steps, inner = chunk.shape
    strides = [strides_of(operand, chunk.shape) for operand in chunk.operands]
    layout_ends = bool(ends.has_first), bool(ends.has_last)
    layout = ChunkLayout(
        chunk.shape, np.array([*strides, (steps * inner, inner, 1)]), layout_ends, part_count(chunk.steps)
    )
    # One compiled kernel serves all layouts.
    return tuple([writable(operand).reshape(-1) for operand in chunk.operands]), layout
