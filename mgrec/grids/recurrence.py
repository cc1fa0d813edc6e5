"""Grids in which an entry depends on the entries above and to the left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod, sqrt
from typing import Any, TypeVar

import numpy as np

from ..core.arrays.validation import as_axis
from ..core.contract.grid import Grid
from ..core.contract.kernels import Backend, TileParts
from ..core.contract.recurrence import Shape

# Both the profiles of sequences and the rows that a thread computes at once need so many steps.
_UNIT, _SIDE = 64, 1024
# Columns by which the last row of an alignment follows its first, per row (22,000 at 200,000 rows).
# In p parts, m columns of n rows take m + p · lag · n, and the next GPU waits for m / p of them.
# The sum is least at p² = m / (lag · n). Loops have the same lag.
_LAG = 0.11

T = TypeVar("T")
Side = tuple[int, int]
"""First and last row of a tile, or its first and last column; the last one is excluded."""


@dataclass(frozen=True, kw_only=True)
class Wavefront(Grid):
    """A grid whose tiles run ``determine`` alone."""

    @property
    def algebra(self) -> Any:
        """The description of the loop that kernels take."""
        return self

    def part(self, backend: Backend, shape: Shape, axis: int) -> TileParts | None:
        others = (n for k, n in enumerate(shape) if k not in self.axes)
        tile = (*others, *(shape[k] for k in self.axes))
        part = backend.kernels(self.family).part
        return part(self.algebra, tile, self.axes.index(axis))

    def with_axes_last(self, array: Any) -> Any:
        """Return a view of an array with its rows and columns last."""
        are_last = self.axes == (array.ndim - 2, array.ndim - 1)
        return array if are_last else np.moveaxis(array, self.axes, (-2, -1))


def as_axes(axes: Any, name: str, shape: tuple[Any, ...], are_two: bool = False) -> list[int]:
    """Return axes as numbers from 0; they must be different, and two, or two or more."""
    if len(shape) < 2:
        raise ValueError(f"{name} must have two axes or more; got shape {shape}")
    if not isinstance(axes, (tuple, list)) or len(axes) < 2 or (are_two and len(axes) > 2):
        raise ValueError(f"axes must be two axes{'' if are_two else ' or more'}; got {axes!r}")
    numbers = [as_axis(axis, shape, "each of axes") for axis in axes]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"axes must be different axes; got {axes!r}")
    return numbers


def part_of_host(cells: int, shape: Sequence[int], side: int) -> TileParts:
    """Return parts of at least so many cells; any split has the bits of the plain loop."""
    return TileParts(_UNIT, max(_SIDE, -(-cells // max(1, prod(shape) // max(1, shape[side - 2])))))


def part_of_gpu(shape: Sequence[int]) -> TileParts:
    """Return parts of a tile that strips of blocks process one after the other."""
    *_, rows, columns = shape
    return TileParts(128, max(4096, ceil(sqrt(_LAG * rows * columns))))


def antidiagonals(down: Sequence[T], right: Sequence[T]) -> Iterator[list[tuple[T, T]]]:
    """Yield the tiles of each antidiagonal, which do not depend on each other."""
    for diagonal in range(len(down) + len(right) - 1):
        first, stop = max(0, diagonal - len(right) + 1), min(diagonal + 1, len(down))
        yield [(down[k], right[diagonal - k]) for k in range(first, stop)]
