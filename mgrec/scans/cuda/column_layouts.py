"""Sizes of tiles, teams and words where rows lie beside each other: scans along columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .program import Layout

if TYPE_CHECKING:
    from ...core.arrays.chunk import Chunk
    from ...engines.cuda.device import Device
    from .sources import Source

ASYNC_CAPABILITY = 80
_COLUMN_REGISTERS = 144
_LARGEST_TEAM = 32
"""Where columns are so few that larger ones are needed, a team is as large as the GPU."""
_TILE_WORD = 8
"""Bytes of neighbouring columns that a lane has in a tile."""
_PACKED_COLUMNS = 512
"""Fewest columns in such words: fewer make teams of many blocks, which read each other's spans."""
_MEETING_BYTES = 40 * 1024
"""Shared memory in which the warps of a tile of columns meet."""


def columns_of_lane(layout: Layout, size: int) -> int:
    """Count the neighbouring columns of `size` bytes in a lane's word: ``PACK`` of the kernels."""
    word = 16 if layout.staged else 8 if layout.bulk else 0
    return max(1, min(4, word // size))


def inputs_of(chunk: Chunk, source: Source, word: int) -> int:
    """Columns that a lane takes in words of so many bytes: 1 where they are in the way."""
    (outers, _, inners) = chunk.shape
    pack = columns_of_lane(in_words(Layout(32, 1), word), chunk.dtype.itemsize)
    has_streams_alone = source.streams and not source.computed and not source.functions
    is_wide = inners % pack == 0 and outers * inners >= _PACKED_COLUMNS
    return pack if has_streams_alone and is_wide else 1


def in_words(layout: Layout, word: int) -> Layout:
    """The same layout of columns in words of 8 or 16 bytes, or one by one (0)."""
    return replace(layout, bulk=word == 8, staged=word == 16)


def choose_columns(chunk: Chunk, source: Source, width: int, device: Device) -> Layout:
    """Choose the layout of the single pass along columns."""
    return _column_sizes(chunk, source, width, device, _COLUMN_REGISTERS, 7, 1, _TILE_WORD)


def choose_reduced_columns(chunk: Chunk, source: Source, width: int, device: Device) -> Layout:
    """Choose the layout of the reduction along columns."""
    # Long columns: few large blocks; short ones: many small blocks.
    warps, blocks = (7, 2) if chunk.shape[1] > 512 else (2, 8)
    return _column_sizes(chunk, source, width, device, 64, warps, blocks)


def _column_sizes(
    chunk: Chunk, source: Source, width: int, device: Device, registers: int, warps: int,
    blocks: int, word: int = 0,
) -> Layout:  # fmt: skip
    steps, pack = chunk.shape[1], inputs_of(chunk, source, word)
    run = max(registers // (2 * source.words * pack), 1)
    span = (width * chunk.dtype.itemsize + 8) * pack
    while warps > 1 and (
        2 * warps * 32 * span > _MEETING_BYTES // blocks or (warps - 1) * run >= steps
    ):
        warps -= 1
    items = min(run, steps) * pack
    return column_layout(chunk, source, device, warps * 32, items, 2, blocks, word)


def column_layout(
    chunk: Chunk, source: Source, device: Device, threads: int, items: int, stages: int,
    blocks: int = 1, word: int = 0,
) -> Layout:  # fmt: skip
    """Complete a choice of sizes for columns.

    A thread has `items` elements, of neighbouring columns where they lie in words of
    `word` bytes (8 or 16); where addresses are in the way it has as many steps of one.
    """
    pack = inputs_of(chunk, source, word)
    run = items // pack
    if pack > 1 and not source.is_aligned:
        pack, items = 1, run
    loads = len(source.streams) * threads * items * chunk.dtype.itemsize
    room = device.shared_bytes // blocks - _MEETING_BYTES // blocks - 8 * 1024
    while stages > 0 and stages * loads > room:
        stages -= 1
    if device.capability < ASYNC_CAPABILITY:
        stages = 0
    tile = threads // 32 * run
    groups, tiles = -(-chunk.shape[0] * chunk.shape[2] // (32 * pack)), -(-chunk.shape[1] // tile)
    team = choose_team(groups, tiles, blocks * device.multiprocessors)
    layout = Layout(threads, items, stages, reverse=chunk.reverse, team=team, blocks=blocks)
    return in_words(layout, word if pack > 1 else 0)


def choose_team(groups: int, tiles: int, resident: int) -> int:
    """Find the smallest team that leaves few blocks without work, for so many groups of tiles."""

    def used(team: int) -> float:
        turns = -(-groups // max(1, resident // team)) * -(-tiles // team)
        return groups * tiles / (turns * resident)

    sizes = range(1, min(max(_LARGEST_TEAM, resident // groups), tiles, resident) + 1)
    most = max(map(used, sizes))
    return next(team for team in sizes if used(team) >= 0.97 * most)
