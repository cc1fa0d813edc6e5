"""Sizes of tiles, stages and teams by what a step weighs and how the rows lie.

Threads and steps of a tile decide the order of the arithmetic, so they depend on shape, dtype
and kind of operands alone, as on a GPU of 132 multiprocessors. Stages, blocks and teams only
divide the work and follow the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...engines.cuda.device import MULTIPROCESSORS
from .channel_layouts import choose_channels
from .column_layouts import (
    ASYNC_CAPABILITY,
    choose_columns,
    choose_reduced_columns,
    in_words,
    inputs_of,
)
from .program import Layout

if TYPE_CHECKING:
    from ...core.arrays.chunk import Chunk
    from ...engines.cuda.device import Device
    from .sources import Source

_BULK_CAPABILITY = 90
_ROW_SHARED = 227 * 1024
"""Bytes of its shared memory that a block may have."""
_ROW_THREADS = 224
"""With the look-ahead warp 256: one warp more would cost each thread 87 of 255 registers."""
_HEAVY_WIDE_THREADS = 352
"""The same for maps of many more numbers than their state, of 8 bytes: the latency of composing
them is their limit. Möbius in float64 ran at 0.47 of the floor, with 224 threads at 0.43."""
_HEAVY_REGISTERS, _HEAVY_CHAINS = 160, 2
"""Of 4 bytes: Möbius in float32 ran at 0.80 with 224 threads, 20 items and 2 chains, at 0.78 with 4
chains, at 0.76 with 5; of 4 at 0.72 with 192 threads and at 0.44 with two blocks of 96; with 352
threads, 12 items and 3 chains at 0.68. All these asked for each stream again as soon as it was
read, which by itself brought nothing: 4 chains ran at 0.78 without it."""
_ROW_REGISTERS = 144
"""A thread's, for the items of two tiles."""
_WIDE_REGISTERS = 176
"""The same for one row of 8-byte words: 22 float64 items ran at 0.93 of the floor, 18 at 0.90."""
_ONE_WORD_REGISTERS = 152
"""Where one operand varies: 76 float32 items ran at 0.94, 60 at 0.91."""
_COMPUTED_REGISTERS = 120
"""The same where a coefficient is computed twice a step: 60 items ran at 0.90, 68 at 0.83."""
_SLOW_THREADS, _SLOW_VECTORS = 480, 3
_QUICK_THREADS, _QUICK_VECTORS = 352, 5
"""Where formulas of a coefficient are their limit: more warps hide their latency; fewer where they
have no branch, and the items of a thread hide each other's. 0.5 + 0.4·sin(0.001·i) ran at 0.64,
with 28 items at 0.61, with 224 threads of 28 at 0.60. To compute it a tile early, while the
look-ahead warp finds the state, cost more than it hid: 0.56."""
_WALKING_WORD = 8
"""Bytes of neighbouring columns that a lane walks."""
_WALKING_GROUPS = 2 * MULTIPROCESSORS
"""Groups of 32 rows from which on a warp walks each."""
_WALKING_ITEMS = 16
_WALKING_STEPS = 128
"""Longest contiguous rows that warps walk: 64 float32 steps ran at 0.94 of the floor, tiles at
0.90; 1,000 steps at 0.74 and 0.93. Rows that 16-byte words do not divide: 0.53 and 0.81."""
_WALKING_COLUMN_STEPS, _WALKING_COLUMN_GROUPS = 512, 16 * MULTIPROCESSORS
"""Longest and fewest columns that warps walk: 1,000,000 of 64 steps ran at 0.85 of the floor,
tiles at 0.80; 10,000 of 10,000 steps, 3 warps a multiprocessor, at 0.21 and 0.66."""
_WIDE_STEPS, _WIDE_GROUPS = 4096, 1024
"""The same in words of 16 bytes: 32,768 columns of 2,048 steps ran at 0.95 of the floor, with a
constant coefficient at 0.91; tiles at 0.87."""
_WALKING_SHARED = 200 * 1024
"""Bytes of a multiprocessor that its walking warps ask for at once."""


def choose_layout(chunk: Chunk, source: Source, width: int, states: int, device: Device) -> Layout:
    """Choose the layout of the single pass."""
    if _is_walked(chunk):
        return walking_layout(chunk, source, states, device)
    if _is_walked_in_wide_words(chunk, source):
        return walking_layout(chunk, source, states, device, _WALKING_ITEMS, 16)
    if chunk.shape[2] > 1:
        layout = choose_channels(chunk, source, states, device)
        return layout or choose_columns(chunk, source, width, device)
    return _choose_rows(chunk, source, states, device, is_heavy=width >= 4 * states)


def _is_walked(chunk: Chunk) -> bool:
    steps, groups = chunk.shape[1], _groups(chunk)
    if chunk.shape[2] > 1:
        return steps <= _WALKING_COLUMN_STEPS and groups >= _WALKING_COLUMN_GROUPS
    is_aligned = steps * chunk.dtype.itemsize % 16 == 0
    return is_aligned and steps <= _WALKING_STEPS and groups >= _WALKING_GROUPS


def _is_walked_in_wide_words(chunk: Chunk, source: Source) -> bool:
    is_wide = chunk.shape[2] > 1 and inputs_of(chunk, source, 16) > 1
    return is_wide and chunk.shape[1] <= _WIDE_STEPS and _groups(chunk) >= _WIDE_GROUPS


def choose_precompute(
    chunk: Chunk, source: Source, width: int, states: int, device: Device
) -> Layout:
    """Choose the layout of the reduction: like the single pass, with more loads under way."""
    if chunk.shape[2] > 1:
        return replace(choose_reduced_columns(chunk, source, width, device), team=1)
    layout = _choose_rows(chunk, source, states, device)
    stages, items = _reduced_stages(chunk, source, layout, device)
    layout = replace(layout, stages=stages, items=items, segmented=False, crowded=False)
    if chunk.shape[0] > 1 and chunk.shape[1] * chunk.dtype.itemsize % 16:
        return replace(layout, bulk=False, staged=False)
    return layout


def _reduced_stages(
    chunk: Chunk, source: Source, layout: Layout, device: Device
) -> tuple[int, int]:
    """Stages of a reduction, and a thread's items: three where two vectors less make room.

    Summaries of float64 arrays ran at 0.99 of the floor with three stages of 18 items, at 0.83
    with two of 22.
    """

    def fit(stages: int, items: int, room: int) -> bool:
        tile = layout.threads * items * chunk.dtype.itemsize + 16 * any(source.shifts)
        return items > 0 and 128 + stages * len(source.streams) * tile <= room

    fewer = layout.items - 2 * 16 // chunk.dtype.itemsize
    is_close = not fit(3, layout.items, _ROW_SHARED) and fit(3, fewer, _ROW_SHARED)
    items = fewer if is_close else layout.items
    return next((k for k in (3, 2) if fit(k, items, device.shared_bytes)), 1), items


def _choose_rows(
    chunk: Chunk, source: Source, states: int, device: Device, is_heavy: bool = False
) -> Layout:
    # An odd number of 16-byte vectors a thread keeps shared memory free of bank conflicts.
    vector = 16 // chunk.dtype.itemsize
    is_wide = chunk.dtype.itemsize > 4
    registers = _registers(chunk, source)
    if is_heavy:
        registers = _ROW_REGISTERS if is_wide else _HEAVY_REGISTERS
    vectors = max(registers // (2 * source.words * vector), 1)
    threads = _HEAVY_WIDE_THREADS if is_heavy and is_wide else _ROW_THREADS
    if source.has_transcendental:
        is_quick = any(source.quick)
        threads = _QUICK_THREADS if is_quick else _SLOW_THREADS
        vectors = min(vectors, _QUICK_VECTORS if is_quick else _SLOW_VECTORS)
    streams = len(source.streams)
    # Where the tiles are fewer than the multiprocessors smaller ones are sooner done.
    enough = chunk.shape[0] * chunk.shape[1] // (threads * vector * MULTIPROCESSORS)
    vectors = max(min(vectors, enough), 1)
    vectors -= 1 - vectors % 2
    # Polls wait behind the loads that are under way: Möbius in float32 ran at 0.78 by one tile of
    # these, at 0.74 by two.
    stages = 1 if source.varying <= 1 or (is_heavy and not is_wide) else 2
    while vectors > 1 and _shared(threads, vectors, stages, streams, states) > _ROW_SHARED:
        vectors -= 2
    most = device.shared_bytes - 16 * stages * streams * any(source.shifts)
    while stages > 1 and _shared(threads, vectors, stages, streams, states) > most:
        stages -= 1
    layout = row_layout(chunk, source, device, threads, vectors * vector, stages)
    if is_heavy and not is_wide:
        layout = replace(layout, chains=_HEAVY_CHAINS)
    if _shared(threads, vectors, stages, streams, states) > most:
        return replace(layout, bulk=False, staged=False)
    return layout


def _registers(chunk: Chunk, source: Source) -> int:
    if source.varying <= 1:
        return _COMPUTED_REGISTERS if source.functions else _ONE_WORD_REGISTERS
    return _WIDE_REGISTERS if chunk.dtype.itemsize == 8 and chunk.shape[0] == 1 else _ROW_REGISTERS


def row_layout(
    chunk: Chunk, source: Source, device: Device, threads: int, items: int, stages: int,
    blocks: int = 1,
) -> Layout:  # fmt: skip
    """Complete a choice of sizes for contiguous rows."""
    has_bulk = device.capability >= _BULK_CAPABILITY
    return Layout(
        threads, items, stages,
        reverse=chunk.reverse, segmented=chunk.shape[0] > 1, crowded=chunk.shape[1] < items,
        bulk=has_bulk, staged=source.is_aligned and not has_bulk, blocks=blocks,
    )  # fmt: skip


def _shared(threads: int, vectors: int, stages: int, streams: int, states: int) -> int:
    return 128 + (stages * streams + states) * threads * vectors * 16


def _groups(chunk: Chunk) -> int:
    return -(-chunk.shape[0] * chunk.shape[2] // 32)


def walking_layout(
    chunk: Chunk, source: Source, states: int, device: Device, items: int | None = None,
    word: int | None = None,
) -> Layout:  # fmt: skip
    """Give every 32 rows a warp, with as many loads under way as there is room."""
    vector = 16 // chunk.dtype.itemsize
    is_strided = chunk.shape[2] > 1
    items = items or (_WALKING_ITEMS if is_strided else _row_items(chunk))
    while items > vector and items * source.words > 128:
        items //= 2
    if is_strided:
        return _walk_columns(chunk, source, device, items, _WALKING_WORD if word is None else word)
    piece = 32 * (items * chunk.dtype.itemsize + 16)
    blocks = min(-(-_groups(chunk) // device.multiprocessors), 8)
    stages = _walking_stages(chunk, source, device, blocks, items, states, piece)
    row_bytes = chunk.shape[1] * chunk.dtype.itemsize
    return Layout(
        32, items, stages, reverse=chunk.reverse, walking=True, blocks=blocks,
        bulk=row_bytes % 16 == 0 and source.is_aligned,
    )  # fmt: skip


def _walk_columns(chunk: Chunk, source: Source, device: Device, items: int, word: int) -> Layout:
    word = word if source.is_aligned else 0
    pack = inputs_of(chunk, source, word)
    blocks = min(-(-_groups(chunk) // (pack * device.multiprocessors)), 16)
    piece = 32 * items * chunk.dtype.itemsize
    stages = _walking_stages(chunk, source, device, blocks, items // pack, 0, piece)
    layout = Layout(32, items, stages, reverse=chunk.reverse, walking=True, blocks=blocks)
    if device.capability < ASYNC_CAPABILITY:
        layout = replace(layout, stages=0)
    return in_words(layout, word if pack > 1 else 0)


def _walking_stages(
    chunk: Chunk, source: Source, device: Device, blocks: int, steps: int, stores: int, piece: int
) -> int:
    room = min(_WALKING_SHARED, device.shared_bytes) // blocks - stores * piece
    loads = max(len(source.streams) * piece, 1)
    return max(1, min(room // loads, 8, -(-chunk.shape[1] // steps)))


def _row_items(chunk: Chunk) -> int:
    # Rows of 64 float32 steps ran at 0.94 of the floor in one piece, at 0.92 in two.
    vector = 16 // chunk.dtype.itemsize
    return (8 if chunk.shape[1] % (16 * vector) else 16) * vector
