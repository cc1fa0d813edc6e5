"""Solutions of hidden Markov models of CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...scans.matrix.cuda.segments import Operand, Pass, Solver, print_pass
from ..arguments import Model
from ..results import ForwardBackward, ViterbiPath

_FLOAT64 = np.dtype(np.float64)
_UNROLLED = 8
"""Most states whose loops are unrolled."""


def forward_pass(
    count: int, dtype: Any = _FLOAT64, directions: tuple[str, ...] = ("spread",), row: int = 0,
    is_normalised: bool = False,
) -> Pass:  # fmt: skip
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


def _laid_out(model: Model, is_sample: bool = False) -> tuple[Solver, list[Operand]]:
    """Return a solver, and the operands of a model; the last are the marks."""
    solver, count = Solver(model.shape, model.axis), model.count
    return solver, [
        solver.operand(model.log_frameprob, () if is_sample else (count,)),
        solver.operand(model.transmat, (count, count)),
        solver.state(model.startprob, 1),
        solver.operand(model.marks, (), np.uint8),
    ]


def forward_backward(model: Model, has_posteriors: bool = True) -> ForwardBackward:
    """Return the result of :func:`mgrec.hmm.forward_backward`, or the log-likelihood alone."""
    (solver, operands), count = _laid_out(model), model.count
    filtered = solver.empty(_FLOAT64, count) if has_posteriors else None
    posteriors = solver.empty(model.dtype, count) if has_posteriors else None
    directions = ("spread", "spread_back") if has_posteriors else ("spread",)
    solved = forward_pass(count, model.dtype, directions)
    log_prob = solver.solve(solved, operands, [filtered, posteriors], sums=True)
    return ForwardBackward(log_prob, posteriors)


def weights(model: Model) -> Any:
    """Return the probabilities of the states of each step, given the observations up to it."""
    (solver, operands), count = _laid_out(model), model.count
    filtered = solver.empty(_FLOAT64, count)
    solved = forward_pass(count, model.dtype, is_normalised=True)
    solver.solve(solved, operands, [filtered, None], sums=True)
    return filtered


def viterbi(model: Model) -> ViterbiPath:
    """Return the result of :func:`mgrec.hmm.viterbi` for a model in logarithms."""
    (solver, operands), count = _laid_out(model), model.count
    pointers, states = solver.empty(np.uint8, count + 1), solver.empty(np.int32)
    solver.solve(score_pass(count), operands, [pointers])
    # The pointers know where sequences start.
    arrays = [pointers, states]
    return ViterbiPath(solver.solve(follow_pass(count), operands[:-1], arrays, sums=True), states)


def sample(model: Model) -> Any:
    """Return the result of :func:`mgrec.hmm.sample`."""
    (solver, operands), count = _laid_out(model, is_sample=True), model.count
    states = solver.empty(np.int32)
    solver.solve(draw_pass(count), operands, [states])
    return states
