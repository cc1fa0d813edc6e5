"""How the images of a summed-area table are cut into strips and tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ....engines.cuda.device import Device

Shape = tuple[int, int, int]
# Strips that keep a GPU busy. Those that go down tell each other fewer sums, and are enough then.
_MANY = 128
# Bytes of a group of strips: a group waits about a microsecond for the one before it.
_GROUP_BYTES = 1 << 21
_GROUPS = 16, 32, 64, 96
# Lanes beside each other where rows are narrow, and rows of a thread then: an odd number, since
# threads would meet in the banks of shared memory.
_NARROW, _NARROW_ITEMS = 2, 7
# Multiprocessors of an H100, and rows of a thread where a block has one for itself.
_MULTIPROCESSORS, _TALL = 132, 12
_STAGES = 4
# Bytes that are copied to shared memory at once.
_LEAST_WORD = 4
_LANES = 32


@dataclass(frozen=True)
class TableLayout:
    """Constants that the kernel is compiled with.

    The order of additions follows from all but `stages`, `blocks`, `aligned` and `packed`, so that
    these alone may depend on anything but the shape and the dtypes. (Where a tile does not fit a
    block of a device, it is lower there.)

    Attributes
    ----------
    x_dtype, dtype : numpy.dtype
        Of the images and of the sums.
    threads : int
        Of a block.
    lanes : int
        Threads beside each other along a row.
    items : int
        Rows of a thread.
    down : bool
        Strips are walked down, or else to the right.
    alone : bool
        An image is one strip.
    aligned : bool
        Rows begin where the words of a thread do.
    packed : bool
        Rows are narrow and lie one after the other: a tile is one row in memory.
    stages : int
        Tiles under way to shared memory.
    blocks : int
        Of a multiprocessor.
    group : int
        Strips of which one reads what each has told.
    """

    x_dtype: np.dtype[Any]
    dtype: np.dtype[Any]
    threads: int
    lanes: int
    items: int
    down: bool
    alone: bool = False
    aligned: bool = False
    packed: bool = False
    stages: int = 1
    blocks: int = 1
    group: int = 16

    @property
    def vector(self) -> int:
        """Neighbouring columns of a thread."""
        return vector_of(self.x_dtype, self.dtype)

    @property
    def in_words(self) -> bool:
        """Whether the numbers that a thread reads of a row are a word."""
        return self.aligned and self.vector * self.x_dtype.itemsize >= _LEAST_WORD

    @property
    def most_blocks(self) -> int:
        """Of a multiprocessor, as registers allow."""
        size = self.items * self.vector * self.dtype.itemsize
        threads = 1024 if self.alone and size <= 64 else 512 if size <= 128 else 256
        return max(1, min(16, threads // self.threads))

    @property
    def kernel_bytes(self) -> int:
        """Shared memory that the kernel declares, at most: sums, exchanged rows, and lines."""
        is_exchanged = not (self.aligned or self.packed)
        numbers = (2 + is_exchanged) * self.threads * self.vector
        lines = 2 * self.tile[1] + 5 * (0 if self.alone else self.lines)
        exchanged = 32 * self.threads // self.lanes * is_exchanged
        return (numbers + lines) * self.dtype.itemsize + exchanged + 256

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.threads // self.lanes * self.items, self.lanes * self.vector

    @property
    def lines(self) -> int:
        """Of a tile, whose sums are told."""
        return self.tile[0 if self.down else 1]

    @property
    def tellers(self) -> int:
        """Threads that share a line."""
        return max(1, min(32, self.threads // self.lines))

    @property
    def tile_bytes(self) -> int:
        """Shared memory of one tile: a word more a row where words cover it."""
        rows, columns = self.tile
        if self.packed:
            rows, columns = 1, rows * columns
        size = columns * self.x_dtype.itemsize
        return rows * (size if self.in_words else _covered(size))

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a launch asks for: tiles, and the results of one that is packed."""
        rows, columns = self.tile
        results = _covered(rows * columns * self.dtype.itemsize) if self.packed else 0
        return self.stages * self.tile_bytes + results

    def print(self) -> str:
        numbers = {
            "THREADS": self.threads, "LANES": self.lanes, "V": self.vector, "ITEMS": self.items,
            "STAGES": self.stages, "GROUP": self.group,
        }  # fmt: skip
        flags = {
            "DOWN": self.down, "ALONE": self.alone, "ALIGNED": self.aligned,
            "IN_WORDS": self.in_words, "PACKED": self.packed,
        }  # fmt: skip
        lines = [f"constexpr int {k} = {v};" for k, v in numbers.items()]
        lines += [f"constexpr bool {k} = {str(v).lower()};" for k, v in flags.items()]
        return "\n".join(lines) + "\n"


def _covered(size: int) -> int:
    """Bytes of the words of 16 that cover so many bytes anywhere, and of one more at most."""
    return -(-size // 16) * 16 + 16


def vector_of(x_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> int:
    """Columns of a thread: words of at most 16 bytes are read and written."""
    return min(4, 16 // max(x_dtype.itemsize, dtype.itemsize))


@dataclass(frozen=True)
class Cut:
    """Images in strips, and these in tiles.

    Attributes
    ----------
    layout : TableLayout
    shape : (int, int, int)
        Images, rows and columns.
    """

    layout: TableLayout
    shape: Shape

    @property
    def strips(self) -> int:
        """Of an image."""
        return self._counts[0]

    @property
    def steps(self) -> int:
        """Tiles of a strip."""
        return self._counts[1]

    @cached_property
    def _counts(self) -> tuple[int, int]:
        (_, rows, columns), (height, width) = self.shape, self.layout.tile
        down, right = -(-rows // height), -(-columns // width)
        return (right, down) if self.layout.down else (down, right)

    @property
    def words(self) -> int:
        """Words of 64 bits in which strips tell each other sums."""
        if self.layout.alone:
            return 0
        layout, groups = self.layout, -(-self.strips // self.layout.group)
        lines = layout.lines * self.steps
        return self.shape[0] * (self.strips + groups) * lines * -(-self.layout.dtype.itemsize // 4)

    def blocks(self, device: Device) -> int:
        return min(self.shape[0] * self.strips, self.layout.blocks * device.multiprocessors)


def cut_of(
    shape: Shape,
    x_dtype: np.dtype[Any],
    dtype: np.dtype[Any],
    aligned: bool,
    device: Device,
    packed: bool = False,
) -> Cut:
    """Choose how images are cut up; `packed`: their rows lie one after the other.

    Few strips of few columns would leave a GPU idle: they are walked to the right there, from
    as many bands of rows as the image has.
    """
    lanes, vector = _LANES, vector_of(x_dtype, dtype)
    while lanes > 1 and lanes // 2 * vector >= shape[2]:
        lanes //= 2
    # Halves and doubles of both were slower; a thread holds two tiles in its registers.
    items = 8 if vector * dtype.itemsize <= 16 and dtype.itemsize <= 8 else 4
    threads = 512 if vector * dtype.itemsize == 16 and dtype.itemsize == 8 else 256
    layout = TableLayout(x_dtype, dtype, threads, lanes, items, down=True, aligned=aligned)
    layout = _in_bands(_as_wide_as(layout, shape), replace(layout, down=False), shape)
    if layout.down:
        layout = replace(layout, alone=Cut(layout, shape).strips == 1)
        layout = _as_high_as(layout, shape[1])
    elif layout.lanes <= _NARROW:
        aligned = aligned and not packed
        layout = replace(layout, threads=256, items=_NARROW_ITEMS, packed=packed, aligned=aligned)
    layout = replace(layout, group=_group_of(Cut(layout, shape)))
    while layout.items > 1 and layout.shared_bytes + layout.kernel_bytes > device.shared_bytes:
        layout = replace(layout, items=layout.items // 2)
    return Cut(_staged(layout, device.shared_bytes), shape)


def _staged(layout: TableLayout, shared_bytes: int) -> TableLayout:
    """As many blocks as have room for the tiles that they need, and then as many tiles."""
    blocks, tiles = layout.most_blocks + 1, 0
    while tiles < 2 and blocks > 1:
        blocks -= 1
        room = (shared_bytes + 1024) // blocks - 1024 - layout.kernel_bytes
        tiles = (room - replace(layout, stages=0).shared_bytes) // layout.tile_bytes
    return replace(layout, blocks=blocks, stages=max(1, min(_STAGES, tiles)))


def _group_of(cut: Cut) -> int:
    """Larger groups where strips are short."""
    layout = cut.layout
    area = layout.tile[0] * layout.tile[1] * cut.steps
    strip_bytes = area * (layout.x_dtype.itemsize + layout.dtype.itemsize)
    # A thread has what it reads in registers, up to 32 of them.
    most = 64 * layout.tellers // max(4, layout.dtype.itemsize)
    group = next((n for n in _GROUPS if n * strip_bytes >= _GROUP_BYTES), _GROUPS[-1])
    return max(1, min(group, most))


def _as_wide_as(layout: TableLayout, shape: Shape) -> TableLayout:
    """Strips down: each multiprocessor has two narrow ones, or a wide one of high tiles.

    High tiles are of bytes and words of two. Where these begin anywhere two strips are faster, and
    so only sums of integers, which have the same bits in any order, take them there.
    """
    if layout.lanes < _LANES or layout.dtype.itemsize != 4:
        return layout
    is_tall = layout.x_dtype.itemsize < 4 and (layout.aligned or layout.dtype.kind == "f")
    many = 0.75 * _MULTIPROCESSORS
    if is_tall and many < shape[0] * Cut(layout, shape).strips <= _MULTIPROCESSORS:
        return replace(layout, items=_TALL)
    narrow = replace(layout, lanes=layout.lanes // 2)
    if not is_tall and many < shape[0] * Cut(narrow, shape).strips <= 2 * _MULTIPROCESSORS:
        return narrow
    return layout


def _in_bands(down: TableLayout, bands: TableLayout, shape: Shape) -> TableLayout:
    """Strips down, or bands to the right where these are more, and thinner where they are few."""
    strips = Cut(down, shape).strips
    if shape[0] * strips >= _MANY or strips >= Cut(bands, shape).strips:
        return down
    while bands.items > 2 and shape[0] * Cut(bands, shape).strips < _MANY:
        bands = replace(bands, items=bands.items // 2)
    return bands


def _as_high_as(layout: TableLayout, rows: int) -> TableLayout:
    """Tiles of low images are no higher than these, if a warp is not too much already."""
    least = max(32, layout.tile[1])
    while layout.tile[0] >= 2 * rows and layout.threads > least:
        layout = replace(layout, threads=layout.threads // 2)
    while layout.tile[0] >= 2 * rows and layout.items > 1:
        layout = replace(layout, items=layout.items // 2)
    return layout
