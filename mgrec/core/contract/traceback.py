"""The contract of grids that are traced back from their last tile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .grid import Grid
from .kernels import Backend, Edges
from .recurrence import ChunkInputs


@dataclass(frozen=True, kw_only=True)
class Traceback(Grid):
    """A grid without results, through which a path is traced once all edges are known.

    From a tile the path continues in the tile above, to the left, or diagonally between them.
    A tile that the path crosses is determined a second time, from the same edges.
    """

    @abstractmethod
    def start_path(self, edges: Edges) -> Any:
        """Return the path at the last tile, where the traceback starts, from its edges."""

    @abstractmethod
    def follow(
        self,
        backend: Backend,
        inputs: ChunkInputs,
        above: Edges | None,
        left: Edges | None,
        paths: Sequence[Any],
    ) -> tuple[Any, Any]:
        """Return the path where it leaves a tile, and its piece in the tile or None.

        Parameters
        ----------
        above, left : exported edges of these tiles, or None at the border of the array
        paths : sequence
            The paths from the tiles below and to the right; one of them may be further along.
        """

    @abstractmethod
    def join(self, edges: Edges, path: Any, pieces: Sequence[Any]) -> Any:
        """Return the result, from the edges of the last tile, the path's start and its pieces.

        Pieces are in the order of tiles, which is the order of the path.
        """
