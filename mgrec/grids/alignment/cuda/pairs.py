"""Many pairs of sequences on a GPU: a warp a pair, and all of the GPU for a pair that is long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....engines.cuda.device import Device, pack_words
from ..borders import best_of_edges, enter
from ..scoring import Scoring
from ..sequences import Sequences
from ..tiles import Best
from .layout import LANES, AlignmentLayout
from .program import prepared_of
from .scores import alphabet_of, packed_scores, score_dtype, source_of
from .tile import determine_alignment

_MOST_ROWS = 16
_WARPS = 4
# Blocks of a multiprocessor, and bytes of the rows that strips of their warps hand on.
_BLOCKS = 4
_MOST_BYTES = 1 << 28
# Sequences that tell how long they are.
_SAMPLE = 1000
# Steps of a strip's walk that a warp of many takes in the time that a warp of few takes for one,
# and for which a launch of its own is worth while.
_SLOWER, _LAUNCH = 4, 50_000


def determine_pairs(
    scoring: Scoring, queries: Sequences, targets: Sequences, dtype: Any
) -> np.ndarray:
    """Score, query_end and target_end of many pairs.

    Parameters
    ----------
    scoring, queries, targets, dtype
        See :mod:`mgrec.grids.alignment`; the codes are on the device.

    Returns
    -------
    numpy.ndarray (pairs, 3)
        Of `dtype`, in host memory.
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
    """What is aligned with what."""

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
        """Pairs for which all others would wait, if each had one warp alone."""
        n, m = (side.lengths for side in self.sides)
        steps = -(-n // (LANES * _MOST_ROWS)) * (m + LANES)
        others = steps.sum() // (Device.current().multiprocessors * _BLOCKS * _WARPS)
        return np.flatnonzero(np.broadcast_to(steps, self.count) > _SLOWER * others + _LAUNCH)

    def align_alone(self, k: int) -> tuple[Any, int, int]:
        """One pair as a tile."""
        query, target = (side[0 if len(side) == 1 else k] for side in self.sides)
        shape = query.size, target.size
        entry = enter(self.scoring, None, None, (0, 0), shape, self.dtype)
        edges = determine_alignment(self.scoring, (query, target), entry, (0, 0), self.dtype)
        best = edges.best
        if self.scoring.mode == "global":
            best = Best(edges.below[-1].item(), shape[0] - 1, shape[1] - 1)
        elif best is None:
            best = best_of_edges(edges, (0, 0), (True, True))
        assert best is not None
        return best.score, best.query_end, best.target_end

    def align(self, long: np.ndarray) -> np.ndarray:
        """All pairs but long ones, whose rows of the result are any."""
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
        found = cupy.empty((self.count, 3), np.int64)
        self.launch(layout, found, order, (int(n.max()), int(m.max())))
        result: np.ndarray = found.get()
        if self.dtype.kind == "i":
            return result
        return np.column_stack([result[:, 0].view(self.dtype), result[:, 1:]])

    def launch(
        self, layout: AlignmentLayout, found: Any, order: np.ndarray | None,
        longest: tuple[int, int],
    ) -> None:  # fmt: skip
        """Let warps take pairs, one after the other, or those of `order` alone."""
        import cupy

        scoring, device = self.scoring, cupy.cuda.runtime.getDevice()
        count = self.count if order is None else order.size
        is_one = len(self.queries) == 1 and longest[0] <= layout.strip_rows
        columns = longest[1] if longest[0] > layout.strip_rows else 0
        row_bytes = columns * layout.numbers * 4 * layout.strips
        blocks = min(-(-count // layout.strips), _BLOCKS * Device.current().multiprocessors)
        blocks = max(1, min(blocks, _MOST_BYTES // max(1, row_bytes)))
        rows = cupy.empty(max(1, blocks * row_bytes), np.uint8)
        alphabet = alphabet_of(scoring, layout.score, layout.source, device)
        arrays = [cupy.asarray(a) for side in self.sides for a in (side.codes, side.offsets)]
        arrays[::2] = map(cupy.ascontiguousarray, arrays[::2])
        taken, chosen = cupy.zeros(1, np.uint64), None if order is None else cupy.asarray(order)
        words = []
        for codes, offsets, side in zip(arrays[::2], arrays[1::2], self.sides, strict=True):
            words += [codes.data.ptr, offsets.data.ptr, len(side) == 1]
        words += [found.data.ptr, rows.data.ptr, taken.data.ptr, *alphabet.words]
        words += [0 if chosen is None else chosen.data.ptr, count, columns, is_one]
        kinds = len(scoring.table or ())
        shared = (1 if is_one else layout.strips) * layout.profile_bytes(kinds)
        run = prepared_of("pairs", layout, blocks, _BLOCKS, shared, device)
        run((pack_words(words), packed_scores(scoring, layout.score)))


def _rows(n: np.ndarray, m: np.ndarray) -> int:
    """Rows of a lane by which a sample of the pairs should take the fewest instructions."""
    n, m = (lengths[:: max(n.size, m.size) // _SAMPLE + 1] for lengths in (n, m))
    rows = np.arange(1, _MOST_ROWS + 1)[:, None]
    strips = -(-n // (LANES * rows))
    steps = strips * (m + LANES - 1) * (24 + 4 * rows)
    return int(rows[steps.sum(1).argmin(), 0])
