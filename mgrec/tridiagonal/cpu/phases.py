"""Phases of tridiagonal systems on the CPU, for chunks in host memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, at_once
from ...engines.cpu.compilation import writable
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..errors import SingularSystemError
from ..interface import Ends, InterfaceRows, solve_periodic_ends
from . import batched, interface, serial
from .partitions import (
    Layout,
    empty_cells,
    empty_scratch,
    lanes_of,
    part_count,
    partitions_of,
    reduce,
    substitute,
)
from .tiles import concurrent_groups, empty_work, group_count

Call = Callable[[], Any]
Memory = tuple[tuple[np.ndarray, ...], Layout, np.ndarray]

# Longer systems are split into partitions, or solved one by one without pivoting: side by side
# their factors take 50 MB a thread.
MAX_BATCHED_STEPS = 1 << 17
_SERIAL = {"cyclic-reduction": serial.solve_cyclic_reduction, "pcr": serial.solve_pcr}


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; with method "threads" all threads share a call."""
    if method == "threads":
        return Kernels(determine_on_threads, at_once(precompute_on_threads), propagate)
    return Kernels(determine, at_once(precompute), propagate)


def precompute_on_threads(ends: Ends, chunk: Chunk) -> InterfaceRows:
    """Reduce every system of a chunk on the threads of this process."""
    return precompute(ends, chunk, _thread_count(prod(chunk.shape)))


def determine_on_threads(ends: Ends, chunk: Chunk, carry_in: Any, result: np.ndarray) -> bool:
    """Write the unknowns of a chunk on the threads of this process."""
    return determine(ends, chunk, carry_in, result, _thread_count(result.size))


def _thread_count(unknowns: int) -> int:
    # An unknown takes as long as some steps of a scan: of 2**18 unknowns a second thread takes
    # 0.4 of 1.3 ms.
    return threads_for(4 * unknowns)


def _run(calls: Sequence[Call], threads: int = 1) -> list[Any]:
    return run_in_threads(calls) if threads > 1 else [call() for call in calls]


def precompute(ends: Ends, chunk: Chunk, threads: int = 1) -> InterfaceRows:
    """Return the two interface rows of every system of a chunk, whose operands are dl, d, du, b."""
    if chunk.steps == 0:
        return InterfaceRows(None)
    memory = _memory_of(ends, chunk)
    _run(_calls(reduce, memory, threads), threads)
    _, layout, cells = memory
    if layout.parts > 1:
        interface.merge(cells, layout.parts)
    rows = cells.reshape(*chunk.row_shape, layout.parts + 1, 2, 5)[:, :, 0]
    return InterfaceRows(np.ascontiguousarray(rows.transpose(2, 3, 0, 1)))


def propagate(
    summaries: Sequence[InterfaceRows], is_periodic: bool = False
) -> list[np.ndarray | None]:
    """Return the values at the ends of every chunk of a system.

    Parameters
    ----------
    summaries : list of InterfaceRows
        Those of all chunks in order. Unless `is_periodic`, the coefficients of x before the first
        chunk and of x after the last chunk are ignored.

    Returns
    -------
    list of arrays (4, outer, inner)
        For each chunk the x before it, its first, its last and the x after it; None for a chunk
        of no rows.

    Raises
    ------
    SingularSystemError
        A system is singular: elimination meets a pivot of 0.
    """
    rows = [summary.rows for summary in summaries if summary.rows is not None]
    if not rows:
        return [None] * len(summaries)
    row_shape, parts = rows[0].shape[2:], len(rows)
    flat = empty_cells(row_shape[0] * row_shape[1], parts, rows[0].dtype)
    cells = flat.reshape(*row_shape, parts + 1, 2, 5)
    for k, part in enumerate(rows):
        cells[:, :, k] = part.transpose(2, 3, 0, 1)
    if is_periodic:
        _solve_periodic(flat, parts, row_shape)
    else:
        cells[:, :, 0, :, 0] = cells[:, :, parts - 1, :, 3] = 0
        _solve_interface(flat, None, parts)
    values = cells[..., 4].transpose(2, 3, 0, 1)
    carry_ins = (np.concatenate(values[k : k + 2]) for k in range(parts))
    return [None if summary.rows is None else next(carry_ins) for summary in summaries]


def determine(
    ends: Ends, chunk: Chunk, carry_in: np.ndarray | None, result: np.ndarray, threads: int = 1
) -> bool:
    """Write the unknowns of a chunk; return whether all operands are finite.

    A system that contains nan or inf becomes nan.

    Parameters
    ----------
    carry_in : array (4, outer, inner), optional
        An array of `propagate`; None for whole systems, and for no rows.
    result : array (outer, steps, inner), C-contiguous
        Written.

    Raises
    ------
    SingularSystemError
        A system is singular.
    """
    if carry_in is None:
        return solve(ends, chunk, result, threads)
    known = np.ascontiguousarray(carry_in.reshape(4, -1).T, chunk.dtype).reshape(-1)
    return _solve_partitions(_memory_of(ends, chunk), known, result, threads)


def solve(ends: Ends, chunk: Chunk, result: np.ndarray, threads: int = 1) -> bool:
    """Write the unknowns of whole systems, as `determine`."""
    if result.size == 0:
        return True
    operands, layout = _layout_of(ends, chunk)
    if not _uses_partitions(ends.method, layout, chunk.dtype):
        calls = _whole_calls(ends.method, operands, layout, result.reshape(-1), threads)
        _check(max(_run(calls, threads)))
        # A system that contains nan or inf is nan from its first unknown to its last.
        return bool(np.isfinite(result[:, 0]).all())
    cells = empty_cells(chunk.shape[0] * chunk.shape[2], layout.parts, chunk.dtype)
    return _solve_partitions((operands, layout, cells), None, result, threads)


def _solve_partitions(
    memory: Memory, known: np.ndarray | None, result: np.ndarray, threads: int
) -> bool:
    """Write the unknowns of a chunk by its partitions; `known` is None for whole systems."""
    _, layout, cells = memory
    _run(_calls(reduce, memory, threads), threads)
    _solve_interface(cells, known, layout.parts, threads)
    _run(_calls(substitute, memory, threads, result.reshape(-1)), threads)
    # The values at all cuts are a twentieth of the numbers. They are nan if their system contains
    # nan or inf.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(cells[4::5].sum()))


def _uses_partitions(method: str, layout: Layout, dtype: np.dtype[Any]) -> bool:
    """Return whether whole systems are split into partitions."""
    if method != "auto":
        return method == "partition"
    return not _fits_batch(layout, dtype)


def _fits_batch(layout: Layout, dtype: np.dtype[Any]) -> bool:
    """Return whether systems are short, and enough of them to have one in each lane."""
    outer, steps, inner = layout.shape
    return outer * inner >= lanes_of(dtype) and steps <= MAX_BATCHED_STEPS


def _whole_calls(
    method: str, operands: tuple[np.ndarray, ...], layout: Layout, result: np.ndarray, threads: int
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
            partial(serial_kernel, operands, layout, np.empty((4, 2 * steps), dtype), *part, result)
            for part in split_range(outer * inner, threads)
        ]
    kernel = batched.solve_thomas if method == "thomas" else batched.solve_pivoting
    groups = concurrent_groups(layout.shape, dtype)
    return [
        partial(kernel, operands, layout, empty_work(layout.shape, dtype), groups, *part, result)
        for part in split_range(group_count(layout.shape, dtype), threads)
    ]


def _solve_periodic(cells: np.ndarray, parts: int, row_shape: tuple[int, int]) -> None:
    """Write the values at all cuts of periodic systems."""
    merged = cells.copy()
    if parts > 1:
        interface.merge(merged, parts)
    rows = merged.reshape(*row_shape, parts + 1, 2, 5)[:, :, 0].transpose(2, 3, 0, 1)
    known = np.ascontiguousarray(solve_periodic_ends(rows).reshape(4, -1).T).reshape(-1)
    _solve_interface(cells, known, parts)


def _solve_interface(
    cells: np.ndarray, known: np.ndarray | None, parts: int, threads: int = 1
) -> None:
    """Write the values at all cuts; `known` is None for whole systems."""
    is_whole = known is None
    if known is None:
        known = np.zeros(4 * (cells.size // (10 * (parts + 1))), cells.dtype)
    arguments = cells, known, is_whole, parts
    systems = split_range(known.size // 4, threads)
    singular = _run([partial(interface.solve, *arguments, *part) for part in systems], threads)
    _check(max(singular, default=-1))


def _check(singular: int) -> None:
    if singular >= 0:
        raise SingularSystemError(singular)


def _layout_of(ends: Ends, chunk: Chunk) -> tuple[tuple[np.ndarray, ...], Layout]:
    """Return the operands as 1-d arrays, and their layout."""
    pairs = [_flatten(operand, chunk.shape) for operand in chunk.operands]
    strides = np.array([strides for _, strides in pairs])
    layout_ends = bool(ends.has_first), bool(ends.has_last)
    layout = Layout(chunk.shape, strides, layout_ends, part_count(chunk.steps))
    return tuple(flat for flat, _ in pairs), layout


def _memory_of(ends: Ends, chunk: Chunk) -> Memory:
    """Return operands, their layout, and cells for the interface rows of all partitions."""
    operands, layout = _layout_of(ends, chunk)
    cells = empty_cells(chunk.shape[0] * chunk.shape[2], layout.parts, chunk.dtype)
    return operands, layout, cells


def _calls(kernel: Any, memory: Memory, threads: int, *result: np.ndarray) -> list[Call]:
    """Return calls of a kernel over all partitions, for each group of one length and thread."""
    _, layout, cells = memory
    systems, lanes = layout.shape[0] * layout.shape[2], lanes_of(cells.dtype)
    calls: list[Call] = []
    for group in partitions_of(layout.shape[1]):
        count = systems * (group.stop - group.first)
        for start, stop in split_range(-(-count // lanes), threads):
            part = group, start * lanes, min(stop * lanes, count)
            calls.append(partial(kernel, *memory, empty_scratch(cells.dtype), *part, *result))
    return calls


def _flatten(array: np.ndarray, shape: tuple[int, int, int]) -> tuple[np.ndarray, Any]:
    """Return a 1-d operand and its strides, so that one compiled kernel serves all layouts."""
    array = np.ascontiguousarray(array)
    strides = array.shape[1] * array.shape[2], array.shape[2], 1
    varies = [size == full for size, full in zip(array.shape, shape, strict=True)]
    array_strides = [
        stride if is_varying else 0 for stride, is_varying in zip(strides, varies, strict=True)
    ]
    return writable(array).reshape(-1), array_strides
