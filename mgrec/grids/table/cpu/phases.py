"""Summed-area tables for one tile in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numba
import numpy as np

from ....core.contract.kernels import Kernels, Part
from ....engines.cpu.compilation import INNER, compile_kernel, writable
from ....engines.cpu.threads import run_in_threads, split_range, threads_for
from ...recurrence import antidiagonals, part_of_host
from ..recurrence import Sums
from .squares import add_up_square, have_squares, sides_of_square

# Cells of a part, which then takes about a millisecond; a call takes 0.1 ms at most.
_CELLS = 1 << 20
# Parts of the rows per thread, if threads share a table: each thread waits so often for the others.
_PARTS = 8
# Cells that take as long as a step of a recurrence: threads share large tables only. 2,048 × 2,048
# took 0.9 ms on one thread, 1.4 on two.
_CELLS_OF_STEP = 16


def kernels(method: str) -> Kernels:
    """Return the phases of a tile; the method "threads" uses all threads."""
    return Kernels(partial(determine_table, is_threaded=method == "threads"), part=_part)


def _part(recurrence: Any, shape: Sequence[int], side: int) -> Part:
    return part_of_host(_CELLS, shape, side)


def _add_up(
    x: Any, below: Any, right: Any, table: Any, images: Any, rows: Any, columns: Any
) -> None:
    """Write a part of every table; `below` and `right` are the edges before it, then its own.

    It adds up four rows at once: their sums along the rows are independent, and a sum in `below`
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


_add_up_remainder = numba.njit(**INNER)(_add_up)


def _add_up_squares(
    sides: Any, x: Any, below: Any, right: Any, table: Any, images: Any, rows: Any, columns: Any
) -> None:
    """Do the same in squares with `sides` rows and columns, and what remains by `_add_up`."""
    height, width = sides
    for k in range(images[0], images[1]):
        image, i = (k, k + 1), rows[0]
        while i + height <= rows[1]:
            part, j = (i, i + height), columns[0]
            while j + width <= columns[1]:
                add_up_square(x[k], right[k], below[k], table[k], i, j)
                j += width
            _add_up_remainder(x, below, right, table, image, part, (j, columns[1]))
            i += height
        _add_up_remainder(x, below, right, table, image, (i, rows[1]), columns)


_kernel, _kernel_of_squares = compile_kernel(_add_up), compile_kernel(_add_up_squares)


def determine_table(
    recurrence: Any,
    x: np.ndarray,
    edges: tuple[np.ndarray | None, np.ndarray | None],
    table: np.ndarray,
    is_threaded: bool,
) -> Sums:
    """Write the table of a tile (..., rows, columns), and return its edges.

    `edges` are the table in the row above and the sums along the rows to the left; None for 0.
    """
    *others, rows, columns = x.shape
    below, right = (
        np.zeros((*others, length), table.dtype) if edge is None else np.array(edge)
        for edge, length in zip(edges, (columns, rows), strict=True)
    )
    if x.size == 0:
        return Sums(below, right)
    whole = table if table.flags.c_contiguous else np.empty(table.shape, table.dtype)
    operand = writable(np.ascontiguousarray(x)).reshape(-1, rows, columns)
    sums = below.reshape(-1, columns), right.reshape(-1, rows)
    arrays = operand, *sums, whole.reshape(operand.shape)
    kernel = partial(_kernel, *arrays)
    if have_squares(operand.dtype, table.dtype):
        kernel = partial(_kernel_of_squares, sides_of_square(table.dtype), *arrays)
    _run_on_threads(kernel, operand.shape, is_threaded)
    if whole is not table:
        table[...] = whole
    return Sums(below, right)


def _run_on_threads(kernel: Any, shape: tuple[int, ...], is_threaded: bool) -> None:
    """Call a kernel for all images of a batch; few images are split into rows and columns."""
    count, rows, columns = shape
    threads = threads_for(count * rows * columns // _CELLS_OF_STEP, is_threaded)
    if threads == 1 or count >= threads:
        run_in_threads(
            [partial(kernel, part, (0, rows), (0, columns)) for part in split_range(count, threads)]
        )
        return
    # A part needs the sums above and to the left of it: parts of an antidiagonal are independent.
    # From left to right, so that a thread keeps its columns: 2,048 × 2,048 took 5.0 ms, and 8.2 in
    # the other order.
    for parts in antidiagonals(split_range(rows, _PARTS * threads), split_range(columns, threads)):
        run_in_threads([partial(kernel, (0, count), *part) for part in reversed(parts)])
