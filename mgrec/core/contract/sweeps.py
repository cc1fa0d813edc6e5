"""The contract of grids that are swept several times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .grid import Grid
from .kernels import Backend
from .recurrence import Arrays, Pack, Shape


@dataclass(frozen=True, kw_only=True)
class Swept(Grid):
    """A grid that is swept several times: a tile needs the sides of the tiles around it.

    Those above and to the left have done the same sweep, those below and to the right the one
    before. From sweep to sweep a tile goes as a state of the recurrence's own.
    """

    @property
    @abstractmethod
    def runs(self) -> list[int]:
        """Sweeps up to each one after which the grid may be done, that one included."""

    @abstractmethod
    def hold(
        self, backend: Backend, pack: Pack, shape: Shape, around: tuple[bool, ...]
    ) -> tuple[Any, Any]:
        """The state of a tile before the first sweep, and its sides in host memory.

        `around` tells whether there are tiles above, to the left, below and to the right.
        """

    @abstractmethod
    def tile(self, state: Any) -> Any:
        """The array of a tile after the last sweep."""

    @abstractmethod
    def sweep(self, state: Any, around: Arrays, is_last: bool, done: Any) -> tuple[Any, Any]:
        """The state of a tile after one more sweep, and its sides.

        Parameters
        ----------
        around : sides of the tiles above, to the left, below and to the right
            None at the border of the array.
        is_last : bool
            Of its run.
        done : what `is_done` found last, or None
        """

    @abstractmethod
    def is_done(self, done: Any, sides: Sequence[Any]) -> Any:
        """Whether no more sweeps are needed, from what was found before and all tiles' sides."""
