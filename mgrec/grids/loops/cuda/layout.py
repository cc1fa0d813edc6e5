"""Layouts of wavefront loops: grids in strips of rows, or of columns for compensation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ....core.algebra.operators import Operators
from ....engines.cuda.device import Device

Shape = tuple[int, int, int]
"""Grids, rows and columns."""
Constants = dict[str, int]


class Variation(IntEnum):
    """How an operand varies: not along a row, along rows that are all equal, or along both axes."""

    CONSTANT = 0
    ROW = 1
    ARRAY = 2


@dataclass(frozen=True)
class Signature:
    """The properties of a call that a program is compiled for.

    Attributes
    ----------
    operators : Operators
    dtype : numpy.dtype
    variations : four of Variation
        Those of `local`, b0, b1 and b2.
    is_floored : bool
    is_aligned : bool
        Each row starts at a multiple of 16 bytes and is one long.
    is_transposed : bool
        Rows are the columns of the loop: left here is above there.
    """

    operators: Operators
    dtype: np.dtype[Any]
    variations: tuple[Variation, ...]
    is_floored: bool
    is_aligned: bool
    is_transposed: bool = False

    @property
    def vector(self) -> int:
        """Numbers in 16 bytes."""
        return 16 // self.dtype.itemsize

    @property
    def slots(self) -> int:
        """Arrays in shared memory; `local` always has one, which results overwrite."""
        return 1 + sum(variation == Variation.ARRAY for variation in self.variations[1:])

    def words(self, numbers: int) -> int:
        """Return how many words of 64 bits strips need to exchange so many numbers."""
        return numbers * -(-self.dtype.itemsize // 4)


@dataclass(frozen=True)
class Tiles:
    """A block processes a strip of 32 · `rows` rows from left to right.

    Attributes
    ----------
    signature : Signature
    rows : int
        Rows of a lane.
    stages : int
        Tiles in shared memory, or on their way to it.
    blocks : int
        Blocks of a multiprocessor; the kernel is compiled for `most_blocks`.
    """

    signature: Signature
    rows: int
    stages: int = 1
    blocks: int = 1

    strategy = "tiles"
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

    strategy, strip_axis = "compensation", 2
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

    strategy = "hyperplane"
    threads, most_blocks = 32, 16
    stages, stage_bytes, kernel_bytes = 1, 0, 0
    strip_axis, strip_size = 1, 32

    @property
    def constants(self) -> Constants:
        # Steps between a load and its use; four arrays of float64 spill 68 bytes, 188 with 8 steps.
        return {"AHEAD": 32 // self.signature.dtype.itemsize, "STAGES": self.stages}


Layout = Tiles | Compensation | Hyperplanes


def count_strips(layout: Layout, shape: Shape) -> int:
    """Return the number of strips of one grid."""
    return -(-shape[layout.strip_axis] // layout.strip_size)


@dataclass(frozen=True)
class Partition:
    """Grids of a shape, divided into strips."""

    layout: Layout
    shape: Shape

    @property
    def strips(self) -> int:
        """Strips of one grid."""
        return count_strips(self.layout, self.shape)

    @property
    def words(self) -> int:
        """Words of 64 bits for the last rows, or columns, of all strips."""
        numbers = self.shape[0] * self.strips * self.shape[3 - self.layout.strip_axis]
        return self.layout.signature.words(numbers)

    @property
    def shared_bytes(self) -> int:
        return self.layout.stages * self.layout.stage_bytes

    def blocks(self, device: Device) -> int:
        """Return the number of blocks of a launch, all resident at once."""
        return min(self.shape[0] * self.strips, self.layout.blocks * device.multiprocessors)


def stage_room(layout: Layout, blocks: int, device: Device) -> int:
    """Return the shared memory for the stages of a block, if a multiprocessor has so many."""
    return (device.shared_bytes + 1024) // blocks - 1024 - layout.kernel_bytes
