"""Summed-area tables of CuPy arrays: images in strips, and strips in tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.contract.kernels import Kernels, PreparedSolver, TileParts
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import Device, on_device, pack_words
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches
from ..cuda import Shape, StripPartition, assign, contiguous
from .api import SummedAreaTable, Sums

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
# Cells of a part of a table: 0.1 ms of an H100; a launch takes half of that.
_CELLS = 1 << 25
# The smallest GPU whose tables have the same bits as those of all others.
_SMALLEST = Device(80, 108, 100 * 1024)
_MOST_STRIPS = 2**30


def kernels(method: str) -> Kernels:
    """Return the phases of a tile."""
    return Kernels(determine_table, prepare_solver=prepare_table, part=_part)


@dataclass(frozen=True)
class TableLayout:
    """Constants that the kernel is compiled with.

    All but `stages`, `blocks`, `is_aligned` and `is_packed` determine the order of additions. So
    only these four may depend on more than the shape and the dtypes. (If a tile does not fit a
    block of a device, it has fewer rows there.)
    """

    x_dtype: np.dtype[Any]
    dtype: np.dtype[Any]  # of the sums
    in_tile: np.dtype[Any]  # of the sums in a tile
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
        return vector_of(self.x_dtype, self.in_tile)

    @property
    def reads_words(self) -> bool:
        """Whether the numbers that a thread reads from a row are one word."""
        return self.is_aligned and self.vector * self.x_dtype.itemsize >= _LEAST_WORD

    @property
    def most_blocks(self) -> int:
        """Blocks of a multiprocessor, as registers allow."""
        size = self.items * self.vector * self.in_tile.itemsize
        threads = 1024 if self.is_single_strip and size <= 64 else 512 if size <= 128 else 256
        return max(1, min(16, threads // self.threads))

    @property
    def kernel_bytes(self) -> int:
        """At least the shared memory that the kernel declares: sums, exchanged rows and lines."""
        is_exchanged = self.in_tile != self.dtype or not (self.is_aligned or self.is_packed)
        numbers = self.threads * self.vector
        lines = 2 * self.tile[1] + 5 * (0 if self.is_single_strip else self.lines)
        exchanged = (numbers + 16 * self.threads // self.lanes) * is_exchanged
        return 2 * numbers * self.in_tile.itemsize + (exchanged + lines) * self.dtype.itemsize + 256

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
    """Return the columns of a thread, which reads and adds up words of at most 16 bytes."""
    return min(4, 16 // max(x_dtype.itemsize, dtype.itemsize))


def _dtype_in_tile(x_dtype: np.dtype[Any], dtype: np.dtype[Any], has_edges: bool) -> np.dtype[Any]:
    """Return the dtype of sums in a tile: 32 bits hold those of 2^14 integers of one or two bytes.

    Half the registers, and whole words of bytes, pay: uint8 to uint64 ran at 0.43 of the floor before,
    on an H200. Edges are added to the numbers of a tile.
    """
    is_wide = dtype.kind in "iu" and dtype.itemsize == 8
    is_narrow = is_wide and x_dtype.kind in "iub" and x_dtype.itemsize <= 2 and not has_edges
    return np.dtype(np.int32) if is_narrow else dtype


@dataclass(frozen=True)
class TablePartition(StripPartition):
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
    shape: Shape,
    x_dtype: np.dtype[Any],
    dtype: np.dtype[Any],
    is_aligned: bool,
    device: Device,
    is_packed: bool = False,
    has_edges: bool = False,
) -> TablePartition:
    """Return how images are divided; `is_packed` says that their rows are contiguous.

    Few strips of columns would leave a GPU idle. Such images are divided into bands of rows, which
    blocks process to the right.
    """
    in_tile = _dtype_in_tile(x_dtype, dtype, has_edges)
    lanes, vector, size = _LANES, vector_of(x_dtype, in_tile), in_tile.itemsize
    while lanes > 1 and lanes // 2 * vector >= shape[2]:
        lanes //= 2
    # Half and twice as many of both were slower; a thread has two tiles in its registers.
    items = 8 if vector * size <= 16 and size <= 8 else 4
    threads = 512 if vector * size == 16 and size == 8 else 256
    layout = TableLayout(
        x_dtype, dtype, in_tile, threads, lanes, items, goes_down=True, is_aligned=is_aligned
    )
    layout = _choose_direction(_fit_width(layout, shape), replace(layout, goes_down=False), shape)
    if layout.goes_down:
        layout = replace(layout, is_single_strip=TablePartition(layout, shape).strips == 1)
        layout = _fit_height(layout, shape[1])
    elif layout.lanes <= _NARROW:
        is_aligned = is_aligned and not is_packed
        layout = replace(layout, threads=256, items=_NARROW_ITEMS, is_packed=is_packed, is_aligned=is_aligned)
    if in_tile != dtype and (layout.is_single_strip or layout.is_packed):  # These add up more than a tile.
        return choose_partition(shape, x_dtype, dtype, is_aligned, device, is_packed, has_edges=True)
    layout = replace(layout, group=_choose_group(TablePartition(layout, shape)))
    while layout.items > 1 and layout.shared_bytes + layout.kernel_bytes > device.shared_bytes:
        layout = replace(layout, items=layout.items // 2)
    return TablePartition(_with_stages(layout, device.shared_bytes), shape)


def _with_stages(layout: TableLayout, shared_bytes: int) -> TableLayout:
    """Return the layout with as many blocks as fit with two tiles each, then as many tiles."""
    blocks, tiles = layout.most_blocks + 1, 0
    while tiles < 2 and blocks > 1:
        blocks -= 1
        room = (shared_bytes + 1024) // blocks - 1024 - layout.kernel_bytes
        tiles = (room - replace(layout, stages=0).shared_bytes) // layout.tile_bytes
    return replace(layout, blocks=blocks, stages=max(1, min(_STAGES, tiles)))


def _choose_group(partition: TablePartition) -> int:
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

    High tiles are for numbers of one or two bytes.
    """
    if layout.lanes < _LANES or layout.in_tile.itemsize != 4:
        return layout
    is_tall = layout.x_dtype.itemsize < 4
    many = 0.75 * _MULTIPROCESSORS
    if is_tall and many < shape[0] * TablePartition(layout, shape).strips <= _MULTIPROCESSORS:
        return replace(layout, items=_TALL)
    narrow = replace(layout, lanes=layout.lanes // 2)
    if not is_tall and many < shape[0] * TablePartition(narrow, shape).strips <= 2 * _MULTIPROCESSORS:
        return narrow
    return layout


def _choose_direction(down: TableLayout, bands: TableLayout, shape: Shape) -> TableLayout:
    """Return strips down, or bands to the right if there are more; thin bands if there are few."""
    strips = TablePartition(down, shape).strips
    if shape[0] * strips >= _MANY or strips >= TablePartition(bands, shape).strips:
        return down
    while bands.items > 2 and shape[0] * TablePartition(bands, shape).strips < _MANY:
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


def build_launch(partition: TablePartition, device: Device) -> Launch:
    """Return the launch over images."""
    layout = partition.layout
    constants = {
        "THREADS": layout.threads,
        "LANES": layout.lanes,
        "V": layout.vector,
        "ITEMS": layout.items,
        "STAGES": layout.stages,
        "GROUP": layout.group,
        "DOWN": layout.goes_down,
        "ALONE": layout.is_single_strip,
        "ALIGNED": layout.is_aligned,
        "IN_WORDS": layout.reads_words,
        "PACKED": layout.is_packed,
    }
    numeric = kernel_text("engines/cuda/numeric")
    text = print_definitions(numeric, constants, X=layout.x_dtype, T=layout.dtype, L=layout.in_tile)
    text += kernel_text("grids/table/table")
    function = "add_up_alone" if layout.is_single_strip else "add_up"
    return partition.launch(
        device, text, "table_kernel", function, layout.blocks, 15, struct="Images", is_fused=True
    )


@lru_cache(maxsize=1024)
def prepare_launch(
    shape: Shape,
    x_dtype: np.dtype[Any],
    dtype: np.dtype[Any],
    is_aligned: bool,
    is_packed: bool,
    has_edges: bool,
    device_id: int,
) -> tuple[TablePartition, PreparedLaunches]:
    """Return how images are divided into strips, and the launch of their tables on a device."""
    device = Device.current()
    partition = choose_partition(shape, x_dtype, dtype, is_aligned, device, is_packed, has_edges)
    return partition, PreparedLaunches(build_launch(partition, device), units=partition.words)


def _part(recurrence: SummedAreaTable, shape: Sequence[int], side: int) -> TileParts | None:
    return _choose_part(tuple(shape), side, recurrence.block_dtypes[0], recurrence.dtype)


@lru_cache(maxsize=256)
def _choose_part(
    shape: tuple[int, ...], side: int, x_dtype: np.dtype[Any], dtype: np.dtype[Any]
) -> TileParts | None:
    """Return the parts of a tile that have the same bits as the whole tile.

    Integers have the same bits in any order. Other numbers are added up tile by tile down a strip:
    a part of whole rows of tiles continues where the part above ends, if both go down.
    """
    *others, rows, columns = shape
    if 0 in shape:
        return None
    least = -(-_CELLS // (prod(shape) // (rows, columns)[side]))
    if dtype.kind in "iu":
        return TileParts(128, max(128, least))
    whole = _layouts((prod(others), rows, columns), x_dtype, dtype)
    if side or not all(layout.goes_down for layout in whole):
        return None
    height = max(layout.tile[0] for layout in whole)
    if any(height % layout.tile[0] for layout in whole):
        return None
    least = max(1, -(-least // height)) * height
    # Images of few rows may go to the right, or have larger groups.
    while least <= rows and _layouts((prod(others), least, columns), x_dtype, dtype) != whole:
        least *= 2
    return TileParts(height, least) if least <= rows else None


def _layouts(shape: Shape, x_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> list[TableLayout]:
    """Return the layouts that determine the order of additions, for rows aligned and not."""
    return [
        replace(choose_partition(shape, x_dtype, dtype, is_aligned, _SMALLEST).layout, stages=1, blocks=1)
        for is_aligned in (True, False)
    ]


def determine_table(recurrence: SummedAreaTable, x: Any, edges: tuple[Any, Any], table: Any) -> Sums:
    """Write the table of a tile (..., rows, columns), and return its edges.

    `edges` are the table in the row above and the sums along the rows to the left, or None. Those
    returned are on the device; `below` is a view of `table`, and `right` is None while the current
    stream is captured.
    """
    import cupy

    *others, rows, columns = x.shape
    if x.size == 0:
        zeros = np.zeros((*others, columns), table.dtype), np.zeros((*others, rows), table.dtype)
        pairs = zip(edges, zeros, strict=True)
        return Sums(*(zero if edge is None else edge for edge, zero in pairs))
    operand = x if _has_contiguous_rows(x) else contiguous(x)
    result = table if _has_contiguous_rows(table) else cupy.empty(table.shape, table.dtype)
    # A captured graph would write to memory that is freed when the call returns.
    is_captured = cupy.cuda.get_current_stream().is_capturing()
    right = None if is_captured else cupy.empty((*others, rows), table.dtype)
    device_edges = [
        None if edge is None else cupy.ascontiguousarray(on_device(edge).astype(table.dtype, copy=False))
        for edge in edges
    ]
    _launch(operand, result, device_edges, right)
    if result is not table:
        assign(table, result)
    return Sums(table[..., -1, :], right)


def _has_contiguous_rows(array: Any) -> bool:
    """Return whether rows are contiguous and aligned, and images have a single stride."""
    strides, size = array.strides, array.dtype.itemsize
    if array.flags.c_contiguous:
        return array.data.ptr % size == 0
    images = [(n, s) for n, s in zip(array.shape[:-2], strides[:-2], strict=True) if n > 1]
    is_even = all(stride == n * inner for (_, stride), (n, inner) in pairwise(images))
    is_row = strides[-1] == size or array.shape[-1] == 1
    return is_even and is_row and not any(s % size for s in (array.data.ptr, *strides))


def prepare_table(
    recurrence: SummedAreaTable, x: Any, edges: tuple[None, None], table: Any
) -> PreparedSolver | None:
    """Return a solver for images of these shapes and dtypes; None if they need a copy."""
    if not (_has_contiguous_rows(x) and _has_contiguous_rows(table)):
        return None
    first, *others = _launches(x, table)
    if others:
        return None
    bound, words = LaunchByAddress(first.prepared), first.words

    def solve(operands: Sequence[Any], results: Sequence[int]) -> None:
        bound([[operands[0], results[0], 0, 0, 0, 0, *words]])

    return solve


class _ImagesLaunch(NamedTuple):
    """A launch over some images, from number `start` on."""

    start: int
    prepared: PreparedLaunches
    words: list[int]  # of the kernel's struct, after the addresses
    goes_down: bool


def _launches(x: Any, table: Any, has_edges: bool = False) -> Iterator[_ImagesLaunch]:
    """Yield the launches over all images, whose strips have numbers of 32 bits."""
    import cupy

    *others, rows, columns = x.shape
    count, strides = prod(others), [*_strides(x), *_strides(table)]
    is_packed = strides[1] == strides[3] == columns
    in_tile = _dtype_in_tile(x.dtype, table.dtype, has_edges)
    is_aligned, device_id = _is_aligned(x, table, strides, in_tile), cupy.cuda.runtime.getDevice()
    signature = x.dtype, table.dtype, is_aligned, is_packed, has_edges, device_id
    whole, _ = prepare_launch((count, rows, columns), *signature)
    most = max(1, _MOST_STRIPS // whole.strips)
    for start in range(0, count, most):
        shape = min(most, count - start), rows, columns
        partition, prepared = prepare_launch(shape, *signature)
        words = [*strides, *shape, partition.strips, partition.steps]
        yield _ImagesLaunch(start, prepared, words, whole.layout.goes_down)


def _launch(x: Any, table: Any, edges: list[Any], right: Any) -> None:
    """Launch the kernel over all images."""
    rows, columns = x.shape[-2:]
    above, left = edges
    left_down = None
    for launch in _launches(x, table, above is not None or left is not None):
        if left is not None and left_down is None and not launch.goes_down:
            # Sums from the first row on, added up in the order of the rows.
            left_down = on_device(np.cumsum(to_host(left), -1, left.dtype))
        arrays = (
            (x, launch.words[0]),
            (table, launch.words[2]),
            (above, columns),
            (left, rows),
            (right, rows),
            (left_down, rows),
        )
        addresses = [
            0 if array is None else array.data.ptr + launch.start * stride * array.dtype.itemsize
            for array, stride in arrays
        ]
        launch.prepared((pack_words([*addresses, *launch.words]),))


def _is_aligned(x: Any, table: Any, strides: list[int], in_tile: np.dtype[Any]) -> bool:
    """Return whether rows start at, and consist of, whole words of a thread."""
    vector = vector_of(x.dtype, in_tile)
    words = vector * x.dtype.itemsize, min(16, vector * table.dtype.itemsize)
    pairs = strides[:2], strides[2:]
    return x.shape[-1] % vector == 0 and not any(
        array.data.ptr % word or any(stride * array.dtype.itemsize % word for stride in pair)
        for array, word, pair in zip((x, table), words, pairs, strict=True)
    )


def _strides(array: Any) -> tuple[int, int]:
    """Return the strides from image to image and from row to row, in numbers."""
    size = array.dtype.itemsize
    images = [s for n, s in zip(array.shape[:-2], array.strides[:-2], strict=True) if n > 1]
    return (images[-1] // size if images else 0), array.strides[-2] // size
