"""Tridiagonal systems on the CPU: precompute, propagate, determine, for chunks in host memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ....arrays.chunk import Chunk
from ....families.kernels import Kernels, at_once
from ....families.tridiagonal.ends import Ends
from ....families.tridiagonal.summary import InterfaceRows
from ..compilation.kernels import writable
from ..threads import cuts, threads_for, together
from . import interface
from .partitions import Layout, cells_of, lanes_of, part_count, partitions_of, scratch_for
from .reduce import reduce
from .substitute import substitute
from .systems.choice import calls_of, is_by_partitions

Call = Callable[[], Any]
Memory = tuple[tuple[np.ndarray, ...], Layout, np.ndarray]


def kernels(method: str) -> Kernels:
    """The phases of a chunk; by the method "threads" a whole system is solved on all threads."""
    own = determine_on_threads if method == "threads" else determine
    return Kernels(own, at_once(precompute), propagate)


def determine_on_threads(ends: Ends, chunk: Chunk, entry: Any, result: np.ndarray) -> None:
    """Write the unknowns of whole systems on the threads of this process."""
    # One takes as long as some steps of a scan: of 2**18 a second thread takes 0.4 of 1.3 ms.
    solve(ends, chunk, result, threads_for(4 * result.size))


def _run(calls: Sequence[Call], threads: int = 1) -> list[Any]:
    return together(calls) if threads > 1 else [call() for call in calls]


def precompute(ends: Ends, chunk: Chunk) -> InterfaceRows:
    """Reduce every system of a chunk to its two interface rows.

    Parameters
    ----------
    ends : Ends
    chunk : Chunk
        Its operands are dl, d, du and b.

    Returns
    -------
    InterfaceRows
    """
    if chunk.steps == 0:
        return InterfaceRows(None)
    memory = _memory_of(ends, chunk)
    _run(_calls(reduce, memory, 1))
    _, layout, cells = memory
    if layout.parts > 1:
        interface.merge(cells, layout.parts)
    rows = cells.reshape(*chunk.row_shape, layout.parts + 1, 2, 5)[:, :, 0]
    return InterfaceRows(np.ascontiguousarray(rows.transpose(2, 3, 0, 1)))


def propagate(summaries: Sequence[InterfaceRows]) -> list[np.ndarray | None]:
    """The values at the ends of every chunk of a line.

    Parameters
    ----------
    summaries : list of InterfaceRows
        Of all chunks in order. The first one's coefficient of the x before it and the last one's
        of the x after it do not count.

    Returns
    -------
    list of arrays (4, outer, inner)
        Of each chunk the x before it, its first, its last and the x after it; None for a chunk
        of no rows.

    Raises
    ------
    numpy.linalg.LinAlgError
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
    cells[:, :, 0, :, 0] = cells[:, :, parts - 1, :, 3] = 0
    _solve_lines(flat, parts, row_shape)
    values = cells[..., 4].transpose(2, 3, 0, 1)
    entries = (np.concatenate(values[k : k + 2]) for k in range(parts))
    return [None if summary.rows is None else next(entries) for summary in summaries]


def determine(ends: Ends, chunk: Chunk, entry: np.ndarray | None, result: np.ndarray) -> None:
    """Write the unknowns of a chunk.

    Parameters
    ----------
    ends : Ends
    chunk : Chunk
    entry : array (4, outer, inner), optional
        Of `propagate`; None for whole systems, and for no rows.
    result : array (outer, steps, inner)
        C-contiguous; written.

    Raises
    ------
    numpy.linalg.LinAlgError
        A system is singular.
    """
    if entry is None:
        return solve(ends, chunk, result)
    memory = _memory_of(ends, chunk)
    _run(_calls(reduce, memory, 1))
    _, layout, cells = memory
    known = np.ascontiguousarray(entry.reshape(4, -1).T, chunk.dtype).reshape(-1)
    singular = interface.solve(cells, known, False, layout.parts, 0, known.size // 4)
    _check(singular, chunk.row_shape)
    _run(_calls(substitute, memory, 1, result.reshape(-1)))


def solve(ends: Ends, chunk: Chunk, result: np.ndarray, threads: int = 1) -> None:
    """Solve whole systems on the threads of one machine.

    Parameters
    ----------
    ends : Ends
        Of whole systems.
    chunk : Chunk
    result : array (outer, steps, inner)
        C-contiguous; written.
    threads : int

    Raises
    ------
    numpy.linalg.LinAlgError
        A system is singular.
    """
    if result.size == 0:
        return
    operands, layout = _layout_of(ends, chunk)
    if not is_by_partitions(ends.method, layout, chunk.dtype):
        calls = calls_of(ends.method, operands, layout, result.reshape(-1), threads)
        return _check(max(_run(calls, threads)), chunk.row_shape)
    cells = cells_of(chunk.shape[0] * chunk.shape[2], layout.parts, chunk.dtype)
    memory = operands, layout, cells
    _run(_calls(reduce, memory, threads), threads)
    _solve_lines(cells, layout.parts, chunk.row_shape, threads)
    _run(_calls(substitute, memory, threads, result.reshape(-1)), threads)


def _solve_lines(
    cells: np.ndarray, parts: int, row_shape: tuple[int, int], threads: int = 1
) -> None:
    """The values at all cuts of whole lines."""
    systems = row_shape[0] * row_shape[1]
    arguments = cells, np.zeros(4 * systems, cells.dtype), True, parts
    work = [partial(interface.solve, *arguments, *part) for part in cuts(systems, threads)]
    found = _run(work, threads)
    _check(max(found, default=-1), row_shape)


def _check(singular: int, row_shape: tuple[int, int]) -> None:
    if singular < 0:
        return
    where = divmod(singular, row_shape[1])
    which = f" at (outer, inner) = {where}" if row_shape != (1, 1) else ""
    raise np.linalg.LinAlgError(f"the system{which} is singular: elimination meets a pivot of 0")


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
        for begin, end in cuts(-(-count // lanes), threads):
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
