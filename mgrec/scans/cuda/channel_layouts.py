"""Sizes of tiles of a few columns side by side: as samples of some channels in time.

A tile has all columns, or of more than a few a line of 32 bytes: then a team of blocks shares it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...engines.cuda.device import MULTIPROCESSORS
from .column_layouts import choose_team
from .program import Layout

if TYPE_CHECKING:
    from ...core.arrays.chunk import Chunk
    from ...engines.cuda.device import Device
    from .sources import Source

_MOST_CHANNELS = 32
"""Of 16 the blocks, which all read the spans of all channels, ran at 0.40 of the floor. Blocks that
fold for all others ran 16 at 0.69, but 64 at 0.54; with 64 channels cut into hundreds of rows, each
begun early from 0, lanes walked at 0.50."""
_LINE_BYTES, _MOST_LINES = 32, 8
"""Of a line, the least that memory moves; of 16 lines tiles of 32 columns ran as fast."""
_THREADS = 256
_LINE_THREADS = 224
"""With a warp that looks ahead 256: one more would cost each thread 87 of 255 registers. 64 columns
ran at 0.70 of the floor, at 0.60 with 256 threads."""
_SHARED, _SPANS = 212 * 1024, 15 * 1024
"""Bytes of stages and stores that a block may have, and of spans beside them."""
_FEWEST_ITEMS, _ITEMS = 3, 41
_BULK_CAPABILITY = 90
_UNITS_OF_WARP = 8
"""Groups of tiles, each of a channel, that a warp polls at once; of 132 blocks there are 5 or 6."""


def steps_of_tile(layout: Layout, itemsize: int) -> int:
    """Count the steps of a tile: ``STEPS`` of the kernels."""
    vector = 16 // itemsize
    return layout.threads // layout.channels // vector * vector * layout.items


def ring_of(blocks: int) -> int:
    """Count the last tiles whose spans stay published: as ``Board`` of the kernels."""
    return 8 * blocks + 64


def choose_channels(chunk: Chunk, source: Source, states: int, device: Device) -> Layout | None:
    """Choose the layout of tiles of a few columns; None where columns are tiled otherwise."""
    outers, steps, channels = chunk.shape
    size = chunk.dtype.itemsize
    if channels == 1 or size < 4:
        return None
    layout = _choose_lines(chunk, source, device)
    if layout:
        return layout
    is_whole = outers == 1 or steps * channels * size % 16 == 0
    if channels > _MOST_CHANNELS or not is_whole:
        return None
    layout = _sized(chunk, source, channels, states, _THREADS)
    if steps < 2 * steps_of_tile(layout, size):
        return None
    is_copied = device.capability >= _BULK_CAPABILITY
    return replace(
        layout, bulk=is_copied and _bytes(layout, chunk, source, states) <= device.shared_bytes
    )


def _choose_lines(chunk: Chunk, source: Source, device: Device) -> Layout | None:
    """Choose the layout of tiles that have a line; None where lines do not fit, or are many."""
    outers, steps, inners = chunk.shape
    channels = _LINE_BYTES // chunk.dtype.itemsize
    lines, rest = divmod(inners, channels)
    if rest or lines < 2 or outers * lines > _MOST_LINES or not source.is_aligned:
        return None
    layout = _sized(chunk, source, channels, 0, _LINE_THREADS)
    tile = steps_of_tile(layout, chunk.dtype.itemsize)
    if steps < 2 * tile:
        return None
    # A tile is under way while others wait between publishing and needing.
    each = max(len(source.streams), 1) * tile * _LINE_BYTES
    stages = min(layout.stages, (device.shared_bytes - _SPANS) // each)
    return replace(
        layout, lines=True, bulk=False, ahead=1,
        team=choose_team(outers * lines, -(-steps // tile), device.multiprocessors),
        stages=stages if stages > 2 else 0, distance=2 if stages > 3 else 1,
    )  # fmt: skip


def _bytes(layout: Layout, chunk: Chunk, source: Source, states: int) -> int:
    """Shared memory of a block."""
    size = chunk.dtype.itemsize
    tile = steps_of_tile(layout, size) * layout.channels * size
    return (layout.stages * len(source.streams) + states) * tile + _SPANS


def _sized(chunk: Chunk, source: Source, channels: int, stores: int, threads: int) -> Layout:
    outers, steps, inners = chunk.shape
    size, streams = chunk.dtype.itemsize, len(source.streams)
    vector = 16 // size
    wanted = max(1, round(threads / channels / vector)) * vector
    threads = -(-wanted * channels // 32) * 32
    parts = threads // channels // vector * vector
    width = parts * channels * size

    def room(stages: int) -> int:
        return _SHARED // max((stages * streams + stores) * width, 1)

    stages = next((k for k in (4 if streams > 1 else 5, 3) if room(k) >= _FEWEST_ITEMS), 2)
    items = min(room(stages), _ITEMS * 4 // size)
    # Where the tiles are fewer than the multiprocessors smaller ones are sooner done.
    enough = outers * steps * -(-inners // channels) // (parts * MULTIPROCESSORS)
    items = max(min(items, enough), _FEWEST_ITEMS)
    items -= 1 - items % 2  # odd, which keeps most accesses to shared memory apart
    ahead = min(4, max(2, -(-6 * channels // _UNITS_OF_WARP)))
    return Layout(
        threads, items, stages, reverse=chunk.reverse, bulk=True, channels=channels, ahead=ahead,
        distance=2 if stages > 3 else 1,
    )  # fmt: skip
