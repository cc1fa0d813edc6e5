"""The contract of grids that are traced back from their last tile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .grid import Grid
from .kernels import Backend
from .recurrence import Pack


@dataclass(frozen=True, kw_only=True)
class Traceback(Grid):
    """A grid without results, through which a path goes back when all its edges are known.

    From a tile the path goes on in the one above, to the left, or between the two. A tile is
    determined again where the path crosses it, from the same edges.
    """

    @abstractmethod
    def begin(self, edges: Any) -> Any:
        """The path before the first tile of the way back, from the edges of the last tile."""

    @abstractmethod
    def follow(
        self, backend: Backend, pack: Pack, above: Any, left: Any, paths: Sequence[Any]
    ) -> tuple[Any, Any]:
        """The path when it has left a tile, and the piece of it there; None where there is none.

        Parameters
        ----------
        above, left : what the tiles there hand on, or None at the border of the array
        paths : sequence
            As the tiles below and to the right leave it, of which one may be behind the other.
        """

    @abstractmethod
    def join(self, edges: Any, path: Any, pieces: Sequence[Any]) -> Any:
        """The result, from the edges of the last tile, the path's begin and all pieces.

        Pieces are in the order of tiles, which is that of the path.
        """
