"""Tridiagonal systems on a GPU: precompute and determine for chunks of CuPy arrays.

Every thread has a partition in shared memory. It is reduced to its two interface rows by the
elimination of :mod:`mgrec.tridiagonal.cpu.held`; runs of them are merged to one pair of
rows, level by level, until one thread solves what is left of a line. Back down, the elimination
of each level is done again and gives the unknowns at the cuts, at last those of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.array_types import raise_if_capturing
from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import CacheMiss, Kernels, PreparedSolver, Summarise
from ...engines.cuda.device import Device, on_device
from ..ends import Ends
from ..singular import SingularSystemError
from ..summary import InterfaceRows
from .line import CELL, Line, line_of
from .memory import Memory
from .reduction import cyclic_reduction, pcr
from .thomas import thomas
from .whole import solve_whole
from .window import tries_of, windows_under_way

Reserve = Callable[[Sequence[int], int], Callable[[], bool]]
"""From addresses of operands and result to what solves, its memory reserved."""
WITHOUT_PIVOTING = {"thomas": thomas, "cyclic-reduction": cyclic_reduction, "pcr": pcr}
"""Methods of whole systems, by the plans of their launches."""
UNCAPTURED = "a tridiagonal system", "the host waits to see whether it is solved"


def kernels(method: str) -> Kernels:
    """The phases of a chunk."""
    if method in WITHOUT_PIVOTING:
        return Kernels(determine_without_pivoting, finds_nan=True)
    return Kernels(determine, precompute, prepare_solver=prepare_solver, finds_nan=True)


def precompute(ends: Ends, chunk: Chunk) -> Summarise:
    """Launch the reduction of every system of a chunk to its two interface rows.

    Parameters
    ----------
    ends : Ends
    chunk : Chunk
        Its operands are dl, d, du and b.

    Returns
    -------
    callable, ``() -> InterfaceRows``
        Waits for the kernels; the rows are in host memory.
    """
    if chunk.steps == 0 or 0 in chunk.shape:
        return lambda: _no_rows(chunk)
    chunk = chunk.map_arrays(on_device, chunk.shape)
    line = _line(chunk, None)
    addresses = [operand.data.ptr for operand in chunk.operands]
    memory = Memory.reserve(line, ends, _shapes(chunk), addresses, 0)
    memory.run("reduce")
    cells = memory.cells(line.top)

    def summary() -> InterfaceRows:
        rows = cells.get().reshape(*chunk.row_shape, 2, CELL // 2)
        return InterfaceRows(np.ascontiguousarray(rows.transpose(2, 3, 0, 1)))

    return summary


def _no_rows(chunk: Chunk) -> InterfaceRows:
    if chunk.steps == 0:
        return InterfaceRows(None)
    return InterfaceRows(np.empty((2, CELL // 2, *chunk.row_shape), chunk.dtype))


def determine(ends: Ends, chunk: Chunk, carry_in: Any, result: Any) -> bool:
    """Write the unknowns of a chunk.

    Parameters
    ----------
    ends : Ends
    chunk : Chunk
    carry_in : array (4, outer, inner), optional
        The unknown before each line, its first, its last and the one after it; None for whole
        systems.
    result : array (outer, steps, inner)
        C-contiguous; written.

    Returns
    -------
    bool
        Whether no operand holds nan or inf.

    Raises
    ------
    SingularSystemError
        An elimination of a whole system meets a pivot of 0.
    """
    if result.size == 0:
        return True
    raise_if_capturing(*UNCAPTURED)
    chunk = chunk.map_arrays(on_device, chunk.shape)
    known = (
        None if carry_in is None else on_device(carry_in).astype(chunk.dtype, order="C", copy=False)
    )
    tries = tries_of(chunk) if ends.method == "auto" else ()
    addresses = [operand.data.ptr for operand in chunk.operands]
    have_solved = windows_under_way(tries, addresses, result.data.ptr, _beside(ends, known))
    try:
        # Beside the windows, so that what they leave is launched at once.
        kind = (ends, chunk, result)
        reserve = _pivoting(*kind) if known is None else _entering(*kind, known)
        solve = reserve(addresses, result.data.ptr)
    finally:
        is_solved = have_solved()
    return is_solved or solve()


def prepare_solver(ends: Ends, chunk: Chunk, carry_in: None, result: Any) -> PreparedSolver:
    """Prepare what solves whole systems of the kind of a chunk; see :class:`Kernels`."""
    on_gpu = chunk.map_arrays(on_device, chunk.shape)
    tries = tries_of(on_gpu) if ends.method == "auto" else ()
    pivoting = _pivoting(ends, on_gpu, result)
    # Scalars alone: no array of the caller's is held.
    scalars: list[Any] = [
        None if own is given else own
        for own, given in zip(on_gpu.operands, chunk.operands, strict=True)
    ]
    is_forgetting = True

    def solve(given: Sequence[Any], targets: Sequence[int]) -> None:
        nonlocal is_forgetting
        raise_if_capturing(*UNCAPTURED)
        (target,) = targets
        addresses = [
            address if own is None else own.data.ptr
            for own, address in zip(scalars, given, strict=True)
        ]
        have_solved = windows_under_way(tries, addresses, target)
        try:
            # Beside the windows where they failed the last time.
            rest = None if is_forgetting else pivoting(addresses, target)
        finally:
            is_forgetting = have_solved()
        if is_forgetting:
            return
        try:
            is_finite = (rest or pivoting(addresses, target))()
        except SingularSystemError as error:
            raise CacheMiss from error
        if not is_finite:
            raise CacheMiss

    return solve


def determine_without_pivoting(ends: Ends, chunk: Chunk, carry_in: None, result: Any) -> bool:
    """Write the unknowns of whole systems by the method that `ends` names.

    Returns
    -------
    bool
        Whether no operand holds nan or inf; a system that does becomes nan.

    Raises
    ------
    SingularSystemError
        A pivot is 0, or overflows.
    """
    if result.size == 0:
        return True
    raise_if_capturing(*UNCAPTURED)
    chunk = chunk.map_arrays(on_device, chunk.shape)
    return solve_whole(WITHOUT_PIVOTING[ends.method], chunk, result)


def _beside(ends: Ends, known: Any) -> tuple[int, int]:
    """Addresses of the unknowns before and after each line; 0 where there are none."""
    if known is None:
        return 0, 0
    before, after = known[0].data.ptr, known[3].data.ptr
    return 0 if ends.has_first else before, 0 if ends.has_last else after


def _pivoting(ends: Ends, chunk: Chunk, result: Any) -> Reserve:
    """What solves whole systems of the kind of a chunk with pivoting."""
    line, shapes = _line(chunk, result), _shapes(chunk)

    def reserve(operands: Sequence[int], target: int) -> Callable[[], bool]:
        return partial(_solve, Memory.reserve(line, ends, shapes, operands, target))

    return reserve


def _entering(ends: Ends, chunk: Chunk, result: Any, known: Any) -> Reserve:
    """The same for lines whose unknowns at the ends of a chunk are known."""
    line, shapes = _line(chunk, result), _shapes(chunk)

    def reserve(operands: Sequence[int], target: int) -> Callable[[], bool]:
        return partial(_enter, line, Memory.reserve(line, ends, shapes, operands, target), known)

    return reserve


def _solve(memory: Memory) -> bool:
    """Whole systems. Whether one is singular is known before the last kernels begin."""
    memory.run("solve")
    found = memory.status.copy()
    memory.run("finish")
    singular, odd = found()
    if singular is not None:
        raise SingularSystemError(singular)
    return odd is None


def _enter(line: Line, memory: Memory, known: Any) -> bool:
    """A chunk of lines whose unknowns at its ends are known."""
    memory.run("reduce")
    memory.cuts(line.top)[...] = known.reshape(4, -1).T.reshape(-1)
    memory.run("enter")
    rows = memory.cells(line.top).get().reshape(-1, CELL)
    # The coefficients of both rows; see InterfaceRows.
    is_singular = (rows.reshape(-1, 2, CELL // 2)[..., :4] == 0).all((1, 2))
    if is_singular.any():
        raise SingularSystemError(int(is_singular.argmax()))
    return bool(np.isfinite(rows).all())


def _shapes(chunk: Chunk) -> list[tuple[int, int, int]]:
    return [operand.shape for operand in chunk.operands]


def _line(chunk: Chunk, result: Any) -> Line:
    arrays = [*chunk.operands, *([] if result is None else [result])]
    is_aligned = all(
        array.data.ptr % 16 == 0 and (array.shape[0] == 1 or array.shape[0] == chunk.shape[0])
        for array in arrays
    )
    return line_of(chunk.shape, chunk.dtype, is_aligned, Device.current())
