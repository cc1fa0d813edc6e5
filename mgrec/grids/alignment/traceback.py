"""An alignment traced back over the tiles of a grid, of which each is somewhere else.

The edges of all tiles are the checkpoints: of a grid of tiles of c by c that is 1/c of its cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.contract.kernels import Backend
from ...core.contract.recurrence import ChunkInputs
from ...core.contract.traceback import Traceback
from .borders import enter
from .letters import Alphabet
from .path import Path
from .recurrence import Alignment
from .tiles import Edges
from .traced import Checkpoints, Part
from .view import Columns, TracedAlignment, columns_of, traced


@dataclass(frozen=True, kw_only=True)
class TracedTiles(Alignment, Traceback):
    """The blocks of a pack end with both sequences as they were given.

    Attributes
    ----------
    alphabet : Alphabet or None
        Of the letters that codes stand for.
    """

    alphabet: Alphabet | None = None

    def start_path(self, edges: Edges) -> Path:
        best = self.end(edges)
        return Path(best.query_end, best.target_end)

    def follow(
        self, backend: Backend, inputs: ChunkInputs, above: Any, left: Any, paths: Sequence[Path]
    ) -> tuple[Path, Columns | None]:
        path = min(paths, key=lambda path: (path.row + path.column, not path.is_done))
        (i, j), blocks = inputs.starts, [block.reshape(-1) for block in inputs.blocks]
        if path.is_done or 0 < i > path.row or 0 < j > path.column:
            return path, None
        own = replace(path, row=path.row - i, column=path.column - j, runs=[])
        shape = blocks[0].size, blocks[1].size
        entry = enter(self.scoring, above, left, (i, j), shape, self.dtype)
        whole = Part((0, shape[0]), (0, shape[1]), entry)
        Checkpoints(self, backend, blocks[0], blocks[1]).follow(own, [whole])
        own.finish(self.scoring.mode, at_border=(j + own.column < 0, i + own.row < 0))
        begins = own.row + 1, own.column + 1
        piece = columns_of(blocks[-2], blocks[-1], self.alphabet, begins, own) if own.runs else None
        return replace(own, row=own.row + i, column=own.column + j, runs=[]), piece

    def join(self, edges: Edges, path: Path, pieces: Sequence[Columns | None]) -> TracedAlignment:
        found = [piece for piece in pieces if piece is not None]
        return traced(self.end(edges), (path.row + 1, path.column + 1), found)
