"""Successive over-relaxation (Young 1954) of the five-point equation, swept row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.contract.kernels import Backend, PreparedSolver
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ...core.contract.sweeps import Swept
from .sweeps import Sides, Sweeps


@dataclass(frozen=True)
class Held:
    """A tile and its neighbours' sides between two sweeps, in the form in which it is swept.

    Attributes
    ----------
    grids : what `hold` of the kernels gives
        With one row or column more where the tile has a neighbour.
    inside : (slice, slice)
        Where the tile is.
    shape : tuple of int
        Of the tile.
    """

    grids: Any
    inside: tuple[slice, slice]
    shape: Shape

    def __sizeof__(self) -> int:
        return self.grids.nbytes

    @property
    def ends(self) -> tuple[int, int, int, int]:
        """The first and last row, and the first and last column of the tile."""
        (down, across), (rows, columns) = self.inside, self.shape[-2:]
        top, left = down.start, across.start
        return top, top + rows - 1, left, left + columns - 1

    def sides(self, update: np.ndarray) -> Sides:
        (down, across), (first, last, left, right) = self.inside, self.ends
        row, column = self.grids.row, self.grids.column
        return Sides(
            first=_copied(row(first)[..., across]),
            last=_copied(row(last)[..., across]),
            left=_copied(column(left)[..., down]),
            right=_copied(column(right)[..., down]),
            update=update,
        )


def _copied(side: Any) -> np.ndarray:
    """In host memory, apart from the grid."""
    return np.array(to_host(side))


@dataclass(frozen=True, kw_only=True)
class Relaxation(Swept):
    """Sweeps over grids, whose outermost rows and columns stay: the last two axes.

    The blocks of a pack are `rhs`, if it is given, and the grid.

    Attributes
    ----------
    loop : Sweeps
    callback : callable, ``(sweeps, update) -> None``, optional
        Of one grid that is no Dask array: called after every checked sweep.
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
        """All sweeps over whole grids."""
        *rhs, x = inputs.blocks
        result = out[0] if out else backend.empty(shape, self.dtype)
        side = rhs[0] if rhs else None

        def sweep(loop: Sweeps, x: Any) -> Any:
            return backend.kernels(self.family).determine(loop, x, side, result)

        if self.callback is None:
            sweep(self.loop, x)
        else:
            self._sweep_and_tell(sweep, x, result)
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

    def _sweep_and_tell(self, sweep: Callable[[Sweeps, Any], Any], x: Any, result: Any) -> None:
        """Sweep one grid, run by run; the callback is told of each."""
        done, tol = 0, self.loop.tol or 0.0  # no update is below 0
        for sweeps in replace(self.loop, tol=tol).sweep_counts:
            run = replace(self.loop, sweeps=sweeps, check_every=sweeps, tol=tol)
            update, done = float(sweep(run, x).item()), done + sweeps
            self.callback(done, update)
            if update < tol:
                break
            x = result

    def start_tile(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, around: tuple[bool, ...]
    ) -> tuple[Held, Sides]:
        above, left, below, right = map(int, around)
        *batch, rows, columns = shape
        inside = slice(above, above + rows), slice(left, left + columns)
        whole = (*batch, above + rows + below, left + columns + right)
        arrays = []
        for block in reversed(inputs.blocks):
            arrays.append(backend.empty(whole, self.dtype))
            arrays[-1][...] = 0
            arrays[-1][(..., *inside)] = block[()] if block.ndim == 0 else block
        held = Held(backend.kernels(self.family).lay_out_grids(*arrays), inside, shape)
        return held, held.sides(np.full(tuple(batch), np.nan))

    def tile(self, state: Held) -> np.ndarray:
        return state.grids.write()[(..., *state.inside)]

    def sweep(self, state: Held, around: Arrays, is_last: bool, done: Any) -> tuple[Held, Sides]:
        if done is not None and done.all():
            return state, state.sides(np.zeros(done.shape))
        loop = replace(self.loop, sweeps=1, tol=self.loop.tol if is_last else None)
        above, left, below, right = around
        borders = (
            None if above is None else above.last,
            None if left is None else left.right,
            None if below is None else below.first,
            None if right is None else right.left,
        )
        grids, update = state.grids.swept(loop, borders, state.inside, done)
        state = replace(state, grids=grids)
        return state, state.sides(update)

    def is_done(self, done: Any, sides: Sequence[Sides]) -> np.ndarray:
        found = np.max([side.update for side in sides], axis=0) < self.loop.tol
        return found if done is None else found | done
