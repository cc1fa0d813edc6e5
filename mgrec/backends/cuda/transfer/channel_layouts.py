"""Sizes of tiles of a few columns side by side: as samples of some channels in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .program import MULTIPROCESSORS, Layout

if TYPE_CHECKING:
    from ....arrays.chunk import Chunk
    from ..device.compilation import Device
    from .sources import Source

_MOST_CHANNELS = 32
"""Of 16 the blocks, which all read the spans of all channels, ran at 0.40 of the floor, teams of
blocks at 0.10; of 64 at 0.15 and 0.39."""
_THREADS = 256
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
    """Choose the layout of tiles that have all columns; None where columns are tiled otherwise."""
    outers, steps, channels = chunk.shape
    size = chunk.dtype.itemsize
    is_whole = outers == 1 or steps * channels * size % 16 == 0
    if not 1 < channels <= _MOST_CHANNELS or size < 4 or not is_whole:
        return None
    layout = _sized(chunk, source, states)
    if steps < 2 * steps_of_tile(layout, size):
        return None
    is_copied = device.capability >= _BULK_CAPABILITY
    return replace(
        layout, bulk=is_copied and _bytes(layout, chunk, source, states) <= device.shared_bytes
    )


def _bytes(layout: Layout, chunk: Chunk, source: Source, states: int) -> int:
    """Shared memory of a block."""
    size = chunk.dtype.itemsize
    tile = steps_of_tile(layout, size) * layout.channels * size
    return (layout.stages * len(source.streams) + states) * tile + _SPANS


def _sized(chunk: Chunk, source: Source, states: int) -> Layout:
    outers, steps, channels = chunk.shape
    size, streams = chunk.dtype.itemsize, len(source.streams)
    vector = 16 // size
    wanted = max(1, round(_THREADS / channels / vector)) * vector
    threads = -(-wanted * channels // 32) * 32
    parts = threads // channels // vector * vector
    width = parts * channels * size

    def room(stages: int) -> int:
        return _SHARED // ((stages * streams + states) * width)

    stages = next((k for k in (4 if streams > 1 else 5, 3) if room(k) >= _FEWEST_ITEMS), 2)
    items = min(room(stages), _ITEMS * 4 // size)
    # Where the tiles are fewer than the multiprocessors smaller ones are sooner done.
    enough = outers * steps // (parts * MULTIPROCESSORS)
    items = max(min(items, enough), _FEWEST_ITEMS)
    items -= 1 - items % 2  # odd, which keeps most accesses to shared memory apart
    ahead = min(4, max(2, -(-6 * channels // _UNITS_OF_WARP)))
    return Layout(
        threads, items, stages, reverse=chunk.reverse, bulk=True, channels=channels, ahead=ahead,
        distance=2 if stages > 3 else 1,
    )  # fmt: skip
