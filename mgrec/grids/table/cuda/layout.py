"""Layouts of summed-area tables: images in strips, and strips in tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ....engines.cuda.device import Device
from ...cuda.strips import Shape, StripPartition

# Strips that keep a GPU busy. Strips that go down exchange fewer sums, and are then preferred.
_MANY = 128
# Bytes of a group of strips: a group waits about a microsecond for the group before it.
_GROUP_BYTES = 1 << 21
_GROUPS = 16, 32, 64, 96
# Lanes along a row of a narrow image, and rows of a thread there: an odd number, which avoids
# conflicts of threads in the banks of shared memory.
_NARROW, _NARROW_ITEMS = 2, 7
# Multiprocessors of an H100, and rows of a thread if a block has a multiprocessor to itself.
_MULTIPROCESSORS, _TALL = 132, 12
_STAGES = 4
# Bytes that are copied to shared memory at once.
_LEAST_WORD = 4
_LANES = 32


@dataclass(frozen=True)
class TableLayout:
    """Constants that the kernel is compiled with.

    All but `stages`, `blocks`, `is_aligned` and `is_packed` determine the order of additions. So
    only these four may depend on more than the shape and the dtypes. (If a tile does not fit a
    block of a device, it has fewer rows there.)
    """

    x_dtype: np.dtype[Any]
    dtype: np.dtype[Any]  # of the sums
    threads: int
    lanes: int  # threads along a row
    items: int  # rows of a thread
    goes_down: bool  # blocks process strips downwards, else to the right
    is_single_strip: bool = False  # an image is one strip
    is_aligned: bool = False  # rows start at whole words of a thread
    is_packed: bool = False  # rows are narrow and contiguous: a tile is one row in memory
    stages: int = 1  # tiles on their way to shared memory
    blocks: int = 1  # of a multiprocessor
    group: int = 16  # strips of a group: a strip reads the sums of each earlier one of its group

    @property
    def vector(self) -> int:
        """Contiguous columns of a thread."""
        return vector_of(self.x_dtype, self.dtype)

    @property
    def reads_words(self) -> bool:
        """Whether the numbers that a thread reads from a row are one word."""
        return self.is_aligned and self.vector * self.x_dtype.itemsize >= _LEAST_WORD

    @property
    def most_blocks(self) -> int:
        """Blocks of a multiprocessor, as registers allow."""
        size = self.items * self.vector * self.dtype.itemsize
        threads = 1024 if self.is_single_strip and size <= 64 else 512 if size <= 128 else 256
        return max(1, min(16, threads // self.threads))

    @property
    def kernel_bytes(self) -> int:
        """At least the shared memory that the kernel declares: sums, exchanged rows and lines."""
        is_exchanged = not (self.is_aligned or self.is_packed)
        numbers = (2 + is_exchanged) * self.threads * self.vector
        lines = 2 * self.tile[1] + 5 * (0 if self.is_single_strip else self.lines)
        exchanged = 32 * self.threads // self.lanes * is_exchanged
        return (numbers + lines) * self.dtype.itemsize + exchanged + 256

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.threads // self.lanes * self.items, self.lanes * self.vector

    @property
    def lines(self) -> int:
        """Lines of a tile whose sums strips exchange."""
        return self.tile[0 if self.goes_down else 1]

    @property
    def threads_per_line(self) -> int:
        """Threads that share a line."""
        return max(1, min(32, self.threads // self.lines))

    @property
    def tile_bytes(self) -> int:
        """Shared memory of one tile, with one word more a row if rows start anywhere."""
        rows, columns = self.tile
        if self.is_packed:
            rows, columns = 1, rows * columns
        size = columns * self.x_dtype.itemsize
        return rows * (size if self.reads_words else _covered(size))

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a launch: tiles, and the results of a packed tile."""
        rows, columns = self.tile
        results = _covered(rows * columns * self.dtype.itemsize) if self.is_packed else 0
        return self.stages * self.tile_bytes + results


def _covered(size: int) -> int:
    """Return the bytes of 16-byte words that cover so many bytes, wherever these start."""
    return -(-size // 16) * 16 + 16


def vector_of(x_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> int:
    """Return the columns of a thread, which reads and writes words of at most 16 bytes."""
    return min(4, 16 // max(x_dtype.itemsize, dtype.itemsize))


@dataclass(frozen=True)
class Partition(StripPartition):
    """Images of a shape, divided into strips and tiles."""

    layout: TableLayout

    @property
    def strips(self) -> int:
        return self._counts[0]

    @property
    def steps(self) -> int:
        """Tiles of a strip."""
        return self._counts[1]

    @cached_property
    def _counts(self) -> tuple[int, int]:
        (_, rows, columns), (height, width) = self.shape, self.layout.tile
        down, right = -(-rows // height), -(-columns // width)
        return (right, down) if self.layout.goes_down else (down, right)

    @property
    def words(self) -> int:
        """Words of 64 bits with which strips exchange sums."""
        if self.layout.is_single_strip:
            return 0
        layout, groups = self.layout, -(-self.strips // self.layout.group)
        lines = layout.lines * self.steps
        return self.shape[0] * (self.strips + groups) * lines * -(-self.layout.dtype.itemsize // 4)


def choose_partition(
    shape: Shape, x_dtype: np.dtype[Any], dtype: np.dtype[Any], is_aligned: bool, device: Device,
    is_packed: bool = False
) -> Partition:  # fmt: skip
    """Return how images are divided; `is_packed` says that their rows are contiguous.

    Few strips of columns would leave a GPU idle. Such images are divided into bands of rows, which
    blocks process to the right.
    """
    lanes, vector = _LANES, vector_of(x_dtype, dtype)
    while lanes > 1 and lanes // 2 * vector >= shape[2]:
        lanes //= 2
    # Half and twice as many of both were slower; a thread has two tiles in its registers.
    items = 8 if vector * dtype.itemsize <= 16 and dtype.itemsize <= 8 else 4
    threads = 512 if vector * dtype.itemsize == 16 and dtype.itemsize == 8 else 256
    layout = TableLayout(
        x_dtype, dtype, threads, lanes, items, goes_down=True, is_aligned=is_aligned
    )
    layout = _choose_direction(_fit_width(layout, shape), replace(layout, goes_down=False), shape)
    if layout.goes_down:
        layout = replace(layout, is_single_strip=Partition(layout, shape).strips == 1)
        layout = _fit_height(layout, shape[1])
    elif layout.lanes <= _NARROW:
        is_aligned = is_aligned and not is_packed
        layout = replace(
            layout, threads=256, items=_NARROW_ITEMS, is_packed=is_packed, is_aligned=is_aligned
        )
    layout = replace(layout, group=_choose_group(Partition(layout, shape)))
    while layout.items > 1 and layout.shared_bytes + layout.kernel_bytes > device.shared_bytes:
        layout = replace(layout, items=layout.items // 2)
    return Partition(_with_stages(layout, device.shared_bytes), shape)


def _with_stages(layout: TableLayout, shared_bytes: int) -> TableLayout:
    """Return the layout with as many blocks as fit with two tiles each, then as many tiles."""
    blocks, tiles = layout.most_blocks + 1, 0
    while tiles < 2 and blocks > 1:
        blocks -= 1
        room = (shared_bytes + 1024) // blocks - 1024 - layout.kernel_bytes
        tiles = (room - replace(layout, stages=0).shared_bytes) // layout.tile_bytes
    return replace(layout, blocks=blocks, stages=max(1, min(_STAGES, tiles)))


def _choose_group(partition: Partition) -> int:
    """Return the strips of a group: more if strips are short."""
    layout = partition.layout
    area = layout.tile[0] * layout.tile[1] * partition.steps
    strip_bytes = area * (layout.x_dtype.itemsize + layout.dtype.itemsize)
    # A thread has the sums that it reads in up to 32 registers.
    most = 64 * layout.threads_per_line // max(4, layout.dtype.itemsize)
    group = next((n for n in _GROUPS if n * strip_bytes >= _GROUP_BYTES), _GROUPS[-1])
    return max(1, min(group, most))


def _fit_width(layout: TableLayout, shape: Shape) -> TableLayout:
    """Return the layout downwards with two narrow strips a multiprocessor, or one of high tiles.

    High tiles are for numbers of one or two bytes. If their rows start anywhere, two strips are
    faster. Only sums of integers, which have the same bits in any order, choose two strips then.
    """
    if layout.lanes < _LANES or layout.dtype.itemsize != 4:
        return layout
    is_tall = layout.x_dtype.itemsize < 4 and (layout.is_aligned or layout.dtype.kind == "f")
    many = 0.75 * _MULTIPROCESSORS
    if is_tall and many < shape[0] * Partition(layout, shape).strips <= _MULTIPROCESSORS:
        return replace(layout, items=_TALL)
    narrow = replace(layout, lanes=layout.lanes // 2)
    if not is_tall and many < shape[0] * Partition(narrow, shape).strips <= 2 * _MULTIPROCESSORS:
        return narrow
    return layout


def _choose_direction(down: TableLayout, bands: TableLayout, shape: Shape) -> TableLayout:
    """Return strips down, or bands to the right if there are more; thin bands if there are few."""
    strips = Partition(down, shape).strips
    if shape[0] * strips >= _MANY or strips >= Partition(bands, shape).strips:
        return down
    while bands.items > 2 and shape[0] * Partition(bands, shape).strips < _MANY:
        bands = replace(bands, items=bands.items // 2)
    return bands


def _fit_height(layout: TableLayout, rows: int) -> TableLayout:
    """Return the layout with tiles not much higher than the image, of one warp at least."""
    least = max(32, layout.tile[1])
    while layout.tile[0] >= 2 * rows and layout.threads > least:
        layout = replace(layout, threads=layout.threads // 2)
    while layout.tile[0] >= 2 * rows and layout.items > 1:
        layout = replace(layout, items=layout.items // 2)
    return layout
