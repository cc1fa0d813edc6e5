"""Scans of matrix maps over CuPy arrays, and the phases of a chunk.

Maps of four states have a kernel of their own, ``single_pass.cuh``. Those of two states run in the
kernel of contiguous rows: matrices and vectors are streams of the kernel as they are, and its tiles
have all numbers of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels
from ....engines.cuda.device import MULTIPROCESSORS, Device, fetch, on_device
from ....engines.cuda.launches import EPOCH, SPACE, Launch, LaunchByAddress, PreparedLaunches, Slot
from ...cuda.determine import launch_repair, launch_single_pass
from ...cuda.layouts import choose_layout
from ...cuda.program import Source
from ..cpu import propagate_rows
from ..maps import MatrixMap
from ..recurrence import (
    DIAGONAL_MAPS,
    MatrixRecurrence,
    MatrixSummary,
    propagate,
    scalar_map,
    with_rows_to_redo,
)
from ..speculation import with_speculation
from .segments import Operand, Pass, Solver, print_pass

if TYPE_CHECKING:
    from ..arguments import MatrixScan


_FLOAT64 = np.dtype(np.float64)
_SMALL = 4
"""Most states of a map that a thread keeps in registers."""


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; carry-ins are those of the CPU's phases."""
    phases, may_solve = kernels_of_maps(_lay_out), _may_solve_in_one_pass

    def precompute(recurrence: MatrixRecurrence, chunk: Chunk) -> Callable[[], MatrixSummary]:
        wait = phases.precompute(
            recurrence, replace(chunk, kept=None) if may_solve(recurrence, chunk) else chunk
        )
        return lambda: with_rows_to_redo(recurrence, chunk, wait())

    def retain_maps(recurrence: MatrixRecurrence, chunk: Chunk) -> None:
        if phases.retain_maps and not may_solve(recurrence, chunk):
            phases.retain_maps(recurrence, chunk)

    def determine(recurrence: MatrixRecurrence, chunk: Chunk, carry_in: np.ndarray, result: Any) -> None:
        if may_solve(recurrence, chunk):
            solver, operands = _operands_of(chunk, carry_in)
            if _solve_in_one_pass(recurrence.matrix_map, solver, operands, result):
                return
        phases.determine(recurrence, chunk, carry_in, result)

    kernels = Kernels(determine, precompute, propagate_rows, retain_maps=retain_maps)
    return with_speculation(kernels, may_solve, is_asynchronous=True)


def _may_solve_in_one_pass(recurrence: MatrixRecurrence, chunk: Chunk) -> bool:
    """Return whether one pass may solve a chunk; results that are not aligned keep it from that."""
    is_plain = len(chunk.operands) == 2 and chunk.steps > 0
    if not is_plain or recurrence.matrix_map.structure != "general" or recurrence.result_dtype != _FLOAT64:
        return False
    solver, operands = _operands_of(chunk)
    arrays = [array for array, _ in operands[:2]]
    is_packed = chunk.shape[2] == 1 and _are_packed(recurrence.matrix_map, chunk.shape[:2], arrays)
    return is_packed or _suits_four_states(recurrence.matrix_map, solver, operands)


def _operands_of(chunk: Chunk, carry_in: np.ndarray | None = None) -> tuple[Solver, list[Operand]]:
    solver = Solver(chunk.shape, 1, chunk.reverse)
    before = None if carry_in is None else on_device(carry_in[:, None])
    return solver, [*map(solver.laid_out, (*map(on_device, chunk.operands), before, None))]


def kernels_of_maps(lay_out: Callable[[Any, Chunk, Any], tuple[Solver, list[Operand], Pass]]) -> Kernels:
    """Return the phases of a chunk whose maps are matrix maps.

    ``lay_out(recurrence, chunk, dtype)`` returns a solver, its operands, and the pass that writes
    results of a dtype.
    """

    def determine(recurrence: Any, chunk: Chunk, carry_in: np.ndarray, result: Any) -> None:
        solver, operands, solved = lay_out(recurrence, chunk, result.dtype)
        states = carry_in.reshape(-1, carry_in.shape[-1])
        maps = solver.maps_of(chunk, solved, operands, [None, None])
        solver.solve(solved, operands, [result, None], before=states, maps=maps)

    def retain_maps(recurrence: Any, chunk: Chunk) -> Any:
        solver, operands, solved = lay_out(recurrence, chunk, recurrence.dtype)
        return solver.maps(solved, operands, [None, None], chunk.kept)

    def precompute(recurrence: Any, chunk: Chunk) -> Callable[[], MatrixSummary]:
        wait_for_maps, rows = fetch(retain_maps(recurrence, chunk).of_rows), chunk.row_shape
        return lambda: _as_summary(wait_for_maps(), recurrence.matrix_map, rows)

    return Kernels(determine, precompute, propagate, retain_maps=retain_maps)


def _as_summary(maps: np.ndarray, matrix_map: MatrixMap, rows: tuple[int, ...]) -> MatrixSummary:
    """Return the summary of a chunk from the maps of its rows: see ``struct Map``."""
    n = matrix_map.n
    images, power, starts = np.split(maps, np.cumsum([(n + 1) * n, n]), axis=1)
    is_reset = starts[:, 0] != 0
    # They do not count, and inf or nan in them would.
    images[is_reset, : n * n], power[is_reset] = matrix_map.one, 0.0
    # The power of a unit vector whose image is 0 is below all others.
    exponents = np.pad(power, ((0, 0), (0, 1))).clip(-1e9, 1e9).astype(np.int64)
    return MatrixSummary(
        images.reshape(*rows, n + 1, n), exponents.reshape(*rows, n + 1), is_reset.reshape(rows)
    )


def _lay_out(recurrence: MatrixRecurrence, chunk: Chunk, dtype: Any) -> tuple[Solver, list[Operand], Pass]:
    solver = Solver(chunk.shape, 1, chunk.reverse)
    matrices, vectors, *resets = map(on_device, chunk.operands)
    marks, initial = resets or (None, None)
    operands = [*map(solver.laid_out, (matrices, vectors, initial, marks))]
    solved = matrix_pass(recurrence.matrix_map, matrices, vectors, chunk.reverse, dtype)
    return solver, operands, solved


def solve_on_gpu(scan: MatrixScan) -> Any:
    """Return the states (*shape, n) after each step."""
    matrix_map, n, reverse = scan.matrix_map, scan.matrix_map.n, scan.reverse
    solver = Solver(scan.shape, scan.axis, reverse)
    operands = [
        solver.operand(scan.M, matrix_map.matrix_shape),
        solver.operand(scan.b, (n,)),
        solver.state(scan.initial, 1),
        solver.operand(scan.marks, (), np.uint8),
    ]
    (M, _), (b, _) = operands[:2]
    states = solver.empty(scan.dtype, n)
    is_general = matrix_map.structure == "general" and scan.method != "p-scheme"
    if not (is_general and _solve_in_one_pass(matrix_map, solver, operands, states)):
        solver.solve(matrix_pass(matrix_map, M, b, reverse, scan.dtype), operands, [states, None])
    return states


def _solve_in_one_pass(
    matrix_map: MatrixMap, solver: Solver, operands: Sequence[Operand], states: Any
) -> bool:
    """Write the states of general maps; return False if no kernel does this in one pass."""
    (M, _), (b, _), (before, _), (marks, _) = operands
    (outer, steps, inner), n, reverse = solver.shape, matrix_map.n, solver.reverse
    if marks is None and inner == 1:
        rows = states.reshape(outer, steps, n)
        if solve_packed(matrix_map, M, b, before, rows, reverse):
            return True
    is_aligned = states.dtype == _FLOAT64 and states.data.ptr % 16 == 0
    if not (is_aligned and _suits_four_states(matrix_map, solver, operands)):
        return False
    flags = _flags(matrix_map, M, b, reverse) | _one_pass_constants()
    types = tuple(flags.items()), states.dtype
    text = print_pass("scans/matrix/cuda/single_pass", n, _SMALL, *types, kernels="")
    _solve_four_states(solver, text, operands, states)
    return True


def matrix_pass(matrix_map: MatrixMap, matrices: Any, vectors: Any, reverse: bool, dtype: Any) -> Pass:
    """Return the pass over operands M and b that writes states of a dtype."""
    n = matrix_map.n
    flags = _flags(matrix_map, matrices, vectors, reverse)
    text = print_pass("scans/matrix/cuda/matrix", n, _SMALL, tuple(flags.items()), dtype)
    numbers = (n + 1) * n + n + 1
    return Pass(text, numbers, n, n + 1, summary_lanes=int(n <= _SMALL))


def _flags(matrix_map: MatrixMap, matrices: Any, vectors: Any, reverse: bool) -> dict[str, int]:
    return {
        "ALGEBRA": matrix_map.algebra_number,
        "IS_GENERAL": matrix_map.structure == "general",
        "IS_DIAGONAL": matrix_map.structure == "diagonal",
        "IS_COMPANION": matrix_map.structure == "companion",
        "REVERSE": reverse,
        "ALIGNED": matrices.data.ptr % 16 == vectors.data.ptr % 16 == 0,
        "SUMMARY_LANES": int(matrix_map.n <= _SMALL),
    }


_STATES = 4
_MAP = (_STATES + 1) * _STATES + _STATES + 1
"""Numbers of a map."""
_SEGMENTS, _NEIGHBOURS = 32, 16
_LENGTH, _RING, _SPINES, _BLOCKS = 12, 4, 2, 1
"""Steps of a segment, tiles in progress, warps that resolve tiles in turn, and blocks of a
multiprocessor: 10^7 steps took 1.36 ms on an H100, with a ring of 3 1.56, with segments of 10 steps
1.44, and with two blocks of segments of 6 steps 1.67."""
_FEWEST = 2048
"""Steps of a row: 4,000 of them took 1.17 ms, and in two passes 1.38."""
_THREADS = 32 * (_STATES + 1) + 64 + 32 + 32 * _SPINES


def _suits_four_states(matrix_map: MatrixMap, solver: Solver, operands: Sequence[Operand]) -> bool:
    """Return whether the kernel can solve general maps: rows are contiguous, and long."""
    (matrices, _), (vectors, _), _, (marks, _) = operands
    (_, steps, inner), device = solver.shape, Device.current()
    return (
        matrix_map.n == _STATES
        and marks is None
        and inner == 1
        and steps >= _FEWEST
        and matrices.strides[1] == 8 * _STATES**2
        and vectors.strides[1] == 8 * _STATES
        and all(
            number % 16 == 0 for array in (matrices, vectors) for number in (array.data.ptr, array.strides[0])
        )
        and device.capability >= 90
        and _BLOCKS * (_shared_bytes() + 1024) <= device.shared_bytes + 1024
    )


def _one_pass_constants() -> dict[str, int]:
    """Return the constants of the program."""
    return {
        "SEGMENTS": _SEGMENTS,
        "LENGTH": _LENGTH,
        "NEIGHBOURS": _NEIGHBOURS,
        "RING": _RING,
        "SPINES": _SPINES,
        "BLOCKS": _BLOCKS,
        "STAGES": 1,
        "MEMORY": _shared_bytes(),
    }


def _solve_four_states(solver: Solver, text: str, operands: Sequence[Operand], states: Any) -> None:
    """Launch the program."""
    import cupy

    words = solver.words(operands, [states, None], (1, solver.shape[1]))
    _prepare(text, len(words), solver.shape, cupy.cuda.runtime.getDevice())([words])


@lru_cache(maxsize=256)
def _prepare(text: str, words: int, shape: tuple[int, int, int], device: int) -> LaunchByAddress:
    rows, steps, _ = shape
    row_tiles = -(-steps // (_SEGMENTS * _LENGTH))
    groups = row_tiles // _NEIGHBOURS + 1
    published = _MAP * (row_tiles + groups) + _STATES * (groups // _NEIGHBOURS + 1)
    launch = Launch(
        text,
        "single_pass_kernel",
        min(rows * row_tiles, _BLOCKS * Device.current().multiprocessors),
        _THREADS,
        (Slot(0, (words,), np.dtype(np.int64), None), SPACE, EPOCH),
        _shared_bytes(),
        is_cooperative=True,
    )
    return LaunchByAddress(PreparedLaunches(launch, units=2 * rows * published))


def _shared_bytes() -> int:
    """Return the bytes of ``struct Memory``."""
    operands = _SEGMENTS * (_LENGTH * _STATES * (_STATES + 1) + 4)
    spine = (2 * _NEIGHBOURS + 5) * _MAP + _STATES
    maps = _RING * ((_SEGMENTS + 11) * _MAP + _STATES)
    return 8 * (_SEGMENTS * _LENGTH * _STATES + 2 * operands + maps + _SPINES * spine)


_LARGE_THREADS, _ITEMS = 224, 10
"""Sizes of large tiles: 3·10^7 steps ran at 0.66 of the floor on an H100, and with 6 items and two
stages at 0.61."""
_LARGE = 4 * MULTIPROCESSORS * _LARGE_THREADS * _ITEMS
"""Steps from which tiles are large."""


def solve_packed(
    matrix_map: MatrixMap, matrices: Any, vectors: Any, initial: Any, states: Any, reverse: bool
) -> bool:
    """Write the states of contiguous rows; return False if the kernel does not apply.

    The arrays are (rows, steps, 1, 2, 2), (rows, steps, 1, 2), (1 or rows, 1, 1, 2) and
    (rows, steps, 2).
    """
    import cupy

    rows, steps, n = states.shape
    arrays = matrices, vectors, states
    if not (states.size and states.dtype == _FLOAT64 and _are_packed(matrix_map, (rows, steps), arrays)):
        return False
    launch = _prepare_packed(matrix_map, (rows, steps, 1), reverse, cupy.cuda.runtime.getDevice())
    if launch is None:
        return False
    if rows > 1:
        initial = cupy.ascontiguousarray(cupy.broadcast_to(initial[:, 0, 0], (rows, n)).T)
    columns = ((matrices, n * n, 8), (vectors, n, 8), (initial, n, 8 * rows), (states, n, 8))
    launch([array.data.ptr + k * size for array, count, size in columns for k in range(count)])
    return True


def _are_packed(matrix_map: MatrixMap, shape: tuple[int, ...], arrays: Sequence[Any]) -> bool:
    """Return whether the kernel of two states can read or write arrays (*shape, ...)."""
    return (
        matrix_map.n == 2
        and matrix_map.algebra in DIAGONAL_MAPS
        and all(x.shape[:2] == shape and x.data.ptr % 16 == 0 and x.flags.c_contiguous for x in arrays)
    )


@lru_cache(maxsize=256)
def _prepare_packed(
    matrix_map: MatrixMap, shape: tuple[int, int, int], reverse: bool, device: int
) -> LaunchByAddress | None:
    n, transfer_map = matrix_map.n, scalar_map(matrix_map)
    slots = [Slot(k, shape, _FLOAT64) for k in range(n * n + 3 * n)]
    streams = slots[: n * n + n]
    steps = [f"items.v[{k}][r]" for k in range(len(streams))]
    source = Source(_FLOAT64, _FLOAT64, streams, steps=steps, widths=(n * n, n))
    chunk = Chunk((), shape, _FLOAT64, reverse)
    current = Device.current()
    layout = choose_layout(chunk, source, len(transfer_map.identity), n, current)
    if layout.walking or not layout.bulk:
        return None
    layout = replace(layout, packed=True, guarded=matrix_map.algebra == ("+", "*"))
    if shape[0] * shape[1] >= _LARGE and layout.threads == _LARGE_THREADS:
        layout = replace(layout, items=_ITEMS, stages=1, crowded=shape[1] < _ITEMS)
    carry_in, results = (tuple(slots[k : k + n]) for k in (n * n + n, n * n + 2 * n))
    launch, units = launch_single_pass(
        transfer_map, chunk, source, layout, carry_in, results, current.multiprocessors
    )
    launches = [launch]
    if layout.guarded:
        repair = launch_repair(transfer_map, chunk, source, launch.arguments, carry_in, packed=True)
        launches.append(repair)
    return LaunchByAddress(PreparedLaunches(*launches, units=max(units, 1)))
