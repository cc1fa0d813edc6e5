"""The contract of grids that are swept several times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .grid import Grid
from .kernels import Backend
from .recurrence import Arrays, ChunkInputs, Shape


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

        Parameters
        ----------
        around : sides of the tiles above, to the left, below and to the right
            None at the border of the array.
        is_last : bool
            The sweep is the last one of its batch.
        done : the last result of `is_done`, or None
        """

    @abstractmethod
    def is_done(self, done: Any, sides: Sequence[Any]) -> Any:
        """Return whether the grid has converged, from the last result and all tiles' sides."""
