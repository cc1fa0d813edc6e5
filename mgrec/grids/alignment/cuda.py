"""Alignments on a GPU: one tile, or many pairs, by one warp each or by the whole GPU if long."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.contract.grid import Bands
from ...engines.cuda.device import Device, on_device, pack_words
from ..recurrence import part_of_gpu
from .layout import LANES, AlignmentLayout, TileLaunch, choose_launch, prepare_launch, score_dtype, source_of
from .recurrence import AlignmentKernels, Best, Edges, Launched, best_of_edges, carry_in_from, edges_of_empty
from .scoring import Scoring, Table
from .sequences import Sequences

# Kernels count rows and columns of a tile with 32 bits.
_LARGEST_SIDE = 2**31 - 2**12
# How often a GPU reads a word of another one, in some 0.7 us each: 12 minutes, since another worker
# may compile for minutes first. A solve that is abandoned ends the kernel.
PATIENCE = 1 << 30
# Seconds between two looks whether kernels have ended.
PAUSE = 0.0002
_MOST_ROWS = 16
_WARPS = 4
# Blocks of a multiprocessor, and most bytes of the rows that pass from strip to strip.
_BLOCKS = 4
_MOST_BYTES = 1 << 28
# Number of pairs whose lengths determine the rows of a lane.
_SAMPLE_SIZE = 1000
# A step takes so many times longer if all warps are busy. So many steps are worth a launch.
_SLOWER, _LAUNCH = 4, 50_000


def kernels(method: str) -> AlignmentKernels:
    """Return the phases of tiles and of pairs of sequences."""
    return AlignmentKernels(
        determine_alignment,
        determine_pairs=determine_pairs,
        launch_bands=launch_bands,
        part=lambda scoring, shape, side: part_of_gpu(shape),
    )


def determine_alignment(
    scoring: Scoring,
    sequences: tuple[Any, Any],
    carry_in: Edges,
    origin: tuple[int, int],
    dtype: Any,
    table: Any = None,
) -> Edges:
    """Return the edges of a tile, on the device, and its best cell.

    The parameters are those of :mod:`mgrec.grids.alignment`. Integers are computed in int32 if it
    holds all scores of the tile, else in int64. The same operations compute a cell for any
    tiles: the bits are the same.
    """
    import cupy

    query, target = map(cupy.ascontiguousarray, sequences)
    n, m, dtype = query.size, target.size, np.dtype(dtype)
    if n == 0 or m == 0:
        return edges_of_empty(scoring, carry_in).map_arrays(partial(_as_edge, dtype=dtype))
    if max(n, m) > _LARGEST_SIDE:
        raise ValueError(
            f"a tile on a GPU must have at most {_LARGEST_SIDE} rows and columns; got {n} and {m}"
        )
    device = Device.current()
    after, best_cells, _ = _launch(scoring, (query, target), carry_in, dtype, table, device)
    row, column, row_gaps, column_gaps = after
    best = _best_of_strips(best_cells, dtype, origin) if scoring.is_local else None
    return Edges(row, column, row_gaps, column_gaps, best)


def launch_bands(
    scoring: Scoring, sequences: Sequence[list[Any]], carry_in: Edges, dtype: Any, bands: Bands
) -> Launched:
    """Launch a run of bands of a grid that GPUs of one kind share; sequences are in chunks.

    The row of the edges is undefined, unless these bands are the last ones. The wait raises
    RuntimeError if the GPU before has not written its last row.
    """
    import cupy
    from cupyx import empty_pinned

    query, target = map(cupy.concatenate, sequences)
    dtype, current = np.dtype(dtype), Device.current()
    # All GPUs together have so many multiprocessors.
    device = replace(current, multiprocessors=current.multiprocessors * bands.count)
    is_late = empty_pinned(1, np.int64)
    is_late[0] = 0
    after, best_cells, launch = _launch(
        scoring, (query, target), carry_in, dtype, None, device, bands, is_late.ctypes.data
    )
    strips, rows = launch.layout.strips, launch.layout.strip_rows
    first, end = (
        min(launch.strips, launch.bands * k // bands.count * strips) for k in (bands.number, bands.number + 1)
    )
    start, stop = (max(0, min(query.size, k * rows - launch.skip)) for k in (first, end))
    launched = cupy.cuda.Event(disable_timing=True)
    launched.record()

    def wait(is_abandoned: bool) -> tuple[Edges, int]:
        if is_abandoned:
            is_late[0] = 1
        while not launched.done:
            time.sleep(PAUSE)
        if is_late[0]:
            raise RuntimeError("the GPU with the rows before has not passed on its last row")
        row, column, row_gaps, column_gaps = after
        best = None
        if scoring.is_local:
            best = _best_of_strips(best_cells[first:end], dtype, (0, 0))
        gaps = None if column_gaps is None else column_gaps[start:stop]
        return Edges(row, column[start:stop], row_gaps, gaps, best), start

    return wait


def _launch(
    scoring: Scoring,
    sequences: tuple[Any, Any],
    carry_in: Edges,
    dtype: np.dtype[Any],
    table: Any,
    device: Device,
    bands: Bands | None = None,
    is_late: int = 0,
) -> tuple[list[Any], Any, TileLaunch]:
    """Launch a tile or a run of its bands; return its edges, the best cells of strips, the launch.

    `is_late` is the address of an int64 in memory of the host, for a run of bands.
    """
    import cupy

    (query, target), (n, m) = sequences, (sequence.size for sequence in sequences)
    before = _edges_before(scoring, carry_in)
    score = score_dtype(scoring, n + m, _largest(before), dtype)
    launch = choose_launch(
        (n, m),
        device,
        letter=query.dtype,
        score=score,
        dtype=dtype,
        source=source_of(scoring, score),
        mode=scoring.mode,
        is_affine=scoring.is_affine,
        has_matrix=table is not None,
        store_size=_store_size(table),
        letters=len(scoring.table or ()),
    )
    if _may_skip(launch.layout, scoring, before):
        launch = replace(launch, skip=-n % launch.layout.rows)
    edges = [None if edge is None else _as_edge(edge, dtype) for edge in before]
    sizes = (m + 1, n, m, n) if scoring.is_affine else (m + 1, n)
    after: list[Any] = [cupy.empty(size, dtype) for size in sizes]
    # The best cell of each strip, with the bits of its score.
    best_cells = cupy.empty((launch.strips, 3), np.int64)
    after += [None] * (4 - len(after))
    first, end, blocks = 0, launch.bands, launch.blocks
    if bands is not None:
        first, end = (launch.bands * (bands.number + k) // bands.count for k in range(2))
        most = launch.per_processor * device.multiprocessors // bands.count
        blocks = max(1, min(end - first, most))
    bands = bands or Bands(0, 1)
    # The counter of bands, and a row that passes from band to band.
    words = cupy.zeros(1 if bands.words else launch.words, np.uint64)
    arrays = query, target, *edges, *after, best_cells, table
    addresses = [0 if array is None else array.data.ptr for array in arrays]
    addresses.append(bands.words or words.data.ptr + 8)
    pitch = 0 if table is None else table.strides[0] // table.itemsize
    launch_kernel(
        "tile",
        scoring,
        launch.layout,
        blocks,
        launch.per_processor,
        launch.shared_bytes,
        addresses,
        [
            n,
            m,
            pitch,
            launch.skip,
            first,
            end,
            words.data.ptr,
            bands.onward,
            bands.tag,
            bands.onward_tag,
            is_late,
            PATIENCE,
        ],
    )
    return after, best_cells, launch


def _edges_before(scoring: Scoring, carry_in: Edges) -> list[Any]:
    """Return the edges above and to the left; None for a border of zeros, or of new gaps."""
    edges = [None if _is(edge, 0) else edge for edge in (carry_in.row, carry_in.column)]
    gaps = (carry_in.row_gaps, carry_in.column_gaps) if scoring.is_affine else (None, None)
    return edges + [
        None if gap is None or (edge is None and _is(gap, scoring.gap)) else gap
        for gap, edge in zip(gaps, edges, strict=True)
    ]


def _is(edge: Any, value: Any) -> bool:
    """Return whether an edge is one number, broadcast, with this value."""
    return isinstance(edge, np.ndarray) and edge.strides == (0,) and edge[0] == value


def _largest(before: list[Any]) -> int:
    """Return the largest magnitude of H around a tile."""
    return max((int(abs(edge).max()) for edge in before[:2] if edge is not None), default=0)


def _may_skip(layout: AlignmentLayout, scoring: Scoring, before: list[Any]) -> bool:
    """Return whether padding rows, which equal no letter, are 0 as the borders are."""
    if layout.mode != "local" or any(edge is not None for edge in before):
        return False
    is_unequal = layout.letter.itemsize <= 2 and scoring.mismatch <= 0
    return layout.source == "BYTES" or (layout.source == "EQUAL" and is_unequal)


def _store_size(table: Any) -> int:
    """Return how many numbers of every row, of 8 bytes, are an aligned word of up to 16 bytes."""
    return 1 if table is None or (table.data.ptr | table.strides[0]) % 16 else 2


def _as_edge(edge: Any, dtype: np.dtype[Any]) -> Any:
    import cupy

    return cupy.ascontiguousarray(on_device(edge).astype(dtype, copy=False))


def _best_of_strips(best_cells: Any, dtype: np.dtype[Any], origin: tuple[int, int]) -> Best:
    """Return the best cell of all strips, counted from the start of the sequences."""
    cells = best_cells.get()
    score = cells[:, 0].view(dtype)
    first = np.lexsort((cells[:, 1], cells[:, 2], -score))[0]
    if score[first] <= 0:
        return Best()
    row, column = cells[first, 1:].tolist()
    return Best(score[first].item(), origin[0] + row, origin[1] + column)


def determine_pairs(scoring: Scoring, queries: Sequences, targets: Sequences, dtype: Any) -> np.ndarray:
    """Return score, query_end and target_end of pairs; see :mod:`mgrec.grids.alignment`.

    The codes are in device memory, the result is in host memory.
    """
    if min(len(queries), len(targets)) == 0:
        return np.empty((0, 3), dtype)
    sides, count = (queries, targets), max(len(queries), len(targets))
    n, m = (np.broadcast_to(side.lengths, count) for side in sides)
    # Long pairs would take a warp longer than all other pairs take all warps.
    steps = -(-n // (LANES * _MOST_ROWS)) * (m + LANES)
    others = steps.sum() // (Device.current().multiprocessors * _BLOCKS * _WARPS)
    is_long = steps > _SLOWER * others + _LAUNCH
    result, order = np.empty((count, 3), dtype), None
    if is_long.any():
        order = np.flatnonzero(~is_long).astype(np.int32)
        n, m = n[order], m[order]
    if n.size:
        result = _align(scoring, sides, np.dtype(dtype), order, n, m)
    for k in np.flatnonzero(is_long).tolist():
        query, target = (side[0 if len(side) == 1 else k] for side in sides)
        result[k] = _align_alone(scoring, query, target, np.dtype(dtype))
    return result


def _align_alone(scoring: Scoring, query: Any, target: Any, dtype: np.dtype[Any]) -> tuple[Any, int, int]:
    """Align one pair as a tile."""
    shape = query.size, target.size
    carry_in = carry_in_from(scoring, None, None, (0, 0), shape, dtype)
    edges = determine_alignment(scoring, (query, target), carry_in, (0, 0), dtype)
    best = edges.best
    if scoring.mode == "global":
        best = Best(edges.row[-1].item(), shape[0] - 1, shape[1] - 1)
    elif best is None:
        best = best_of_edges(edges, (0, 0), (True, True))
    assert best is not None
    return best.score, best.query_end, best.target_end


def _align(
    scoring: Scoring,
    sides: tuple[Sequences, Sequences],
    dtype: np.dtype[Any],
    order: np.ndarray | None,
    n: np.ndarray,
    m: np.ndarray,
) -> np.ndarray:
    """Align all pairs, or those of `order`, of lengths `n` and `m`, by warps that take one in turn."""
    import cupy

    queries, targets = sides
    score = score_dtype(scoring, int(n.max() + m.max()), 0, dtype)
    layout = AlignmentLayout(
        letter=queries.codes.dtype,
        score=score,
        dtype=dtype,
        source=source_of(scoring, score),
        mode=scoring.mode,
        is_affine=scoring.is_affine,
        rows=_rows(n, m),
        strips=_WARPS,
        is_chain_short=False,
    )
    is_one_strip = int(n.max()) <= layout.strip_rows
    is_profile_shared = len(queries) == 1 and is_one_strip
    columns = 0 if is_one_strip else int(m.max())
    row_bytes = columns * layout.column_words * 4 * layout.strips
    blocks = min(-(-n.size // layout.strips), _BLOCKS * Device.current().multiprocessors)
    blocks = max(1, min(blocks, _MOST_BYTES // max(1, row_bytes)))
    best_cells = cupy.empty((max(len(queries), len(targets)), 3), np.int64)
    rows = cupy.empty(max(1, blocks * row_bytes), np.uint8)
    taken, chosen = cupy.zeros(1, np.uint64), None if order is None else cupy.asarray(order)
    words, arrays = [], []
    for side in sides:
        arrays += [cupy.ascontiguousarray(cupy.asarray(side.codes)), cupy.asarray(side.offsets)]
        words += [*(array.data.ptr for array in arrays[-2:]), len(side) == 1]
    words += [best_cells.data.ptr, rows.data.ptr, taken.data.ptr]
    after = [0 if chosen is None else chosen.data.ptr, n.size, columns, is_profile_shared]
    profiles = 1 if is_profile_shared else layout.strips
    shared = profiles * layout.profile_bytes(len(scoring.table or ()))
    launch_kernel("pairs", scoring, layout, blocks, _BLOCKS, shared, words, after)
    result: np.ndarray = best_cells.get()
    if dtype.kind == "i":
        return result
    return np.column_stack([result[:, 0].view(dtype), result[:, 1:]])


def _rows(n: np.ndarray, m: np.ndarray) -> int:
    """Return the rows of a lane with the fewest instructions for a sample of the pairs."""
    n, m = (lengths[:: max(n.size, m.size) // _SAMPLE_SIZE + 1] for lengths in (n, m))
    rows = np.arange(1, _MOST_ROWS + 1)[:, None]
    strips = -(-n // (LANES * rows))
    steps = strips * (m + LANES - 1) * (24 + 4 * rows)
    return int(rows[steps.sum(1).argmin(), 0])


@lru_cache(maxsize=256)
def _packed_scores(scoring: Scoring, score: np.dtype[Any]) -> np.ndarray:
    """Return the scores as one struct, which a kernel takes by value."""
    numbers = [scoring.gap, scoring.extend, scoring.gap, scoring.match, scoring.mismatch]
    return np.array(numbers, score).view(f"V{len(numbers) * score.itemsize}")


@lru_cache(maxsize=32)
def _on_device(table: Table, dtype: np.dtype[Any], device: int) -> Any:
    import cupy

    copy = cupy.asarray(np.array(table, dtype))
    # Any stream may read the copy from now on.
    cupy.cuda.get_current_stream().synchronize()
    return copy


def launch_kernel(
    name: str,
    scoring: Scoring,
    layout: AlignmentLayout,
    blocks: int,
    per_processor: int,
    shared: int,
    before: list[int],
    after: list[int],
) -> None:
    """Launch a kernel whose struct has the words `before`, the alphabet, and the words `after`."""
    import cupy

    device, table = cupy.cuda.runtime.getDevice(), None
    alphabet = [0, 0, 0]  # addresses of bytes and of another table, and the number of letters
    if scoring.table is not None:
        is_bytes = layout.source == "BYTES"
        table = _on_device(scoring.table, np.dtype(np.int8) if is_bytes else layout.score, device)
        alphabet = [table.data.ptr, 0] if is_bytes else [0, table.data.ptr]
        alphabet.append(len(table))
    prepared = prepare_launch(name, layout, blocks, per_processor, shared, device)
    prepared((pack_words([*before, *alphabet, *after]), _packed_scores(scoring, layout.score)))
