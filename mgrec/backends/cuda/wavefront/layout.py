"""How the images of a summed-area table are cut into strips and tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..device.compilation import Device

Shape = tuple[int, int, int]
# Strips that keep a GPU busy. Those that go down tell each other fewer sums, and are enough then.
_MANY = 128
# Bytes of a group of strips: a group waits about a microsecond for the one before it.
_GROUP_BYTES = 1 << 21
_GROUPS = 16, 32, 64
_STAGES = 4
_LANES = 32


@dataclass(frozen=True)
class TableLayout:
    """Constants that the kernel is compiled with.

    The order of additions follows from all but `stages`, `blocks` and `aligned`, so that these
    alone may depend on anything but the shape and the dtypes. (Where a tile does not fit a block
    of a device, it is lower there.)

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
    stages: int = 1
    blocks: int = 1
    group: int = 16

    @property
    def vector(self) -> int:
        """Neighbouring columns of a thread."""
        return vector_of(self.x_dtype, self.dtype)

    @property
    def most_blocks(self) -> int:
        """Of a multiprocessor, as registers allow."""
        is_small = self.items * self.vector * self.dtype.itemsize <= 64
        return max(1, min(16, (1024 if self.alone and is_small else 512) // self.threads))

    @property
    def kernel_bytes(self) -> int:
        """Shared memory that the kernel declares, at most: sums, exchanged rows, and lines."""
        exchanged = 3 * self.threads * self.vector
        lines = 2 * self.tile[1] + 5 * (0 if self.alone else max(self.tile))
        return (exchanged + lines) * self.dtype.itemsize + 256

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.threads // self.lanes * self.items, self.lanes * self.vector

    @property
    def tile_bytes(self) -> int:
        """Shared memory of one tile: a word more a row where words cover narrow numbers."""
        rows, columns = self.tile
        is_covered = not self.aligned and self.x_dtype.itemsize < 4
        return rows * (columns * self.x_dtype.itemsize + 4 * is_covered)

    def print(self) -> str:
        numbers = {
            "THREADS": self.threads, "LANES": self.lanes, "V": self.vector, "ITEMS": self.items,
            "STAGES": self.stages, "GROUP": self.group,
        }  # fmt: skip
        flags = {"DOWN": self.down, "ALONE": self.alone, "ALIGNED": self.aligned}
        lines = [f"constexpr int {k} = {v};" for k, v in numbers.items()]
        lines += [f"constexpr bool {k} = {str(v).lower()};" for k, v in flags.items()]
        return "\n".join(lines) + "\n"


def vector_of(x_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> int:
    """Columns of a thread: words of 4 to 16 bytes are read, and of at most 32 written."""
    read, written = x_dtype.itemsize, dtype.itemsize
    return min(4, max(16 // max(read, written), -(-4 // read)), max(1, 32 // written))


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
        lines = self.layout.tile[0 if self.layout.down else 1] * self.steps
        told = self.strips + (self.strips - 1) // self.layout.group + 1
        return self.shape[0] * told * lines * -(-self.layout.dtype.itemsize // 4)

    def blocks(self, device: Device) -> int:
        return min(self.shape[0] * self.strips, self.layout.blocks * device.multiprocessors)


def cut_of(
    shape: Shape, x_dtype: np.dtype[Any], dtype: np.dtype[Any], aligned: bool, device: Device
) -> Cut:
    """Choose how images are cut up.

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
    layout = _in_bands(layout, shape)
    if layout.down:
        layout = replace(layout, alone=Cut(layout, shape).strips == 1)
        layout = _as_high_as(layout, shape[1])
    layout = replace(layout, group=_group_of(Cut(layout, shape)))
    while layout.items > 1 and layout.tile_bytes + layout.kernel_bytes > device.shared_bytes:
        layout = replace(layout, items=layout.items // 2)
    return Cut(_staged(layout, device.shared_bytes), shape)


def _staged(layout: TableLayout, shared_bytes: int) -> TableLayout:
    """As many blocks as have room for the tiles that they need, and then as many tiles."""
    blocks, tiles = layout.most_blocks + 1, 0
    while tiles < 2 and blocks > 1:
        blocks -= 1
        tiles = ((shared_bytes + 1024) // blocks - 1024 - layout.kernel_bytes) // layout.tile_bytes
    return replace(layout, blocks=blocks, stages=max(1, min(_STAGES, tiles)))


def _group_of(cut: Cut) -> int:
    """Larger groups where strips are short."""
    layout = cut.layout
    area = layout.tile[0] * layout.tile[1] * cut.steps
    strip_bytes = area * (layout.x_dtype.itemsize + layout.dtype.itemsize)
    return next((n for n in _GROUPS if n * strip_bytes >= _GROUP_BYTES), _GROUPS[-1])


def _in_bands(layout: TableLayout, shape: Shape) -> TableLayout:
    """Strips down, or bands to the right where these are more, and thinner where they are few."""
    bands = replace(layout, down=False)
    down = Cut(layout, shape).strips
    if shape[0] * down >= _MANY or down >= Cut(bands, shape).strips:
        return layout
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
