"""Sizes of tiles, stages and teams by what a step weighs and how the rows lie."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .program import Layout

if TYPE_CHECKING:
    from ...phases.chunk import Chunk
    from .compilation import Device
    from .sources import Source

_BULK_CAPABILITY = 90
_ROW_THREADS = 224
"""With the look-ahead warp 256: one warp more would cost each thread 87 of 255 registers."""
_ROW_REGISTERS = 144
"""A thread's, for the items of two tiles."""
_WIDE_REGISTERS = 176
"""The same for one row of 8-byte words: 22 float64 items ran at 0.93 of the floor, 18 at 0.90."""
_ONE_WORD_REGISTERS = 152
"""Where one operand varies: 76 float32 items ran at 0.94, 60 at 0.91."""
_COMPUTED_REGISTERS = 120
"""The same where a coefficient is computed twice a step: 60 items ran at 0.90, 68 at 0.83."""
_COLUMN_REGISTERS = 64
"""Of 128 a thread: two runs of items wait in registers."""
_LARGEST_TEAM = 32
_WIDEST_MAP = 8
"""Scalars for which columns keep room in shared memory, where warps meet."""


def choose_layout(chunk: Chunk, source: Source, states: int, device: Device) -> Layout:
    """Choose the layout of the single pass."""
    if chunk.shape[2] == 1:
        return _choose_rows(chunk, source, states, device)
    return _choose_columns(chunk, source, device)


def choose_precompute(chunk: Chunk, source: Source, states: int, device: Device) -> Layout:
    """Choose the layout of the reduction: like the single pass, with more loads under way."""
    if chunk.shape[2] > 1:
        return replace(_choose_columns(chunk, source, device), team=1)
    layout = _choose_rows(chunk, source, states, device)
    layout = replace(layout, stages=2, segmented=False, crowded=False)
    row_bytes = chunk.shape[1] * chunk.dtype.itemsize
    return replace(layout, bulk=layout.bulk and (chunk.shape[0] == 1 or row_bytes % 16 == 0))


def _choose_rows(chunk: Chunk, source: Source, states: int, device: Device) -> Layout:
    # An odd number of 16-byte vectors a thread keeps shared memory free of bank conflicts.
    itemsize = chunk.dtype.itemsize
    vector = 16 // itemsize
    words = max(source.varying, 1) * max(itemsize // 4, 1)
    vectors = max(_registers(chunk, source) // (2 * words * vector), 1)
    threads, streams = _ROW_THREADS, len(source.streams)
    # Where the tiles are fewer than the multiprocessors smaller ones are sooner done.
    enough = chunk.shape[0] * chunk.shape[1] // (threads * vector * device.multiprocessors)
    vectors = max(min(vectors, enough), 1)
    vectors -= 1 - vectors % 2
    stages = 1 if source.varying <= 1 else 2
    while vectors > 1 and _shared(threads, vectors, stages, streams, states) > device.shared_bytes:
        vectors -= 2
    return row_layout(chunk, source, device, threads, vectors * vector, stages)


def _registers(chunk: Chunk, source: Source) -> int:
    if source.varying <= 1:
        return _COMPUTED_REGISTERS if source.functions else _ONE_WORD_REGISTERS
    return _WIDE_REGISTERS if chunk.dtype.itemsize == 8 and chunk.shape[0] == 1 else _ROW_REGISTERS


def row_layout(
    chunk: Chunk, source: Source, device: Device, threads: int, items: int, stages: int,
    blocks: int = 1,
) -> Layout:  # fmt: skip
    """Complete a choice of sizes for contiguous rows."""
    aligned = all(x.data.ptr % 16 == 0 for x in source.streams)
    return Layout(
        threads, items, stages, -(-blocks * device.multiprocessors // 32),
        reverse=chunk.reverse, segmented=chunk.shape[0] > 1, crowded=chunk.shape[1] < items,
        bulk=device.capability >= _BULK_CAPABILITY and aligned, blocks=blocks,
    )  # fmt: skip


def _shared(threads: int, vectors: int, stages: int, streams: int, states: int) -> int:
    return 128 + (stages * streams + states) * threads * vectors * 16


def _choose_columns(chunk: Chunk, source: Source, device: Device) -> Layout:
    steps = chunk.shape[1]
    words = max(source.varying, 1) * max(chunk.dtype.itemsize // 4, 1)
    # Long columns: few large blocks with a look-ahead; short ones: many small blocks.
    warps, items, blocks = (7, 16, 2) if steps > 512 else (2, 8, 8)
    while items > 1 and 2 * words * items > _COLUMN_REGISTERS:
        items //= 2
    while warps > 1 and (warps - 1) * items >= steps:
        warps -= 1
    return column_layout(chunk, source, device, warps * 32, items, 2, blocks)


def column_layout(
    chunk: Chunk, source: Source, device: Device, threads: int, items: int, stages: int,
    blocks: int = 1,
) -> Layout:  # fmt: skip
    """Complete a choice of sizes for columns."""
    outers, steps, inners = chunk.shape
    loads = len(source.streams) * threads * items * chunk.dtype.itemsize
    declared = 2 * threads * (_WIDEST_MAP * chunk.dtype.itemsize + 8) + 8 * 1024
    while stages > 1 and stages * loads + declared > device.shared_bytes // blocks:
        stages -= 1
    groups = -(-outers * inners // 32)
    tiles = -(-steps // (threads // 32 * items))
    team = max(1, min(blocks * device.multiprocessors // groups, tiles, _LARGEST_TEAM))
    return Layout(threads, items, stages, reverse=chunk.reverse, team=team, blocks=blocks)
