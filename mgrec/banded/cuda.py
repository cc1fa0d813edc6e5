"""Phases of banded systems on a GPU: windows first, which need no pivots (``tridiagonal/cuda/window.cuh``).

Where they fail, a thread has a whole system or a partition, or several threads have one if its pending
rows are too many for one. Cells of partitions are merged, level by level, until the host solves the
interfaces of few of them. Pivot rows are kept in memory from the elimination to the substitution.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays.chunk import Chunk
from ..core.contract.kernels import Kernels, PreparedSolver, Summarise
from ..engines.cuda.compilation import kernel_text
from ..engines.cuda.cpp import print_definitions
from ..engines.cuda.device import array_at, fetch, on_device, pack_words, raise_if_capturing
from ..engines.cuda.launches import Launch, Slot, run_launches
from ..tridiagonal.cuda.partitions import addresses_with, copied_scalars
from ..tridiagonal.cuda.windows import Try, Widths, prepare_tries, start_windows
from ..tridiagonal.errors import SingularSystemError
from ..tridiagonal.systems import InterfaceRows, prepared, strides_of
from . import cpu
from .recurrence import BandedEnds

THREADS, LENGTH, GROUP = 64, 64, 16
"""Threads of a block; rows of a partition, and cells of a group, at most."""
MAX_CELLS = 16
"""Cells of a system that the host solves."""
MANY, MAX_ALONE = 2048, 128
"""Number of systems that are not split into partitions, and rows of a system that never is."""
_AHEAD, _MOST_BYTES = 16, 800
"""Bytes of an operand that a thread loads at once, and of pending rows that one thread has."""
_MAX_BLOCK = 4
"""Rows of a step that a thread of a window has in registers."""
_UNCAPTURED = "solve_banded", "the host waits for the outcome of the elimination"


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; carry-ins are those of the CPU's phases."""
    return Kernels(determine, precompute, cpu.propagate, prepare_solver=prepare_solver)


def precompute(ends: BandedEnds, chunk: Chunk) -> Summarise:
    """Launch the equations of a chunk in its interfaces."""
    levels = _Partitions(ends, chunk, None).reduce()
    wait = fetch(levels[-1].cells)

    def wait_for_rows() -> InterfaceRows:
        cells = wait()
        return InterfaceRows(cpu.merged(_with_end(cells)).reshape(*chunk.row_shape, *cells.shape[2:]))

    return wait_for_rows


def determine(ends: BandedEnds, chunk: Chunk, carry_in: np.ndarray | None, result: Any) -> bool:
    """Write the unknowns of a chunk; return whether all operands are finite."""
    raise_if_capturing(*_UNCAPTURED)
    chunk = chunk.map_arrays(on_device, chunk.shape)
    neighbours, known = [0, 0], None
    if carry_in is not None:
        known = on_device(np.ascontiguousarray(carry_in, chunk.dtype))
        if ends.around[0] and ends.lower:
            neighbours[0] = known.data.ptr
        if ends.around[1] and ends.upper:
            neighbours[1] = known.data.ptr + (2 * ends.lower + ends.upper) * chunk.dtype.itemsize
    addresses = [operand.data.ptr for operand in chunk.operands]
    if start_windows(_tries(ends, chunk), addresses, result.data.ptr, (neighbours[0], neighbours[1]))():
        return True
    return _pivot(ends, chunk, carry_in, result)


def prepare_solver(ends: BandedEnds, chunk: Chunk, carry_in: None, result: Any) -> PreparedSolver:
    """Prepare a solver for whole systems of the shape of a chunk; see :class:`Kernels`."""
    raise_if_capturing(*_UNCAPTURED)
    on_gpu = chunk.map_arrays(on_device, chunk.shape)
    tries = _tries(ends, on_gpu)
    layouts = [(array.shape, array.dtype, array.strides) for array in (*on_gpu.operands, result)]
    scalars = copied_scalars(on_gpu, chunk)

    def solve(operands: Sequence[Any], results: Sequence[int]) -> bool:
        raise_if_capturing(*_UNCAPTURED)
        addresses = addresses_with(scalars, operands)
        if start_windows(tries, addresses, results[0])():
            return True
        *arrays, target = (
            array_at(address, *layout)
            for address, layout in zip([*addresses, results[0]], layouts, strict=True)
        )
        return _pivot(ends, Chunk(tuple(arrays), chunk.shape, chunk.dtype), None, target)

    return prepared(solve)


def _tries(ends: BandedEnds, chunk: Chunk) -> tuple[Try, ...]:
    """Return the windows over a chunk whose operands are on the device; none if threads cannot have them."""
    if ends.block > _MAX_BLOCK or (ends.block > 1 and chunk.shape[2] > 1):
        return ()
    widths = Widths(0, 0, ends.block) if ends.block > 1 else Widths(ends.lower, ends.upper)
    return prepare_tries(chunk, widths, 2 * (ends.lower + ends.upper))


def _pivot(ends: BandedEnds, chunk: Chunk, carry_in: np.ndarray | None, result: Any) -> bool:
    """Write the unknowns of a chunk by elimination with pivots; return whether all operands are finite."""
    is_many = prod(chunk.row_shape) >= MANY or chunk.steps * ends.block <= MAX_ALONE
    if carry_in is None and is_many:
        singular, is_finite = _Partitions(ends, chunk, result, chunk.steps).solve_whole()
        if singular >= 0:
            raise SingularSystemError(singular)
        return bool(is_finite)
    parts = _Partitions(ends, chunk, result)
    levels = parts.reduce()
    cells = _with_end(fetch(levels[-1].cells)())
    wide = ends.lower + ends.upper
    known = None if carry_in is None else np.ascontiguousarray(carry_in).reshape(-1, 2, wide)
    values = np.ascontiguousarray(cpu.solved_interfaces(cells, known, ends.lower, 1))
    parts.substitute(levels, values)
    return bool(np.isfinite(values).all())


def _with_end(cells: np.ndarray) -> np.ndarray:
    """Return cells in host memory with one more for the last interface of each system."""
    return np.concatenate([cells, cells[:, :1]], 1)


class _Cells(NamedTuple):
    """The equations of parts (system, part, l + u, 2(l + u) + 1), and pivot rows of the elimination."""

    cells: Any
    pivots: Any


class _Partitions:
    """The launches over the partitions of a chunk."""

    def __init__(self, ends: BandedEnds, chunk: Chunk, result: Any, length: int = LENGTH) -> None:
        self.dtype, self.wide, self.result = chunk.dtype, ends.lower + ends.upper, result
        length = min(length, chunk.steps)
        self.systems, self.parts = prod(chunk.row_shape), -(-chunk.steps // length)
        self.operands = [on_device(operand) for operand in chunk.operands]
        self.sizes = [*chunk.shape, self.parts, length, *ends.around]
        columns, size = self.wide + ends.block, chunk.dtype.itemsize
        self.block, self.rows = ends.block, self.systems * self.parts * length * ends.block
        self.team, self.level_team = _team(columns, self.wide, size), _power(min(3 * self.wide + 1, 32))
        steps = max(_AHEAD // (size * ends.block**2), 1) if self.team == 1 else 1
        self.ahead = 2 * steps * ends.block * -(-(columns + 1) // self.team) * THREADS * size
        self.level_ahead = 2 * self.wide * -(-(2 * self.wide + 1) // self.level_team) * THREADS * size
        constants = {"THREADS": THREADS, "GROUP": GROUP, "STEPS": steps, "STAGES": 1}
        constants |= {"LOWER": ends.lower, "UPPER": ends.upper, "BLOCK": ends.block}
        constants |= {"TEAM": self.team, "LEVEL_TEAM": self.level_team}
        text = print_definitions(kernel_text("engines/cuda/numeric"), constants, T=chunk.dtype)
        self.text = text + kernel_text("banded/kernels")
        self.strides = [strides_of(operand, chunk.shape) for operand in self.operands]

    def solve_whole(self) -> list[int]:
        """Solve whole systems; return a singular one, or -1, and whether all operands are finite."""
        import cupy

        status = cupy.empty(2, np.int64)
        status.fill(-1)
        self._launch_parts("whole", _Cells(None, self._empty_pivots(self.rows, self.block, 0)), status=status)
        return [int(word) for word in fetch(status)()]

    def reduce(self) -> list[_Cells]:
        """Return the cells of all levels: those of partitions first."""
        levels = [_Cells(self._empty_cells(self.parts), self._empty_pivots(self.rows, self.block, self.wide))]
        self._launch_parts("reduce", levels[0])
        while levels[-1].cells.shape[1] > MAX_CELLS:
            groups = -(-levels[-1].cells.shape[1] // GROUP)
            rows = self.systems * groups * GROUP * self.wide
            pivots = self._empty_pivots(rows, self.wide, self.wide)
            levels.append(_Cells(self._empty_cells(groups), pivots))
            self._launch_level("merge", levels[-2], levels[-1])
        return levels

    def substitute(self, levels: list[_Cells], values: np.ndarray) -> None:
        """Write all unknowns, from the values of the interfaces of the last level."""
        import cupy

        known = cupy.asarray(values)
        for below, merged in zip(levels[-2::-1], levels[:0:-1], strict=True):
            opened = cupy.empty((self.systems, below.cells.shape[1] + 1, self.wide), self.dtype)
            self._launch_level("open", below, merged, known, opened)
            known = opened
        self._launch_parts("substitute", levels[0], known)

    def _empty_cells(self, parts: int) -> Any:
        import cupy

        return cupy.empty((self.systems, parts, self.wide, 2 * self.wide + 1), self.dtype)

    def _empty_pivots(self, rows: int, block: int, before: int) -> Any:
        """Return memory of pivot rows, for steps of `block` rows; None if nothing will be substituted."""
        import cupy

        columns = self.wide + block + 1 + before
        return None if self.result is None else cupy.empty((rows, columns), self.dtype)

    def _launch_parts(self, name: str, to: _Cells, values: Any = None, status: Any = None) -> None:
        words: list[int] = []
        for operand, strides in zip(self.operands, self.strides, strict=True):
            words += [operand.data.ptr, *strides]
        arrays = self.result, to.pivots, to.cells, values, status
        teams, words = self.systems * self.parts, [*words, *map(_address, arrays), *self.sizes]
        self._launch(name, teams * self.team, words, self.ahead)

    def _launch_level(
        self, name: str, below: _Cells, to: _Cells, known: Any = None, values: Any = None
    ) -> None:
        groups = to.cells.shape[1]
        addresses = map(_address, (below.cells, to.cells, to.pivots, known, values))
        words = [*addresses, self.systems, below.cells.shape[1], groups]
        self._launch(name, self.systems * groups * self.level_team, words, self.level_ahead)

    def _launch(self, name: str, threads: int, words: list[int], shared_bytes: int) -> None:
        blocks = -(-threads // THREADS)
        launch = Launch(self.text, f"{name}_kernel", blocks, THREADS, (Slot(0),), shared_bytes)
        run_launches(launch, values=(pack_words(words),))


def _team(columns: int, wide: int, size: int) -> int:
    """Return how many threads have the pending rows of a partition."""
    return 1 if columns * (columns + 1 + wide) * size <= _MOST_BYTES else _power(columns)


def _power(number: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << (number - 1).bit_length()


def _address(array: Any) -> int:
    return 0 if array is None else array.data.ptr
