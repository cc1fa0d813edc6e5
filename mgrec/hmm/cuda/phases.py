"""Solutions of hidden Markov models of CuPy arrays, and the phases of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cuda.device import fetch, on_device
from ...scans.matrix.cuda.segments import DIRECTIONS, Operand, Pass, Solver, print_pass
from ..arguments import MarkovModel
from ..recurrence import (
    ForwardBackward,
    HmmRecurrence,
    HmmSummary,
    PosteriorRecurrence,
    ViterbiPath,
    logarithms,
    scaled,
)

_LOG_2 = np.log(2.0)
_FLOAT64 = np.dtype(np.float64)
_UNROLLED = 8
"""Most states whose loops are unrolled."""


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; its summary is propagated on the CPU."""
    return Kernels(determine, precompute)


def determine(recurrence: HmmRecurrence, chunk: Chunk, carry_in: np.ndarray, result: Any) -> Any:
    """Write the results of every step to `result` (outer, steps, inner, numbers), if there is one.

    Return the log-likelihood of each row if that is not one of the numbers.
    """
    if isinstance(recurrence, PosteriorRecurrence):
        return _determine_posteriors(recurrence, chunk, carry_in, result)
    if not recurrence.is_split and result.size == 0:
        return None
    phase, count, solver = recurrence.phase, recurrence.count, Solver(chunk.shape, 1)
    arrays, operands = _laid_out(recurrence, chunk, solver)
    states = carry_in.reshape(-1, carry_in.shape[-1])
    if phase == "draw":
        solver.solve(draw_pass(count), operands, [result], before=states + 1)
    elif phase == "follow":
        path = result if recurrence.is_split else solver.empty(np.int32)
        log_probs = solver.solve(follow_pass(count), operands, [*arrays, path], sums=True, after=states + 1)
        if recurrence.is_split:
            return log_probs
        result[..., 0] = path
        _write_sums(result[..., 1], log_probs)
    elif phase == "score":
        before, solved = None if _is_first(recurrence, states) else states, score_pass(count)
        maps = solver.maps_of(chunk, solved, operands, [None])
        solver.solve(solved, operands, [result], before=before, maps=maps)
    elif phase == "forward":
        before = None if _is_first(recurrence, states) else logarithms(states)
        solved = forward_pass(count, row=count + 1)
        maps = solver.maps_of(chunk, solved, operands, [None] * 3)
        log_prob = solver.solve(solved, operands, [result, None], sums=True, before=before, maps=maps)
        if recurrence.is_split:
            return log_prob
        _write_sums(result[..., count], log_prob)
    else:
        solved = forward_pass(count, result.dtype, ("spread_back",), count + 1)
        maps = solver.maps_of(chunk, solved, operands, [None] * 3)
        outputs = [None, *arrays, result]
        solver.solve(solved, operands, outputs, after=logarithms(states), maps=maps)
    return None


def _determine_posteriors(
    recurrence: HmmRecurrence, chunk: Chunk, carry_in: np.ndarray, posteriors: Any
) -> Any:
    """Write the probabilities of the states; return the log-likelihood of each row."""
    count, solver = recurrence.count, Solver(chunk.shape, 1)
    _, operands = _laid_out(recurrence, chunk, solver)
    before, after = np.split(carry_in.reshape(-1, 2 * count), 2, axis=-1)
    solved = forward_pass(count, posteriors.dtype, DIRECTIONS)
    return solver.solve(
        solved,
        operands,
        [solver.empty(np.float64, count), posteriors],
        sums=True,
        before=None if _is_first(recurrence, before) else logarithms(before),
        after=logarithms(after),
        maps=solver.maps_of(chunk, solved, operands, [None] * 3),
    )


def precompute(recurrence: HmmRecurrence, chunk: Chunk) -> Callable[[], HmmSummary]:
    """Launch the summary of a chunk; the returned function waits for it."""
    phase, count, solver = recurrence.phase, recurrence.count, Solver(chunk.shape, 1)
    if phase in ("follow", "draw"):
        return _precompute_states(recurrence, chunk, solver)
    _, operands = _laid_out(recurrence, chunk, solver)
    rows = chunk.row_shape
    solved, unit = (score_pass(count), 1.0) if phase == "score" else (forward_pass(count), _LOG_2)
    unused = [None] if phase == "score" else [None, None, None]
    maps = solver.maps(solved, operands, unused, chunk.kept).of_rows
    wait_for_maps = fetch(solver.with_first_steps(solved, operands, unused, maps))

    def wait() -> HmmSummary:
        maps = wait_for_maps()
        logs, first, starts = _split(maps[:, 0], count, unit)
        later = np.where(starts[:, None, None], first[:, None], logs.swapaxes(1, 2))
        if phase == "backward":
            return _summary(*scaled(later), starts, rows)
        # The sequence may start with this chunk.
        logs = np.concatenate([logs, _split(maps[:, 1], count, unit)[0][:, :1]], axis=1)
        columns, scales = (logs, np.zeros(logs.shape[:2])) if phase == "score" else scaled(logs)
        if not chunk.steps:
            columns[:, -1] = recurrence.first_state()[:count]
        forward = _summary(columns, scales, starts, rows)
        if phase != "posteriors":
            return forward
        return replace(forward, backward=_summary(*scaled(later), starts, rows))

    return wait


def _precompute_states(recurrence: HmmRecurrence, chunk: Chunk, solver: Solver) -> Callable[[], HmmSummary]:
    """Launch the summary of a pass whose state is one of N, or none."""
    count, rows, unused = recurrence.count, chunk.row_shape, list[Any]([None])
    arrays, operands = _laid_out(recurrence, chunk, solver)
    if recurrence.phase == "follow":
        solved, unused = follow_pass(count), [None, *arrays, None]
    else:
        solved = draw_pass(count)
    wait_for_states = fetch(solver.maps(solved, operands, unused).of_rows)

    def wait() -> HmmSummary:
        # The first one of a map is that after no state.
        columns = np.roll(wait_for_states(), -1, axis=1) - 1
        no_scales = np.zeros((*rows, count + 1))
        return HmmSummary(columns.reshape(*rows, count + 1, 1), no_scales, np.zeros(rows, bool))

    return wait


def _summary(columns: Any, log_scales: Any, starts: Any, rows: tuple[int, int]) -> HmmSummary:
    """Return the summary of rows (outer, inner), from columns of all rows."""
    columns = columns.reshape(*rows, *columns.shape[1:])
    return HmmSummary(columns, log_scales.reshape(*rows, -1), starts.reshape(rows))


def _laid_out(recurrence: HmmRecurrence, chunk: Chunk, solver: Solver) -> tuple[list[Any], list[Operand]]:
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
    """Return the logarithms of maps, those before their first start, and whether there is one."""
    ends = np.cumsum([count * count, count, count, count])
    matrices, powers, first, first_powers, starts = np.split(maps, ends, axis=1)
    # Differences of powers are exact: a power of a long chunk would cost the logarithm digits.
    powers = unit * (powers - powers.max(1, keepdims=True))
    logs, is_reset = matrices.reshape(-1, count, count) + powers[..., None], starts != 0
    first, first_powers = (np.where(is_reset, part, 0.0) for part in (first, first_powers))
    first += unit * (first_powers - first_powers.max(1, keepdims=True))
    return logs, first, is_reset[:, 0]


def forward_pass(
    count: int,
    dtype: Any = _FLOAT64,
    directions: tuple[str, ...] = ("spread",),
    row: int = 0,
    is_normalised: bool = False,
) -> Pass:
    """Return the forward and backward pass; weights of a step are in `row` numbers."""
    constants = (("BEST", False), ("ROW", row or count), ("NORMALISED", is_normalised))
    text = print_pass("hmm/cuda/forward", count, _UNROLLED, constants, dtype, skips_first=True)
    return Pass(text, count * count + 3 * count + 1, count, count, directions, enters="spread")


def score_pass(count: int) -> Pass:
    """Return the pass that scores best paths."""
    constants = (("BEST", True),)
    text = print_pass("hmm/cuda/score", count, _UNROLLED, constants, skips_first=True)
    return Pass(text, count * count + 3 * count + 1, count, count, enters="spread")


def follow_pass(count: int) -> Pass:
    """Return the pass that follows pointers."""
    text = print_pass("hmm/cuda/states", count, 1, (), name="Follow")
    return Pass(text, count + 1, 1, count + 1, ("spread_back",))


def draw_pass(count: int) -> Pass:
    """Return the pass that draws states."""
    return Pass(print_pass("hmm/cuda/states", count, 1, (), name="Draw"), count + 1, 1, count + 1)


def _operands_of(model: MarkovModel, is_sample: bool = False) -> tuple[Solver, list[Operand]]:
    """Return a solver, and the operands of a model; the last are the marks."""
    solver, count = Solver(model.shape, model.axis), model.count
    return solver, [
        solver.operand(model.log_frameprob, () if is_sample else (count,)),
        solver.operand(model.transmat, (count, count)),
        solver.state(model.startprob, 1),
        solver.operand(model.marks, (), np.uint8),
    ]


def forward_backward(model: MarkovModel, has_posteriors: bool = True) -> ForwardBackward[Any]:
    """Return the result of :func:`mgrec.hmm.forward_backward`, or the log-likelihood alone."""
    (solver, operands), count = _operands_of(model), model.count
    filtered = solver.empty(_FLOAT64, count) if has_posteriors else None
    posteriors = solver.empty(model.dtype, count) if has_posteriors else None
    directions = ("spread", "spread_back") if has_posteriors else ("spread",)
    solved = forward_pass(count, model.dtype, directions)
    log_prob = solver.solve(solved, operands, [filtered, posteriors], sums=True)
    return ForwardBackward(log_prob, posteriors)


def weights(model: MarkovModel) -> Any:
    """Return the probabilities of the states of each step, given the observations up to it."""
    (solver, operands), count = _operands_of(model), model.count
    filtered = solver.empty(_FLOAT64, count)
    solved = forward_pass(count, model.dtype, is_normalised=True)
    solver.solve(solved, operands, [filtered, None], sums=True)
    return filtered


def viterbi(model: MarkovModel) -> ViterbiPath[Any]:
    """Return the result of :func:`mgrec.hmm.viterbi` for a model in logarithms."""
    (solver, operands), count = _operands_of(model), model.count
    pointers, states = solver.empty(np.uint8, count + 1), solver.empty(np.int32)
    solver.solve(score_pass(count), operands, [pointers])
    # The pointers know where sequences start.
    arrays = [pointers, states]
    return ViterbiPath(solver.solve(follow_pass(count), operands[:-1], arrays, sums=True), states)


def sample(model: MarkovModel) -> Any:
    """Return the result of :func:`mgrec.hmm.sample`."""
    (solver, operands), count = _operands_of(model, is_sample=True), model.count
    states = solver.empty(np.int32)
    solver.solve(draw_pass(count), operands, [states])
    return states
