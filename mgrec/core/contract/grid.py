"""The contract of grids, whose tiles know nothing but the edges of those before them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from .kernels import Backend, Part
from .recurrence import Arrays, Pack, Recurrence, Shape


@dataclass(frozen=True, kw_only=True)
class Grid(Recurrence):
    """A chunk, or tile, needs the edges of the tiles above and to the left of it; no summaries.

    Attributes
    ----------
    axes : (int, int)
        Down and to the right, 0 or more; tiles along other axes know nothing of each other.
    exit_size : int
        Numbers that the last tile tells of the whole, where tiles have no results.
    is_early : bool
        On a GPU `determine` returns before the tile is done, also where it takes edges on the
        device.
    """

    is_early: ClassVar[bool] = False
    axes: tuple[int, int]
    exit_size: int = 0

    @abstractmethod
    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        """The results of a tile, as many as `results` (0 or 1), and its edges.

        Parameters
        ----------
        above, left : what the tiles there hand on, or None at the border of the array
        """

    def hand_on(self, edges: Any) -> Any:
        """The edges of a tile as other tiles get them: in host memory, without the tile's own."""
        return edges

    def keep(self, edges: Any) -> Any:
        """The edges of a tile as tiles in the same memory may get them, where they are."""
        return self.hand_on(edges)

    def begin_to_hand_on(
        self, backend: Backend, edges: Any, axes: Collection[int]
    ) -> Callable[[], Any]:
        """Begin to hand on what the tiles after one along `axes` need; what it returns waits."""
        return lambda: self.hand_on(edges)

    def part(self, backend: Backend, shape: Shape, axis: int) -> Part | None:
        """Into which parts along an axis a tile may be cut with the same bits; None if it may not.

        A function of shape, dtypes and backend, the same in every process.
        """
        return None

    def leave(self, edges: Any) -> Any:
        """What the edges of the last tile tell of the whole: an array of `exit_size`, or None."""
        return None
