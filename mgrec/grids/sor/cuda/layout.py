"""Layouts of relaxations: grids in strips, bands and tiles."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ....engines.cuda.device import Device
from ...cuda.strips import Shape, StripPartition

LANES = 32
_TILE_BYTES = 128
# Bands and groups of a block: each has a scheduler of a multiprocessor to itself, or half of one if
# a grid then is one strip.
_WARPS, _MOST_WARPS = 2, 8
_GROUPS = (4, 3, 2, 1)
# Sweeps of a launch, and of a group by the bytes of a number. Registers and right-hand sides limit
# both.
_SWEEPS, _OF_GROUP = 16, {4: 8, 8: 4}
# Pairs of sweeps of a group and the threads of a multiprocessor that have registers for so many, by
# the bytes of a number; _FEW threads for more sweeps.
_THREADS, _FEW = {4: ((1, 768), (4, 512)), 8: ((1, 512),)}, 256
# Words with which the strips of several grids exchange edges. Later launches use them again.
MOST_WORDS = 1 << 22


@dataclass(frozen=True)
class RelaxationLayout:
    """Constants that the kernel is compiled with. Results do not depend on them."""

    dtype: np.dtype[np.floating]
    sweeps: int  # of a group, which one warp does
    groups: int  # of a launch
    warps: int  # bands of a strip, each of 32 rows
    has_rhs: bool
    is_checked: bool  # whether the launch returns the largest update of the last sweep
    is_single_strip: bool = False  # whether a grid is one strip
    blocks: int = 1  # of a multiprocessor

    @property
    def steps(self) -> int:
        """Steps of a tile."""
        return _TILE_BYTES // self.dtype.itemsize

    @property
    def threads(self) -> int:
        """One warp for each band and group sweeps, another one copies; two for a single group."""
        return LANES * self.warps * (self.groups + max(2, self.groups))

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: the kernel's struct Shared, or a little more."""
        word = 16 // self.dtype.itemsize
        read = (LANES + 1) * (3 * self.steps + word)
        computed = 2 * (LANES + 1) * (self.steps + word)
        rhs = (LANES + self.sweeps) * (4 * self.steps + 3 * self.sweeps) if self.has_rhs else 1
        edges = 2 * self.sweeps * self.steps
        band = read + self.groups * (computed + rhs + edges)
        size = self.warps * band + self.groups * edges
        return -(-size * self.dtype.itemsize // 16) * 16

    @property
    def _most_threads(self) -> int:
        limits = _THREADS[self.dtype.itemsize]
        return next((threads for sweeps, threads in limits if self.sweeps <= sweeps), _FEW)

    def fits(self, device_bytes: int) -> bool:
        """Return whether a multiprocessor has the registers and shared memory for a block."""
        return self.threads <= self._most_threads and self.shared_bytes <= device_bytes

    def with_blocks(self, device_bytes: int) -> RelaxationLayout:
        """Return the layout with as many blocks as fit on a multiprocessor."""
        by_memory = (device_bytes + 1024) // (self.shared_bytes + 1024)
        return replace(self, blocks=max(1, min(by_memory, self._most_threads // self.threads)))


@dataclass(frozen=True)
class Partition(StripPartition):
    """Grids of a shape, divided into strips whose bands all have the same tiles."""

    layout: RelaxationLayout

    @property
    def sweeps(self) -> int:
        """Sweeps of a launch: the last one is so many rows behind the rows that a strip reads."""
        return self.layout.sweeps * self.layout.groups

    @property
    def strips(self) -> int:
        """Strips of a grid."""
        return -(-(self.shape[1] + self.sweeps) // (LANES * self.layout.warps))

    @property
    def tiles(self) -> int:
        """Tiles of a band: a thread is two columns behind the one before, a sweep about one."""
        behind = 2 * LANES + self.layout.groups * (self.layout.sweeps + 1)
        return -(-(self.shape[2] + behind) // self.layout.steps)

    @property
    def edge_words(self) -> int:
        """Words of 64 bits with which a strip exports its edge; 0 for a single strip."""
        columns = self.tiles * self.layout.steps - 2 * LANES
        parts = -(-self.layout.dtype.itemsize // 4)
        return 0 if self.layout.is_single_strip else columns * self.sweeps * parts

    def slots(self, device: Device) -> int:
        """Return for how many strips there is memory for edges, which later strips reuse.

        Strips of one grid may reuse it, and need a third as many slots as there are blocks.
        """
        count = self.shape[0] * self.strips
        is_much = count * self.edge_words > MOST_WORDS
        return max(2, -(-self.blocks(device) // 3)) if is_much and self.shape[0] == 1 else count


def choose_partition(
    shape: Shape, dtype: np.dtype[np.floating], sweeps: int, has_rhs: bool, is_checked: bool,
    device: Device
) -> Partition:  # fmt: skip
    """Return how grids are divided into strips."""
    groups = group_counts(dtype, has_rhs, device.shared_bytes)[sweeps]
    warps = -(-(shape[1] + sweeps) // LANES)
    layout = RelaxationLayout(dtype, sweeps // groups, groups, warps, has_rhs, is_checked)
    if warps * groups > _MOST_WARPS or not layout.fits(device.shared_bytes):
        layout = replace(layout, warps=min(warps, _WARPS))
    while not layout.fits(device.shared_bytes):
        layout = replace(layout, warps=layout.warps - 1)
    is_single_strip = Partition(layout, shape).strips == 1
    layout = replace(layout, is_single_strip=is_single_strip)
    return Partition(layout.with_blocks(device.shared_bytes), shape)


@lru_cache(maxsize=64)
def group_counts(dtype: np.dtype[np.floating], has_rhs: bool, shared_bytes: int) -> dict[int, int]:
    """Return the possible sweeps of a launch, each with the most groups of two or more sweeps."""
    counts: dict[int, int] = {}
    for sweeps in range(1, _SWEEPS + 1):
        for groups in _GROUPS:
            group_sweeps, remainder = divmod(sweeps, groups)
            layout = RelaxationLayout(dtype, group_sweeps, groups, 1, has_rhs, is_checked=True)
            is_good = remainder == 0 and (group_sweeps > 1 or groups == 1)
            is_good = is_good and group_sweeps <= _OF_GROUP[dtype.itemsize]
            if is_good and layout.fits(shared_bytes):
                counts.setdefault(sweeps, groups)
    return counts


def split_sweeps(sweeps: int, sizes: Collection[int]) -> list[int]:
    """Return the sweeps of each launch: few launches, each of one of `sizes`.

    Examples
    --------
    >>> split_sweeps(45, [1, 2, 4, 8, 10, 16])
    [16, 16, 10, 2, 1]
    """
    parts, largest_first = [], sorted(sizes, reverse=True)
    while sweeps > 0:
        if sweeps in sizes:
            part = sweeps
        elif sweeps < 2 * largest_first[0]:
            pair = (size for size in largest_first if sweeps - size in sizes)
            part = next(pair, next(size for size in largest_first if size < sweeps))
        else:
            part = largest_first[0]
        parts.append(part)
        sweeps -= part
    return parts
