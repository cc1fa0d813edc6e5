"""A filter whose coefficients vary in time, as a recurrence of companion maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.chunk import canonical_shape
from ...core.arrays.elements import unpack
from ...core.contract.elements import ElementChain
from ...core.contract.kernels import Backend
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ...scans.matrix.maps import MatrixMap


@dataclass(frozen=True, kw_only=True)
class VaryingFilter(ElementChain):
    """A filter whose operands are x, b and a, with marks and states of resets.

    The states of a chunk are arrays (outer, inner, order), and those of a call (order, *rows).
    """

    family: ClassVar[str] = "filters.varying"
    methods: ClassVar[tuple[str, ...]] = ("auto",)

    @property
    def order(self) -> int:
        return self.state_numbers

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of coefficients in b and a of a step."""
        return self.element_shapes[1][0], self.element_shapes[2][0]

    @property
    def matrix_map(self) -> MatrixMap:
        """The maps of the states of one step."""
        return MatrixMap(self.order)

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> np.ndarray:
        if not initial:
            return super().first_carry_in((), shape)
        outer, _, inner = canonical_shape(shape, self.axis)
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        states = np.broadcast_to(np.asarray(initial[0], np.float64), (self.order, *rows))
        return np.moveaxis(states.reshape(self.order, outer, inner), 0, -1)

    def final_state(self, carry_out: Any, shape: Shape) -> Any:
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        states = np.moveaxis(carry_out, -1, 0).reshape(self.order, *rows)
        with np.errstate(over="ignore"):
            return states.astype(self.dtype)

    @staticmethod
    def _numbers(operand: Any, dtype: np.dtype[Any], shape: Shape) -> np.ndarray:
        # Kernels cast numbers as they read them.
        return np.ascontiguousarray(unpack(operand, dtype, (prod(shape),)) if shape else operand)

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        if carry_in is None:
            carry_in = self.first_carry_in((), shape)
        result = (out[0] if out else backend.empty(shape, self.dtype)).reshape(chunk.shape)
        carry_out = backend.kernels(self.family).determine(self, chunk, carry_in, result)
        return (result.reshape(shape),), carry_out
