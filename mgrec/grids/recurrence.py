"""Loops over a grid whose entry depends on those above and to the left, tile by tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.contract.grid import Grid
from ..core.contract.kernels import Backend, Part
from ..core.contract.recurrence import Shape


@dataclass(frozen=True, kw_only=True)
class Wavefront(Grid):
    """A grid whose tiles run ``determine`` alone."""

    @property
    def algebra(self) -> Any:
        """What kernels know of the loop."""
        return self

    def part(self, backend: Backend, shape: Shape, axis: int) -> Part | None:
        others = (n for k, n in enumerate(shape) if k not in self.axes)
        tile = (*others, *(shape[k] for k in self.axes))
        part = backend.kernels(self.family).part
        return part(self.algebra, tile, self.axes.index(axis))
