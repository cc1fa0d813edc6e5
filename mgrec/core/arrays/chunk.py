"""The chunk of a recurrence that each backend receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..algebra.fingerprint import StepFunction


@dataclass(frozen=True)
class CoefficientOperand:
    """An operand that kernels compute from the index of the step.

    Attributes
    ----------
    function : StepFunction, ``(index, *operands at that step) -> scalar``
    first : int
        Index of the first step of the chunk (in array order) along the whole axis.
    operands : tuple of arrays
        Further arrays of the function, in the layout of :class:`Chunk`.
    """

    function: StepFunction
    first: int
    operands: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Chunk:
    """Operands of a run of steps, in the layout that backends require.

    Attributes
    ----------
    operands : tuple of arrays and CoefficientOperand
        Each array is C-contiguous with the axes (outer, steps, inner). An axis of length 1 is
        broadcast and never expanded. The recurrence runs along ``steps``. A row is one
        (outer, inner) pair.
    shape : (int, int, int)
        Full shape (outer, steps, inner).
    dtype : numpy.dtype
        Dtype of the states, the maps and the results.
    reverse : bool
        Whether the last step acts first.
    """

    operands: tuple[Any, ...]
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    reverse: bool = False

    @property
    def steps(self) -> int:
        return self.shape[1]

    def rows(self, start: int, stop: int) -> Chunk:
        """Return a part of the outer rows."""
        return self._part(0, start, stop)

    def between(self, start: int, stop: int) -> Chunk:
        """Return the steps from `start` to `stop`, counted in array order."""
        return self._part(1, start, stop)

    def _part(self, axis: int, start: int, stop: int) -> Chunk:
        def part(array: Any) -> Any:
            if array.shape[axis] == 1 and self.shape[axis] != 1:
                return array
            return array[start:stop] if axis == 0 else array[:, start:stop]

        shape = list(self.shape)
        shape[axis] = stop - start
        first = start if axis == 1 else 0
        return self.map_arrays(part, (shape[0], shape[1], shape[2]), first)

    def map_arrays(
        self, function: Callable[[Any], Any], shape: tuple[int, int, int], first: int = 0
    ) -> Chunk:
        """Apply a function to each array of the operands; indices advance by `first`."""

        def mapped(operand: Any) -> Any:
            if isinstance(operand, CoefficientOperand):
                arrays = tuple(map(function, operand.operands))
                return CoefficientOperand(operand.function, operand.first + first, arrays)
            return function(operand)

        return replace(self, operands=tuple(map(mapped, self.operands)), shape=shape)

    @property
    def row_shape(self) -> tuple[int, int]:
        """Axes (outer, inner) of a carry-in."""
        return self.shape[0], self.shape[2]
