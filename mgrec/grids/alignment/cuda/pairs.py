"""Many pairs of sequences on a GPU: one warp for each pair, or the whole GPU for a long pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....engines.cuda.device import Device, pack_words
from ..scoring import Scoring
from ..sequences import Sequences
from ..tiles import Best, best_of_edges, carry_in_from
from .layout import LANES, AlignmentLayout
from .program import (
    device_table,
    packed_scores,
    prepare_launch,
    score_dtype,
    source_of,
    table_words,
)
from .tile import determine_alignment

_MOST_ROWS = 16
_WARPS = 4
# Blocks of a multiprocessor, and most bytes of the rows that pass from strip to strip.
_BLOCKS = 4
_MOST_BYTES = 1 << 28
# Number of pairs whose lengths determine the rows of a lane.
_SAMPLE_SIZE = 1000
# A step takes so many times longer if all warps are busy. So many steps are worth a launch.
_SLOWER, _LAUNCH = 4, 50_000


def determine_pairs(
    scoring: Scoring, queries: Sequences, targets: Sequences, dtype: Any
) -> np.ndarray:
    """Return score, query_end and target_end of pairs; see :mod:`mgrec.grids.alignment`.

    The codes are in device memory, the result is in host memory.
    """
    if min(len(queries), len(targets)) == 0:
        return np.empty((0, 3), dtype)
    pairs = Pairs(scoring, queries, targets, np.dtype(dtype))
    long = pairs.find_long()
    result = pairs.align(long) if long.size < pairs.count else np.empty((pairs.count, 3), dtype)
    for k in long.tolist():
        result[k] = pairs.align_alone(k)
    return result


@dataclass(frozen=True)
class Pairs:
    """Queries and targets to align pair by pair."""

    scoring: Scoring
    queries: Sequences
    targets: Sequences
    dtype: np.dtype[Any]

    @property
    def count(self) -> int:
        return max(len(self.queries), len(self.targets))

    @property
    def sides(self) -> tuple[Sequences, Sequences]:
        return self.queries, self.targets

    def find_long(self) -> np.ndarray:
        """Return the pairs that would take a warp longer than all other pairs take all warps."""
        n, m = (side.lengths for side in self.sides)
        steps = -(-n // (LANES * _MOST_ROWS)) * (m + LANES)
        others = steps.sum() // (Device.current().multiprocessors * _BLOCKS * _WARPS)
        return np.flatnonzero(np.broadcast_to(steps, self.count) > _SLOWER * others + _LAUNCH)

    def align_alone(self, k: int) -> tuple[Any, int, int]:
        """Align one pair as a tile."""
        query, target = (side[0 if len(side) == 1 else k] for side in self.sides)
        shape = query.size, target.size
        carry_in = carry_in_from(self.scoring, None, None, (0, 0), shape, self.dtype)
        edges = determine_alignment(self.scoring, (query, target), carry_in, (0, 0), self.dtype)
        best = edges.best
        if self.scoring.mode == "global":
            best = Best(edges.below[-1].item(), shape[0] - 1, shape[1] - 1)
        elif best is None:
            best = best_of_edges(edges, (0, 0), (True, True))
        assert best is not None
        return best.score, best.query_end, best.target_end

    def align(self, long: np.ndarray) -> np.ndarray:
        """Align all pairs except long ones, whose rows of the result are undefined."""
        import cupy

        order, (n, m) = None, (side.lengths for side in self.sides)
        if long.size:
            order = np.delete(np.arange(self.count, dtype=np.int32), long)
            n, m = (np.broadcast_to(lengths, self.count)[order] for lengths in (n, m))
        score = score_dtype(self.scoring, int(n.max() + m.max()), 0, self.dtype)
        layout = AlignmentLayout(
            letter=self.queries.codes.dtype, score=score, dtype=self.dtype,
            source=source_of(self.scoring, score), mode=self.scoring.mode,
            is_affine=self.scoring.is_affine, rows=_rows(n, m), strips=_WARPS, is_chain_short=False,
        )  # fmt: skip
        best_cells = cupy.empty((self.count, 3), np.int64)
        self.launch(layout, best_cells, order, (int(n.max()), int(m.max())))
        result: np.ndarray = best_cells.get()
        if self.dtype.kind == "i":
            return result
        return np.column_stack([result[:, 0].view(self.dtype), result[:, 1:]])

    def launch(
        self, layout: AlignmentLayout, best_cells: Any, order: np.ndarray | None,
        longest: tuple[int, int],
    ) -> None:  # fmt: skip
        """Launch the kernel, whose warps take all pairs, or those of `order`, in turn."""
        import cupy

        scoring, device = self.scoring, cupy.cuda.runtime.getDevice()
        count = self.count if order is None else order.size
        is_one = len(self.queries) == 1 and longest[0] <= layout.strip_rows
        columns = longest[1] if longest[0] > layout.strip_rows else 0
        row_bytes = columns * layout.column_words * 4 * layout.strips
        blocks = min(-(-count // layout.strips), _BLOCKS * Device.current().multiprocessors)
        blocks = max(1, min(blocks, _MOST_BYTES // max(1, row_bytes)))
        rows = cupy.empty(max(1, blocks * row_bytes), np.uint8)
        letter_scores = device_table(scoring, layout.score, layout.source, device)
        arrays = [cupy.asarray(a) for side in self.sides for a in (side.codes, side.offsets)]
        arrays[::2] = map(cupy.ascontiguousarray, arrays[::2])
        taken, chosen = cupy.zeros(1, np.uint64), None if order is None else cupy.asarray(order)
        words = []
        for codes, offsets, side in zip(arrays[::2], arrays[1::2], self.sides, strict=True):
            words += [codes.data.ptr, offsets.data.ptr, len(side) == 1]
        words += [best_cells.data.ptr, rows.data.ptr, taken.data.ptr, *table_words(letter_scores)]
        words += [0 if chosen is None else chosen.data.ptr, count, columns, is_one]
        letters = len(scoring.table or ())
        shared = (1 if is_one else layout.strips) * layout.profile_bytes(letters)
        run = prepare_launch("pairs", layout, blocks, _BLOCKS, shared, device)
        run((pack_words(words), packed_scores(scoring, layout.score)))


def _rows(n: np.ndarray, m: np.ndarray) -> int:
    """Return the rows of a lane with the fewest instructions for a sample of the pairs."""
    n, m = (lengths[:: max(n.size, m.size) // _SAMPLE_SIZE + 1] for lengths in (n, m))
    rows = np.arange(1, _MOST_ROWS + 1)[:, None]
    strips = -(-n // (LANES * rows))
    steps = strips * (m + LANES - 1) * (24 + 4 * rows)
    return int(rows[steps.sum(1).argmin(), 0])
