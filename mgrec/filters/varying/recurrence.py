"""A filter whose coefficients vary in time, as a recurrence of companion maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.contract.recurrence import Shape
from ...core.contract.scan import ElementChain
from ...scans.matrix.maps import MatrixMap


@dataclass(frozen=True, kw_only=True)
class VaryingFilter(ElementChain):
    """A filter whose operands are x, b and a, with marks and states of resets.

    The states of a chunk are arrays (outer, inner, state_numbers) of float64, and those of a call
    (order, *rows, 1). Complex states are pairs of numbers.

    `state_dtype`: float64 or complex128, in which kernels compute.
    `counts`, (int, int): numbers of coefficients in b and a of a step.
    `form`, {"transposed", "direct"}: direct form II transposed, or direct form II.
    """

    family: ClassVar[str] = "filters.varying"
    methods: ClassVar[tuple[str, ...]] = ("auto",)
    reads_float32: ClassVar[bool] = True
    counts: tuple[int, int]
    form: str

    @property
    def order(self) -> int:
        return max(self.counts) - 1

    @property
    def matrix_map(self) -> MatrixMap:
        """The maps of the states of one step."""
        return MatrixMap(self.state_numbers, structure="companion")

    def first_carry_in(self, initial: Sequence[Any], shape: Shape) -> np.ndarray:
        if self.dtype.kind == "c":
            parts = [np.stack([states.real, states.imag], axis=1) for states in initial]
            initial = [pairs.reshape(self.state_numbers, *pairs.shape[2:]) for pairs in parts]
        return super().first_carry_in(initial, shape)

    def final_state(self, carry_out: Any, shape: Shape) -> Any:
        rows = shape[: self.axis] + shape[self.axis + 1 :]
        carry_out = np.ascontiguousarray(carry_out).view(self.state_dtype)
        states = np.moveaxis(carry_out, -1, 0).reshape(self.order, *rows)
        with np.errstate(over="ignore"):
            return states.astype(self.dtype)
