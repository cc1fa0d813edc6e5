"""Filters whose coefficients vary in time, of CuPy arrays, and the phases of a chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast
from ...core.arrays.chunk import Chunk, as_contiguous, move_axis
from ...core.contract.kernels import Kernels
from ...engines.cuda.device import on_device
from ...scans.matrix.cuda.phases import kernels_of_maps
from ...scans.matrix.cuda.segments import Operand, Pass, Solver, print_pass
from ...scans.matrix.recurrence import MatrixSummary, with_rows_to_redo
from .cpu import propagate_rows
from .recurrence import VaryingFilter

_SMALL = 4
"""Largest number of states whose maps a thread summarises alone."""
_UNROLLED = 16


def read_dtype(arrays: Sequence[Any]) -> np.dtype[Any]:
    """Return the dtype in which kernels read x, b and a: a narrow one if all three are narrow."""
    dtype = np.result_type(*[array.dtype for array in arrays])
    return dtype if dtype.char in "fF" else np.result_type(dtype, np.float64)


def filter_pass(recurrence: VaryingFilter, read: np.dtype[Any]) -> Pass:
    """Return the pass of a filter, whose operands have one dtype."""
    n, (taps, poles) = recurrence.state_numbers, recurrence.counts
    is_small = int(n <= _SMALL)
    flags = {
        "ALGEBRA": 0,
        "REVERSE": recurrence.reverse,
        "SUMMARY_LANES": is_small,
        "TAPS": taps,
        "POLES": poles,
        "ORDER": recurrence.order,
        "IS_DIRECT": recurrence.form == "direct",
        "MEASURES": 1,
    }
    written = np.dtype(recurrence.dtype.char.lower())
    text = print_pass("filters/varying/filter", n, _UNROLLED, tuple(flags.items()), written, read)
    return Pass(text, (n + 1) * n + n + 2, n, n + 1, summary_lanes=is_small, repair_lanes=32)


def solve_on_gpu(
    recurrence: VaryingFilter, b: Any, a: Any, x: Any, zi: Any, marks: Any, out: tuple[Any, ...]
) -> Any:
    """Return the outputs, and the states after them if there are states `zi` (*rows, order)."""
    import cupy

    axis, read = recurrence.axis, read_dtype((b, a, x))
    solver = Solver(x.shape, axis, recurrence.reverse)
    taps, poles = recurrence.counts
    before = np.zeros(recurrence.state_numbers) if zi is None else as_numbers(zi)
    operands = [
        solver.operand(b, (taps,), read),
        solver.operand(a, (poles,), read),
        solver.operand(x, (), read),
        solver.state(before, 1),
        solver.operand(marks, (), np.uint8),
    ]
    y = out[0] if out else solver.empty(recurrence.dtype)
    last = None
    if zi is not None:
        rows = x.shape[:axis] + x.shape[axis + 1 :]
        last = cupy.empty((*rows, recurrence.state_numbers), np.float64)
        last[...] = on_device(before)
    solver.solve(filter_pass(recurrence, read), operands, [y, last])
    if last is None:
        return y
    states = last.view(recurrence.state_dtype).astype(recurrence.dtype)
    return y, move_axis(states, -1, axis)


def as_numbers(states: Any) -> Any:
    """Return states (..., order) as numbers of float64; complex ones are pairs."""
    return states if states.dtype.kind == "f" else as_contiguous(states).view(np.float64)


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; carry-ins are those of the CPU's phases."""
    phases = kernels_of_maps(_lay_out)

    def precompute(recurrence: VaryingFilter, chunk: Chunk) -> Callable[[], MatrixSummary]:
        wait = phases.precompute(recurrence, chunk)
        return lambda: with_rows_to_redo(recurrence, chunk, wait())

    return replace(phases, precompute=precompute, propagate=propagate_rows)


def _lay_out(recurrence: VaryingFilter, chunk: Chunk, dtype: Any) -> tuple[Solver, list[Operand], Pass]:
    solver = Solver(chunk.shape, 1, chunk.reverse)
    x, b, a, *resets = map(on_device, chunk.operands)
    marks, initial = (resets[0], as_numbers(resets[1])) if resets else (None, None)
    read = read_dtype((x, b, a))
    x, b, a = (cast(array, read) for array in (x, b, a))
    operands = [*map(solver.laid_out, (b, a, x, initial, marks))]
    return solver, operands, filter_pass(recurrence, read)
