"""One chunk of a recurrence as every backend sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..algebra.fingerprint import StepFunction


@dataclass(frozen=True)
class CoefficientOperand:
    """An operand computed on the fly from the step's index.

    Attributes
    ----------
    function : StepFunction, ``(index, *operands at that step) -> scalar``
    first : int
        Index of the chunk's first step (in array order) along the whole axis.
    operands : tuple of arrays
        Further arrays of the function, in the layout of :class:`Chunk`.
    """

    function: StepFunction
    first: int
    operands: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Chunk:
    """Operands of a run of steps, in the one layout that the backends know.

    Attributes
    ----------
    operands : tuple of arrays and CoefficientOperand
        Each array is C-contiguous with the axes (outer, steps, inner); an axis of
        length 1 is broadcast and never expanded. The recurrence runs along
        ``steps``; a row is one (outer, inner) pair.
    shape : (int, int, int)
        The full (outer, steps, inner).
    dtype : numpy.dtype
        Of the states, the maps and the results.
    reverse : bool
        The last step acts first.
    """

    operands: tuple[Any, ...]
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    reverse: bool = False

    @property
    def steps(self) -> int:
        return self.shape[1]

    def rows(self, begin: int, end: int) -> Chunk:
        """Part of the outer rows."""
        return self._part(0, begin, end)

    def between(self, begin: int, end: int) -> Chunk:
        """The steps from `begin` to `end`, counted in array order."""
        return self._part(1, begin, end)

    def _part(self, axis: int, begin: int, end: int) -> Chunk:
        def part(array: Any) -> Any:
            if array.shape[axis] == 1 and self.shape[axis] != 1:
                return array
            return array[begin:end] if axis == 0 else array[:, begin:end]

        shape = list(self.shape)
        shape[axis] = end - begin
        first = begin if axis == 1 else 0
        return self.map_arrays(part, (shape[0], shape[1], shape[2]), first)

    def map_arrays(
        self, function: Callable[[Any], Any], shape: tuple[int, int, int], first: int = 0
    ) -> Chunk:
        """The chunk with every array of its operands replaced; indices move on by `first`."""

        def mapped(operand: Any) -> Any:
            if isinstance(operand, CoefficientOperand):
                arrays = tuple(map(function, operand.operands))
                return CoefficientOperand(operand.function, operand.first + first, arrays)
            return function(operand)

        return replace(self, operands=tuple(map(mapped, self.operands)), shape=shape)

    @property
    def row_shape(self) -> tuple[int, int]:
        """Axes (outer, inner) of an entry."""
        return self.shape[0], self.shape[2]
