"""A filter whose coefficients vary in time, as a recurrence of companion maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.contract.elements import ElementChain
from ...core.contract.kernels import Backend
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ...scans.matrix.maps import MatrixMap


@dataclass(frozen=True, kw_only=True)
class VaryingFilter(ElementChain):
    """A filter whose operands are x, b and a, with marks and states of resets.

    The states of a chunk are arrays (outer, inner, order), and those of a call (order, *rows, 1).

    Attributes
    ----------
    counts : (int, int)
        Numbers of coefficients in b and a of a step.
    """

    family: ClassVar[str] = "filters.varying"
    methods: ClassVar[tuple[str, ...]] = ("auto",)
    reads_float32: ClassVar[bool] = True
    counts: tuple[int, int]

    @property
    def order(self) -> int:
        return self.state_numbers

    @property
    def matrix_map(self) -> MatrixMap:
        """The maps of the states of one step."""
        return MatrixMap(self.order)

    def final_state(self, carry_out: Any, shape: Shape) -> Any:
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        states = np.moveaxis(carry_out, -1, 0).reshape(self.order, *rows)
        with np.errstate(over="ignore"):
            return states.astype(self.dtype)

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        chunk = self.lay_out(inputs, shape)
        if carry_in is None:
            carry_in = self.first_carry_in((), shape)
        result = (out[0] if out else backend.empty(shape, self.dtype)).reshape(chunk.shape)
        carry_out = backend.kernels(self.family).determine(self, chunk, carry_in, result)
        return (result.reshape(shape),), carry_out
