"""Summed-area tables for one tile in host memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.compilation import compile_kernel, writable
from ....engines.cpu.threads import run_in_threads, split_range, threads_for
from ..recurrence import Sums

# Parts of the rows, a thread, where threads share a table: each waits for the others as often.
_PARTS = 8


def _add_up(
    x: Any, below: Any, right: Any, table: Any, images: Any, rows: Any, columns: Any
) -> None:
    """Sums of a part of every table; `below` and `right` are those before it, then its own.

    Four rows at once: their sums along the rows do not wait for each other, and a sum in `below`
    is read and written once.
    """
    number = table.dtype.type
    for k in range(images[0], images[1]):
        i = rows[0]
        while i + 4 <= rows[1]:
            a, b, c, d = right[k, i], right[k, i + 1], right[k, i + 2], right[k, i + 3]
            for j in range(columns[0], columns[1]):
                a += number(x[k, i, j])
                b += number(x[k, i + 1, j])
                c += number(x[k, i + 2, j])
                d += number(x[k, i + 3, j])
                total = below[k, j] + a
                table[k, i, j] = total
                total += b
                table[k, i + 1, j] = total
                total += c
                table[k, i + 2, j] = total
                total += d
                table[k, i + 3, j] = total
                below[k, j] = total
            right[k, i], right[k, i + 1], right[k, i + 2], right[k, i + 3] = a, b, c, d
            i += 4
        while i < rows[1]:
            a = right[k, i]
            for j in range(columns[0], columns[1]):
                a += number(x[k, i, j])
                below[k, j] += a
                table[k, i, j] = below[k, j]
            right[k, i] = a
            i += 1


_kernel = compile_kernel(_add_up)


def determine_table(
    x: np.ndarray, before: tuple[np.ndarray | None, np.ndarray | None], table: np.ndarray,
    is_shared: bool,
) -> Sums:  # fmt: skip
    """Write the table of a tile; its edges.

    Parameters
    ----------
    x : array (..., rows, columns)
    before : (array (..., columns) or None, array (..., rows) or None)
        The table in the row above, and the sums along the rows to the left; None for 0.
    table : array (..., rows, columns)
        Written.
    is_shared : bool
        Among the threads of this process.
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
    _share(
        partial(_kernel, operand, *edges, whole.reshape(operand.shape)), operand.shape, is_shared
    )
    if whole is not table:
        table[...] = whole
    return Sums(below, right)


def _share(kernel: Any, shape: tuple[int, ...], is_shared: bool) -> None:
    """All images of a batch, by threads; few images are cut into parts of rows and columns."""
    count, rows, columns = shape
    threads = threads_for(count * rows * columns) if is_shared else 1
    if threads == 1 or count >= threads:
        run_in_threads(
            [partial(kernel, part, (0, rows), (0, columns)) for part in split_range(count, threads)]
        )
        return
    # A part needs the sums above it and to the left of it: those of an antidiagonal do not wait.
    down, across = split_range(rows, _PARTS * threads), split_range(columns, threads)
    for number in range(len(down) + len(across) - 1):
        run_in_threads([
            partial(kernel, (0, count), down[number - k], across[k])
            for k in range(len(across))
            if 0 <= number - k < len(down)
        ])  # fmt: skip
