"""The phases of a chunk of a hidden Markov model on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cuda.device import on_device
from ...scans.matrix.cuda.segments import Operand, Solver
from ..recurrence import HmmRecurrence, HmmSummary, logarithms
from ..underflow import LOG_TINY
from .passes import draw_pass, follow_pass, forward_pass, score_pass

_LOG_2 = np.log(2.0)


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; its summary is propagated on the CPU."""
    return Kernels(determine, precompute)


def determine(recurrence: HmmRecurrence, chunk: Chunk, carry_in: np.ndarray, result: Any) -> None:
    """Write the results of every step to `result` (outer, steps, inner, numbers)."""
    if result.size == 0:
        return
    phase, count, solver = recurrence.phase, recurrence.count, Solver(chunk.shape, 1)
    arrays, operands = _laid_out(recurrence, chunk, solver)
    states = carry_in.reshape(-1, carry_in.shape[-1])
    if phase == "draw":
        solver.solve(draw_pass(count), operands, [result], carry_in=states + 1)
    elif phase == "follow":
        path = solver.empty(np.int32)
        log_probs = solver.solve(
            follow_pass(count), operands, [*arrays, path], sums=True, carry_in=states + 1
        )
        result[..., 0] = path
        _write_sums(result[..., 1], log_probs)
    elif phase == "score":
        carry_in_logs = None if _is_first(recurrence, states) else states
        solver.solve(score_pass(count), operands, [result], carry_in=carry_in_logs)
    elif phase == "forward":
        carry_in_logs = None if _is_first(recurrence, states) else logarithms(states)
        solved = forward_pass(count, row=count + 1)
        log_prob = solver.solve(solved, operands, [result, None], sums=True, carry_in=carry_in_logs)
        _write_sums(result[..., count], log_prob)
    else:
        solved = forward_pass(count, result.dtype, ("spread_back",), count + 1)
        carry_in_logs = logarithms(states)
        solver.solve(solved, operands, [None, *arrays, result], carry_in=carry_in_logs)


def precompute(recurrence: HmmRecurrence, chunk: Chunk) -> Callable[[], HmmSummary]:
    """Launch the summary of a chunk; the returned function waits for it."""
    phase, count, solver = recurrence.phase, recurrence.count, Solver(chunk.shape, 1)
    arrays, operands = _laid_out(recurrence, chunk, solver)
    rows = chunk.row_shape
    if phase in ("follow", "draw"):
        solved, arrays = (
            (follow_pass(count), [None, *arrays, None])
            if phase == "follow"
            else (draw_pass(count), [None])
        )
        wait_for_states = solver.summarise(solved, operands, arrays)

        def wait_for_columns() -> HmmSummary:
            # The first one of a map is that after no state.
            columns = np.roll(wait_for_states(), -1, axis=1) - 1
            no_scales = np.zeros((*rows, count + 1))
            return HmmSummary(columns.reshape(*rows, count + 1, 1), no_scales, np.zeros(rows, bool))

        return wait_for_columns
    solved, unit = (score_pass(count), 1.0) if phase == "score" else (forward_pass(count), _LOG_2)
    unused = [None] if phase == "score" else [None, None, None]
    wait_for_maps = solver.summarise(solved, operands, unused)
    # The sequence may start with this chunk.
    wait_for_start = (
        None if phase == "backward" else solver.summarise(solved, operands, unused, False)
    )

    def wait() -> HmmSummary:
        logs, first, starts = _split(wait_for_maps(), count, unit)
        if phase == "backward":
            logs = np.where(starts[:, None, None], first[:, None], logs.swapaxes(1, 2))
        if wait_for_start is not None:
            logs = np.concatenate([logs, _split(wait_for_start(), count, unit)[0][:, :1]], axis=1)
        columns, scales = (logs, np.zeros(logs.shape[:2])) if phase == "score" else _scaled(logs)
        if not chunk.steps and phase != "backward":
            columns[:, -1] = recurrence.first_state()
        return HmmSummary(
            columns.reshape(*rows, *columns.shape[1:]),
            scales.reshape(*rows, -1),
            starts.reshape(rows),
        )

    return wait


def _laid_out(
    recurrence: HmmRecurrence, chunk: Chunk, solver: Solver
) -> tuple[list[Any], list[Operand]]:
    """Return results of an earlier pass, and frames, transitions, start and marks as operands."""
    arrays, phase = [*map(on_device, chunk.operands)], recurrence.phase
    results = [arrays.pop(0)] if phase in ("backward", "follow") else []
    if phase == "backward":
        # The weights of a sequence that starts in the chunk have no effect on those before it.
        arrays.insert(2, arrays[1])
    if phase != "follow" and len(arrays) < 4:
        arrays.append(None)
    return results, [solver.laid_out(array) for array in arrays]


def _is_first(recurrence: HmmRecurrence, states: np.ndarray) -> bool:
    """Return whether there are no steps before a chunk."""
    return bool((states[:, 0] == recurrence.first_state()[0]).all())


def _write_sums(target: Any, sums: Any) -> None:
    """Write the sums of rows to their first steps."""
    target[...] = 0.0
    target[:, 0] = sums


def _split(maps: np.ndarray, count: int, unit: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the logarithms of maps, those before their first start, and whether there is one.

    See ``struct Map`` of ``weights.cuh``.
    """
    ends = np.cumsum([count * count, count, count, count])
    matrices, powers, first, first_powers, starts = np.split(maps, ends, axis=1)
    logs = matrices.reshape(-1, count, count) + unit * powers[..., None]
    return logs, first + unit * first_powers, starts[:, 0] != 0


def _scaled(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of weights, tiny ones as logarithms, and the logarithms of their scales."""
    most = logs.max(-1)
    with np.errstate(invalid="ignore"):
        logs = logs - np.where(np.isfinite(most), most, 0.0)[..., None]
    is_tiny = (logs < LOG_TINY) & (logs > -np.inf)
    return np.where(is_tiny, logs, np.exp(logs)), most
