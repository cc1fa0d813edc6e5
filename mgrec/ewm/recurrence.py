"""Exponentially weighted statistics as a recurrence: weights, summary and description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.arrays.chunk import Chunk, as_result, canonical_shape, lay_out
from ..core.contract.kernels import Backend, Kernels, PreparedSolver
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..core.contract.scan import Chain

STATISTICS = ("mean", "sum", "var", "std", "cov", "corr")
# Statistics of two series.
PAIRS = ("cov", "corr")
# Number of gaps for which kernels take the decay of a mean from a table.
_GAPS = 64

# A state has the scalars count, weight, divisor, x, y, xx, yy and xy: see ``cpu.py``.
STATES = 8
# The summary of a row without a reset has FIRST scalars for its first observation: the decay up to
# it, or along the whole row if it has none; the number of observations; x and y of the first one;
# its remaining weight; and 1 if all weights then decay to almost 0, so that those before are given:
# their ratio counts. The state of the other observations, without a count, follows.
FIRST = 6
PARTS = FIRST + STATES - 1


@dataclass(frozen=True)
class Weights:
    """The options of pandas' ``ewm``."""

    statistic: str  # one of STATISTICS
    alpha: float
    is_adjusted: bool = True
    ignores_missing: bool = False
    is_biased: bool = False
    min_count: int = 1  # number of observations that a result needs, 1 or more

    @property
    def decay(self) -> float:
        """Factor by which a weight decays in one step."""
        return 1 - self.alpha

    @property
    def is_complement(self) -> bool:
        """Whether a new observation has the weight that earlier ones lost: pandas at com = 1."""
        is_mean = self.statistic == "mean" and not self.is_adjusted
        return is_mean and self.alpha == 0.5

    @property
    def kernel_arguments(self) -> tuple[float, float, bool, bool, int, bool, np.ndarray]:
        """The `weights` argument of kernels, in their order.

        The last item is the factor of the previous mean after gaps of 0, 1, … steps.
        """
        old = self.decay ** np.arange(1.0, _GAPS + 1)
        kept = old if self.is_complement else old / (old + self.alpha)
        return (
            self.decay,
            self.alpha,
            self.ignores_missing,
            self.is_complement,
            self.min_count,
            self.is_biased,
            kept,
        )


@dataclass(frozen=True)
class EwmSummary:
    """How a chunk changes the states of its rows.

    Rows with a reset have a carry-out, which does not depend on the carry-in.
    """

    parts: np.ndarray  # (PARTS, outer, inner), of rows without a reset
    carry_outs: np.ndarray  # (STATES, outer, inner), of rows with a reset
    is_reset: np.ndarray  # (outer, inner), bool


@dataclass(frozen=True, kw_only=True)
class EwmRecurrence(Chain):
    """An exponentially weighted statistic of series in host memory."""

    family: ClassVar[str] = "ewm"
    weights: Weights
    # Role of each block: "x", "y", "gaps" (number of decays before a step) or "marks" (where the
    # state is reset).
    roles: tuple[str, ...]

    @property
    def algebra(self) -> EwmRecurrence:
        return self

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> Any:
        outer, _, inner = canonical_shape(shape, self.axis)
        return np.zeros((STATES, outer, inner))

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> Any:
        return kernels.propagate((self.weights, summary), carry_in)

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        result = (out[0] if out else backend.empty(shape, self.dtype)).reshape(chunk.shape)
        backend.kernels(self.family).determine(self, chunk, carry_in, result)
        return (as_result(result, shape, self.result_dtype),), None

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        return None if prepare is None else prepare(self, self.lay_out(inputs, shape))

    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        return lay_out(self, inputs.blocks, shape, 0)


def ewm_problem(weights: Weights, series: dict[str, Any], axis: int, dtype: np.dtype[Any]) -> Problem:
    """Return the problem of a statistic, without validation.

    `series` are the arrays by role, see :class:`EwmRecurrence`, which broadcast to that of "x".
    `axis` is 0 or more, and `dtype`, that of the results, float32 or float64.
    """
    # Results have the chunks of the last operand, x.
    roles = tuple(sorted(series, key=lambda role: role == "x"))
    arrays = tuple(series[role] for role in roles)
    shape = tuple(series["x"].shape)
    recurrence = EwmRecurrence.over(
        arrays,
        shape,
        dtype,
        axis=axis,
        state_dtype=np.dtype(np.float64),
        state_shape=(STATES,),
        states=STATES,
        weights=weights,
        roles=roles,
    )
    return Problem(recurrence, arrays, (), shape)
