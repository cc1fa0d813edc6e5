"""determine for one tile of an alignment on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np

from ....engines.cuda.device import Device, on_device, pack_words
from ..scoring import Scoring
from ..tiles import Best, Edges, Entry
from .choice import Cut, cut_of
from .layout import AlignmentLayout
from .program import prepared_of
from .scores import alphabet_of, packed_scores, score_dtype, source_of

# Kernels count rows and columns of a tile with 32 bits.
_MOST = 2**31 - 2**12


def determine_alignment(
    scoring: Scoring,
    sequences: tuple[Any, Any],
    entry: Entry,
    origin: tuple[int, int],
    dtype: Any,
    table: Any = None,
) -> Edges:
    """The edges of a tile and its best score, from the edges of its neighbours.

    Parameters
    ----------
    scoring, sequences, entry, origin, dtype, table
        See :mod:`mgrec.grids.alignment`.

    Returns
    -------
    Edges
        On the device.

    Notes
    -----
    Integers are computed in int32 where nothing of the tile can exceed it, else in int64.
    Every cell is computed alike wherever the grid is cut: the same bits.
    """
    import cupy

    query, target = map(cupy.ascontiguousarray, sequences)
    n, m, dtype = query.size, target.size, np.dtype(dtype)
    if n == 0 or m == 0:
        return _hand_on(scoring, entry, n, dtype)
    if max(n, m) > _MOST:
        raise ValueError(f"a tile on a GPU must have at most {_MOST} rows and columns; got {n, m}")
    above = _above(scoring, entry)
    score = score_dtype(scoring, n + m, _largest(above), dtype)
    written = table if table is None or _is_in_rows(table) else cupy.empty((n, m), table.dtype)
    cut = cut_of(
        (n, m), Device.current(), letter=query.dtype, score=score, dtype=dtype,
        source=source_of(scoring, score), mode=scoring.mode, is_affine=scoring.is_affine,
        written=None if table is None else table.dtype, at_once=_at_once(written),
        kinds=len(scoring.table or ()),
    )  # fmt: skip
    if _may_skip(cut.layout, scoring, above):
        cut = replace(cut, skip=-n % cut.layout.rows)
    tile = Tile.of(cut, (query, target), above, written)
    tile.run(scoring)
    if written is not table:
        table[...] = written
    below, right, below_gaps, right_gaps = tile.below
    best = tile.best(origin) if scoring.is_local else None
    return Edges(below, right, below_gaps, right_gaps, best)


def _hand_on(scoring: Scoring, entry: Entry, n: int, dtype: np.dtype[Any]) -> Edges:
    """The edges of a tile without rows or columns are those that it got."""
    below = entry.left[-1:] if n else entry.above
    gaps = (entry.above_gaps, entry.left_gaps) if scoring.is_affine else (None, None)
    edges = _as_edge(below, dtype), _as_edge(entry.left, dtype)
    above, left = (None if gap is None else _as_edge(gap, dtype) for gap in gaps)
    return Edges(*edges, above, left, Best() if scoring.is_local else None)


def _above(scoring: Scoring, entry: Entry) -> list[Any]:
    """Edges above and to the left, None where those of a border are one number in memory."""
    edges = [None if _is(edge, 0) else edge for edge in (entry.above, entry.left)]
    gaps = (entry.above_gaps, entry.left_gaps) if scoring.is_affine else (None, None)
    return edges + [
        None if gap is None or (edge is None and _is(gap, scoring.gap)) else gap
        for gap, edge in zip(gaps, edges, strict=True)
    ]


def _is(edge: Any, value: Any) -> bool:
    return isinstance(edge, np.ndarray) and edge.strides == (0,) and edge[0] == value


def _largest(above: list[Any]) -> int:
    """The largest magnitude of H around a tile."""
    return max((int(abs(edge).max()) for edge in above[:2] if edge is not None), default=0)


def _may_skip(layout: AlignmentLayout, scoring: Scoring, above: list[Any]) -> bool:
    """Whether rows that equal no letter are 0 throughout, as what is above and to the left."""
    if layout.mode != "local" or any(edge is not None for edge in above):
        return False
    is_unequal = layout.letter.itemsize <= 2 and scoring.mismatch <= 0
    return layout.source == "BYTES" or (layout.source == "EQUAL" and is_unequal)


def _is_in_rows(table: Any) -> bool:
    """Whether columns are neighbours, and numbers where the device has them."""
    size = table.dtype.itemsize
    is_row = table.strides[1] == size or table.shape[1] == 1
    return is_row and not any(s % size for s in (table.data.ptr, table.strides[0]))


def _at_once(table: Any) -> int:
    """Numbers of every row, from the first on, that are words of up to 16 bytes."""
    if table is None:
        return 1
    size, row = table.dtype.itemsize, table.strides[0]
    shared = gcd(16, table.data.ptr, row)
    return max(1, min(4, shared // size))


def _as_edge(edge: Any, dtype: np.dtype[Any]) -> Any:
    import cupy

    return cupy.ascontiguousarray(on_device(edge).astype(dtype, copy=False))


@dataclass(frozen=True)
class Tile:
    """The arrays of a launch, all on the device.

    Attributes
    ----------
    cut : Cut
    sequences : (array, array)
    above, below : tuple of four arrays or None
        What edges hand on, of the row above and the column to the left, and of the last ones.
    found : array (strips, 3)
        The best cell of every strip, its score in the bits of `dtype`.
    table : array or None
    """

    cut: Cut
    sequences: tuple[Any, Any]
    above: tuple[Any, ...]
    below: tuple[Any, ...]
    found: Any
    table: Any

    @staticmethod
    def of(cut: Cut, sequences: tuple[Any, Any], above: list[Any], table: Any) -> Tile:
        import cupy

        layout, (n, m) = cut.layout, cut.shape
        given = tuple(None if edge is None else _as_edge(edge, layout.dtype) for edge in above)
        sizes = (m + 1, n, m, n)[: 4 if layout.is_affine else 2]
        below = [cupy.empty(size, layout.dtype) for size in sizes]
        found = cupy.empty((cut.strips, 3), np.int64)
        return Tile(cut, sequences, given, (*below, *[None] * (4 - len(sizes))), found, table)

    def run(self, scoring: Scoring) -> None:
        import cupy

        cut, layout = self.cut, self.cut.layout
        device = cupy.cuda.runtime.getDevice()
        alphabet = alphabet_of(scoring, layout.score, layout.source, device)
        words = cupy.zeros(cut.words, np.uint64)
        arrays = *self.sequences, *self.above, *self.below, self.found, self.table, words
        addresses = [0 if array is None else array.data.ptr for array in arrays]
        pitch = 0 if self.table is None else self.table.strides[0] // self.table.itemsize
        struct = pack_words([*addresses, *alphabet.words, *cut.shape, pitch, cut.skip])
        run = prepared_of(
            "tile", layout, cut.blocks, cut.per_processor, cut.shared_bytes, device
        )  # fmt: skip
        run((struct, packed_scores(scoring, layout.score)))

    def best(self, origin: tuple[int, int]) -> Best:
        """The best cell of all strips, counted from the beginning of the sequences."""
        found = self.found.get()
        score = found[:, 0].view(self.cut.layout.dtype)
        first = np.lexsort((found[:, 1], found[:, 2], -score))[0]
        if score[first] <= 0:
            return Best()
        row, column = found[first, 1:].tolist()
        return Best(score[first].item(), origin[0] + row, origin[1] + column)
