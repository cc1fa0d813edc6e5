"""Adjoints of banded and block tridiagonal systems."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.array_types import chunked_like, computed_dtype
from ..core.arrays.chunk import shape_of
from ..core.arrays.validation import as_axis, as_flag
from ..distributed.groups.ends import first_of_all
from ..solve.adjoint import adjoint_function, along, conj, shifted, sum_of_outer_products
from ..solve.functions import concatenate
from ..solve.rules import broadcast_shapes, common_dtype, rule_of_adjoint
from . import api, blocks
from .api import as_widths, extended


@partial(adjoint_function, function="mgrec.solve_banded", result="x", arrays=("ab", "b"))
def solve_banded(
    grad: Any,
    x: Any,
    l_and_u: Any,
    ab: Any,
    b: Any,
    *,
    axis: int = -1,
    periodic: bool = False,
    of: Collection[str] | None = None,
) -> tuple[Any, Any]:
    """Return the gradients of ``x = mgrec.solve_banded(l_and_u, ab, b)``.

    The gradient of b is the solution λ of the system with the conjugate transposed matrix, whose
    right-hand side is the gradient of x. The gradient of ``A[i, j]`` is −λ_i·conj(x_j), and that of
    entries of `ab` that the function ignores is 0. Of `b` only the shape and the dtype are used.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> ab, b = np.array([[0.0, -1.0, -1.0], [2.0, 2.0, 2.0], [-1.0, -1.0, 0.0]]), np.ones(3)
    >>> x = mgrec.solve_banded((1, 1), ab, b)
    >>> mgrec.adjoint.solve_banded(np.ones(3), x, (1, 1), ab, b, of="b")[1]
    array([1.5, 2. , 1.5])
    """
    lower, upper = as_widths(l_and_u)
    axis, is_periodic = as_axis(axis, x.shape), as_flag("periodic", periodic)
    offsets, length = range(-lower, upper + 1), ab.shape[-1]
    # Entry (i, i + k) of the matrix is in column i of the transposed one.
    wide = extended(conj(ab), lower, upper, is_periodic)
    bands = [wide[..., upper - k, lower + k : lower + k + length][..., None, :] for k in offsets]
    transposed = chunked_like(concatenate(bands, -2), ab)
    adjoint = api.solve_banded((upper, lower), transposed, -1.0 * grad, axis=axis, periodic=is_periodic)

    def of_bands() -> Any:
        rows = extended(_to_last(adjoint, axis), upper, lower, is_periodic)
        columns = conj(_to_last(x, axis))
        shifted = [rows[..., upper - k : upper - k + length] for k in reversed(offsets)]
        return concatenate([(chunked_like(part, columns) * columns)[..., None, :] for part in shifted], -2)

    return of_bands, lambda: -adjoint


@partial(
    adjoint_function, function="mgrec.solve_block_tridiagonal", result="x", arrays=("dl", "d", "du", "b")
)
def solve_block_tridiagonal(
    grad: Any,
    x: Any,
    dl: Any,
    d: Any,
    du: Any,
    b: Any,
    *,
    axis: int = -1,
    periodic: bool = False,
    of: Collection[str] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the gradients of ``x = mgrec.solve_block_tridiagonal(dl, d, du, b)``.

    The gradient of b is the solution λ of the system with the conjugate transposed matrix, whose
    right-hand side is the gradient of x. The gradients of blocks are the outer products

        d_i: −λ_i·conj(x_i)ᵀ,    dl_i: −λ_i·conj(x_{i-1})ᵀ,    du_i: −λ_i·conj(x_{i+1})ᵀ

    and 0 for the blocks of `dl` and `du` that the function ignores. Of `b` only the shape and the
    dtype are used.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> side, main, b = -np.eye(2), 2.0 * np.eye(2), np.ones((3, 2))
    >>> x = mgrec.solve_block_tridiagonal(side, main, side, b)
    >>> mgrec.adjoint.solve_block_tridiagonal(np.ones((3, 2)), x, side, main, side, b, of="b")[3]
    array([[1.5, 1.5],
           [2. , 2. ],
           [1.5, 1.5]])
    """
    axis, is_periodic = as_axis(axis, x.shape[:-1]), as_flag("periodic", periodic)

    def of_neighbour(values: Any, axis: int, step: int) -> Any:
        edge = first_of_all(values, axis, step) if is_periodic else None
        return shifted(values, axis, step, edge)

    def transposed(values: Any, step: int) -> Any:
        """Return blocks of the conjugate transposed matrix, from those `step` blocks further."""
        values = conj(values).swapaxes(-1, -2)
        axis_of_values = along(values[..., 0, 0], x.ndim - 1, axis)
        return values if axis_of_values is None else of_neighbour(values, axis_of_values, step)

    main = conj(d).swapaxes(-1, -2)
    adjoint = blocks.solve_block_tridiagonal(
        transposed(du, -1), main, transposed(dl, 1), -1.0 * grad, axis=axis, periodic=is_periodic
    )

    def of_blocks(values: Any, step: int) -> Any:
        return sum_of_outer_products(adjoint, conj(of_neighbour(x, axis, step) if step else x), values)

    return (partial(of_blocks, dl, -1), partial(of_blocks, d, 0), partial(of_blocks, du, 1), lambda: -adjoint)


def _to_last(array: Any, axis: int) -> Any:
    """Return an array of any library with an axis moved to the end."""
    for k in range(axis, array.ndim - 1):
        array = array.swapaxes(k, k + 1)
    return array


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    ab, b = arguments["ab"], arguments["b"]
    ndim = max(len(ab.shape) - 1, len(shape_of(b)))
    axis, rows = as_axis(arguments["axis"], (1,) * ndim), [1] * ndim
    rows[ndim - len(ab.shape) + 2 : ndim] = ab.shape[:-2]
    rows = [*rows[1 : axis + 1], ab.shape[-1], *rows[axis + 1 :]] if ndim else rows
    dtype = computed_dtype(common_dtype(ab, b))
    shape = broadcast_shapes(tuple(rows), b.shape)
    return [(shape, dtype if dtype.kind in "fc" else np.dtype(np.float64))]


def _outlines_of_blocks(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    *matrices, b = (arguments[name] for name in ("dl", "d", "du", "b"))
    shape = broadcast_shapes(*(array.shape[:-2] for array in matrices), b.shape[:-1])
    dtype = computed_dtype(common_dtype(*matrices, b))
    return [((*shape, b.shape[-1]), dtype if dtype.kind in "fc" else np.dtype(np.float64))]


_OPTIONS: dict[str, Any] = {"axis": ("int", -1), "periodic": ("bool", False)}
RULES = [
    rule_of_adjoint(
        solve_banded, api.solve_banded, {"l_and_u": ("int[]", None), **_OPTIONS}, _outlines, unread=("b",)
    ),
    rule_of_adjoint(
        solve_block_tridiagonal,
        blocks.solve_block_tridiagonal,
        _OPTIONS,
        _outlines_of_blocks,
        unread=("b",),
        axes=lambda arguments: len(_outlines_of_blocks(arguments)[0][0]) - 1,
    ),
]
