"""Successive over-relaxation (Young 1954) of the five-point equation, swept row by row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import cast, computed_dtype, in_one_memory, is_lazy, to_host
from ...core.arrays.chunk import shape_of
from ...core.arrays.validation import as_array, as_integer, as_real, as_scalar, broadcasts_to
from ...core.contract.grid import Swept
from ...core.contract.kernels import Backend, Kernels, PreparedSolver
from ...core.contract.problem import Problem
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ...solve import prepared_function


@dataclass(frozen=True)
class Sweeps:
    """The options of :func:`mgrec.sor`. If `tol` is None, no sweep is checked."""

    omega: float
    sweeps: int = 1
    tol: float | None = None
    check_every: int = 1

    @property
    def sweep_counts(self) -> list[int]:
        """Sweeps up to and including each checked one; all at once if none is checked.

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
        """Write the row above, the column to the left, the row below and the column to the right."""
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


@dataclass(frozen=True, kw_only=True)
class RelaxationKernels(Kernels):
    """The phases of relaxation, and the layout of its grids.

    `lay_out_grids`: ``(grids, rhs) -> LaidOutGrids``.
    """

    lay_out_grids: Callable[..., LaidOutGrids]


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
        first, last, left, right = (np.array(to_host(grids.values[grids.index(*edge)])) for edge in edges)
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
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any, out: Arrays = ()
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
        kernels = backend.kernels(self.family)
        assert isinstance(kernels, RelaxationKernels)
        state = TileState(kernels.lay_out_grids(*arrays), inside)
        return state, state.sides(np.full(tuple(batch), np.nan))

    def tile(self, state: TileState) -> np.ndarray:
        return state.grids.to_array()[(..., *state.inside)]

    def sweep(self, state: TileState, around: Arrays, is_last: bool, done: Any) -> tuple[TileState, Sides]:
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


@partial(prepared_function, is_on_host=False)
def sor(
    x: Any,
    rhs: Any = None,
    *,
    omega: float = 1.0,
    sweeps: int = 1,
    tol: float | None = None,
    check_every: int = 10,
    callback: Callable[[int, float], None] | None = None,
    out: Any = None,
) -> Problem:
    """Apply sweeps of successive over-relaxation to a grid, point after point in row order.

    One sweep (Young [1]_) is the loop ::

        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = x[i-1, j] + x[i, j-1] + x[i+1, j] + x[i, j+1] - rhs[i, j]
                x[i, j] = (1 - omega) * x[i, j] + omega / 4 * around

    Its fixed point is the discrete Poisson equation with unit spacing, x[i-1, j] + x[i, j-1] +
    x[i+1, j] + x[i, j+1] − 4·x[i, j] = rhs[i, j]. The outermost rows and columns are the Dirichlet
    boundary and do not change. `omega` = 1 is the Gauss-Seidel method.

    Parameters
    ----------
    x : array_like or dask.array.Array
        Initial values and boundary (..., rows, columns) of float32, float64 or integers, which are
        converted to float64. Axes before the last two are a batch of grids.
    rhs : array_like, scalar or dask.array.Array, optional
        Right-hand side times the square of the spacing. It broadcasts to `x`. Its outermost rows
        and columns are ignored. The default is 0.
    omega : float, optional
        Relaxation factor between 0 and 2.
    sweeps : int, optional
        Maximum number of sweeps.
    tol : float, optional
        Tolerance. A grid is finished after a checked sweep whose largest update |new − old| is
        below `tol`. An update is omega/4 times the residual of its point. Each grid of a batch
        is finished on its own.
    check_every : int, optional
        Number of sweeps between two checks, if `tol` or `callback` is given.
    callback : callable, ``(sweeps, update) -> None``, optional
        Function that is called after each checked sweep with the number of sweeps so far and their
        largest update. It is supported for one grid, and not for Dask arrays.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which the result is written.
        Not supported for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        Grid after the sweeps, of the shape and the chunks of `x`.

    Raises
    ------
    TypeError
        If a dtype is not supported, or an option has the wrong type.
    ValueError
        If `x` has fewer than two axes, `rhs` does not broadcast to it, `omega`, `sweeps`, `tol` or
        `check_every` is out of range, or `callback` is given for several grids.
    RuntimeError
        If a CUDA graph that is being captured cannot contain the call; see
        :ref:`guide-cuda-graphs`.

    Notes
    -----
    *Accuracy.* Results have the bits of the loop, nan and inf included, for any chunks and threads.
    The loop runs in the dtype of the result, to which 1 − omega and omega/4 are rounded.

    *Cost.* Several sweeps in one call are faster than one call for each, because they pass through
    the caches together; a GPU reads and writes the grid once for at most 16 sweeps. A call needs
    memory for one more array, and for another one if `rhs` is given. Over Dask one task computes a
    chunk and a sweep. :doc:`/how/grids` has the details.

    References
    ----------
    .. [1] D. M. Young, "Iterative methods for solving partial difference equations of elliptic
       type", Trans. Amer. Math. Soc. 76 (1954); "Iterative Solution of Large Linear Systems",
       1971.

    Examples
    --------
    A plate of 0 degrees, one edge of which is kept at 100:

    >>> import numpy as np, mgrec
    >>> plate = np.zeros((4, 4))
    >>> plate[0] = 100
    >>> mgrec.sor(plate, omega=1.2, sweeps=200, tol=1e-6).round(2)
    array([[100. , 100. , 100. , 100. ],
           [  0. ,  37.5,  37.5,   0. ],
           [  0. ,  12.5,  12.5,   0. ],
           [  0. ,   0. ,   0. ,   0. ]])
    """
    return _check_relaxation(x, rhs, omega, sweeps, tol, check_every, callback, out)


def _check_relaxation(
    x: Any, rhs: Any, omega: Any, sweeps: Any, tol: Any, check_every: Any, callback: Any, out: Any
) -> Problem:
    """Return the problem of a call of ``sor``, validated."""
    arguments = {"x": x} if rhs is None else {"x": x, "rhs": rhs}
    arrays = {name: as_array(name, value) for name, value in arguments.items()}
    in_one_memory(list(arrays.items()))
    shape = shape_of(arrays["x"])
    if len(shape) < 2:
        raise ValueError(f"x must have two axes or more; got shape {shape}")
    dtype = _common_dtype(arrays)
    loop = _as_sweeps(omega, sweeps, tol, check_every)
    # x is the last operand: a result has the chunks of the last one.
    operands = tuple(_as_operand(name, arrays[name], dtype) for name in reversed(arrays))
    for rhs in operands[:-1]:
        if not broadcasts_to(rhs.shape, shape):
            raise ValueError(f"rhs must broadcast to {shape}, the shape of x; got {rhs.shape}")
    recurrence = Relaxation.over(
        operands,
        shape,
        dtype,
        axes=(len(shape) - 2, len(shape) - 1),
        loop=loop,
        callback=_as_callback(callback, operands, shape),
    )
    return Problem(recurrence, operands, (), shape, out=out)


def _as_callback(callback: Any, operands: Any, shape: tuple[Any, ...]) -> Any:
    if callback is None:
        return None
    if not callable(callback):
        raise TypeError(f"callback must be callable or None; got {callback!r}")
    if any(map(is_lazy, operands)):
        raise TypeError(
            "callback must be None where an operand is a Dask array, which is swept later: use "
            "mgrec.dask.progress"
        )
    if prod(shape[:-2]) != 1:
        raise ValueError(f"callback must be None where x is several grids; got shape {shape}")
    return callback


def _common_dtype(arrays: dict[str, Any]) -> np.dtype[Any]:
    dtype = np.result_type(*(getattr(value, "dtype", value) for value in arrays.values()))
    dtype = np.dtype(np.float64) if dtype.kind in "biu" else computed_dtype(dtype)
    if dtype.char not in "fd":
        names = " and ".join(arrays)
        raise TypeError(f"{names} must be of integers, float32 or float64; got {dtype}")
    return dtype


def _as_operand(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if hasattr(value, "dtype"):
        return cast(value, dtype)
    return as_scalar(name, value, dtype)


def _as_sweeps(omega: Any, sweeps: Any, tol: Any, check_every: Any) -> Sweeps:
    factor = as_real("omega", omega, "a number between 0 and 2")
    if not 0 < factor < 2:
        raise ValueError(f"omega must be a number between 0 and 2; got {omega!r}")
    counts = {"sweeps": sweeps, "check_every": check_every}
    for name, value in counts.items():
        counts[name] = as_integer(name, value)
        if counts[name] < 1:
            raise ValueError(f"{name} must be 1 or more; got {value!r}")
    if tol is not None and not as_real("tol", tol) > 0:
        raise ValueError(f"tol must be above 0, or None; got {tol!r}")
    return Sweeps(factor, tol=None if tol is None else float(tol), **counts)
