"""Summed-area tables for one tile in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....families.wavefront.recurrence import Sums
from ..compilation.kernels import compile_kernel, writable


def _add_up(x: Any, below: Any, right: Any, table: Any) -> None:
    """Sums of every tile of a batch; `below` and `right` are those before it, then its own."""
    number = table.dtype.type
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            across = right[k, i]
            for j in range(x.shape[2]):
                across += number(x[k, i, j])
                below[k, j] += across
                table[k, i, j] = below[k, j]
            right[k, i] = across


_kernel = compile_kernel(_add_up)


def determine_table(
    x: np.ndarray, before: tuple[np.ndarray | None, np.ndarray | None], table: np.ndarray
) -> Sums:
    """Write the table of a tile; its edges.

    Parameters
    ----------
    x : array (..., rows, columns)
    before : (array (..., columns) or None, array (..., rows) or None)
        The table in the row above, and the sums along the rows to the left; None for 0.
    table : array (..., rows, columns)
        Written.
    """
    *others, rows, columns = x.shape
    below, right = (
        np.zeros((*others, length), table.dtype) if edge is None else np.array(edge)
        for edge, length in zip(before, (columns, rows), strict=True)
    )
    if x.size == 0:
        return Sums(below, right)
    whole = table if table.flags.c_contiguous else np.empty(table.shape, table.dtype)
    operand = writable(np.ascontiguousarray(x)).reshape(-1, rows, columns)
    edges = below.reshape(-1, columns), right.reshape(-1, rows)
    _kernel(operand, *edges, whole.reshape(operand.shape))
    if whole is not table:
        table[...] = whole
    return Sums(below, right)
