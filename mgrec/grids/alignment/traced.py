"""An alignment itself, by recomputation of the tiles that its path crosses (FastLSA).

H, E and F of some rows and columns of a grid are kept on the way to the end. From there the path
goes back tile by tile; each tile that it crosses is cut again, until all of its H fits into
memory (Driga et al. 2006). As the divisions of Myers & Miller (1988) that needs memory of the sum
of the lengths, but it computes again only what lies along the path: of 8 · 8 tiles 15 at most, not
every cell. It runs forwards alone, so that floating-point scores are met again to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.arrays.array_types import to_host
from ...core.contract.kernels import Backend
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from .borders import enter
from .letters import Alphabet
from .path import Path, Traced
from .recurrence import Alignment
from .tiles import Edges, Entry
from .tiling import Range, Tiling, ranges
from .view import columns_of, traced

# Cells of a tile whose H is kept whole.
WHOLE = 1 << 18
# Of a tile that is cut, each way, but for sides that are short.
PARTS, _SIDE = 8, 64


@dataclass(frozen=True, kw_only=True)
class TracedAlignment(Alignment):
    """An alignment of two sequences in memory, which is its exit.

    The blocks of a pack end with both sequences as they were given.

    Attributes
    ----------
    alphabet : Alphabet or None
        Of the letters that codes stand for.
    """

    alphabet: Alphabet | None = None

    def determine(
        self,
        backend: Backend,
        inputs: ChunkInputs,
        shape: Shape,
        above: Any,
        left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, Any]:
        query, target, *given = (block.reshape(-1) for block in inputs.blocks)
        entry = enter(self.scoring, None, None, (0, 0), self.lengths, self.dtype)
        grid = Checkpoints(self, backend, query, target)
        parts, edges = grid.cut((0, query.size), (0, target.size), entry)
        best = self.end(self.with_best(edges, (0, 0), (None, None)))
        path = Path(best.query_end, best.target_end)
        grid.follow(path, parts)
        path.finish(self.scoring.mode)
        begins = path.row + 1, path.column + 1
        first, second = given or (query, target)
        columns = columns_of(first, second, self.alphabet, begins, path)
        return (), traced(best, begins, [columns])

    def final_result(self, edges: Any) -> Any:
        return edges


@dataclass(frozen=True)
class Part:
    """A part of the grid: its rows and columns, and what enters it."""

    rows: Range
    columns: Range
    entry: Entry

    @property
    def cells(self) -> int:
        return (self.rows[1] - self.rows[0]) * (self.columns[1] - self.columns[0])

    def holds(self, path: Path) -> bool:
        return self.rows[0] <= path.row and self.columns[0] <= path.column

    def before(self, path: Path) -> Part:
        """The rows and columns up to the path's cell."""
        n, m = path.row + 1 - self.rows[0], path.column + 1 - self.columns[0]
        entry, gaps = self.entry, (None, None)
        if entry.above_gaps is not None:
            gaps = entry.above_gaps[:m], entry.left_gaps[:n]
        own = Entry(entry.above[: m + 1], entry.left[:n], *gaps)
        return Part((self.rows[0], path.row + 1), (self.columns[0], path.column + 1), own)


@dataclass(frozen=True)
class Checkpoints:
    """Two sequences in memory, whose grid is determined again along a path."""

    recurrence: Alignment
    backend: Backend
    query: Any
    target: Any

    def cut(self, rows: Range, columns: Range, entry: Entry) -> tuple[list[Part], Edges]:
        """Parts of a tile, the last ones first, and the edges of all of it."""
        tiling, parts = Tiling(_divided(rows), _divided(columns), entry), []
        for i, own_rows in enumerate(tiling.rows):
            for j, own_columns in enumerate(tiling.columns):
                own = _shifted(own_rows, rows[0]), _shifted(own_columns, columns[0])
                part = Part(own[0], own[1], tiling.entry(i, j))
                tiling.put(i, j, self._determine(part))
                parts.append(part)
        return parts[::-1], tiling.edges()

    def _determine(self, part: Part, *table: Any) -> Edges:
        recurrence, starts = self.recurrence, (part.rows[0], part.columns[0])
        determine = self.backend.kernels(recurrence.family).determine
        sequences = self.query[slice(*part.rows)], self.target[slice(*part.columns)]
        edges: Edges = determine(
            recurrence.scoring, sequences, part.entry, starts, recurrence.dtype, *table
        )
        return edges

    def follow(self, path: Path, parts: list[Part]) -> None:
        """Follow a path through parts, the last ones first, until it leaves them or begins."""
        for part in parts:
            if path.is_done or min(path.row, path.column) < 0:
                return
            if not part.holds(path):
                continue
            part = part.before(path)
            if part.cells <= WHOLE:
                self._walk(path, part)
            else:
                self.follow(path, self.cut(part.rows, part.columns, part.entry)[0])

    def _walk(self, path: Path, part: Part) -> None:
        n, m = part.rows[1] - part.rows[0], part.columns[1] - part.columns[0]
        table = self.backend.empty((n, m), self.recurrence.dtype)
        self._determine(part, table)
        entry = part.entry
        edges = entry.above, entry.left, entry.above_gaps, entry.left_gaps
        tile = Traced(
            self.recurrence.scoring,
            to_host(table),
            Entry(*(None if edge is None else to_host(edge) for edge in edges)),
            to_host(self.query[slice(*part.rows)]),
            to_host(self.target[slice(*part.columns)]),
            (part.rows[0], part.columns[0]),
        )
        tile.walk(path)


def _divided(whole: Range) -> list[Range]:
    length = whole[1] - whole[0]
    return ranges(length, min(PARTS, max(1, length // _SIDE)))


def _shifted(part: Range, by: int) -> Range:
    return part[0] + by, part[1] + by
