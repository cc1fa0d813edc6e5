"""The contracts of grids: of one sweep, of several sweeps, and traced back from the last tile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .kernels import Backend, Edges, TileParts
from .recurrence import Arrays, ChunkInputs, Recurrence, Shape


@dataclass(frozen=True, kw_only=True)
class Grid(Recurrence):
    """A recurrence whose chunks, or tiles, need the edges of the tiles above and to the left.

    `axes`, (int, int): the axes down and to the right, 0 or more. Tiles along other axes are
      independent.
    `result_size`: length of `final_result`, if tiles have no results.
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

        `above`, `left`: exported edges of these tiles, or None at the border of the array.
        """

    def export_edges(self, edges: Edges) -> Edges:
        """Return the edges that other workers need, in host memory."""
        return edges

    def retain_edges(self, edges: Edges) -> Edges:
        """Return the edges that tiles in the same memory need, without a copy."""
        return self.export_edges(edges)

    def start_export(self, backend: Backend, edges: Edges, axes: Collection[int]) -> Callable[[], Edges]:
        """Start to copy the edges that the next tiles along `axes` need."""
        return lambda: self.export_edges(edges)

    def part(self, backend: Backend, shape: Shape, axis: int) -> TileParts | None:
        """Return how a tile can be split along an axis with the same bits, or None.

        A function of shape, dtypes and backend, the same in every process.
        """
        return None

    def final_result(self, edges: Edges) -> Any:
        """Return an array of `result_size` from the edges of the last tile, or None."""
        return None


@dataclass(frozen=True)
class Bands:
    """The part of a grid that one of several GPUs computes: a run of bands of rows.

    `number`, `count`: the number of the run, and how many there are.
    `words`, `onward`: addresses of memory that the runs before and after this one share with it; 0
      without one.
    `tag`, `onward_tag`: tags in both memories have been at most so large before.
    """

    number: int
    count: int
    words: int = 0
    onward: int = 0
    tag: int = 0
    onward_tag: int = 0


@dataclass(frozen=True, kw_only=True)
class Banded(Grid):
    """A grid that GPUs of one machine can share: each computes a run of bands of the rows.

    The operands of the grid are sequences, the first along the rows.
    """

    @abstractmethod
    def has_bands(self, backend: Backend, shape: Shape) -> bool:
        """Return whether a grid of this shape has bands that are worth sharing."""

    @property
    @abstractmethod
    def shared_by_bands(self) -> tuple[int, int]:
        """Bytes of the memory in which bands of two GPUs pass on a row, and the largest tag."""

    @abstractmethod
    def launch_bands(
        self, backend: Backend, sequences: Sequence[list[Any]], bands: Bands
    ) -> Callable[[bool], Callable[[Any], Edges]]:
        """Launch a run of bands, of sequences in chunks.

        The returned function waits; if its argument is True, the kernel no longer waits for another
        GPU, and RuntimeError is raised. It returns a function of the best cell of the runs before,
        which returns the edges of the run.
        """


@dataclass(frozen=True, kw_only=True)
class Swept(Grid):
    """A grid that is swept several times: a tile needs the sides of the four tiles around it.

    The sides above and to the left are those of the same sweep, the others of the sweep before.
    Between sweeps a tile is a state, whose type the recurrence chooses.
    """

    @property
    @abstractmethod
    def sweep_counts(self) -> list[int]:
        """Number of sweeps of each batch; after each batch the grid may have converged."""

    @abstractmethod
    def start_tile(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, around: tuple[bool, ...]
    ) -> tuple[Any, Any]:
        """Return the state of a tile before the first sweep, and its sides in host memory.

        `around` says whether there are tiles above, to the left, below and to the right.
        """

    @abstractmethod
    def tile(self, state: Any) -> Any:
        """Return the array of a tile after the last sweep."""

    @abstractmethod
    def sweep(self, state: Any, around: Arrays, is_last: bool, done: Any) -> tuple[Any, Any]:
        """Return the state of a tile after one more sweep, and its sides.

        `around`, sides of the tiles above, to the left, below and to the right: none at the border
          of the array.
        `is_last`: the sweep is the last one of its batch.
        `done`: the last result of `is_done`, or None.
        """

    @abstractmethod
    def is_done(self, done: Any, sides: Sequence[Any]) -> Any:
        """Return whether the grid has converged, from the last result and all tiles' sides."""


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

        `above`, `left`: exported edges of these tiles, or None at the border of the array.
        `paths`: the paths from the tiles below and to the right; one of them may be further along.
        """

    @abstractmethod
    def join(self, edges: Edges, path: Any, pieces: Sequence[Any]) -> Any:
        """Return the result, from the edges of the last tile, the path's start and its pieces.

        Pieces are in the order of tiles, which is the order of the path.
        """
