"""Launch of the single pass: look-ahead along contiguous rows or along columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import Device
from ...engines.cuda.launches import (
    EPOCH,
    SPACE,
    Launch,
    PreparedLaunches,
    as_argument,
    is_value,
    run_cached,
)
from .channel_layouts import ring_of, steps_of_tile
from .column_layouts import columns_of_lane
from .layouts import choose_layout
from .program import Layout, print_program
from .repair import launch_repair, marked_units
from .sources import Source, describe
from .walk import launch_walk

_CARRY_IN = """
extern "C" __global__ void __launch_bounds__(THREADS + LOOKAHEAD, BLOCKS) determine_kernel(
    {parameters}, Unit* space, long long outers, long long steps, long long inners,
    unsigned epoch{told}) {{
  const Source source = {{{fills}}};
  const Entry entry = {{{entry}}};
  T* const results[] = {{{result}}};
  const Ledger ledger = {{reinterpret_cast<Marks*>(space), epoch}};
  {call}
}}
"""
_ROWS = """const long long total = outers * steps;
  determine_rows(source, entry, results, space + marked_units(outers), ledger,
                 Shape{outers, steps, total, (total + TILE - 1) / TILE, 0}, epoch, Unwatched());"""
_SPECULATION = f"""if (told->steps == 0) return;  // it does not forget
  Signs signs;
  {_ROWS.replace("Unwatched()", "signs")}
  signs.tell(told);"""
_COLUMNS = """const long long count = outers * inners, groups = (count + 31) / 32;
  determine_columns(source, entry, results, space + marked_units(groups), ledger,
                    Columns{outers, steps, inners, count, groups,
                            (steps + STEPS - 1) / STEPS}, epoch);"""
_CHANNELS = """const long long lines = (outers * inners + 31) / 32;
  determine_channels(source, entry, results, space + marked_units(lines), ledger,
                     Channels(outers, steps, inners), epoch);"""


_RING_TURNS = 8
"""Turns of a team whose published spans are kept: ``TURNS`` of the kernel."""


def launch_single_pass(
    transfer_map: TransferMap, chunk: Chunk, source: Source, layout: Layout,
    carry_in: tuple[Any, ...], results: tuple[Any, ...], multiprocessors: int, told: Any = None,
) -> tuple[Launch, int]:  # fmt: skip
    """The launch, and the 64-bit words of what its blocks publish.

    One that has a `told` begins a row: see :mod:`.begin`.
    """
    along_rows, states = chunk.shape[2] == 1, len(carry_in)
    outers, steps, inners = chunk.shape
    words = -(-max(len(transfer_map.identity), states) * chunk.dtype.itemsize // 4)
    units = words + words % 2
    resident, threads = layout.blocks * multiprocessors, layout.threads + 32
    kernel, call = ("rows", _ROWS) if along_rows else ("columns", _COLUMNS)
    if layout.channels:
        kernel, call = "channels", _CHANNELS
        tiles = outers * -(-steps // steps_of_tile(layout, chunk.dtype.itemsize))
        lines = outers * inners // layout.channels
        team = layout.team if layout.lines else min(resident, tiles)
        teams = min(lines, max(1, resident // team)) if layout.lines else 1
        blocks = teams * team
        published = teams * ring_of(team) * layout.channels * units
        threads = layout.threads + 32 * layout.ahead
    elif along_rows:
        tiles = -(-outers * steps // (layout.threads * layout.items))
        blocks, published = min(resident, tiles), tiles * units
    else:
        width = 32 * columns_of_lane(layout, chunk.dtype.itemsize)
        groups = -(-outers * inners // width)
        blocks = min(groups, max(1, resident // layout.team)) * layout.team
        published = blocks * _RING_TURNS * width * units
        if layout.team == 1:
            threads, published = layout.threads, 0
    files, further = [f"scans/cuda/{kernel}/determine"], () if told is None else (told,)
    if further:
        files, call = [*files, "scans/cuda/forgetting/signs"], _SPECULATION
    launch = Launch(
        print_program(
            transfer_map, states, source, layout, files, _CARRY_IN, tuple(map(is_value, carry_in)),
            call=call, told=", Told* told" if further else "",
        ),
        "determine_kernel", blocks, threads,
        (*source.streams, *source.arguments, *map(as_argument, carry_in), *results,
         SPACE, *map(np.int64, chunk.shape), EPOCH, *further),
        shared_bytes(chunk, source, layout, stores=states),
        is_cooperative=True,
    )  # fmt: skip
    return launch, published + (marked_units(chunk) if layout.guarded else 0)


def shared_bytes(chunk: Chunk, source: Source, layout: Layout, stores: int) -> int:
    """Count the dynamic shared memory of a block: tiles of loads, of stores, and barriers."""
    is_flat = chunk.shape[2] == 1 or layout.channels
    if is_flat and not (layout.bulk or layout.staged or layout.lines):
        return 0
    tile = layout.threads * layout.items * chunk.dtype.itemsize
    if layout.channels:
        tile = steps_of_tile(layout, chunk.dtype.itemsize) * layout.channels * chunk.dtype.itemsize
    loads = layout.stages * len(source.streams)
    if not is_flat or layout.lines:
        return loads * tile + 128 * layout.lines
    return 128 + loads * (tile + 16 * any(source.shifts)) + stores * tile


def prepare(
    transfer_map: TransferMap,
    chunk: Chunk,
    carry_in: tuple[Any, ...],
    results: tuple[Any, ...],
    layout: Layout | None = None,
    multiprocessors: int | None = None,
    told: Any = None,
) -> PreparedLaunches:
    """Compile the launches of a chunk, or those of chunks of its kind: what returns runs them.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
        With at least one step and row.
    carry_in : tuple of arrays (outer, inner)
        Or of numbers in host memory, each for all rows.
    results : tuple of arrays (outer, steps, inner)
    layout : Layout, optional
        Chosen by :func:`mgrec.scans.cuda.layouts.choose_layout` when not given.
    multiprocessors : int, optional
        Fewer than the device has: the grid of a smaller one.
    told : array, optional
        What a row tells that is begun.
    """
    device = Device.current()
    if multiprocessors:
        device = replace(device, multiprocessors=multiprocessors)
    source = describe(chunk)
    layout = layout or choose_layout(
        chunk, source, len(transfer_map.identity), len(carry_in), device
    )
    if any(w.data.ptr % 16 for w in results):
        layout = replace(layout, bulk=False, staged=False)
    if layout.walking:
        arrays = (carry_in, results, device.multiprocessors)
        return PreparedLaunches(launch_walk(transfer_map, chunk, source, layout, *arrays))
    layout = replace(layout, guarded=transfer_map.redoes_rows_of(chunk.dtype))
    launch, units = launch_single_pass(
        transfer_map, chunk, source, layout, carry_in, results, device.multiprocessors, told
    )
    repair: tuple[Launch, ...] = ()
    if layout.guarded:
        given = launch.arguments if told is None else launch.arguments[:-1]
        repair = (launch_repair(chunk, source, given, is_value(carry_in[0])),)
    return PreparedLaunches(launch, *repair, units=max(units, 1))


def determine(
    transfer_map: TransferMap, chunk: Chunk, carry_in: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Compute the states of all steps from the states before the first.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
        Of CuPy arrays on the current device.
    carry_in : tuple of CuPy arrays (outer, inner)

    Returns
    -------
    tuple of CuPy arrays (outer, steps, inner)
        One a component of the state.

    Notes
    -----
    The order of the arithmetic depends on shape, dtype and kind of operands, never on
    timing or on the size of the GPU: two runs give the same bits.

    For w = s·w + t in floating point, nan and inf stand where the plain loop has them:
    rows in which a state comes near overflow, or is next to nothing beside one above 1e6 that
    met a product which underflowed, are done again from there on, a block a row. Where the operands
    are finite and a state comes near overflow all the same, the row is done again from its start,
    one step after the other and rounded as on the host: rounding may decide what the loop does.
    Where nothing is wrong all this costs one launch that ends at once. Many rows are walked by the
    plain loop itself (:mod:`mgrec.scans.cuda.walk`) and need none of that.
    """
    import cupy

    results = tuple(cupy.empty(chunk.shape, chunk.dtype) for _ in carry_in)
    if results[0].size:
        run_cached(prepare, transfer_map, chunk, carry_in, results)
    return results
