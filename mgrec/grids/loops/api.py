"""Wavefront loops of any weights and operators (Hou, Wang & Feng 2018).

A[i, j] = (A[i, j-1] ∘ b0) ◇ (A[i-1, j] ∘ b1) ◇ (A[i-1, j-1] ∘ b2) ◇ local[i, j].
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...core.algebra.operators import Operators, as_custom_operators, check_composes, check_distributes
from ...core.arrays.array_types import cast, computed_dtype, in_one_memory, result_type, to_host
from ...core.arrays.chunk import shape_of
from ...core.arrays.validation import as_array, as_real, as_scalar, broadcasts_to, is_one_of
from ...core.contract.kernels import Backend, PreparedSolver
from ...core.contract.problem import Problem
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ...solve import prepared_function
from ..recurrence import Wavefront, as_axes

STRATEGIES = ("hybrid", "tiles", "compensation", "hyperplane")

logger = logging.getLogger("mgrec")
_DTYPES = ("int32", "int64", "float32", "float64")


@dataclass(frozen=True)
class Loop:
    """The body of a wavefront loop, and the order in which cells are computed."""

    operators: Operators
    floor: Any = None
    strategy: str = "hybrid"


def check_strategy(strategy: Any, operators: Operators, kind: str, has_floor: bool) -> None:
    """Raise ValueError if a strategy is unknown, or does not support these operators and dtype."""
    if not is_one_of(strategy, STRATEGIES):
        wanted = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"strategy must be one of {wanted}; got {strategy!r}")
    if strategy != "compensation":
        return
    if has_floor and operators.accumulate != "max":
        raise ValueError(
            "strategy must be 'tiles' or 'hybrid' if there is a floor and ◇ is not 'max', because "
            "the maximum of a sum and the floor is not a scan; got 'compensation'"
        )
    check_composes(operators, kind)


def is_compensable(loop: Loop, dtype: np.dtype[Any]) -> bool:
    """Return whether ``"hybrid"`` may choose compensation."""
    try:
        check_strategy("compensation", loop.operators, dtype.kind, loop.floor is not None)
    except ValueError:
        return False
    return True


def log_strategy(loop: Loop, strategy: str, table: Any) -> None:
    """Log the strategy that ``"hybrid"`` has chosen, at level DEBUG."""
    if loop.strategy == "hybrid" and logger.isEnabledFor(logging.DEBUG):
        logger.debug("wavefront: %s, shape %s, %s", strategy, table.shape, table.dtype)


@dataclass(frozen=True)
class Borders:
    """The values above and to the left of a tile; each array broadcasts to the tile's grids."""

    above: Any  # (..., columns)
    left: Any  # (..., rows)
    corner: Any  # (...): above and to the left of the first cell


@dataclass(frozen=True)
class LoopEdges:
    """The values that the tiles below and to the right need, in host memory.

    `below` (..., columns + 1) is the last row, preceded by the value to the left of it. `right`
    (..., rows + 1) is the last column, preceded by the value above it.
    """

    below: np.ndarray
    right: np.ndarray


@dataclass(frozen=True, kw_only=True)
class WavefrontLoop(Wavefront):
    """A wavefront loop. The blocks of a chunk are b0, b1, b2, above, left, corner and `local`.

    Borders broadcast along the axes that they do not have. Only tiles at the border use them.
    """

    family: ClassVar[str] = "grids.loops"
    loop: Loop

    @property
    def algebra(self) -> Loop:
        return self.loop

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        determine = backend.kernels(self.family).determine
        result = out[0] if out else backend.empty(shape, self.dtype)
        local, weights, array_borders, table = self._tile(inputs, result)
        borders = _tile_borders(array_borders, above, left)
        determine(self.loop, local, weights, borders, table)
        return (result,), (table, borders)

    def solver_arguments(self, operands: Sequence[Any], initial: Sequence[Any]) -> list[Any]:
        *others, local = operands
        return [local, *others]

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        return None if prepare is None else prepare(self.loop, *self._tile(inputs, *results))

    def _tile(self, inputs: ChunkInputs, result: Any) -> tuple[Any, list[Any], Borders, Any]:
        """Return `local`, the weights, the borders of the whole array, and the table."""
        *weights, above, left, corner, local = (self._grid(b, result.ndim) for b in inputs.blocks)
        borders = Borders(above[..., 0, :], left[..., :, 0], corner[..., 0, 0])
        return local, weights, borders, self.with_axes_last(result)

    def export_edges(self, edges: tuple[Any, Borders]) -> LoopEdges:
        table, borders = edges
        *batch, rows, columns = table.shape
        above, left, corner = map(to_host, (borders.above, borders.left, borders.corner))
        below = np.empty((*batch, columns + 1), table.dtype)
        right = np.empty((*batch, rows + 1), table.dtype)
        below[..., 1:] = to_host(table[..., -1, :]) if rows else above
        right[..., 1:] = to_host(table[..., :, -1]) if columns else left
        below[..., 0] = left[..., -1] if rows else corner
        right[..., 0] = above[..., -1] if columns else corner
        return LoopEdges(below, right)

    def _grid(self, block: Any, ndim: int) -> Any:
        """Return a block with rows and columns last, and length 1 along broadcast axes."""
        if block.ndim < ndim:
            block = block.reshape((1,) * (ndim - block.ndim) + block.shape)
        return self.with_axes_last(block)


def _tile_borders(array_borders: Borders, above: LoopEdges | None, left: LoopEdges | None) -> Borders:
    """Return the borders of a tile: edges of its neighbours, else borders of the whole array."""
    over, beside, corner = array_borders.above, array_borders.left, array_borders.corner
    if left is not None:
        beside, corner = left.right[..., 1:], left.right[..., 0]
    if above is not None:
        over, corner = above.below[..., 1:], above.below[..., 0]
    return Borders(over, beside, corner)


@partial(prepared_function, is_on_host=False, takes_group=True)
def wavefront(
    local: Any,
    *,
    weights: tuple[Any, Any, Any],
    operators: tuple[str, str] = ("+", "*"),
    above: Any = None,
    left: Any = None,
    corner: Any = None,
    floor: Any = None,
    strategy: str = "hybrid",
    axes: tuple[int, int] = (-2, -1),
    out: Any = None,
) -> Problem:
    """Compute a loop over a grid in which a cell depends on the cells to its left and above.

    The result is that of the wavefront loop of [1]_ with one further term a cell::

        for i in range(rows):
            for j in range(columns):
                a = (A[i, j-1] ∘ b0[i, j]) ◇ (A[i-1, j] ∘ b1[i, j])
                a = (a ◇ (A[i-1, j-1] ∘ b2[i, j])) ◇ local[i, j]
                A[i, j] = a if floor is None else max(a, floor)

    Parameters
    ----------
    local : array_like, CuPy or dask.array.Array
        Array of int32, int64, float32 or float64 with at least two axes.
    weights : (b0, b1, b2), each a scalar, array_like, CuPy or dask.array.Array
        Weights of the cells to the left, above, and above to the left. Each one broadcasts to the
        shape of `local`: a scalar, a row (columns,), a column (rows, 1) or a whole array.
    operators : (str, str), optional
        ◇ and ∘: ("+", "*"), ("max", "+"), ("min", "+") or ("+", "+"). Either one may also be a
        plain Python function of two numbers, combined with another function or with "+", "*", "max"
        or "min". ∘ must then distribute over ◇, or be the same function; random numbers test this.
        On a GPU functions are traced, as those of :class:`mgrec.TransferMap`: write ``np.maximum(a,
        b)`` in place of ``max(a, b)``.
    above, left, corner : scalar, array_like, CuPy or dask.array.Array, optional
        A[-1, :], A[:, -1] and A[-1, -1]: scalars, or arrays of the shape of `local` without the
        first of `axes`, the second, and both. The default is the identity of ◇: 0 for "+"; for
        "max" and "min" an infinity, or half of the lowest or highest integer, so that weights can
        be added. There is no default if ◇ is a function.
    floor : scalar, optional
        Lower bound of the results.
    strategy : {"hybrid", "tiles", "compensation", "hyperplane"}, optional
        "tiles" computes cells in the order of the loop. "compensation" computes a row without its
        horizontal dependency, then adds this by a weighted scan [1]_. It needs associative
        functions, a commutative ◇, and no `floor` unless ◇ is "max". "hyperplane" computes cells as
        "tiles" over copies with contiguous antidiagonals, and is slower. "hybrid" chooses the
        fastest strategy and logs it at level DEBUG with the logger ``mgrec``.
    axes : (int, int), optional
        Axes of i (down) and j (right). The default is the last two. Each index along the other
        axes is a separate grid.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which A is written. It must
        not share memory with an operand. Not supported for Dask arrays.
    group : mgrec.collective.Group, optional
        Processes that each have some of the rows. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        A, of the array type, the shape and the chunks of `local`, and of the dtype to which all
        operands promote.

    Raises
    ------
    RuntimeError
        If a CUDA graph is being captured: each launch needs a unique number.
    TypeError
        If the operands promote to another dtype, an operand is not an array of numbers, NumPy and
        CuPy arrays are mixed, or a function cannot be traced for a GPU.
    ValueError
        If `operators` are not such a pair, `weights` are not three, shapes do not match, `axes` are
        not two different axes of `local`, or `strategy` is unknown or does not support the
        operators.

    See Also
    --------
    mgrec.summed_area_table, mgrec.smith_waterman, mgrec.sor : Faster functions for common loops.

    Notes
    -----
    *Accuracy.* Integers, which wrap around, are those of the loop for each strategy. With "tiles"
    and "hyperplane" floats have the bits of the loop, for any chunks, threads and devices.
    :doc:`/how/grids` states the bound of "compensation" and the cost of each strategy.

    References
    ----------
    .. [1] K. Hou, H. Wang, W. Feng, J. S. Vetter and S. Lee, IPDPS 2018.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> first = np.zeros((3, 5), dtype=np.int64)
    >>> first[0, 0] = 1
    >>> mgrec.wavefront(first, weights=(1, 1, 0))  # paths from the first corner to each cell
    array([[ 1,  1,  1,  1,  1],
           [ 1,  2,  3,  4,  5],
           [ 1,  3,  6, 10, 15]])
    """
    borders = {"above": above, "left": left, "corner": corner}
    return _check_loop(local, weights, operators, borders, floor, strategy, axes, out)


def _check_loop(
    local: Any,
    weights: Any,
    operators: Any,
    borders: dict[str, Any],
    floor: Any,
    strategy: Any,
    axes: Any,
    out: Any,
) -> Problem:
    """Return the problem of a call of ``wavefront``, validated."""
    operators = as_custom_operators(operators)
    if not isinstance(weights, (tuple, list)) or len(weights) != 3:
        got = len(weights) if isinstance(weights, (tuple, list)) else type(weights).__name__
        raise ValueError(f"weights must be a tuple of three, b0, b1 and b2; got {got}")
    arguments = {f"weights[{k}]": weight for k, weight in enumerate(weights)}
    arguments |= {**borders, "local": local}
    arrays = {
        name: as_array(name, value)
        for name, value in arguments.items()
        if not (name in borders and value is None)
    }
    in_one_memory(list(arrays.items()))
    shape = shape_of(arrays["local"])
    down, right = as_axes(axes, "local", shape, are_two=True)
    dtype = _common_dtype(arrays, floor)
    check_distributes(operators, dtype.kind)
    check_strategy(strategy, operators, dtype.kind, floor is not None)
    missing_axes = {"above": (down,), "left": (right,), "corner": (down, right)}
    operands = [
        _as_operand(name, arrays[name], dtype, shape, missing_axes.get(name, ()))
        if name in arrays
        else np.asarray(_default_border(name, operators, dtype))
        for name in arguments
    ]
    floor = None if floor is None else as_scalar("floor", floor, dtype)[()]
    recurrence = WavefrontLoop.over(
        operands, shape, dtype, axes=(down, right), loop=Loop(operators, floor, strategy)
    )
    return Problem(recurrence, tuple(operands), (), shape, out=out)


def _common_dtype(arrays: dict[str, Any], floor: Any) -> np.dtype[Any]:
    values = [getattr(value, "dtype", value) for value in arrays.values()]
    if floor is not None:
        real = as_real("floor", floor, "a real number or None")
        if np.isnan(real):
            raise ValueError("floor must be a real number or None; got nan")
        values.append(getattr(floor, "dtype", floor if isinstance(floor, int) else real))
    dtype = computed_dtype(result_type(values))
    if dtype.name not in _DTYPES:
        raise TypeError(
            f"local, weights and borders must promote to {', '.join(_DTYPES)}; got {dtype}: cast them first"
        )
    return dtype


def _default_border(name: str, operators: Operators, dtype: np.dtype[Any]) -> Any:
    """Return the identity of ◇; for integers half of it, so that weights can be added."""
    if not operators.has_identity:
        raise ValueError(
            f"{name} must be an array or a number if ◇ is a function or '*', which have no known "
            f"identity; got None"
        )
    identity = operators.identity(dtype)
    return identity // dtype.type(2) if dtype.kind == "i" else identity


def _as_operand(
    name: str, value: Any, dtype: np.dtype[Any], shape: tuple[Any, ...], missing: tuple[int, ...]
) -> Any:
    """Return an operand of this dtype, with length 1 along the axes that a border does not have."""
    if not hasattr(value, "dtype"):
        return as_scalar(name, value, dtype)
    wanted = tuple(n for k, n in enumerate(shape) if k not in missing)
    if not broadcasts_to(value.shape, wanted):
        raise ValueError(f"{name} must broadcast to {wanted}; got shape {value.shape}")
    value = cast(value, dtype)
    if not missing or value.ndim == 0:
        return value
    value = value[(None,) * (len(wanted) - value.ndim) + (...,)]
    return value[tuple(None if k in missing else slice(None) for k in range(len(shape)))]
