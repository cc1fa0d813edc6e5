"""Layouts of wavefront loops: grids in strips of rows, or of columns for compensation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ....core.algebra.operators import Operators
from ...cuda.strips import StripPartition

Constants = dict[str, int]


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


Layout = Tiles | Compensation | Hyperplanes


@dataclass(frozen=True)
class Partition(StripPartition):
    layout: Layout

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
