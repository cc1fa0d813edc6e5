"""Filters as recurrences: constant coefficients, k states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..core.arrays.array_types import cast
from ..core.arrays.chunk import Chunk, canonical_shape, is_uncopied
from ..core.contract.kernels import Backend, Kernels, PreparedSolver, Summarise
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..core.contract.scan import Chain
from .cascade import Cascade
from .prefix import LARGE, LEAST_DECAYS


@dataclass(frozen=True, kw_only=True)
class FilterRecurrence(Chain):
    """A filter without its data; states are arrays (states, outer, inner)."""

    family: ClassVar[str] = "filters"
    cascade: Cascade

    @property
    def algebra(self) -> Any:
        return self.cascade

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> Any:
        outer, _, inner = canonical_shape(shape, self.axis)
        if not initial:
            return np.zeros((self.states, outer, inner), self.state_dtype)
        states = cast(initial[0], self.state_dtype)
        wanted = (self.states, *shape[: self.axis], *shape[self.axis + 1 :])
        full = states if states.shape == wanted else np.broadcast_to(states, wanted)
        return full.reshape(self.states, outer, inner)

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        return backend.kernels(self.family).precompute(self.cascade, self.lay_out(inputs, shape))

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> np.ndarray:
        carry_out: np.ndarray = kernels.propagate(summary, np.ascontiguousarray(carry_in))
        return carry_out

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        result = (out[0] if out else backend.empty(shape, self.dtype)).reshape(chunk.shape)
        carry_out = backend.kernels(self.family).determine(self.cascade, chunk, carry_in, result)
        return (result.reshape(shape),), carry_out

    @property
    def is_contractive(self) -> bool:
        return self.cascade.states > 0 and self.cascade.radius < 1

    def may_speculate(self, shape: Sequence[float], is_on_gpu: bool) -> bool:
        if is_on_gpu or not self.is_contractive:
            return False
        steps = shape[self.axis]
        return steps >= LEAST_DECAYS * max(1.0, self.cascade.decay) and prod(shape) >= LARGE

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        if prepare is None:
            return None
        chunk, carry_in = self.lay_out(inputs, shape), None
        if not is_uncopied(chunk.operands[0], inputs.blocks[0]):
            return None
        if initial:
            wanted = (self.states, *shape[: self.axis], *shape[self.axis + 1 :])
            if initial[0].shape != wanted or not initial[0].flags.c_contiguous:
                return None
            carry_in = initial[0].reshape(self.states, *chunk.row_shape)
        return prepare(self.cascade, chunk, carry_in, results[0].reshape(chunk.shape))

    def final_state(self, carry_out: Any, shape: Shape) -> Any:
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        carry_out = carry_out.reshape(*self.state_shape, *rows)
        if carry_out.dtype == self.dtype:
            return carry_out.copy()
        with np.errstate(over="ignore"):
            return carry_out.astype(self.dtype)

    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        """The signal laid out, in its own dtype: kernels cast samples as they read them."""
        (x,) = inputs.blocks
        layout = canonical_shape(x.shape, self.axis)
        x = x if x.flags.c_contiguous else x.copy(order="C")
        return Chunk((x.reshape(layout),), layout, self.dtype)


def filter_problem(
    cascade: Cascade, x: Any, carry_in: Any, axis: int, dtype: np.dtype[Any], out: Any = None
) -> Problem:
    """A filter over an array; nothing is checked.

    Parameters
    ----------
    carry_in : array, optional
        The states before the first sample: their axis first, then the axes of x without
        `axis`, each full or of length 1. 0 where None.
    axis : int
        0 or more.
    dtype : numpy.dtype
        Of the results: float32, float64, complex64 or complex128.
    """
    is_complex = cascade.is_complex or dtype.kind == "c"
    recurrence = FilterRecurrence(
        dtype=dtype,
        result_dtype=dtype,
        varying=((True,) * x.ndim,),
        block_dtypes=(x.dtype,),
        axis=axis,
        state_dtype=np.dtype(np.complex128 if is_complex else np.float64),
        state_shape=(cascade.states,),
        states=cascade.states,
        returns_final_state=carry_in is not None,
        cascade=cascade,
    )
    initial = () if carry_in is None else (carry_in,)
    return Problem(recurrence, (x,), initial, tuple(x.shape), out=out)
