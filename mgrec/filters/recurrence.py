"""A filter as a recurrence: its summary, its speculative prefix and its description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..core.algebra.exact import add_products
from ..core.arrays.array_types import cast, computed_dtype
from ..core.arrays.chunk import Chunk, as_result, canonical_shape, is_uncopied
from ..core.contract.kernels import Backend, Kernels, PreparedSolver, ShardSolver
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..core.contract.scan import LARGE_ON_GPU, Chain
from .cascade import Cascade, power
from .overlap import OverlappedFilter, reach_over_chunks

# Above these a summary carries the chunk itself, since overflow depends on each step. The radius
# allows for the rounding of poles that coincide on the unit circle.
UNSTABLE, GROWTH = 1.001, 2.0**60


@dataclass(frozen=True)
class CascadeSummary:
    """``carry_out = A**steps · carry_in + offset``, or the chunk itself if that may be wrong."""

    cascade: Cascade
    steps: int
    offset: np.ndarray  # (states, outer, inner), float64 or complex128
    redo: Chunk | None = None


def is_safe(cascade: Cascade, steps: int) -> bool:
    """Return whether A**steps is small enough for a summary."""
    if cascade.radius < 1 or cascade.radius > UNSTABLE:
        return cascade.radius < 1
    high, _ = power(cascade, steps)
    return bool((np.abs(high) <= GROWTH).all())


def advance_states(summary: CascadeSummary, carry_in: np.ndarray) -> np.ndarray:
    """Return the states after a chunk without `redo`, from finite states before it.

    Products and sums keep their rounding errors: a boundary between chunks costs one rounding, as a
    step does.
    """
    if carry_in.size == 0:
        return carry_in
    high, low = power(summary.cascade, summary.steps)
    rows = carry_in.reshape(len(carry_in), -1)
    offset, size = summary.offset.reshape(rows.shape), len(rows)
    is_complex = summary.cascade.is_complex or carry_in.dtype.kind == "c"
    if is_complex:
        # The real matrices that act on real and imaginary parts.
        high, low = (np.block([[m.real, -m.imag], [m.imag, m.real]]) for m in (high, low))
        rows, offset = (np.concatenate([part.real, part.imag]) for part in (rows, offset))
    with np.errstate(all="ignore"):
        error = sum(little * state for little, state in zip(low.T[:, :, None], rows, strict=True))
        after = add_products(offset, zip(high.T[:, :, None], rows, strict=True), error)
    if is_complex:
        after = after[:size] + 1j * after[size:]
    return after.reshape(carry_in.shape)


# A speculative chunk has at least so many times the steps in which states decay, and at least so
# many samples. Smaller chunks are solved in the time that a task takes.
LEAST_DECAYS, LARGE = 16, 1 << 19


@dataclass(frozen=True)
class FilterPrefix:
    """The first outputs (outer, steps, inner) of a speculative chunk, from states of 0."""

    cascade: Cascade
    outputs: np.ndarray
    operand_bytes: ClassVar[int] = 0  # `outputs` is a copy: no operands are referenced.


@dataclass(frozen=True, kw_only=True)
class FilterRecurrence(Chain):
    """A filter without its signal. States are arrays (states, outer, inner)."""

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
        full_shape = self._initial_shape(shape)
        full = states if states.shape == full_shape else np.broadcast_to(states, full_shape)
        return full.reshape(self.states, outer, inner)

    def _initial_shape(self, shape: Shape) -> Shape:
        return self.states, *shape[: self.axis], *shape[self.axis + 1 :]

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> np.ndarray:
        carry_out: np.ndarray = kernels.propagate(summary, np.ascontiguousarray(carry_in))
        return carry_out

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        written = self.written_dtype(backend)
        is_target = out and written == self.result_dtype
        result = (out[0] if is_target else backend.empty(shape, written)).reshape(chunk.shape)
        carry_out = backend.kernels(self.family).determine(self.cascade, chunk, carry_in, result)
        return (as_result(result, shape, self.result_dtype),), carry_out

    def written_dtype(self, backend: Backend) -> np.dtype[Any]:
        return self.result_dtype if backend.reads_narrow else self.dtype

    @property
    def is_contractive(self) -> bool:
        return self.cascade.states > 0 and self.cascade.radius < 1

    def overlapped(self, lengths: Sequence[float]) -> OverlappedFilter | None:
        if self.result_dtype != self.dtype:
            return None
        is_finite = self.block_dtypes[0].kind in "biu"
        reach = reach_over_chunks(self.cascade, lengths, is_finite)
        return None if reach is None else OverlappedFilter(self.cascade, self.dtype, reach)

    def may_speculate(self, shape: Sequence[float], backend: Backend) -> bool:
        if not self.is_contractive:
            return False
        if backend.engine == "cuda":
            return prod(shape) * self.dtype.itemsize >= LARGE_ON_GPU
        is_long = shape[self.axis] >= LEAST_DECAYS * max(1.0, self.cascade.decay)
        return backend.engine == "cpu" and is_long and prod(shape) >= LARGE

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        arrays = self._arrays_of_solver(inputs, shape, initial, results)
        if prepare is None or arrays is None:
            return None
        return prepare(self.cascade, *arrays)

    @property
    def has_shards(self) -> bool:
        return True

    def prepare_shard(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> ShardSolver | None:
        prepare = backend.kernels(self.family).prepare_shard
        arrays = self._arrays_of_solver(inputs, shape, initial, results)
        if prepare is None or arrays is None:
            return None
        return prepare(self.cascade, *arrays, self.may_speculate(shape, backend))

    def _arrays_of_solver(
        self, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> tuple[Any, Any, Any] | None:
        """Return the chunk, the states before it or None, and the result; None if one is a copy."""
        chunk, carry_in = self.lay_out(inputs, shape), None
        if not is_uncopied(chunk.operands[0], inputs.blocks[0]):
            return None
        if initial:
            is_full = initial[0].shape == self._initial_shape(shape)
            if not is_full or not initial[0].flags.c_contiguous:
                return None
            carry_in = initial[0].reshape(self.states, *chunk.row_shape)
        return chunk, carry_in, results[0].reshape(chunk.shape)

    def final_state(self, carry_out: Any, shape: Shape) -> Any:
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        carry_out = carry_out.reshape(*self.state_shape, *rows)
        if carry_out.dtype == self.dtype:
            return carry_out.copy()
        with np.errstate(over="ignore"):
            return carry_out.astype(self.dtype)

    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        """Return the signal in its own dtype; kernels cast samples as they read them."""
        (x,) = inputs.blocks
        layout = canonical_shape(x.shape, self.axis)
        x = x if x.flags.c_contiguous else x.copy(order="C")
        return Chunk((x.reshape(layout),), layout, self.dtype)


def filter_problem(
    cascade: Cascade, x: Any, carry_in: Any, axis: int, dtype: np.dtype[Any], out: Any = None
) -> Problem:
    """Return the problem of a filter with results of `dtype`, without validation.

    `carry_in` (states, *rows) has the states before the first sample, None for 0. The rows are the
    axes of x without `axis`, each full or of length 1.
    """
    result_dtype, dtype = dtype, computed_dtype(dtype)
    recurrence = FilterRecurrence.over(
        [x],
        x.shape,
        dtype,
        result_dtype=result_dtype,
        axis=axis,
        state_dtype=cascade.state_dtype(dtype),
        state_shape=(cascade.states,),
        states=cascade.states,
        returns_final_state=carry_in is not None,
        cascade=cascade,
    )
    initial = () if carry_in is None else (carry_in,)
    return Problem(recurrence, (x,), initial, tuple(x.shape), out=out)
