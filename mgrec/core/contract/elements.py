"""The contract of chains whose operands, states and results are vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ..arrays.chunk import Chunk, canonical_shape, lay_out
from ..arrays.elements import unpack
from .kernels import Backend, Kernels
from .recurrence import Arrays, ChunkInputs, Shape
from .scan import Chain


@dataclass(frozen=True, kw_only=True)
class ElementChain(Chain):
    """A chain with elements of :mod:`mgrec.core.arrays.elements` as operands and results.

    Kernels receive the recurrence as the algebra. Operands are arrays (outer, steps, inner,
    numbers) of float64 or uint8, with length 1 along axes that are broadcast. Results have these
    axes too, and are float64 where their numbers are float32. States are one array (outer, inner,
    numbers), and `initial` is an array of elements of float64.

    Attributes
    ----------
    element_shapes, element_dtypes : tuple
        For each operand, the shape and the dtype of the array in an element; an operand of shape ()
        has no elements and keeps its dtype.
    result_number_dtype : numpy.dtype
        Dtype of the numbers in the elements of the result.
    state_numbers : int
        Numbers in the state of one row.
    """

    element_shapes: tuple[Shape, ...]
    element_dtypes: tuple[np.dtype[Any], ...]
    result_number_dtype: np.dtype[Any]
    state_numbers: int

    @property
    def algebra(self) -> Any:
        return self

    def zero_state(self) -> Arrays:
        return ()

    def first_state(self) -> Any:
        """Return the state before the first step, if the call has none."""
        return np.zeros(self.state_numbers)

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> np.ndarray:
        outer, _, inner = canonical_shape(shape, self.axis)
        if not initial:
            return np.broadcast_to(self.first_state(), (outer, inner, self.state_numbers)).copy()
        elements = np.asarray(initial[0])
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        states = unpack(elements, np.dtype(np.float64), (self.state_numbers,))
        full = np.broadcast_to(states, (*rows, self.state_numbers))
        return full.reshape(outer, inner, self.state_numbers)

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> Any:
        return kernels.propagate(self, summary, carry_in)

    def lay_out(self, inputs: ChunkInputs, shape: Shape) -> Chunk:
        chunk = lay_out(self, inputs.blocks, shape, inputs.starts[self.axis])
        numbers = [
            self._numbers(operand, dtype, element_shape)
            for operand, dtype, element_shape in zip(
                chunk.operands, self.element_dtypes, self.element_shapes, strict=True
            )
        ]
        return replace(chunk, operands=tuple(numbers))

    @staticmethod
    def _numbers(operand: Any, dtype: np.dtype[Any], shape: Shape) -> np.ndarray:
        if not shape:
            return np.ascontiguousarray(operand)
        array = unpack(operand, dtype, (prod(shape),))
        return np.ascontiguousarray(array, np.float64) if dtype.kind != "u" else array

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        if carry_in is None:
            carry_in = self.first_carry_in((), shape)
        result = out[0] if out else backend.empty(shape, self.result_dtype)
        dtype = self.result_number_dtype
        numbers = self.result_dtype.itemsize // dtype.itemsize
        target = result.reshape(-1).view(dtype).reshape(*chunk.shape, numbers)
        is_narrow = dtype == np.float32
        computed = np.empty(target.shape) if is_narrow else target
        backend.kernels(self.family).determine(self, chunk, carry_in, computed)
        if is_narrow:
            with np.errstate(over="ignore"):
                target[...] = computed
        return (result,), None
