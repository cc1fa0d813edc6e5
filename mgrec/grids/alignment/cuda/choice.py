"""How an alignment is cut up for a device: by the time that each way should take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

from ....engines.cuda.device import Device
from .layout import AlignmentLayout

_ROWS = (2, 4, 6, 8, 12, 16)
# Of a block: a warp for every scheduler of a multiprocessor, or one where memory is short.
_STRIPS = (4, 1)
# Blocks of a multiprocessor, at most.
_CROWD = 4
# By the columns of a step: what a strip waits for in a column, in cycles, and for each row more;
# and how much longer than its columns tell it is behind the strip above.
_WIDES = {1: (150.0, 8.0, 1.0), 4: (96.0, 9.6, 2.0)}
# The same where H is written.
_WIDES_WRITTEN = {1: (200.0, 32.0, 1.0)}
# Cycles that a scheduler is busy for in a column, and for each row more.
_STEP, _STEP_A_ROW = 24, 6
# Columns that a block is behind the one whose rows are above its own, more than a strip is.
_BEHIND = 32
# Shared memory that a kernel declares itself, at most.
_DECLARED = 20 * 1024


@dataclass(frozen=True)
class Cut:
    """One tile in bands of strips.

    Attributes
    ----------
    layout : AlignmentLayout
    shape : tuple of two ints
        Rows and columns.
    blocks, per_processor : int
        Of the launch, and of a multiprocessor at once.
    shared_bytes : int
        Dynamic shared memory of a block.
    skip : int
        Rows before the first one, so that the last one is a lane's last.
    """

    layout: AlignmentLayout
    shape: tuple[int, int]
    blocks: int
    per_processor: int
    shared_bytes: int
    skip: int = 0

    @property
    def bands(self) -> int:
        return -(-self.strips // self.layout.strips)

    @property
    def strips(self) -> int:
        return -(-(self.shape[0] + self.skip) // self.layout.strip_rows)

    @property
    def words(self) -> int:
        """Words of 64 bits: bands taken so far, and a row by which bands hand on."""
        return 1 + (self.bands > 1) * self.shape[1] * self.layout.numbers

    @property
    def cycles(self) -> float:
        """What the tile should take."""
        layout, columns = self.layout, self.shape[1]
        processors = self.blocks / self.per_processor
        # Strips of a scheduler: it has a quarter of those of a multiprocessor.
        strips = min(self.per_processor, max(1.0, self.bands / processors)) * layout.strips
        crowd = max(1.0, strips / 4)
        wait, wait_a_row, slower = _wides(layout)[layout.wide]
        step = max(wait + wait_a_row * layout.rows, crowd * (_STEP + _STEP_A_ROW * layout.rows))
        lag = slower * (layout.lag * layout.strips + _BEHIND)
        waves = -(-self.bands // self.blocks)
        last = self.bands - (waves - 1) * self.blocks
        return step * max(waves * columns + lag * last, columns + lag * self.bands)


def _wides(layout: AlignmentLayout) -> dict[int, tuple[float, float, float]]:
    return _WIDES_WRITTEN if layout.has_matrix else _WIDES


def cut_of(shape: tuple[int, int], device: Device, *, kinds: int, **layout: Any) -> Cut:
    """The fastest way to cut up a tile of a kind, by the times that ways should take."""
    return _cut_of(shape, device, kinds, tuple(sorted(layout.items())))


@lru_cache(maxsize=1024)
def _cut_of(
    shape: tuple[int, int], device: Device, kinds: int, layout: tuple[tuple[str, Any], ...]
) -> Cut:
    base = AlignmentLayout(rows=0, **dict(layout))
    return min(_ways(base, shape, device, kinds), key=lambda cut: cut.cycles)


def _ways(
    base: AlignmentLayout, shape: tuple[int, int], device: Device, kinds: int
) -> Iterator[Cut]:
    for rows, strips, wide in product(_ROWS, _STRIPS, _wides(base)):
        layout = replace(base, rows=rows, strips=strips, wide=wide)
        shared = strips * (layout.profile_bytes(kinds) + layout.staged_bytes)
        room = (device.shared_bytes + 1024) // (shared + _DECLARED + 1024)
        for crowd in range(1, min(_CROWD, room) + 1):
            bands = -(-shape[0] // (strips * layout.strip_rows))
            blocks = min(bands, crowd * device.multiprocessors)
            yield Cut(layout, shape, blocks, crowd, shared)
