"""Tridiagonal systems on the CPU: precompute, propagate, determine, for chunks in host memory."""

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
from ..ends import Ends
from ..periodic import ends_of
from ..singular import SingularSystemError
from ..summary import InterfaceRows
from . import interface
from .partitions import Layout, cells_of, lanes_of, part_count, partitions_of, scratch_for
from .reduce import reduce
from .substitute import substitute
from .systems.choice import calls_of, is_by_partitions

Call = Callable[[], Any]
Memory = tuple[tuple[np.ndarray, ...], Layout, np.ndarray]


def kernels(method: str) -> Kernels:
    """The phases of a chunk; by the method "threads" a call is shared by all threads."""
    if method == "threads":
        return Kernels(determine_on_threads, at_once(precompute_on_threads), propagate)
    return Kernels(determine, at_once(precompute), propagate)


def precompute_on_threads(ends: Ends, chunk: Chunk) -> InterfaceRows:
    """Reduce every system on the threads of this process."""
    return precompute(ends, chunk, _threads_for(prod(chunk.shape)))


def determine_on_threads(ends: Ends, chunk: Chunk, carry_in: Any, result: np.ndarray) -> bool:
    """Write the unknowns of a chunk on the threads of this process."""
    return determine(ends, chunk, carry_in, result, _threads_for(result.size))


def _threads_for(unknowns: int) -> int:
    # One takes as long as some steps of a scan: of 2**18 a second thread takes 0.4 of 1.3 ms.
    return threads_for(4 * unknowns)


def _run(calls: Sequence[Call], threads: int = 1) -> list[Any]:
    return run_in_threads(calls) if threads > 1 else [call() for call in calls]


def precompute(ends: Ends, chunk: Chunk, threads: int = 1) -> InterfaceRows:
    """Reduce every system of a chunk to its two interface rows.

    Parameters
    ----------
    ends : Ends
    chunk : Chunk
        Its operands are dl, d, du and b.
    threads : int

    Returns
    -------
    InterfaceRows
    """
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
    """The values at the ends of every chunk of a line.

    Parameters
    ----------
    summaries : list of InterfaceRows
        Of all chunks in order. The first one's coefficient of the x before it and the last one's
        of the x after it do not count, unless the ends meet.
    is_periodic : bool
        The line's ends meet.

    Returns
    -------
    list of arrays (4, outer, inner)
        Of each chunk the x before it, its first, its last and the x after it; None for a chunk
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
    flat = cells_of(row_shape[0] * row_shape[1], parts, rows[0].dtype)
    cells = flat.reshape(*row_shape, parts + 1, 2, 5)
    for k, part in enumerate(rows):
        cells[:, :, k] = part.transpose(2, 3, 0, 1)
    if is_periodic:
        _solve_rings(flat, parts, row_shape)
    else:
        cells[:, :, 0, :, 0] = cells[:, :, parts - 1, :, 3] = 0
        _solve_lines(flat, parts)
    values = cells[..., 4].transpose(2, 3, 0, 1)
    entries = (np.concatenate(values[k : k + 2]) for k in range(parts))
    return [None if summary.rows is None else next(entries) for summary in summaries]


def determine(
    ends: Ends, chunk: Chunk, carry_in: np.ndarray | None, result: np.ndarray, threads: int = 1
) -> bool:
    """Write the unknowns of a chunk.

    Parameters
    ----------
    ends : Ends
    chunk : Chunk
    carry_in : array (4, outer, inner), optional
        Of `propagate`; None for whole systems, and for no rows.
    result : array (outer, steps, inner)
        C-contiguous; written.
    threads : int

    Returns
    -------
    bool
        Whether all operands are finite. What holds nan or inf has become nan.

    Raises
    ------
    SingularSystemError
        A system is singular.
    """
    if carry_in is None:
        return solve(ends, chunk, result, threads)
    memory = _memory_of(ends, chunk)
    _run(_calls(reduce, memory, threads), threads)
    _, layout, cells = memory
    known = np.ascontiguousarray(carry_in.reshape(4, -1).T, chunk.dtype).reshape(-1)
    _solve_cuts(cells, known, False, layout.parts, threads)
    _run(_calls(substitute, memory, threads, result.reshape(-1)), threads)
    return _is_finite(cells)


def solve(ends: Ends, chunk: Chunk, result: np.ndarray, threads: int = 1) -> bool:
    """Solve whole systems on the threads of one machine.

    Parameters
    ----------
    ends : Ends
        Of whole systems.
    chunk : Chunk
    result : array (outer, steps, inner)
        C-contiguous; written.
    threads : int

    Returns
    -------
    bool
        Whether all operands are finite.

    Raises
    ------
    SingularSystemError
        A system is singular.
    """
    if result.size == 0:
        return True
    operands, layout = _layout_of(ends, chunk)
    if not is_by_partitions(ends.method, layout, chunk.dtype):
        calls = calls_of(ends.method, operands, layout, result.reshape(-1), threads)
        _check(max(_run(calls, threads)))
        # A system that holds nan or inf is nan from its first unknown to its last.
        return bool(np.isfinite(result[:, 0]).all())
    cells = cells_of(chunk.shape[0] * chunk.shape[2], layout.parts, chunk.dtype)
    memory = operands, layout, cells
    _run(_calls(reduce, memory, threads), threads)
    _solve_lines(cells, layout.parts, threads)
    _run(_calls(substitute, memory, threads, result.reshape(-1)), threads)
    return _is_finite(cells)


def _is_finite(cells: np.ndarray) -> bool:
    """Whether the values at all cuts are: a twentieth of the numbers, and nan where one is."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(cells[4::5].sum()))


def _solve_lines(cells: np.ndarray, parts: int, threads: int = 1) -> None:
    """The values at all cuts of whole lines."""
    known = np.zeros(4 * (cells.size // (10 * (parts + 1))), cells.dtype)
    _solve_cuts(cells, known, True, parts, threads)


def _solve_rings(cells: np.ndarray, parts: int, row_shape: tuple[int, int]) -> None:
    """The values at all cuts of lines whose ends meet."""
    merged = cells.copy()
    if parts > 1:
        interface.merge(merged, parts)
    rows = merged.reshape(*row_shape, parts + 1, 2, 5)[:, :, 0].transpose(2, 3, 0, 1)
    known = np.ascontiguousarray(ends_of(rows).reshape(4, -1).T).reshape(-1)
    _solve_cuts(cells, known, False, parts)


def _solve_cuts(
    cells: np.ndarray, known: np.ndarray, is_whole: bool, parts: int, threads: int = 1
) -> None:
    """The values at all cuts: see :func:`.interface._solve`."""
    arguments = cells, known, is_whole, parts
    systems = split_range(known.size // 4, threads)
    found = _run([partial(interface.solve, *arguments, *part) for part in systems], threads)
    _check(max(found, default=-1))


def _check(singular: int) -> None:
    if singular >= 0:
        raise SingularSystemError(singular)


def _layout_of(ends: Ends, chunk: Chunk) -> tuple[tuple[np.ndarray, ...], Layout]:
    """The operands, each as one axis, and how they lie."""
    pairs = [_flattened(operand, chunk.shape) for operand in chunk.operands]
    strides = np.array([strides for _, strides in pairs])
    holds = bool(ends.has_first), bool(ends.has_last)
    layout = Layout(chunk.shape, strides, holds, part_count(chunk.steps))
    return tuple(flat for flat, _ in pairs), layout


def _memory_of(ends: Ends, chunk: Chunk) -> Memory:
    """Operands, how they lie, and cells for the interface rows of all partitions."""
    operands, layout = _layout_of(ends, chunk)
    cells = cells_of(chunk.shape[0] * chunk.shape[2], layout.parts, chunk.dtype)
    return operands, layout, cells


def _calls(kernel: Any, memory: Memory, threads: int, *result: np.ndarray) -> list[Call]:
    """A kernel over all partitions: a call for each group of one length and each thread."""
    _, layout, cells = memory
    systems, lanes = layout.shape[0] * layout.shape[2], lanes_of(cells.dtype)
    calls: list[Call] = []
    for group in partitions_of(layout.shape[1]):
        count = systems * (group.stop - group.first)
        for begin, end in split_range(-(-count // lanes), threads):
            part = group, begin * lanes, min(end * lanes, count)
            calls.append(partial(kernel, *memory, scratch_for(cells.dtype), *part, *result))
    return calls


def _flattened(array: np.ndarray, shape: tuple[int, int, int]) -> tuple[np.ndarray, Any]:
    """An operand as one axis, and its strides: one compiled kernel serves all layouts."""
    array = np.ascontiguousarray(array)
    strides = array.shape[1] * array.shape[2], array.shape[2], 1
    moves = (size == full for size, full in zip(array.shape, shape, strict=True))
    own = [stride if move else 0 for stride, move in zip(strides, moves, strict=True)]
    return writable(array).reshape(-1), own
