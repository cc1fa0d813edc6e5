"""Which cut is the fastest: a model of both strategies in cycles of an H100."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, prod
from typing import TypeVar

from ....engines.cuda.device import Device
from .layout import Along, Compensation, Cut, Hyperplanes, Kind, Shape, Tiles, room

Fitted = TypeVar("Fitted", Tiles, Compensation)

# Bits must not depend on the device: what they depend on is chosen for this one, but so that
# three rows of a block fit into the shared memory of any.
_H100 = Device(90, 132, 227 * 1024)
_MULTIPROCESSORS, _SCHEDULERS = 132, 4
_MOST_STAGE_BYTES = 20 * 1024
_ROWS_OF_A_LANE, _WARPS_OF_A_BLOCK = (1, 2, 4, 8), (1, 2, 4, 8, 16)
# Of a step of tiles: what does not depend on rows, and a cell after another of 4 and of 8 bytes.
_STEP, _CELL = 71, {4: 18, 8: 36}
# Of a cell where many are computed: a warp issues an instruction every other cycle.
_CELL_WORK = 15.5
# Steps that a strip is behind the one above.
_BEHIND = 52
# Of a row by compensation: of one warp, more of several, and of a cell of a thread where many
# warps share a scheduler; of the way of an entry from strip to strip.
_ROW, _ROW_OF_WARPS, _ROW_WORK, _HOP = 950, 1500, 16, 1800

# Of a copy into another order: its launch, bytes in a cycle, and what is by far the fastest.
_LAUNCH, _COPIED, _BY_FAR = 5000, 450, 0.9


def tiles_cycles(layout: Tiles, shape: Shape, blocks: int) -> float:
    """Cycles of a loop by tiles with so many blocks resident."""
    strips, vector = layout.strips(shape), layout.kind.vector
    units = shape[0] * strips
    resident = min(units, blocks)
    a_scheduler = max(1.0, resident / (_MULTIPROCESSORS * _SCHEDULERS))
    chain = _STEP + _CELL[layout.kind.dtype.itemsize] * (vector + layout.rows - 1)
    step = max(chain, a_scheduler * _CELL_WORK * vector * layout.rows)
    steps, first = shape[2] / vector + 32, _BEHIND * min(strips, resident)
    rounds = -(-units // resident)
    return step * max(rounds * steps + first, steps + _BEHIND * strips)


def compensation_cycles(layout: Compensation, shape: Shape) -> float:
    """Cycles of a loop by compensation."""
    strips = layout.strips(shape)
    units = shape[0] * strips
    resident = min(units, layout.most_blocks * _MULTIPROCESSORS)
    a_scheduler = resident * layout.warps / (_MULTIPROCESSORS * _SCHEDULERS)
    alone = _ROW if layout.warps == 1 else _ROW_OF_WARPS
    row = max(alone, a_scheduler * (100 + _ROW_WORK * layout.items))
    rounds = -(-units // resident)
    return rounds * shape[1] * row + min(strips, resident) * _HOP


def tiles_of(kind: Kind, shape: Shape, device: Device) -> tuple[Cut, float]:
    """The fastest cut into tiles, and its cycles."""
    layouts = [_fitted(Tiles(kind, rows), shape, device) for rows in _ROWS_OF_A_LANE]
    layouts = [each for each in layouts if each.stages]
    cycles = [
        tiles_cycles(layout, shape, layout.blocks * device.multiprocessors) for layout in layouts
    ]
    least = min(cycles)
    return Cut(layouts[cycles.index(least)], shape), least


def compensation_of(kind: Kind, shape: Shape, device: Device) -> tuple[Cut, float]:
    """The fastest cut into strips of columns, and its cycles."""
    layouts = [Compensation(kind, warps) for warps in _WARPS_OF_A_BLOCK]
    layouts = [layout for layout in layouts if layout.stage_bytes <= _MOST_STAGE_BYTES]
    cycles = [compensation_cycles(layout, shape) for layout in layouts]
    least = min(cycles)
    best = layouts[cycles.index(least)]
    return Cut(_fitted(best, shape, device), shape), least


def hyperplanes_of(kind: Kind, shape: Shape, device: Device) -> tuple[Cut, float]:
    """The only cut into hyperplanes, which is not chosen by its cycles: it is for comparison."""
    layout = Hyperplanes(kind)
    wanted = -(-shape[0] * layout.strips(shape) // device.multiprocessors)
    return Cut(replace(layout, blocks=max(1, min(layout.most_blocks, wanted))), shape), inf


def _fitted(layout: Fitted, shape: Shape, device: Device) -> Fitted:
    """With as many blocks a multiprocessor as there is work for; no stages where none fits."""
    units = shape[0] * layout.strips(shape)
    wanted = max(1, min(layout.most_blocks, -(-units // device.multiprocessors)))
    for blocks in range(wanted, 0, -1):
        stages = min(layout.most_stages, room(layout, blocks, device) // layout.stage_bytes)
        if stages >= layout.least_stages:
            return replace(layout, blocks=blocks, stages=stages)
    return replace(layout, blocks=1, stages=0)


@dataclass(frozen=True)
class Way:
    """A strategy, along rows or, over transposed copies, along columns."""

    strategy: str
    is_turned: bool = False

    def __str__(self) -> str:
        return self.strategy + " by columns" * self.is_turned


@lru_cache(maxsize=1024)
def way_of(strategy: str, kind: Kind, shape: Shape, is_compensable: bool) -> Way:
    """The fastest way: the same on all devices, since floats depend on it."""
    strategies = ["tiles", "compensation"][: 1 + is_compensable]
    if strategy != "hybrid":
        strategies = [strategy]
    cycles = {Way(each): _CHOICES[each](kind, shape, _H100)[1] for each in strategies}
    if strategy != "compensation":  # which goes row by row
        grids, rows, columns = shape
        copies, turned = _copies_cycles(kind, shape), (grids, columns, rows)
        for each in strategies:
            own = _CHOICES[each](kind, turned, _H100)[1]
            cycles[Way(each, True)] = (own + copies) / _BY_FAR
    return min(cycles, key=lambda way: cycles[way])


def _copies_cycles(kind: Kind, shape: Shape) -> float:
    arrays = 1 + sum(each == Along.ARRAY for each in kind.along)
    return arrays * (_LAUNCH + prod(shape) * kind.dtype.itemsize / _COPIED)


def cut_of(strategy: str, kind: Kind, shape: Shape, device: Device) -> Cut:
    """How grids are cut by a strategy."""
    return _CHOICES[strategy](kind, shape, device)[0]


_CHOICES = {"tiles": tiles_of, "compensation": compensation_of, "hyperplane": hyperplanes_of}
