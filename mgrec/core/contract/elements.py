"""The contract of chains whose operands, states and results are vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays.array_types import cast
from ..arrays.chunk import Chunk, canonical_shape, lay_out_array, move_axis
from ..arrays.elements import Part
from .kernels import Backend, Kernels
from .problem import varying
from .recurrence import Arrays, ChunkInputs, Shape
from .scan import Chain

_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, kw_only=True)
class ElementChain(Chain):
    """A chain whose operands and results have the numbers of a step as their last axis.

    Kernels receive the recurrence as the algebra. Operands are arrays (outer, steps, inner,
    numbers) of float64 or uint8, with length 1 along axes that are broadcast. Results have these
    axes too; in host memory they are of `computed_dtype`. States are one array (outer, inner,
    numbers) in host memory. `initial` is an array of float64: numbers, rows, and an axis of
    length 1.

    Attributes
    ----------
    reads_float32 : bool
        Whether kernels in host memory read and write float32.
    numbers : int
        Numbers of a step in the result.
    state_numbers : int
        Numbers in the state of one row.
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

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> np.ndarray:
        outer, _, inner = canonical_shape(shape[:-1], self.axis)
        if not initial:
            return np.broadcast_to(self.first_state(), (outer, inner, self.state_numbers)).copy()
        rows = shape[: self.axis] + shape[self.axis + 1 : -1]
        states = np.broadcast_to(initial[0][..., 0], (self.state_numbers, *rows))
        return np.moveaxis(states, 0, -1).reshape(outer, inner, self.state_numbers)

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> Any:
        return kernels.propagate(self, summary, carry_in)

    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        steps_shape = shape[:-1]
        layout = canonical_shape(steps_shape, self.axis)
        operands = [
            lay_out_array(
                cast(block, _FLOAT64)
                if block.dtype.kind == "f" and not self.reads_float32
                else block,
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
        dtype = self.computed_dtype if backend.is_host else self.result_dtype
        is_written_directly = result.flags.c_contiguous and dtype == self.result_dtype
        computed = result if is_written_directly else np.empty(shape, dtype)
        target = computed.reshape(*chunk.shape, self.numbers)
        carry_out = backend.kernels(self.family).determine(self, chunk, carry_in, target)
        if computed is not result:
            with np.errstate(over="ignore"):
                result[...] = computed
        return (result,), carry_out


def varying_operand(array: Any, shape: Sequence[Any]) -> tuple[bool, ...]:
    """Return `varying` of an operand with numbers, for the shape of steps and rows."""
    return (*varying(array.shape[:-1], tuple(shape)), False)


def initial_states(states: Any, shape: Sequence[Any]) -> Any:
    """Return states (..., numbers), which broadcast to the rows of a shape, as `initial`."""
    missing = len(shape) - states.ndim
    return move_axis(states.reshape((1,) * missing + states.shape), -1, 0)[..., None]
