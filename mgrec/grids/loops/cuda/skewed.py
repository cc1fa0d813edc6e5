"""Arrays whose antidiagonals follow each other in memory, strip by strip of 32 rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from .layout import Hyperplanes
from .operands import Placed

LANES = Hyperplanes.threads


def skewed(operand: Any, shape: tuple[int, ...]) -> Placed:
    """A copy of an operand that broadcasts to grids of this shape, (..., rows, columns)."""
    import cupy

    copy = nothing(shape, operand.dtype)
    for view, rows in _views(copy.array, shape):
        view[...] = cupy.broadcast_to(operand, shape)[..., rows, :].reshape(view.shape)
    return copy


def nothing(shape: tuple[int, ...], dtype: Any) -> Placed:
    """Memory for such a copy: of each strip its rows and columns, and 31 columns more."""
    import cupy

    strips, size = _strips(shape)
    return Placed(cupy.empty(strips * size, dtype), (size, LANES + 1, LANES))


def write_back(copy: Placed, table: Any) -> None:
    """Write grids (..., rows, columns) that a copy holds."""
    for view, rows in _views(copy.array, table.shape):
        part = table[..., rows, :]
        part[...] = view.reshape(part.shape)


def _strips(shape: tuple[int, ...]) -> tuple[int, int]:
    """How many there are, and numbers of each."""
    *batch, rows, columns = shape
    return prod(batch) * -(-rows // LANES), (columns + LANES - 1) * LANES


def _views(copy: Any, shape: tuple[int, ...]) -> Iterator[tuple[Any, slice]]:
    """A copy as (grids, strips, rows, columns): whole strips, and one of fewer rows."""
    from cupy.lib.stride_tricks import as_strided

    grids, rows, columns = prod(shape[:-2]), shape[-2], shape[-1]
    strips, size = -(-rows // LANES), _strips(shape)[1]
    strides = [n * copy.itemsize for n in (strips * size, size, LANES + 1, LANES)]
    whole, rest = divmod(rows, LANES)
    if whole:
        yield as_strided(copy, (grids, whole, LANES, columns), strides), slice(whole * LANES)
    if rest:
        last = copy[whole * size :]
        yield as_strided(last, (grids, 1, rest, columns), strides), slice(whole * LANES, rows)
