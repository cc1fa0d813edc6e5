"""General maps of two and of four states in one pass over the operands.

Maps of four states have a kernel of their own, ``single_pass.cuh``. Those of two states run in the
kernel of contiguous rows: matrices and vectors are streams of the kernel as they are, and its tiles
have all numbers of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ....core.arrays.chunk import Chunk
from ....engines.cuda.device import MULTIPROCESSORS, Device, on_device
from ....engines.cuda.launches import EPOCH, SPACE, Launch, LaunchByAddress, PreparedLaunches, Slot
from ...cuda.determine import launch_repair, launch_single_pass
from ...cuda.layouts import choose_layout
from ...cuda.program import Source
from ..maps import MatrixMap
from ..recurrence import DIAGONAL_MAPS, MatrixRecurrence, scalar_map
from .segments import Operand, Solver, print_pass

_FLOAT64 = np.dtype(np.float64)
SMALL = 4
"""Most states of a map that a thread keeps in registers."""


def may_solve_in_one_pass(recurrence: MatrixRecurrence, chunk: Chunk) -> bool:
    """Return whether one pass may solve a chunk; results that are not aligned keep it from that."""
    is_plain = len(chunk.operands) == 2 and chunk.steps > 0
    if not is_plain or recurrence.matrix_map.structure != "general" or recurrence.result_dtype != _FLOAT64:
        return False
    solver, operands = operands_of(chunk)
    arrays = [array for array, _ in operands[:2]]
    is_packed = chunk.shape[2] == 1 and _are_packed(recurrence.matrix_map, chunk.shape[:2], arrays)
    return is_packed or _suits_four_states(recurrence.matrix_map, solver, operands)


def operands_of(chunk: Chunk, carry_in: np.ndarray | None = None) -> tuple[Solver, list[Operand]]:
    solver = Solver(chunk.shape, 1, chunk.reverse)
    before = None if carry_in is None else on_device(carry_in[:, None])
    return solver, [*map(solver.laid_out, (*map(on_device, chunk.operands), before, None))]


def solve_in_one_pass(
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
    text = _print_four_states(matrix_map, M, b, reverse, states.dtype)
    _solve_four_states(solver, text, operands, states)
    return True


def prepare_pass(recurrence: MatrixRecurrence, chunk: Chunk) -> Callable[[int, int, int, int], None] | None:
    """Return a function of the addresses of M, b, the state before them and the states of one sequence.

    It solves chunks of the shape of this one. None if that takes more than one pass.
    """
    import cupy

    if chunk.row_shape != (1, 1) or not may_solve_in_one_pass(recurrence, chunk):
        return None
    matrix_map, n, (M, b) = recurrence.matrix_map, recurrence.state_numbers, chunk.operands
    device = cupy.cuda.runtime.getDevice()
    if n == 2:
        packed = _prepare_packed(matrix_map, chunk.shape, chunk.reverse, device)
        return None if packed is None else partial(_launch_packed, packed)
    solver, operands = operands_of(chunk)
    words = solver.words(operands, [None, None], (1, chunk.steps))
    offsets = words[0] - M.data.ptr, words[4] - b.data.ptr
    text = _print_four_states(matrix_map, M, b, chunk.reverse, recurrence.result_dtype)
    launch = _prepare(text, len(words), solver.shape, device)

    def solve_four_states(M: int, b: int, before: int, states: int) -> None:
        filled = [*words]
        filled[0], filled[4], filled[8], filled[16] = M + offsets[0], b + offsets[1], before, states
        launch([filled])

    return solve_four_states


def _launch_packed(launch: LaunchByAddress, *addresses: int) -> None:
    """Launch a pass over one sequence of maps of two states, of which kernels take each number's address."""
    counts = zip(addresses, (4, 2, 2, 2), strict=True)
    launch([address + 8 * k for address, count in counts for k in range(count)])


def _print_four_states(matrix_map: MatrixMap, M: Any, b: Any, reverse: bool, dtype: np.dtype[Any]) -> str:
    flags = flags_of(matrix_map, M, b, reverse) | _one_pass_constants()
    types = tuple(flags.items()), dtype
    return print_pass("scans/matrix/cuda/single_pass", matrix_map.n, SMALL, *types, kernels="")


def flags_of(matrix_map: MatrixMap, matrices: Any, vectors: Any, reverse: bool) -> dict[str, int]:
    return {
        "ALGEBRA": matrix_map.algebra_number,
        "IS_GENERAL": matrix_map.structure == "general",
        "IS_DIAGONAL": matrix_map.structure == "diagonal",
        "IS_COMPANION": matrix_map.structure == "companion",
        "REVERSE": reverse,
        "ALIGNED": matrices.data.ptr % 16 == vectors.data.ptr % 16 == 0,
        "SUMMARY_LANES": int(matrix_map.n <= SMALL),
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
        and matrices.shape[1] == vectors.shape[1] == steps
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
