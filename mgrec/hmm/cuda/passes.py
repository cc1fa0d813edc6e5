"""Solutions of hidden Markov models of CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.chunk import canonical_shape
from ...scans.matrix.cuda.segments import (
    Pass,
    along_steps,
    print_pass,
    segments_of,
    solve_in_segments,
    words_of_operand,
)
from ..arguments import Model
from ..results import ForwardBackward, ViterbiPath

_FLOAT64 = np.dtype(np.float64)
_UNROLLED = 8
"""Most states whose loops are unrolled."""


class _Solver:
    """The operands of a model in the layout of kernels."""

    def __init__(self, model: Model, is_sample: bool = False) -> None:
        self.model, self.count = model, model.count
        self.shape = canonical_shape(model.shape, model.axis)
        numbers = () if is_sample else (self.count,)
        starts = along_steps(model.startprob, 1, model.shape, model.axis)
        self.operands = [
            self._operand(model.log_frameprob, numbers),
            self._operand(model.transmat, (self.count, self.count)),
            self._operand(starts, (self.count,)),
        ]
        self.marks = self._operand(model.marks, (), np.uint8)

    def _operand(self, array: Any, numbers: tuple[int, ...], dtype: Any = _FLOAT64) -> Any:
        model = self.model
        return words_of_operand(array, numbers, model.shape, model.axis, dtype)

    def empty(self, dtype: Any, *numbers: int) -> Any:
        import cupy

        return cupy.empty((*self.model.shape, *numbers), dtype)

    def sums(self, segments: tuple[int, int]) -> Any:
        """Return an array for the sums of all segments."""
        import cupy

        return cupy.empty((self.shape[0] * self.shape[2], segments[0]), _FLOAT64)

    def of_rows(self, sums: Any) -> Any:
        axis, shape = self.model.axis, self.model.shape
        return sums.sum(1).reshape(shape[:axis] + shape[axis + 1 :])

    def segments(self, lanes: int, numbers: int) -> tuple[int, int]:
        return segments_of(self.shape[0] * self.shape[2], self.shape[1], lanes, numbers)

    def solve(
        self, text: str, lanes: int, numbers: int, state_numbers: int, arrays: list[Any],
        *directions: str, has_marks: bool = True,
    ) -> None:  # fmt: skip
        """Launch a pass; `arrays` follow the operands, and may be None."""
        operands = [*self.operands, self.marks] if has_marks else self.operands
        words = [word for _, of_array in operands for word in of_array]
        words += [0 if array is None else array.data.ptr for array in arrays]
        solved = Pass(text, len(words) + 5, numbers, state_numbers, lanes, directions)
        solve_in_segments(solved, self.shape, words)


def forward_backward(model: Model, has_posteriors: bool = True) -> ForwardBackward:
    """Return the result of :func:`mgrec.hmm.forward_backward`, or the log-likelihood alone."""
    solver, count = _Solver(model), model.count
    numbers = count * count + 3 * count + 1
    llf = solver.sums(solver.segments(count, numbers))
    filtered = solver.empty(_FLOAT64, count) if has_posteriors else None
    posteriors = solver.empty(model.dtype, count) if has_posteriors else None
    text = print_pass("hmm/cuda/forward", count, _UNROLLED, (("BEST", False),), model.dtype)
    directions = ("spread", "spread_back") if has_posteriors else ("spread",)
    solver.solve(text, count, numbers, count, [llf, filtered, posteriors], *directions)
    return ForwardBackward(solver.of_rows(llf), posteriors)


def viterbi(model: Model) -> ViterbiPath:
    """Return the result of :func:`mgrec.hmm.viterbi` for a model in logarithms."""
    solver, count = _Solver(model), model.count
    pointers = solver.empty(np.uint8, count + 1)
    text = print_pass("hmm/cuda/score", count, _UNROLLED, (("BEST", True),))
    solver.solve(text, count, count * count + 3 * count + 1, count, [pointers], "spread")
    log_probs = solver.sums(solver.segments(count + 1, count + 1))
    states = solver.empty(np.int32)
    text = print_pass("hmm/cuda/states", count, 1, (), name="Follow")
    arrays = [pointers, log_probs, states]
    solver.solve(text, count + 1, count + 1, 1, arrays, "spread_back", has_marks=False)
    return ViterbiPath(solver.of_rows(log_probs), states)


def sample(model: Model) -> Any:
    """Return the result of :func:`mgrec.hmm.sample`."""
    solver, count = _Solver(model, is_sample=True), model.count
    states = solver.empty(np.int32)
    text = print_pass("hmm/cuda/states", count, 1, (), name="Draw")
    solver.solve(text, count + 1, count + 1, 1, [states], "spread")
    return states
