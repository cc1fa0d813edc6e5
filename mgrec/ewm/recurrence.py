"""Exponentially weighted statistics as a recurrence whose states stay in the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.arrays.chunk import Chunk, as_result, canonical_shape, lay_out
from ..core.contract.kernels import Backend, Kernels, Summarise
from ..core.contract.problem import Problem, varying
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..core.contract.scan import Chain
from .summary import STATES
from .weights import Weights


@dataclass(frozen=True, kw_only=True)
class EwmRecurrence(Chain):
    """Statistics of a series so far, in host memory.

    Attributes
    ----------
    weights : Weights
    roles : tuple of str
        Of each block of a pack: "x", "y", "gaps" (how often a weight falls before a step) or
        "marks" (where the state starts anew).
    """

    family: ClassVar[str] = "ewm"
    weights: Weights
    roles: tuple[str, ...]

    @property
    def algebra(self) -> EwmRecurrence:
        """Kernels are given all of it."""
        return self

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> Any:
        outer, _, inner = canonical_shape(shape, self.axis)
        return np.zeros((STATES, outer, inner))

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        return backend.kernels(self.family).precompute(self, self.lay_out(inputs, shape))

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> Any:
        return kernels.propagate((self.weights, summary), carry_in)

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        result = (out[0] if out else backend.empty(shape, self.dtype)).reshape(chunk.shape)
        backend.kernels(self.family).determine(self, chunk, carry_in, result)
        return (as_result(result, shape, self.result_dtype),), None

    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        return lay_out(self, inputs.blocks, shape, 0)


def ewm_problem(
    weights: Weights, series: dict[str, Any], axis: int, dtype: np.dtype[Any]
) -> Problem:
    """Statistics of series that broadcast to `series["x"]`; nothing is checked.

    Parameters
    ----------
    series : dict, role -> array
        See :class:`EwmRecurrence`.
    axis : int
        0 or more.
    dtype : numpy.dtype
        Of the results, float32 or float64.
    """
    # Results are chunked like the last one, x.
    roles = tuple(sorted(series, key=lambda role: role == "x"))
    arrays = tuple(series[role] for role in roles)
    shape = tuple(series["x"].shape)
    recurrence = EwmRecurrence(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple([varying(array.shape, shape) for array in arrays]),
        block_dtypes=tuple([array.dtype for array in arrays]),
        axis=axis,
        state_dtype=np.dtype(np.float64),
        state_shape=(STATES,),
        states=STATES,
        weights=weights,
        roles=roles,
    )
    return Problem(recurrence, arrays, (), shape)
