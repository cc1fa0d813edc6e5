"""Successive over-relaxation (Young 1954) of the five-point equation, swept row by row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.contract.grid import Swept
from ...core.contract.kernels import Backend, PreparedSolver
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape


@dataclass(frozen=True)
class Sweeps:
    """The options of :func:`mgrec.sor`. If `tol` is None, no sweep is checked.

    Otherwise the last sweep is checked as well.
    """

    omega: float
    sweeps: int = 1
    tol: float | None = None
    check_every: int = 1

    @property
    def sweep_counts(self) -> list[int]:
        """Sweeps up to and including each checked one; all at once if none is checked.

        Examples
        --------
        >>> Sweeps(1.5, 25, 1e-6, 10).sweep_counts
        [10, 10, 5]
        """
        if self.tol is None:
            return [self.sweeps]
        whole, remaining = divmod(self.sweeps, self.check_every)
        return [self.check_every] * whole + [remaining] * bool(remaining)


@dataclass(frozen=True)
class Sides:
    """The outermost rows and columns of a tile, and the largest update of its last sweep.

    The update is nan if the sweep was not checked.
    """

    first: np.ndarray
    last: np.ndarray
    left: np.ndarray
    right: np.ndarray
    update: np.ndarray


@dataclass(frozen=True)
class LaidOutGrids(ABC):
    """A batch of grids, of this shape as an array, in the layout in which kernels sweep them."""

    values: Any
    rhs: Any
    shape: Shape

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes) * (1 if self.rhs is None else 2)

    @abstractmethod
    def index(self, is_row: bool, k: int, part: slice) -> tuple[Any, ...]:
        """Return the index in `values` of a part of row k, or of column k."""

    def write_borders(self, borders: Sequence[Any], inside: tuple[slice, slice]) -> None:
        """Write the row above, the column to the left, the row below and the column to the right.

        Each may be None. `inside` are the rows and the columns between the borders.
        """
        (down, across), (rows, columns) = inside, self.shape[-2:]
        edges = (True, 0, across), (False, 0, down), (True, rows - 1, across)
        for border, edge in zip(borders, (*edges, (False, columns - 1, down)), strict=True):
            if border is not None:
                self.values[self.index(*edge)] = border

    @abstractmethod
    def sweep(
        self, loop: Sweeps, borders: Sequence[Any], inside: tuple[slice, slice], done: Any
    ) -> tuple[LaidOutGrids, np.ndarray]:
        """Return the grids after the sweeps of a loop, and the largest update of each.

        `borders`, in host memory, are those of `write_borders`. Grids do not change where the array
        `done` is True; it may be None.
        """

    @abstractmethod
    def to_array(self) -> Any:
        """Return the batch as an array."""


@dataclass(frozen=True)
class TileState:
    """A tile and its neighbours' sides between two sweeps, in the layout of the kernels.

    `grids` have one row or column more than the tile on each side where it has a neighbour. The
    tile is `inside`.
    """

    grids: LaidOutGrids
    inside: tuple[slice, slice]

    def __sizeof__(self) -> int:
        return self.grids.nbytes

    def sides(self, update: np.ndarray) -> Sides:
        """Return copies of the outermost rows and columns, in host memory."""
        (down, across), grids = self.inside, self.grids
        edges = [(True, k, across) for k in (down.start, down.stop - 1)]
        edges += [(False, k, down) for k in (across.start, across.stop - 1)]
        first, last, left, right = (
            np.array(to_host(grids.values[grids.index(*edge)])) for edge in edges
        )
        return Sides(first, last, left, right, update)


@dataclass(frozen=True, kw_only=True)
class Relaxation(Swept):
    """Sweeps over grids, the last two axes, whose outermost rows and columns do not change.

    The blocks of a chunk are `rhs`, if there is one, and the grid.
    """

    family: ClassVar[str] = "grids.sor"
    loop: Sweeps
    callback: Any = None

    @property
    def indexed_by(self) -> str:
        return "a sweep"

    @property
    def sweep_counts(self) -> list[int]:
        return self.loop.sweep_counts

    def determine(
        self,
        backend: Backend,
        inputs: ChunkInputs,
        shape: Shape,
        above: Any,
        left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, Any]:
        """Return whole grids after all sweeps; call the callback after each checked sweep."""
        *rhs, x = inputs.blocks
        result = out[0] if out else backend.empty(shape, self.dtype)
        rhs_block = rhs[0] if rhs else None
        sweep = backend.kernels(self.family).determine
        if self.callback is None:
            sweep(self.loop, x, rhs_block, result)
            return (result,), None
        done, tol = 0, self.loop.tol or 0.0  # no update is below 0
        for sweeps in replace(self.loop, tol=tol).sweep_counts:
            batch = replace(self.loop, sweeps=sweeps, check_every=sweeps, tol=tol)
            update = float(sweep(batch, x, rhs_block, result).item())
            done, x = done + sweeps, result
            self.callback(done, update)
            if update < tol:
                break
        return (result,), None

    def solver_arguments(self, operands: Sequence[Any], initial: Sequence[Any]) -> list[Any]:
        return list(reversed(operands))

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        if prepare is None or self.callback is not None:
            return None
        return prepare(self.loop, self.solver_arguments(inputs.blocks, ()), None, results)

    def start_tile(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, around: tuple[bool, ...]
    ) -> tuple[TileState, Sides]:
        above, left, below, right = map(int, around)
        *batch, rows, columns = shape
        inside = slice(above, above + rows), slice(left, left + columns)
        whole = (*batch, above + rows + below, left + columns + right)
        arrays = []
        for block in reversed(inputs.blocks):
            arrays.append(backend.empty(whole, self.dtype))
            arrays[-1][...] = 0
            arrays[-1][(..., *inside)] = block[()] if block.ndim == 0 else block
        state = TileState(backend.kernels(self.family).lay_out_grids(*arrays), inside)
        return state, state.sides(np.full(tuple(batch), np.nan))

    def tile(self, state: TileState) -> np.ndarray:
        return state.grids.to_array()[(..., *state.inside)]

    def sweep(
        self, state: TileState, around: Arrays, is_last: bool, done: Any
    ) -> tuple[TileState, Sides]:
        if done is not None and done.all():
            return state, state.sides(np.zeros(done.shape))
        loop = replace(self.loop, sweeps=1, tol=self.loop.tol if is_last else None)
        nearest = zip(around, ("last", "right", "first", "left"), strict=True)
        borders = [None if side is None else getattr(side, name) for side, name in nearest]
        grids, update = state.grids.sweep(loop, borders, state.inside, done)
        state = replace(state, grids=grids)
        return state, state.sides(update)

    def is_done(self, done: Any, sides: Sequence[Sides]) -> np.ndarray:
        is_below_tol = np.max([side.update for side in sides], axis=0) < self.loop.tol
        return is_below_tol if done is None else is_below_tol | done
