"""Layouts of wavefront loops, and their choice by a model of the cycles that an H100 takes.

Grids are divided into strips of rows, or of columns for compensation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from math import inf, prod
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from ...core.algebra.operators import Operators
from ...engines.cuda.device import Device
from ..cuda import Shape, StripPartition

Constants = dict[str, int]
# Bits must not depend on the device. What they depend on is chosen for an H100, but so that three
# rows of a block fit into the shared memory of any device.
_H100 = Device(90, 132, 227 * 1024)
_MULTIPROCESSORS, _SCHEDULERS = 132, 4
_MOST_STAGE_BYTES = 20 * 1024
_ROWS_OF_A_LANE, _WARPS_OF_A_BLOCK = (1, 2, 4, 8), (1, 2, 4, 8, 16)
# Cycles of a step of tiles: independent of rows, and for each next cell of 4 and of 8 bytes.
_STEP, _CELL = 71, {4: 18, 8: 36}
# Cycles of a cell if there are many: a warp issues an instruction every other cycle.
_CELL_WORK = 15.5
# Steps by which a strip follows the one above.
_LAG = 52
# Cycles of a row by compensation: of one warp, of several warps, of a cell of a thread if many
# warps share a scheduler, and of passing a carry to the next strip.
_ROW, _ROW_OF_WARPS, _ROW_WORK, _HOP = 950, 1500, 16, 1800
# Cycles of the launch of a copy, its bytes a cycle, and the factor by which transposed copies must
# be faster.
_LAUNCH, _COPIED, _MARGIN = 5000, 450, 0.9


class Variation(IntEnum):
    """How an operand varies: not along a row, along rows that are all equal, or along both axes."""

    CONSTANT = 0
    ROW = 1
    ARRAY = 2


@dataclass(frozen=True)
class Signature:
    """The properties of a call that a program is compiled for."""

    operators: Operators
    dtype: np.dtype[Any]
    variations: tuple[Variation, ...]  # of `local`, b0, b1 and b2
    is_floored: bool
    is_aligned: bool  # each row starts at a multiple of 16 bytes and is one long
    is_transposed: bool = False  # rows are the columns of the loop: left here is above there

    @property
    def vector(self) -> int:
        """Numbers in 16 bytes."""
        return 16 // self.dtype.itemsize

    @property
    def slots(self) -> int:
        """Arrays in shared memory; `local` always has one, which results overwrite."""
        return 1 + sum(variation == Variation.ARRAY for variation in self.variations[1:])


@dataclass(frozen=True)
class Tiles:
    """A block processes a strip of 32 · `rows` rows from left to right."""

    signature: Signature
    rows: int  # of a lane
    stages: int = 1  # tiles in shared memory, or on their way to it
    blocks: int = 1  # of a multiprocessor; the kernel is compiled for `most_blocks`

    strategy, is_single_strip = "tiles", False
    threads, strip_axis = 64, 1
    least_stages, most_stages = 3, 4
    kernel_bytes = 512

    @property
    def most_blocks(self) -> int:
        """Blocks of a multiprocessor, whose threads have up to 128 registers, or 255."""
        return 8 if self.rows == 1 else 4

    @property
    def stage_bytes(self) -> int:
        return self.signature.slots * 32 * self.rows * (128 + 16)

    @property
    def constants(self) -> Constants:
        return {"ROWS": self.rows, "STAGES": self.stages}

    @property
    def strip_size(self) -> int:
        return 32 * self.rows


@dataclass(frozen=True)
class Compensation:
    """A block of `warps` warps processes a strip of columns downwards, 32 bytes of them a thread.

    `warps` determines the order of the arithmetic: it depends on shape and dtype alone.
    """

    signature: Signature
    warps: int
    stages: int = 1
    blocks: int = 1

    strategy, is_single_strip, strip_axis = "compensation", False, 2
    least_stages, most_stages = 3, 6
    kernel_bytes = 1024

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def items(self) -> int:
        """Columns of a thread."""
        return 32 // self.signature.dtype.itemsize

    @property
    def most_blocks(self) -> int:
        """Blocks of a multiprocessor, whose threads have up to 128 registers."""
        return max(1, min(16, 512 // self.threads))

    @property
    def stage_bytes(self) -> int:
        return self.signature.slots * self.threads * 32

    @property
    def constants(self) -> Constants:
        return {"THREADS": self.threads, "ITEMS": self.items, "STAGES": self.stages}

    @property
    def strip_size(self) -> int:
        return self.threads * self.items


@dataclass(frozen=True)
class Hyperplanes:
    """A block of one warp processes a strip of 32 rows of skewed arrays from left to right."""

    signature: Signature
    blocks: int = 1

    strategy, is_single_strip = "hyperplane", False
    threads, most_blocks = 32, 16
    stages, stage_bytes, kernel_bytes = 1, 0, 0
    strip_axis, strip_size = 1, 32

    @property
    def constants(self) -> Constants:
        # Steps between a load and its use; four arrays of float64 spill 68 bytes, 188 with 8 steps.
        return {"AHEAD": 32 // self.signature.dtype.itemsize, "STAGES": self.stages}


LoopLayout = Tiles | Compensation | Hyperplanes


@dataclass(frozen=True)
class LoopPartition(StripPartition):
    layout: LoopLayout

    @property
    def strips(self) -> int:
        return -(-self.shape[self.layout.strip_axis] // self.layout.strip_size)

    @property
    def words(self) -> int:
        """Words of 64 bits for the last rows, or columns, of all strips."""
        numbers = self.shape[0] * self.strips * self.shape[3 - self.layout.strip_axis]
        return numbers * -(-self.layout.signature.dtype.itemsize // 4)

    @property
    def shared_bytes(self) -> int:
        return self.layout.stages * self.layout.stage_bytes


StagedLayout = TypeVar("StagedLayout", Tiles, Compensation)


def _tiles_cycles(partition: LoopPartition, layout: Tiles, device: Device) -> float:
    """Return the cycles of a loop by tiles."""
    grids, _, columns = partition.shape
    strips, vector = partition.strips, layout.signature.vector
    units = grids * strips
    resident = min(units, layout.blocks * device.multiprocessors)
    blocks_per_scheduler = max(1.0, resident / (_MULTIPROCESSORS * _SCHEDULERS))
    chain = _STEP + _CELL[layout.signature.dtype.itemsize] * (vector + layout.rows - 1)
    step = max(chain, blocks_per_scheduler * _CELL_WORK * vector * layout.rows)
    steps, first = columns / vector + 32, _LAG * min(strips, resident)
    rounds = -(-units // resident)
    return step * max(rounds * steps + first, steps + _LAG * strips)


def _compensation_cycles(partition: LoopPartition, layout: Compensation) -> float:
    """Return the cycles of a loop by compensation."""
    grids, rows, _ = partition.shape
    units = grids * partition.strips
    resident = min(units, layout.most_blocks * _MULTIPROCESSORS)
    warps_per_scheduler = resident * layout.warps / (_MULTIPROCESSORS * _SCHEDULERS)
    one_row = _ROW if layout.warps == 1 else _ROW_OF_WARPS
    row = max(one_row, warps_per_scheduler * (100 + _ROW_WORK * layout.items))
    rounds = -(-units // resident)
    return rounds * rows * row + min(partition.strips, resident) * _HOP


def _choose_tiles(signature: Signature, shape: Shape, device: Device) -> tuple[LoopPartition, float]:
    """Return the fastest partition into tiles, and its cycles."""
    layouts = [_fit(Tiles(signature, rows), shape, device) for rows in _ROWS_OF_A_LANE]
    partitions = [(LoopPartition(layout, shape), layout) for layout in layouts if layout.stages]
    choices = [(part, _tiles_cycles(part, layout, device)) for part, layout in partitions]
    return min(choices, key=itemgetter(1))


def _choose_compensation(signature: Signature, shape: Shape, device: Device) -> tuple[LoopPartition, float]:
    """Return the fastest partition into strips of columns, and its cycles."""
    layouts = [Compensation(signature, warps) for warps in _WARPS_OF_A_BLOCK]
    layouts = [layout for layout in layouts if layout.stage_bytes <= _MOST_STAGE_BYTES]
    choices = [(n, _compensation_cycles(LoopPartition(n, shape), n)) for n in layouts]
    best, least = min(choices, key=itemgetter(1))
    return LoopPartition(_fit(best, shape, device), shape), least


def _choose_hyperplanes(signature: Signature, shape: Shape, device: Device) -> tuple[LoopPartition, float]:
    """Return the only partition for hyperplanes, which "hybrid" does not choose."""
    layout = Hyperplanes(signature)
    return LoopPartition(replace(layout, blocks=_most_blocks(layout, shape, device)), shape), inf


def _most_blocks(layout: LoopLayout, shape: Shape, device: Device) -> int:
    """Return as many blocks of a multiprocessor as there is work for."""
    units = shape[0] * LoopPartition(layout, shape).strips
    return max(1, min(layout.most_blocks, -(-units // device.multiprocessors)))


def _fit(layout: StagedLayout, shape: Shape, device: Device) -> StagedLayout:
    """Return the layout with as many blocks as there is work for; no stages if none fits."""
    for blocks in range(_most_blocks(layout, shape, device), 0, -1):
        # Shared memory for the stages of a block, if a multiprocessor has so many blocks.
        room = (device.shared_bytes + 1024) // blocks - 1024 - layout.kernel_bytes
        stages = min(layout.most_stages, room // layout.stage_bytes)
        if stages >= layout.least_stages:
            return replace(layout, blocks=blocks, stages=stages)
    return replace(layout, blocks=1, stages=0)


@dataclass(frozen=True)
class Traversal:
    """A strategy, along rows or, over transposed copies, along columns."""

    strategy: str
    is_transposed: bool = False

    def __str__(self) -> str:
        return self.strategy + " by columns" * self.is_transposed


@lru_cache(maxsize=1024)
def choose_traversal(strategy: str, signature: Signature, shape: Shape, is_compensable: bool) -> Traversal:
    """Return the fastest traversal, the same on all devices because floats depend on it."""
    strategies = ["tiles", "compensation"][: 1 + is_compensable]
    if strategy != "hybrid":
        strategies = [strategy]
    cycles = {Traversal(name): _CHOICES[name](signature, shape, _H100)[1] for name in strategies}
    if strategy != "compensation":  # which goes row by row
        grids, rows, columns = shape
        copies, transposed = _copy_cycles(signature, shape), (grids, columns, rows)
        for name in strategies:
            loop = _CHOICES[name](signature, transposed, _H100)[1]
            cycles[Traversal(name, True)] = (loop + copies) / _MARGIN
    return min(cycles, key=lambda traversal: cycles[traversal])


def _copy_cycles(signature: Signature, shape: Shape) -> float:
    arrays = 1 + sum(variation == Variation.ARRAY for variation in signature.variations)
    return arrays * (_LAUNCH + prod(shape) * signature.dtype.itemsize / _COPIED)


def choose_partition(strategy: str, signature: Signature, shape: Shape, device: Device) -> LoopPartition:
    """Return how a strategy divides grids into strips."""
    return _CHOICES[strategy](signature, shape, device)[0]


_CHOICES = {"tiles": _choose_tiles, "compensation": _choose_compensation, "hyperplane": _choose_hyperplanes}
