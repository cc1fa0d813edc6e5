"""Sizes of tiles, stages and teams for each shape, dtype and form of the operands.

Threads and steps of a tile decide the order of the arithmetic. They depend on shape, dtype and form
of the operands alone, as on a GPU of 132 multiprocessors. Stages, blocks and teams only divide the
work, and follow the device.

Contiguous rows, columns (rows side by side) and channels (few columns, such as the channels of a
signal) have layouts of their own. A tile of channels has all columns, or a line of 32 to 128 bytes
of each step: a team of blocks then shares a line.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, lcm
from typing import TYPE_CHECKING

from ...engines.cuda.device import MULTIPROCESSORS
from .program import ScanLayout

if TYPE_CHECKING:
    from ...core.arrays.chunk import Chunk
    from ...engines.cuda.device import Device
    from .program import Source


_ROW_SHARED = 227 * 1024
"""Most bytes of shared memory of a block."""
SHIFTED_BYTES = 128
"""Bytes after each tile of loads, if a stream does not begin at a multiple of 16 bytes."""
_ROW_THREADS = 224
"""256 with the look-ahead warp: one warp more would cost each thread 87 of 255 registers."""
_HEAVY_WIDE_THREADS = 352
"""For maps of many more numbers than their state, of 8 bytes, limited by the latency of composing
them. Möbius in float64 ran at 0.47 of the floor, with 224 threads at 0.43."""
_HEAVY_REGISTERS, _HEAVY_CHAINS = 160, 2
"""For such maps of 4 bytes. Möbius in float32 ran at 0.80 with 224 threads, 20 items and 2 chains,
at 0.78 with 4 chains, and at 0.76 with 5. With 4 chains it ran at 0.72 with 192 threads, and at
0.44 with two blocks of 96; with 352 threads, 12 items and 3 chains at 0.68. All these requested
each stream again as soon as it was read, which alone gained nothing: 4 chains without, 0.78."""
_ROW_REGISTERS = 144
"""Registers of a thread for the items of two tiles."""
_WIDE_REGISTERS = 176
"""For one row of 8-byte words: 22 float64 items ran at 0.93 of the floor, 18 at 0.90."""
_ONE_WORD_REGISTERS = 152
"""For one varying operand: 76 float32 items ran at 0.94, 60 at 0.91."""
_NARROW_THREADS, _NARROW_REGISTERS = 352, 176
"""For two or more varying operands stored in two bytes: 40 items ran at 0.91 of the floor. With 224
threads 72 items ran at 0.89, 56 at 0.86 and 40 at 0.81; items in pairs of two to a register."""
_COMPUTED_REGISTERS = 120
"""For a coefficient that is computed twice a step: 60 items ran at 0.90, 68 at 0.83."""
_BRANCHING_THREADS, _BRANCHING_VECTORS = 480, 3
_BRANCHLESS_THREADS, _BRANCHLESS_VECTORS = 480, 5
"""For programs limited by the formula of a coefficient: more warps hide its latency. Formulas
without branches need fewer warps, since the items of a thread hide each other's latency.
0.5 + 0.4·sin(0.001·i) ran at 0.72, with 352 threads at 0.65, with 352 of 28 items at 0.70. To
compute it a tile early, while the look-ahead warp finds the state, cost more than it hid."""
_LOOP_WORD = 8
"""Bytes of neighbouring columns for each lane of the plain loop."""
_LOOP_GROUPS = 2 * MULTIPROCESSORS
"""Groups of 32 rows from which each warp solves one by the plain loop."""
_LOOP_ITEMS = 16
_LOOP_STEPS = 128
"""Longest contiguous rows of the plain loop: 64 float32 steps ran at 0.94 of the floor, tiles at
0.90; 1,000 steps at 0.74 and 0.93. Rows that 16-byte words do not divide: 0.53 and 0.81."""
_LOOP_COLUMN_STEPS, _LOOP_COLUMN_GROUPS = 512, 16 * MULTIPROCESSORS
"""Longest and fewest columns of the plain loop: 1,000,000 of 64 steps ran at 0.85 of the floor,
tiles at 0.80; 10,000 of 10,000 steps, 3 warps a multiprocessor, at 0.21 and 0.66."""
_WIDE_STEPS, _WIDE_GROUPS = 4096, 1024
"""Longest columns, and fewest groups, in words of 16 bytes: 32,768 columns of 2,048 steps ran at
0.95 of the floor, with a constant coefficient at 0.91; tiles at 0.87."""
_LOOP_SHARED = 200 * 1024
"""Bytes of a multiprocessor that warps of the plain loop request at once."""


def choose_layout(chunk: Chunk, source: Source, width: int, states: int, device: Device) -> ScanLayout:
    """Choose the layout of the single pass."""
    steps, groups = chunk.shape[1], _groups(chunk)
    if chunk.shape[2] == 1:
        is_aligned = steps * chunk.dtype.itemsize % 16 == 0 and source.stored == chunk.dtype
        if is_aligned and steps <= _LOOP_STEPS and groups >= _LOOP_GROUPS:
            return _loop_rows(chunk, source, states, device)
        return _choose_rows(chunk, source, states, device, is_heavy=width >= 4 * states)
    if steps <= _LOOP_COLUMN_STEPS and groups >= _LOOP_COLUMN_GROUPS:
        return _loop_columns(chunk, source, device, _LOOP_WORD)
    if steps <= _WIDE_STEPS and groups >= _WIDE_GROUPS and inputs_of(chunk, source, 16) > 1:
        return _loop_columns(chunk, source, device, 16)
    layout = choose_channels(chunk, source, states, device)
    return layout or _choose_columns(chunk, source, width, device, _COLUMN_REGISTERS, 7, 1, _TILE_WORD)


def choose_precompute(chunk: Chunk, source: Source, width: int, states: int, device: Device) -> ScanLayout:
    """Choose the layout of the reduction: that of the single pass, with more pending loads."""
    if chunk.shape[2] > 1:
        # Few large blocks for long columns, many small blocks for short ones.
        warps, blocks = (7, 2) if chunk.shape[1] > 512 else (2, 8)
        return replace(_choose_columns(chunk, source, width, device, 64, warps, blocks), team=1)
    layout = _choose_rows(chunk, source, states, device)
    stages, items = _reduced_stages(chunk, source, layout, device)
    layout = replace(layout, stages=stages, items=items, segmented=False, crowded=False)
    if chunk.shape[0] > 1 and chunk.shape[1] * chunk.dtype.itemsize % 16:
        return replace(layout, bulk=False, staged=False)
    return layout


def _reduced_stages(chunk: Chunk, source: Source, layout: ScanLayout, device: Device) -> tuple[int, int]:
    """Return the stages and items of a reduction: three stages if two vectors less make room.

    Summaries of float64 arrays ran at 0.99 of the floor with three stages of 18 items, at 0.83
    with two of 22.
    """

    def fit(stages: int, items: int, room: int) -> bool:
        tile = layout.threads * items * chunk.dtype.itemsize + SHIFTED_BYTES * any(source.shifts)
        return items > 0 and 128 + stages * len(source.streams) * tile <= room

    fewer = layout.items - 2 * 16 // chunk.dtype.itemsize
    is_close = not fit(3, layout.items, _ROW_SHARED) and fit(3, fewer, _ROW_SHARED)
    items = fewer if is_close else layout.items
    return next((k for k in (3, 2) if fit(k, items, device.shared_bytes)), 1), items


def _choose_rows(
    chunk: Chunk, source: Source, states: int, device: Device, is_heavy: bool = False
) -> ScanLayout:
    # An odd number of 16-byte vectors a thread keeps shared memory free of bank conflicts.
    vector = 16 // source.stored.itemsize
    is_wide = chunk.dtype.itemsize > 4
    registers = _registers(chunk, source)
    if is_heavy:
        registers = _ROW_REGISTERS if is_wide else _HEAVY_REGISTERS
    vectors = max(registers // (2 * source.words * vector), 1)
    threads = _HEAVY_WIDE_THREADS if is_heavy and is_wide else _ROW_THREADS
    if registers == _NARROW_REGISTERS and source.stored != chunk.dtype:
        threads = _NARROW_THREADS
    if source.has_transcendental:
        is_branchless = any(source.branchless)
        threads = _BRANCHLESS_THREADS if is_branchless else _BRANCHING_THREADS
        vectors = min(vectors, _BRANCHLESS_VECTORS if is_branchless else _BRANCHING_VECTORS)
    streams = len(source.streams)
    # With fewer tiles than multiprocessors, smaller tiles are faster.
    enough = chunk.shape[0] * chunk.shape[1] // (threads * vector * MULTIPROCESSORS)
    vectors = max(min(vectors, enough), 1)
    vectors -= 1 - vectors % 2
    # Polls wait behind pending loads: Möbius in float32 ran at 0.78 with one tile of loads, at 0.74
    # with two.
    stages = 1 if source.varying <= 1 or (is_heavy and not is_wide) else 2
    while vectors > 1 and _shared(threads, vectors, stages, streams, states) > _ROW_SHARED:
        vectors -= 2
    most = device.shared_bytes - SHIFTED_BYTES * stages * streams * any(source.shifts)
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
    if source.stored != chunk.dtype:
        return _NARROW_REGISTERS
    return _WIDE_REGISTERS if chunk.dtype.itemsize == 8 and chunk.shape[0] == 1 else _ROW_REGISTERS


def row_layout(
    chunk: Chunk, source: Source, device: Device, threads: int, items: int, stages: int
) -> ScanLayout:
    """Complete a choice of sizes for contiguous rows."""
    return ScanLayout(
        threads,
        items,
        stages,
        reverse=chunk.reverse,
        segmented=chunk.shape[0] > 1,
        crowded=chunk.shape[1] < items,
        bulk=device.has_bulk_copies,
        staged=source.is_aligned and not device.has_bulk_copies,
    )


def _shared(threads: int, vectors: int, stages: int, streams: int, states: int) -> int:
    return 128 + (stages * streams + states) * threads * vectors * 16


def _groups(chunk: Chunk) -> int:
    return -(-chunk.shape[0] * chunk.shape[2] // 32)


def _loop_rows(chunk: Chunk, source: Source, states: int, device: Device) -> ScanLayout:
    """Choose the layout of the plain loop: a warp for 32 rows, and as many loads as fit."""
    # Rows of 64 float32 steps ran at 0.94 of the floor in one piece, at 0.92 in two pieces.
    vector = 16 // chunk.dtype.itemsize
    items = _loop_items(source, (8 if chunk.shape[1] % (16 * vector) else 16) * vector, vector)
    piece = 32 * (items * chunk.dtype.itemsize + 16)
    blocks = min(-(-_groups(chunk) // device.multiprocessors), 8)
    stages = _loop_stages(chunk, source, device, blocks, items, states, piece)
    row_bytes = chunk.shape[1] * chunk.dtype.itemsize
    return ScanLayout(
        32,
        items,
        stages,
        reverse=chunk.reverse,
        walking=True,
        blocks=blocks,
        bulk=row_bytes % 16 == 0 and source.is_aligned,
    )


def _loop_columns(chunk: Chunk, source: Source, device: Device, word: int) -> ScanLayout:
    size = source.stored.itemsize
    items = _loop_items(source, _LOOP_ITEMS, 16 // size)
    lane_columns = inputs_of(chunk, source, word) if source.is_aligned else 1
    blocks = min(-(-_groups(chunk) // (lane_columns * device.multiprocessors)), 16)
    piece = 32 * items * size
    stages = _loop_stages(chunk, source, device, blocks, items // lane_columns, 0, piece)
    if device.capability < ASYNC_CAPABILITY:
        stages = 0
    layout = ScanLayout(32, items, stages, reverse=chunk.reverse, walking=True, blocks=blocks)
    return replace(layout, lane_columns=lane_columns)


def _loop_items(source: Source, items: int, vector: int) -> int:
    while items > vector and items * source.words > 128:
        items //= 2
    return items


def _loop_stages(
    chunk: Chunk, source: Source, device: Device, blocks: int, steps: int, stores: int, piece: int
) -> int:
    room = min(_LOOP_SHARED, device.shared_bytes) // blocks - stores * piece
    loads = max(len(source.streams) * piece, 1)
    return max(1, min(room // loads, 8, -(-chunk.shape[1] // steps)))


ASYNC_CAPABILITY = 80
_COLUMN_REGISTERS = 144
_LARGEST_TEAM = 32
"""Most blocks of a team; for few columns a team may be as large as the GPU."""
_TILE_WORD = 8
"""Bytes of neighbouring columns for each lane of a tile."""
_PACKED_COLUMNS = 512
"""Fewest columns for such words: fewer need teams of many blocks, which read each other's spans."""
_SCAN_BYTES = 40 * 1024
"""Shared memory for the scan across the warps of a tile of columns."""


def inputs_of(chunk: Chunk, source: Source, word: int) -> int:
    """Count the columns of a lane in words of `word` bytes, at most 4; 1 if words do not fit the chunk."""
    (outers, _, inners) = chunk.shape
    lane_columns = max(1, min(4, word // source.stored.itemsize))
    has_only_streams = source.streams and not source.computed and not source.functions
    is_wide = inners % lane_columns == 0 and outers * inners >= _PACKED_COLUMNS
    return lane_columns if has_only_streams and is_wide else 1


def _choose_columns(
    chunk: Chunk,
    source: Source,
    width: int,
    device: Device,
    registers: int,
    warps: int,
    blocks: int,
    word: int = 0,
) -> ScanLayout:
    steps, lane_columns = chunk.shape[1], inputs_of(chunk, source, word)
    length = max(registers // (2 * source.words * lane_columns), 1)
    span = (width * chunk.dtype.itemsize + 8) * lane_columns
    while warps > 1 and (2 * warps * 32 * span > _SCAN_BYTES // blocks or (warps - 1) * length >= steps):
        warps -= 1
    items = min(length, steps) * lane_columns
    return column_layout(chunk, source, device, warps * 32, items, 2, blocks, word)


def column_layout(
    chunk: Chunk,
    source: Source,
    device: Device,
    threads: int,
    items: int,
    stages: int,
    blocks: int = 1,
    word: int = 0,
) -> ScanLayout:
    """Return a layout of columns.

    A thread has `items` elements, in words of `word` bytes (8 or 16) of neighbouring columns; if
    addresses are not aligned it has as many steps of one column.
    """
    lane_columns = inputs_of(chunk, source, word)
    length = items // lane_columns
    if lane_columns > 1 and not source.is_aligned:
        lane_columns, items = 1, length
    loads = len(source.streams) * threads * items * source.stored.itemsize
    available = device.shared_bytes // blocks - _SCAN_BYTES // blocks - 8 * 1024
    while stages > 0 and stages * loads > available:
        stages -= 1
    if device.capability < ASYNC_CAPABILITY:
        stages = 0
    tile = threads // 32 * length
    groups, tiles = (-(-chunk.shape[0] * chunk.shape[2] // (32 * lane_columns)), -(-chunk.shape[1] // tile))
    team = choose_team(groups, tiles, blocks * device.multiprocessors)
    layout = ScanLayout(threads, items, stages, reverse=chunk.reverse, team=team, blocks=blocks)
    return replace(layout, lane_columns=lane_columns)


def choose_team(groups: int, tiles: int, resident: int) -> int:
    """Return the smallest team with which few of the resident blocks are idle."""

    def utilisation(team: int) -> float:
        rounds = -(-groups // max(1, resident // team)) * -(-tiles // team)
        return groups * tiles / (rounds * resident)

    sizes = range(1, min(max(_LARGEST_TEAM, resident // groups), tiles, resident) + 1)
    most = max(map(utilisation, sizes))
    return next(team for team in sizes if utilisation(team) >= 0.97 * most)


_MOST_CHANNELS = 32
"""Most channels of a tile. 64 of them, divided into hundreds of rows, each started early from 0,
ran at 0.50 of the floor by lanes of the plain loop."""
_LINES, _SECTOR, _FEW_LINES = (128, 64, 32), 32, 16
"""Bytes of a line, the widest that divides a step into few lines; and those that memory transfers at once.
The look-ahead has spans of all channels of a line: on an H200, 64 columns of float32 ran at 0.76 of the floor
in lines of 16 columns and at 0.71 in lines of 32. Blocks that share lines of 32 bytes have to stay close: 40
columns ran at 0.65 with the states a turn later, and at 0.43 with two turns and 256 threads."""
_MOST_LINES, _MANY_LINES = 128, 24
"""Most lines, and most of whole lines where columns side by side have words of several: 512 columns of
float32 with arrays ran at 0.82 of the floor, and in words at 0.72; with a constant one at 0.73 and 0.76."""
_MOST_THREADS, _LINE_THREADS = 512, range(192, 353)
_THREADS = {"light": 384, "few": 288, "narrow lines": 320, "light lines": 384, "other": 256}
"""Threads about which a block has, by kinds of tiles: of up to _DIRECT columns, whose items take few
registers or more; of lines of 32 bytes; of lines of one operand in batches; and of others. On an H200, three
columns of float32 with a constant coefficient ran at 0.84 of the floor, with 256 threads at 0.75; with arrays
at 0.82, with 384 at 0.66; those of float64 with a constant one at 0.80, and at 0.60."""
_SHARED, _SPANS = 212 * 1024, 15 * 1024
"""Most bytes of stages and stores of a block, and of its spans."""
_FEWEST_ITEMS, _ITEMS = 3, 41
_BATCHES, _BATCH = 3, {2: 17, 8: 7}
"""Batches of a thread and most items of each, for numbers of 2 bytes and one operand of 8: tiles then fill
the shared memory, not the registers. On an H200, 256 columns of float16 with a constant coefficient ran at
0.735 of the floor, in one batch at 0.63 with 37 steps and at 0.47 with 19; with arrays at 0.72 with three
stages, and at 0.59 with five of 19 steps; 64 columns of float64 at 0.84, in one batch at 0.72. Those of
float32 ran at 0.77 in either way."""
_DIRECT, MOST_BLOCKS = 4, 160
"""The most channels of which every block polls all tiles, and the most blocks whose tiles ``GROUPS`` groups
of the kernels span: ``DIRECT`` of the kernels."""


def steps_of_tile(layout: ScanLayout, itemsize: int) -> int:
    """Count the steps of a tile: ``STEPS`` of the kernels."""
    vector, lanes = 16 // itemsize, layout.channels // layout.lane_columns
    return layout.threads // lanes // vector * vector * layout.batches * layout.items


def ring_of(blocks: int) -> int:
    """Count the tiles and groups whose spans stay published, as ``Board`` of the kernels."""
    ring = 8 * blocks + 64
    return ring + ring // 32 + 1


def choose_channels(chunk: Chunk, source: Source, states: int, device: Device) -> ScanLayout | None:
    """Choose the layout of tiles of a few columns; None if columns need another layout."""
    outers, steps, channels = chunk.shape
    size = source.stored.itemsize
    if channels == 1 or chunk.dtype.itemsize < 4:
        return None
    if channels * size > min(_LINES[0], _MOST_CHANNELS * size):
        layout = _choose_lines(chunk, source, device)
        if layout or channels > _MOST_CHANNELS:
            return layout
    if outers > 1 and steps * channels * size % 16:
        return None
    is_light = len(source.streams) < 2 and chunk.dtype.itemsize <= 4
    kind = "other" if channels > _DIRECT else "light" if is_light else "few"
    batch = _BATCH[size] if size == 2 and kind != "light" else 0
    layout = _channel_layout(chunk, source, channels, states, _THREADS[kind], 4, batch)
    if steps < 2 * steps_of_tile(layout, size):
        return None
    fits = _bytes(layout, source, states) <= device.shared_bytes
    return replace(layout, bulk=fits and device.has_bulk_copies)


def _choose_lines(chunk: Chunk, source: Source, device: Device) -> ScanLayout | None:
    """Choose the layout of tiles of one line; None if lines do not fit, or are many."""
    outers, steps, inners = chunk.shape
    size = source.stored.itemsize
    channels = _channels_of_line(inners, size)
    count = outers * -(-inners // max(channels, 1))
    has_words = inners * size % _LINES[0] == 0 and ((size == 4 and len(source.streams) < 2) or size > 4)
    if not 1 < count <= (_MANY_LINES if has_words else _MOST_LINES) or not channels or not source.is_aligned:
        return None
    is_light = len(source.streams) < 2 and chunk.dtype.kind == "f"
    batch = _BATCH.get(size, 0) if is_light or size == 2 else 0
    is_narrow = channels * size == _SECTOR and not batch
    kind = "light lines" if is_light and batch else "narrow lines" if is_narrow else "other"
    stages = 4 if kind != "other" else 3 if batch else 5
    layout = _channel_layout(chunk, source, channels, 0, _THREADS[kind], stages, batch)
    tile = steps_of_tile(layout, size)
    if steps < 2 * tile:
        return None
    # A tile is loaded while others wait between publishing and needing.
    tile_bytes = max(len(source.streams), 1) * tile * channels * size
    stages = min(layout.stages, (device.shared_bytes - _SPANS) // tile_bytes)
    return replace(
        layout,
        all_columns=inners,
        bulk=False,
        team=choose_team(count, -(-steps // tile), device.multiprocessors),
        stages=stages if stages > 2 else 0,
        distance=2 if stages > 3 and not is_narrow else 1,
    )


def _channels_of_line(inners: int, size: int) -> int:
    """Return the columns of a line: of those that divide a step into sectors, or near the best number.

    >>> _channels_of_line(64, 4), _channels_of_line(40, 4), _channels_of_line(50, 4)
    (16, 8, 18)
    """
    for line in _LINES:
        is_few = inners * size <= line * _FEW_LINES and line <= max(16 * size, 64)
        if is_few and inners * size % line == 0:
            return line // size
    best = min(16 if size >= 4 else 32, _LINES[0] // size)

    def is_fit(channels: int) -> bool:
        filled = lcm(channels * max(16 // size, 1), 32)
        return (inners | channels) * size % 4 == 0 and any(k % filled == 0 for k in _LINE_THREADS)

    def score(channels: int) -> float:
        # Columns that do not exist, distance from the best, and narrow words cost about so much.
        distance = (channels - best) * (0.01 if channels > best else -0.02)
        is_in_words = [(inners | channels) * size % word == 0 for word in (8, 16)]
        return inners / (-(-inners // channels) * channels) - distance + 0.03 * sum(is_in_words)

    widths = range(best // 2 + 1, min(best * 3 // 2, _LINES[0] // size, _MOST_CHANNELS) + 1)
    return max(filter(is_fit, widths), key=score, default=0)


def _bytes(layout: ScanLayout, source: Source, states: int) -> int:
    """Return the bytes of shared memory of a block."""
    size = source.stored.itemsize
    tile = steps_of_tile(layout, size) * layout.channels * size
    return (layout.stages * len(source.streams) + states) * tile + _SPANS


def _channel_layout(
    chunk: Chunk, source: Source, channels: int, stores: int, threads: int, most_stages: int, batch: int
) -> ScanLayout:
    """Return the layout of tiles of `channels` columns, in batches of at most `batch` steps (0: of all).

    Numbers of two bytes are read in pairs, but for up to _DIRECT columns of one operand: two of float16 ran
    at 0.75 of the floor, in pairs at 0.71; 256 columns at 0.735, one by one at 0.49.
    """
    outers, steps, inners = chunk.shape
    size, streams = source.stored.itemsize, len(source.streams)
    is_in_pairs = size == 2 and batch and source.is_aligned and channels % 2 == 0 and inners % 2 == 0
    vector, lane_columns = 16 // size, 2 if is_in_pairs else 1
    lanes = channels // lane_columns
    filled = lcm(lanes * vector, 32)  # threads that all have a part
    if filled <= _MOST_THREADS:
        threads = max(1, min(round(threads / filled), _MOST_THREADS // filled)) * filled
    else:
        wanted = max(1, round(threads / lanes / vector)) * vector
        threads = -(-wanted * lanes // 32) * 32
    parts = threads // lanes // vector * vector
    width = parts * channels * size

    def most_items(stages: int) -> int:
        return _SHARED // max((stages * streams + stores) * width, 1)

    stages = next((k for k in range(most_stages, 2, -1) if most_items(k) >= _FEWEST_ITEMS), 2)
    items = min(most_items(stages), _BATCHES * batch or _ITEMS * 4 // chunk.dtype.itemsize)
    # With fewer tiles than multiprocessors, smaller tiles are faster.
    enough = outers * steps * -(-inners // channels) // (parts * MULTIPROCESSORS)
    items = max(min(items, enough), _FEWEST_ITEMS)
    batches, items = _without_conflicts(items, lanes, size * lane_columns, batch or items)
    # The spine, and a quarter of a warp for a group of tiles of a channel; those of 32 channels share them,
    # since more warps leave fewer registers to a thread.
    shares_warps = channels <= _DIRECT or channels == 32
    ahead = 3 if shares_warps else 1 + -(-channels // 8)
    return ScanLayout(
        threads,
        items,
        stages,
        reverse=chunk.reverse,
        bulk=True,
        channels=channels,
        lane_columns=lane_columns,
        batches=batches,
        ahead=ahead,
        distance=2 if stages > 3 else 1,
    )


def _without_conflicts(steps: int, lanes: int, size: int, most: int) -> tuple[int, int]:
    """Return batches and items of each, at most `most`, with which parts of threads lie in different banks.

    Parts of an odd number of steps do, for 1, 2, 4, ... lanes. For others their distance has to be
    their width, except for multiples of all banks: three columns ran at 0.84 of the floor with 33 items and
    at 0.82 with 35.
    """
    banks = 128 // max(size, 4)
    period = banks // gcd(banks, lanes)
    free = [n for n in range(2 * steps // 3, steps + 1) if n % period in (1, period - 1)]
    odd = list(range(1, steps + 1, 2))
    for numbers in (free, odd) if lanes & (lanes - 1) else (odd,):
        for fewer in reversed(numbers):
            for batches in (1, _BATCHES):
                if fewer % batches == 0 and fewer // batches <= most:
                    return batches, fewer // batches
    return 1, 1
