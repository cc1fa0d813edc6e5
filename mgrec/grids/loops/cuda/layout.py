"""How the grids of a wavefront loop are cut into strips: of rows by tiles, of columns else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ....core.algebra.operators import Operators
from ....engines.cuda.device import Device

Shape = tuple[int, int, int]
"""Grids, rows and columns."""
Numbers = dict[str, int]


class Along(IntEnum):
    """What an operand is along a row: one number, those of all other rows, or its own."""

    CONSTANT = 0
    ROW = 1
    ARRAY = 2


@dataclass(frozen=True)
class Kind:
    """What a program is compiled for.

    Attributes
    ----------
    operators : Operators
    dtype : numpy.dtype
    along : four of Along
        `local`, b0, b1 and b2.
    is_floored : bool
    is_aligned : bool
        Rows begin at, and are of, words of 16 bytes.
    is_turned : bool
        Rows are the columns of the loop: what is to the left here is above there.
    """

    operators: Operators
    dtype: np.dtype[Any]
    along: tuple[Along, ...]
    is_floored: bool
    is_aligned: bool
    is_turned: bool = False

    @property
    def vector(self) -> int:
        """Numbers of 16 bytes."""
        return 16 // self.dtype.itemsize

    @property
    def slots(self) -> int:
        """Places in shared memory; `local` always has one, where results are gathered."""
        return 1 + sum(each == Along.ARRAY for each in self.along[1:])

    def words(self, numbers: int) -> int:
        """Words of 64 bits in which strips tell each other so many numbers."""
        return numbers * -(-self.dtype.itemsize // 4)


@dataclass(frozen=True)
class Tiles:
    """A block goes along a strip of 32 · `rows` rows.

    Attributes
    ----------
    kind : Kind
    rows : int
        Of a lane.
    stages : int
        Tiles under way to shared memory, or there.
    blocks : int
        Of a multiprocessor; the kernel is compiled for `most_blocks`.
    """

    kind: Kind
    rows: int
    stages: int = 1
    blocks: int = 1

    strategy = "tiles"
    threads = 64
    least_stages, most_stages = 3, 4
    kernel_bytes = 512

    @property
    def most_blocks(self) -> int:
        """Of a multiprocessor: a thread has up to 128 registers, or 255."""
        return 8 if self.rows == 1 else 4

    @property
    def stage_bytes(self) -> int:
        return self.kind.slots * 32 * self.rows * (128 + 16)

    @property
    def numbers(self) -> Numbers:
        return {"ROWS": self.rows, "STAGES": self.stages}

    def strips(self, shape: Shape) -> int:
        """Of one grid."""
        return -(-shape[1] // (32 * self.rows))

    def words(self, shape: Shape) -> int:
        """Words of 64 bits for the last rows of all strips."""
        return self.kind.words(shape[0] * self.strips(shape) * shape[2])


@dataclass(frozen=True)
class Compensation:
    """A block of `warps` warps goes down a strip of columns, 32 bytes of them a thread.

    The order of the arithmetic follows from `warps`: it is chosen by shape and dtype alone.
    """

    kind: Kind
    warps: int
    stages: int = 1
    blocks: int = 1

    strategy = "compensation"
    least_stages, most_stages = 3, 6
    kernel_bytes = 1024

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def items(self) -> int:
        """Columns of a thread."""
        return 32 // self.kind.dtype.itemsize

    @property
    def most_blocks(self) -> int:
        """Of a multiprocessor: a thread has up to 128 registers."""
        return max(1, min(16, 512 // self.threads))

    @property
    def stage_bytes(self) -> int:
        return self.kind.slots * self.threads * 32

    @property
    def numbers(self) -> Numbers:
        return {"THREADS": self.threads, "ITEMS": self.items, "STAGES": self.stages}

    def strips(self, shape: Shape) -> int:
        """Of one grid."""
        return -(-shape[2] // (self.threads * self.items))

    def words(self, shape: Shape) -> int:
        """Words of 64 bits for the last columns of all strips."""
        return self.kind.words(shape[0] * self.strips(shape) * shape[1])


@dataclass(frozen=True)
class Hyperplanes:
    """A block of one warp goes along a strip of 32 rows, of skewed arrays."""

    kind: Kind
    blocks: int = 1

    strategy = "hyperplane"
    threads, most_blocks = 32, 16
    stages, stage_bytes, kernel_bytes = 1, 0, 0

    @property
    def numbers(self) -> Numbers:
        # Steps between a load and its use; four arrays of float64 spill 68 bytes, 188 with 8 steps.
        return {"AHEAD": 32 // self.kind.dtype.itemsize, "STAGES": self.stages}

    def strips(self, shape: Shape) -> int:
        """Of one grid."""
        return -(-shape[1] // self.threads)

    def words(self, shape: Shape) -> int:
        """Words of 64 bits for the last rows of all strips."""
        return self.kind.words(shape[0] * self.strips(shape) * shape[2])


Layout = Tiles | Compensation | Hyperplanes


@dataclass(frozen=True)
class Cut:
    """Grids in strips.

    Attributes
    ----------
    layout : Layout
    shape : (int, int, int)
    """

    layout: Layout
    shape: Shape

    @property
    def strips(self) -> int:
        """Of one grid."""
        return self.layout.strips(self.shape)

    @property
    def strategy(self) -> str:
        return self.layout.strategy

    @property
    def words(self) -> int:
        return self.layout.words(self.shape)

    @property
    def shared_bytes(self) -> int:
        return self.layout.stages * self.layout.stage_bytes

    def blocks(self, device: Device) -> int:
        """All are resident at once."""
        return min(self.shape[0] * self.strips, self.layout.blocks * device.multiprocessors)


def room(layout: Layout, blocks: int, device: Device) -> int:
    """Shared memory for the stages of one of so many blocks on a multiprocessor."""
    return (device.shared_bytes + 1024) // blocks - 1024 - layout.kernel_bytes
