"""Tiles of float64 for rows of any dtype and stride, which kernels for contiguous rows filter.

A tile has some samples of some rows. Kernels then compile once, instead of for each dtype and
layout of arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ...engines.cpu.compilation import writable
from .lanes import WIDTH

# Number of samples in a tile. With half as many, 10**6 steps of 3 columns took 1.14 times as long.
TILE = 1 << 16


class FilterRows(Protocol):
    """A filter of contiguous rows x (rows, steps), whose states (states, rows) it updates.

    It writes the outputs to y, unless y is None, and marks in `redo` (rows,) the rows whose outputs
    are too large. Samples before `start` have been filtered: x and y contain them.
    """

    def __call__(
        self, x: np.ndarray, y: np.ndarray | None, states: np.ndarray, redo: np.ndarray, start: int = ..., /
    ) -> None: ...


def filter_in_copies(
    filter_rows: FilterRows, x: np.ndarray, y: np.ndarray | None, states: np.ndarray, redo: np.ndarray
) -> None:
    """Filter few short columns (outer, steps, inner) as contiguous rows of float64.

    `states` (states, outer, inner) and `redo` (outer, inner) are contiguous.
    """
    inputs = _contiguous(x)
    outputs = None if y is None else np.empty(inputs.shape)
    rows = redo.size, x.shape[1]
    filter_rows(
        inputs.reshape(rows),
        None if outputs is None else outputs.reshape(rows),
        states.reshape(len(states), redo.size),
        redo.reshape(redo.size),
    )
    if y is not None and outputs is not None:
        _write(outputs, y)


def filter_in_tiles(
    filter_rows: FilterRows,
    x: np.ndarray,
    y: np.ndarray | None,
    states: np.ndarray,
    redo: np.ndarray,
    past: int = 0,
    lead: int = 0,
) -> None:
    """Filter rows (outer, steps, inner), and update their `states` and `redo`.

    Tiles start with the last `past` samples of the previous tile of their rows. The first tile of a
    row has past + lead more samples than others, whose number is a multiple of WIDTH. There are
    few columns (inner). Nothing is written if y is None.
    """
    outer, steps, inner = x.shape
    rows = max(TILE // max(inner * steps, 1), 1)
    if rows < outer:
        for top in range(0, outer, rows):
            part = slice(top, top + rows)
            target = None if y is None else y[part]
            filter_in_tiles(filter_rows, x[part], target, states[:, part], redo[part], past, lead)
        return
    by_row = np.array(states, order="C").reshape(len(states), outer * inner)
    redo_tile = np.zeros(outer * inner, bool)
    previous = np.empty((outer, inner, 0))
    length = TILE // max(inner, 1) // WIDTH * WIDTH
    for left, right in _bounds(steps, length, past + lead):
        start = previous.shape[2]
        inputs = _contiguous(x[:, left - start : right])
        outputs = inputs if y is None else y[:, left - start : right].swapaxes(1, 2)
        is_written = y is not None and outputs.dtype == np.float64 and outputs.flags.c_contiguous
        if not is_written:
            outputs = np.empty(inputs.shape)
            outputs[..., :start] = previous
        tile = [array.reshape(outer * inner, array.shape[2]) for array in (inputs, outputs)]
        filter_rows(tile[0], tile[1], by_row, redo_tile, start)
        redo |= redo_tile.reshape(redo.shape)
        previous = outputs[..., outputs.shape[2] - past :]
        if y is not None and not is_written:
            _write(outputs[..., start:], y[:, left:right])
    states[...] = by_row.reshape(states.shape)


def _contiguous(array: np.ndarray) -> np.ndarray:
    """Return (rows, steps, inner) as contiguous (rows, inner, steps) of float64, maybe a view."""
    return writable(np.ascontiguousarray(array.swapaxes(1, 2), np.float64))


def _write(outputs: np.ndarray, y: np.ndarray) -> None:
    """Write outputs (rows, inner, steps) to y (rows, steps, inner)."""
    # NumPy would copy the columns of a step together, for each step.
    with np.errstate(over="ignore"):  # in rows of float32 that SciPy's loop then filters
        for i in range(y.shape[2]):
            y[:, :, i] = outputs[:, i]


def _bounds(steps: int, length: int, first: int) -> Iterator[tuple[int, int]]:
    """Yield the samples of each tile; the last has half a length more, or less."""
    left, right = 0, first + length
    while steps - right > length // 2:
        yield left, right
        left, right = right, right + length
    if steps > left:
        yield left, steps
