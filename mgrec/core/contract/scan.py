"""The contract of chains, where each chunk depends on the chunks before it only.

An `ElementChain` has vectors and matrices as operands, states and results.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..arrays.array_types import cast
from ..arrays.chunk import Chunk, as_result, canonical_shape, lay_out_array, move_axis
from ..arrays.elements import Part
from .kernels import Backend, CarryIn, Kernels, Speculation, SpeculationWait, Summarise, Summary
from .recurrence import AlongAxis, Arrays, ChunkIndex, ChunkInputs, Shape

logger = logging.getLogger("mgrec")

LARGE_ON_GPU = 1 << 30
"""Fewest bytes of operands of a speculative chunk on a GPU. Speculation saves one read of them, and
takes time of the host. Plans over four chunks a GPU, on two H200, took 6.9 ms with speculation and
8.1 without (2^28 float32 steps, coefficient array), 5.6 and 5.9 (constant coefficient), and 18.3
and 25.0 (2^30 steps)."""


@dataclass(frozen=True, kw_only=True)
class Chain(AlongAxis):
    """A recurrence whose summaries compose: a chunk needs those of the chunks before it."""

    @property
    @abstractmethod
    def algebra(self) -> Any:
        """The argument of kernels besides the chunk: a transfer map, or a cascade of sections."""

    @abstractmethod
    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        """Return a chunk, with results of this shape, in the layout of the kernels."""

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        launch = backend.kernels(self.family).precompute
        return launch(self.algebra, self.lay_out(inputs, shape))

    def retain_maps(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> None:
        if (launch := backend.kernels(self.family).retain_maps) is not None:
            launch(self.algebra, self.lay_out(inputs, shape))

    @abstractmethod
    def advance(self, kernels: Kernels, summary: Summary, carry_in: CarryIn) -> CarryIn:
        """Return the carry-in of the next chunk, from a chunk's summary and carry-in."""

    def propagate(self, kernels: Kernels, summaries: Sequence[Summary], carry_in: CarryIn) -> list[CarryIn]:
        carry_ins = [carry_in]
        for summary in summaries:
            carry_ins.append(self.advance(kernels, summary, carry_ins[-1]))
        return carry_ins

    def speculate(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> SpeculationWait | None:
        speculate = backend.kernels(self.family).speculate
        if speculate is None or not self.may_speculate(shape, backend):
            return None
        chunk = self.lay_out(inputs, shape)
        results = tuple([self.empty_target(backend, chunk) for _ in range(self.results)])
        wait = speculate(self.algebra, chunk, results)
        return partial(_wait_for, wait, results, inputs.chunk_index) if wait else None

    def empty_target(self, backend: Backend, chunk: Chunk) -> Any:
        """Return an array for the results of a speculative chunk, in the layout of the kernels."""
        return backend.empty(chunk.shape, self.dtype)

    def correct(self, backend: Backend, shape: Shape, speculation: Speculation, carry_in: CarryIn) -> Arrays:
        # Results from another worker may be read-only.
        results = tuple([r if backend.is_writeable(r) else r.copy() for r in speculation.results])
        results = backend.kernels(self.family).correct(speculation.prefix, carry_in, results)
        return tuple([as_result(result, shape, self.result_dtype) for result in results])


# A function that refers to itself would keep inputs and results until the collector of cycles runs.
def _wait_for(
    wait: Callable[[], Any], results: Arrays, chunk_index: ChunkIndex
) -> Speculation | SpeculationWait | None:
    outcome = wait()
    if outcome is None:
        return None
    if callable(outcome):
        return partial(_wait_for, outcome, results, chunk_index)
    summary, prefix = outcome
    logger.debug("speculate: chunk %s does not depend on its carry-in", chunk_index)
    return Speculation(results, summary, prefix, prefix.operand_bytes)


_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, kw_only=True)
class ElementChain(Chain):
    """A chain whose operands and results have the numbers of a step as their last axis.

    Kernels receive the recurrence as the algebra. Operands are arrays (outer, steps, inner,
    numbers) of float64 or uint8, with length 1 along axes that are broadcast. Results have these
    axes too; in host memory they are of `computed_dtype`. States are one array (outer, inner,
    numbers) in host memory. `initial` is an array of float64: numbers, rows, and an axis of
    length 1.

    `reads_float32`: whether kernels in host memory read and write float32.
    """

    number_axes: ClassVar[int] = 1
    reads_float32: ClassVar[bool] = False
    numbers: int
    state_numbers: int

    @property
    def algebra(self) -> Any:
        return self

    @property
    def computed_dtype(self) -> np.dtype[Any]:
        """Dtype of the results of kernels in host memory."""
        is_narrow = self.result_dtype == np.float32 and not self.reads_float32
        return _FLOAT64 if is_narrow else self.result_dtype

    def in_parts(self, parts: Sequence[Part]) -> ElementChain:
        """Return the recurrence for callers that need parts of its result alone."""
        return self

    def first_state(self) -> Any:
        """Return the state before the first step, if the call has none."""
        return np.zeros(self.state_numbers)

    def shape(self, inputs: ChunkInputs) -> Shape:
        return (*super().shape(inputs)[:-1], self.numbers)

    def empty_target(self, backend: Backend, chunk: Chunk) -> Any:
        return backend.empty((*chunk.shape, self.numbers), self._written_dtype(backend))

    def _written_dtype(self, backend: Backend) -> np.dtype[Any]:
        """Return the dtype of the results of kernels."""
        return self.computed_dtype if backend.is_host else self.result_dtype

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> np.ndarray:
        outer, _, inner = canonical_shape(shape[:-1], self.axis)
        if not initial:
            return np.broadcast_to(self.first_state(), (outer, inner, self.state_numbers)).copy()
        rows = shape[: self.axis] + shape[self.axis + 1 : -1]
        states = np.broadcast_to(initial[0][..., 0], (self.state_numbers, *rows))
        return np.ascontiguousarray(np.moveaxis(states, 0, -1).reshape(outer, inner, self.state_numbers))

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> Any:
        return kernels.propagate(self, summary, carry_in)

    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        steps_shape = shape[:-1]
        layout = canonical_shape(steps_shape, self.axis)
        operands = [
            lay_out_array(
                cast(block, _FLOAT64) if block.dtype.kind == "f" and not self.reads_float32 else block,
                steps_shape,
                self.axis,
                layout,
                block.shape[-1:],
            )
            for block in inputs.blocks
        ]
        return Chunk(tuple(operands), layout, self.dtype, self.reverse, inputs.kept)

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        if carry_in is None:
            carry_in = self.first_carry_in((), shape)
        result = out[0] if out else backend.empty(shape, self.result_dtype)
        dtype = self._written_dtype(backend)
        is_written_directly = result.flags.c_contiguous and dtype == self.result_dtype
        computed = result if is_written_directly else np.empty(shape, dtype)
        target = computed.reshape(*chunk.shape, self.numbers)
        carry_out = backend.kernels(self.family).determine(self, chunk, carry_in, target)
        if computed is not result:
            with np.errstate(over="ignore"):
                result[...] = computed
        return (result,), carry_out


def initial_states(states: Any, shape: Sequence[Any]) -> Any:
    """Return states (..., numbers), which broadcast to the rows of a shape, as `initial`."""
    missing = len(shape) - states.ndim
    return move_axis(states.reshape((1,) * missing + states.shape), -1, 0)[..., None]
