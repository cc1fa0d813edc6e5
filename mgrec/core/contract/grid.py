"""The contract of grids, where each tile depends on the edges of earlier tiles only."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from .kernels import Backend, Edges, Part
from .recurrence import Arrays, ChunkInputs, Recurrence, Shape


@dataclass(frozen=True, kw_only=True)
class Grid(Recurrence):
    """A recurrence whose chunks, or tiles, need the edges of the tiles above and to the left.

    Attributes
    ----------
    axes : (int, int)
        The axes down and to the right, 0 or more. Tiles along other axes are independent.
    result_size : int
        Length of `final_result`, if tiles have no results.
    is_asynchronous : bool
        On a GPU `determine` returns before the tile is done, with edges in host memory or on
        the device.
    """

    is_asynchronous: ClassVar[bool] = False
    axes: tuple[int, int]
    result_size: int = 0

    @abstractmethod
    def determine(
        self,
        backend: Backend,
        inputs: ChunkInputs,
        shape: Shape,
        above: Edges | None,
        left: Edges | None,
        out: Arrays = (),
    ) -> tuple[Arrays, Edges]:
        """Return the results of a tile, `results` (0 or 1) of them, and its edges.

        Parameters
        ----------
        above, left : exported edges of these tiles, or None at the border of the array
        """

    def export_edges(self, edges: Edges) -> Edges:
        """Return the edges that other workers need, in host memory."""
        return edges

    def retain_edges(self, edges: Edges) -> Edges:
        """Return the edges that tiles in the same memory need, without a copy."""
        return self.export_edges(edges)

    def start_export(
        self, backend: Backend, edges: Edges, axes: Collection[int]
    ) -> Callable[[], Edges]:
        """Start to copy the edges that the next tiles along `axes` need.

        The returned function waits for the copy and returns the edges.
        """
        return lambda: self.export_edges(edges)

    def part(self, backend: Backend, shape: Shape, axis: int) -> Part | None:
        """Return how a tile can be split along an axis with the same bits, or None.

        A function of shape, dtypes and backend, the same in every process.
        """
        return None

    def final_result(self, edges: Edges) -> Any:
        """Return an array of `result_size` from the edges of the last tile, or None."""
        return None
