"""Summed-area tables, the edges of their tiles, and their adjoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import computed_dtype, is_lazy, to_host, widened
from ...core.arrays.chunk import as_contiguous
from ...core.arrays.validation import as_any_array, check_out
from ...core.contract.kernels import Backend, PreparedSolver
from ...core.contract.problem import Composed, Problem
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ...distributed.groups.calls import CALL
from ...scans.functions import linear_recurrence
from ...solve import prepared_function, solve
from ...solve.adjoint import sum_to
from ...solve.functions import flip
from ...solve.rules import Rule, numpy_dtype
from ..recurrence import Wavefront, as_axes

_DTYPES = "?bhilqBHILQfdFD"


@dataclass(frozen=True)
class Sums:
    """Edges of a tile: its last row of S, and its last column of R.

    `right` is None if the tile is the whole array and no other tile needs it.
    """

    below: Any
    right: Any


@dataclass(frozen=True, kw_only=True)
class SummedAreaTable(Wavefront):
    """Prefix sums along two axes: S[i, j] = S[i-1, j] + R[i, j], R[i, j] = R[i, j-1] + x[i, j].

    S crosses the lower border of a tile, and R the right border. So every sum is added up in the
    order of ``numpy.cumsum`` along the second axis, then the first: the same bits.
    """

    family: ClassVar[str] = "grids.table"
    is_asynchronous: ClassVar[bool] = True

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, Sums]:
        result = out[0] if out else backend.empty(shape, self.dtype)
        tile, table = map(self.with_axes_last, (*inputs.blocks, result))
        before = None if above is None else above.below, None if left is None else left.right
        return (result,), backend.kernels(self.family).determine(self, tile, before, table)

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        tile, table = map(self.with_axes_last, (*inputs.blocks, *results))
        return None if prepare is None else prepare(self, tile, (None, None), table)

    def export_edges(self, edges: Sums) -> Sums:
        return Sums(to_host(edges.below), to_host(edges.right))

    def retain_edges(self, edges: Sums) -> Sums:
        return edges

    def start_export(self, backend: Backend, edges: Sums, axes: Collection[int]) -> Callable[[], Sums]:
        down, right = self.axes
        waits = (
            backend.fetch(edges.below) if down in axes else None,
            backend.fetch(edges.right) if right in axes else None,
        )
        return lambda: Sums(*(wait and wait() for wait in waits))


@partial(prepared_function, is_on_host=False, takes_group=True)
def summed_area_table(
    x: Any, axes: tuple[int, ...] = (-2, -1), *, dtype: Any = None, out: Any = None
) -> Problem | Composed:
    """Compute the sums of all rectangles, or boxes, that start at the first corner of an array.

    S[i, j] is the sum of x[:i + 1, :j + 1] (Crow [1]_), the integral image of computer vision. Four
    of its elements give the sum over any rectangle. Over three axes it is the integral volume, and
    eight elements give the sum over any box.

    Parameters
    ----------
    x : array_like, cupy.ndarray or dask.array.Array
        Array of bool, integers, float32, float64 or complex numbers with at least two axes.
    axes : tuple of two ints or more, optional
        Axes to sum over. The default is the last two. Each index along the other axes is a separate
        table.
    dtype : dtype, optional
        Dtype of the sums, as for ``numpy.cumsum``. The default is that of `x`, and the platform's
        integer if `x` is a narrower integer.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which the table is written.
        Not supported for Dask arrays.
    group : mgrec.collective.Group, optional
        Processes that each have some of the rows. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        Table, of the shape and the chunks of `x`.

    Raises
    ------
    TypeError
        If the dtype of `x` or `dtype` is not supported, or `dtype` has another byte order.
    ValueError
        If `axes` are not at least two different axes of `x`.
    RuntimeError
        If a CUDA graph is being captured and an image has more than one strip; see
        :ref:`guide-cuda-graphs`.

    Notes
    -----
    *Accuracy.* In host memory the result has the bits of ``x.cumsum(axes[1],
    dtype).cumsum(axes[0])`` for any chunks. On a GPU integers have these bits too. The error of
    other sums is at most (m + n)·u·A[i, j] to first order in the unit roundoff u, where m and n are
    the lengths along `axes` and A is the table of abs(x); they have the same bits in each run.
    :doc:`/how/grids` has the details, also for more than two axes.

    *Cost.* One reading and one writing, on all threads, and one more of each for each axis beyond
    two. Over Dask a chunk starts as soon as the chunks above and to the left are done; one row and
    one column of sums cross each boundary. :func:`mgrec.plan` and :func:`mgrec.dask.solve` need no
    graph, whose tasks take longer than a GPU takes for a chunk of 10^9 numbers.

    References
    ----------
    .. [1] F. C. Crow, "Summed-area tables for texture mapping", SIGGRAPH 1984.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> table = mgrec.summed_area_table(np.arange(12, dtype=np.uint8).reshape(3, 4))
    >>> table
    array([[ 0,  1,  3,  6],
           [ 4, 10, 18, 28],
           [12, 27, 45, 66]], dtype=uint64)
    >>> int(table[2, 3] - table[0, 3] - table[2, 1] + table[0, 1])  # the sum of x[1:3, 2:4]
    34
    """
    problem, other_axes = check_table(x, axes, dtype, out)
    if not other_axes:
        return problem
    if CALL.get() is not None:
        raise NotImplementedError(f"axes must be two, rows and columns, with a group; got {axes}")
    name = "summed_area_table over more than two axes"
    return Composed(name, partial(_sum_along_axes, problem, other_axes))


def check_table(x: Any, axes: Any, dtype: Any, out: Any) -> tuple[Problem, tuple[int, ...]]:
    """Return the problem of the last two of `axes`, validated, and the other axes."""
    x = widened(as_any_array("x", x))
    if x.dtype.char not in _DTYPES:
        raise TypeError(f"x must be bool, integer, float32, float64 or complex; got {x.dtype}: cast it first")
    *others, down, right = as_axes(axes, "x", x.shape)
    sum_dtype = _sum_dtype(x.dtype, dtype)
    recurrence = SummedAreaTable.over([x], x.shape, sum_dtype, axes=(down, right))
    return Problem(recurrence, (x,), (), tuple(x.shape), out=out), tuple(others)


def _sum_dtype(x_dtype: np.dtype[Any], dtype: Any) -> np.dtype[Any]:
    """Return the dtype in which ``numpy.cumsum`` computes: at least the platform's integer."""
    if dtype is None:
        return np.cumsum(np.empty(0, x_dtype)).dtype
    try:
        sum_dtype = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"dtype must be a NumPy dtype; got {dtype!r}") from error
    if not sum_dtype.isnative:
        raise TypeError(f"dtype must be in native byte order; got {sum_dtype}")
    is_number = sum_dtype.char in _DTYPES and sum_dtype.kind != "b"
    if not is_number or not np.can_cast(x_dtype, sum_dtype, "same_kind"):
        raise TypeError(f"dtype must be one to which sums of {x_dtype} can be cast; got {sum_dtype}")
    return sum_dtype


def _sum_along_axes(problem: Problem, axes: tuple[int, ...]) -> Any:
    """Solve a problem and sum the table along further axes."""
    out, shape = problem.out, problem.shape
    if out is not None:
        check_out(out, shape, problem.recurrence.dtype, problem.operands)
    table = solve(replace(problem, out=None))
    for axis in reversed(axes):
        is_last = axis == axes[0]
        table = _sum_along(axis, table, out if is_last else None)
    return table


def _sum_along(axis: int, table: Any, out: Any) -> Any:
    """Sum along an axis.

    The parts of complex numbers are summed separately, because (1 + 0j)·inf contains nan.
    """
    if table.dtype.kind != "c":
        return linear_recurrence(1, table, axis=axis, out=out)
    if not is_lazy(table):
        out_parts = None if out is None else _parts(out)
        sums = _joined(linear_recurrence(1, _parts(table), axis=axis, out=out_parts))
        return sums if out is None else out
    chunks, meta = table.chunks, _parts(table._meta)
    parts = table.map_blocks(_parts, chunks=(*chunks, (2,)), new_axis=table.ndim, meta=meta)
    sums = linear_recurrence(1, parts, axis=axis)
    return sums.map_blocks(_joined, chunks=chunks, drop_axis=table.ndim, meta=table._meta)


def _parts(table: Any) -> Any:
    """Return the real and imaginary parts of complex numbers along a new last axis."""
    return as_contiguous(table).view(table.real.dtype).reshape(*table.shape, 2)


def _joined(parts: Any) -> Any:
    """Return complex numbers from their parts along the last axis."""
    return as_contiguous(parts).view(np.result_type(parts.dtype, np.complex64))[..., 0]


def _compose(grad: Any, grad_zf: Any, table: Any, arguments: dict[str, Any], of: Sequence[str]) -> tuple[Any]:
    axes = tuple(arguments["axes"])
    sums = summed_area_table(_reversed(grad, axes), axes)
    return (sum_to(_reversed(sums, axes), arguments["x"]),)


def _reversed(array: Any, axes: Sequence[int]) -> Any:
    for axis in axes:
        array = flip(array, axis)
    return array


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    x = arguments["x"]
    return [(x.shape, np.cumsum(np.empty(0, computed_dtype(numpy_dtype(x)))).dtype)]


RULES = [Rule(summed_area_table, _compose, ("x",), {"axes": ("int[]", (-2, -1))}, _outlines)]
