"""Sizes of tiles, stages and teams by what a step weighs and how the rows lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .program import Layout

if TYPE_CHECKING:
    from ...phases.chunk import Chunk
    from .compilation import Device
    from .sources import Source

_BULK_CAPABILITY = 90
_ROW_REGISTERS = 144
"""Of 255 a thread: two tiles of items wait in registers."""
_COLUMN_REGISTERS = 96
"""Of 128 a thread: three runs of items wait in registers."""


def choose_layout(chunk: Chunk, source: Source, states: int, device: Device) -> Layout:
    """Choose the layout of the single pass."""
    if chunk.shape[2] == 1:
        return _choose_rows(chunk, source, states, device)
    return _choose_columns(chunk, source, device)


def _choose_rows(chunk: Chunk, source: Source, states: int, device: Device) -> Layout:
    # An odd number of 16-byte vectors a thread keeps shared memory free of bank conflicts.
    itemsize = chunk.dtype.itemsize
    vector = 16 // itemsize
    words = max(source.varying, 1) * max(itemsize // 4, 1)
    vectors = max(_ROW_REGISTERS // (2 * words * vector), 1)
    vectors -= 1 - vectors % 2
    threads, stages, streams = 256, 2, len(source.streams)
    while vectors > 1 and _shared(threads, vectors, stages, streams, states) > device.shared_bytes:
        vectors -= 2
    room = min(device.shared_bytes, 220 * 1024)
    while streams and stages < 4 and _shared(threads, vectors, stages + 1, streams, states) <= room:
        stages += 1
    aligned = all(x.data.ptr % 16 == 0 for x in source.streams)
    return Layout(
        threads, vectors * vector, stages, -(-device.multiprocessors // 32), chunk.reverse,
        chunk.shape[0] > 1, device.capability >= _BULK_CAPABILITY and aligned,
    )  # fmt: skip


def _shared(threads: int, vectors: int, stages: int, streams: int, states: int) -> int:
    return (stages * streams + states) * threads * vectors * 16 + 8 * stages


def _choose_columns(chunk: Chunk, source: Source, device: Device) -> Layout:
    outers, steps, inners = chunk.shape
    words = max(source.varying, 1) * max(chunk.dtype.itemsize // 4, 1)
    items = 16
    while items > 1 and 3 * words * items > _COLUMN_REGISTERS:
        items //= 2
    warps = 16
    while warps > 1 and warps * items >= 2 * steps:
        warps //= 2
    blocks = 16 // warps
    groups = -(-outers * inners // 32)
    tiles = -(-steps // (warps * items))
    team = max(1, min(blocks * device.multiprocessors // groups, tiles, 32))
    return Layout(warps * 32, items, reverse=chunk.reverse, team=team, blocks=blocks)
