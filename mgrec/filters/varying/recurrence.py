"""A filter whose coefficients vary in time, as a recurrence of companion maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.contract.elements import ElementChain
from ...core.contract.recurrence import Shape
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
