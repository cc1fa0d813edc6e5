"""Launches that determine a chunk: the single pass, the repair after it, and the plain loop.

The single pass looks ahead along contiguous rows or along columns. The repair solves again the rows
of w = s·w + t whose composed maps overflow or underflow. The plain loop solves many rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...core.backends import CPU, backend_of
from ...engines.cuda.device import Device, raise_if_capturing
from ...engines.cuda.launches import EPOCH, SPACE, Launch, PreparedLaunches, as_argument, is_value
from .layouts import MOST_BLOCKS, SHIFTED_BYTES, choose_layout, ring_of, steps_of_tile
from .program import ScanLayout, Source, carry_in_types, describe, print_program

Arrays = tuple[Any, ...]

_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS + LOOKAHEAD, BLOCKS) determine_kernel(
    {parameters}, Unit* space, long long outers, long long steps, long long inners,
    unsigned epoch{outcome}) {{
  const Source source = {{{fills}}};
  const Entry entry = {{{entry}}};
  Stored* const results[] = {{{result}}};
  const RepairList repair_list = {{reinterpret_cast<Marks*>(space), epoch}};
  {call}
}}
"""
_ROWS = """const long long total = outers * steps;
  determine_rows(source, entry, results, space + marked_units(outers), repair_list,
                 Shape{outers, steps, total, (total + TILE - 1) / TILE, 0}, epoch, Unwatched());"""
_SPECULATION = f"""if (told->steps == 0) return;  // not contractive
  Signs signs;
  {_ROWS.replace("Unwatched()", "signs")}
  signs.combine(told);"""
_COLUMNS = """const long long count = outers * inners, groups = (count + 31) / 32;
  determine_columns(source, entry, results, space + marked_units(groups), repair_list,
                    Columns{outers, steps, inners, count, groups,
                            (steps + STEPS - 1) / STEPS}, epoch);"""
_CHANNELS = """const long long lines = (outers * inners + 31) / 32;
  determine_channels(source, entry, results, space + marked_units(lines), repair_list,
                     Channels(outers, steps), epoch);"""


_RING_ROUNDS = 8
"""Rounds of a team whose published spans are stored: ``ROUNDS`` of the kernel."""


def launch_single_pass(
    transfer_map: TransferMap,
    chunk: Chunk,
    source: Source,
    layout: ScanLayout,
    carry_in: Arrays,
    results: Arrays,
    multiprocessors: int,
    outcome: Any = None,
) -> tuple[Launch, int]:
    """Return the launch, and the number of 64-bit words that its blocks publish.

    With an `outcome` the launch also reads the signs of coefficients: see :mod:`.speculation`.
    """
    along_rows, states = chunk.shape[2] == 1, len(carry_in)
    outers, steps, inners = chunk.shape
    words = -(-max(len(transfer_map.identity), states) * chunk.dtype.itemsize // 4)
    units = words + words % 2
    resident, threads = layout.blocks * multiprocessors, layout.threads + 32
    kernel, call = ("rows", _ROWS) if along_rows else ("columns", _COLUMNS)
    if layout.channels:
        kernel, call = "channels", _CHANNELS
        tiles = outers * -(-steps // steps_of_tile(layout, source.stored.itemsize))
        lines = outers * -(-inners // layout.channels)
        team = layout.team if layout.all_columns else min(resident, tiles, MOST_BLOCKS)
        teams = min(lines, max(1, resident // team)) if layout.all_columns else 1
        blocks = teams * team
        published = teams * ring_of(team) * layout.channels * units
        threads = layout.threads + 32 * layout.ahead
    elif along_rows:
        tiles = -(-outers * steps // (layout.threads * layout.items))
        blocks, published = min(resident, tiles), tiles * units
    else:
        width = 32 * layout.lane_columns
        groups = -(-outers * inners // width)
        blocks = min(groups, max(1, resident // layout.team)) * layout.team
        published = blocks * _RING_ROUNDS * width * units
        if layout.team == 1:
            threads, published = layout.threads, 0
    files, outcomes = [f"scans/cuda/{kernel}/determine"], () if outcome is None else (outcome,)
    if outcomes:
        files, call = [*files, "scans/cuda/signs"], _SPECULATION
    launch = Launch(
        print_program(
            transfer_map,
            states,
            source,
            layout,
            files,
            _KERNEL,
            carry_in_types(carry_in, source),
            call=call,
            outcome=", Told* told" if outcomes else "",
        ),
        "determine_kernel",
        blocks,
        threads,
        (
            *source.streams,
            *source.arguments,
            *map(as_argument, carry_in),
            *results,
            SPACE,
            *map(np.int64, chunk.shape),
            EPOCH,
            *outcomes,
        ),
        shared_bytes(chunk, source, layout, stores=states),
        is_cooperative=True,
    )
    return launch, published + (marked_units(chunk) if layout.guarded else 0)


def shared_bytes(chunk: Chunk, source: Source, layout: ScanLayout, stores: int) -> int:
    """Count the dynamic shared memory of a block: tiles of loads, of stores, and barriers."""
    is_flat = chunk.shape[2] == 1 or layout.channels
    if is_flat and not (layout.bulk or layout.staged or layout.all_columns):
        return 0
    tile = layout.threads * layout.items * source.stored.itemsize
    if layout.channels:
        size = source.stored.itemsize
        tile = steps_of_tile(layout, size) * layout.channels * size
    loads = layout.stages * len(source.streams)
    if not is_flat or layout.all_columns:
        return loads * tile + (128 if layout.all_columns else 0)
    return 128 + loads * (tile + SHIFTED_BYTES * any(source.shifts)) + stores * tile


def prepare(
    transfer_map: TransferMap,
    chunk: Chunk,
    carry_in: Arrays,
    results: Arrays,
    layout: ScanLayout | None = None,
    multiprocessors: int | None = None,
    outcome: Any = None,
) -> PreparedLaunches:
    """Compile the launches that determine a chunk, or chunks of the same signature.

    The carry-in is arrays (outer, inner), or numbers in host memory, each for all rows. The chunk
    has at least one step and row. The default layout is that of :func:`.layouts.choose_layout`;
    `multiprocessors` fewer than the device has give the grid of a smaller one. `outcome` is the
    ``struct Told`` of a speculation.

    The order of the arithmetic depends on shape, dtype and form of the operands, not on timing or
    on the size of the GPU: two runs give the same bits.

    For w = s·w + t in floating point, nan and inf occur where the plain loop has them. A row is
    repaired, by one block, from the first state near overflow, or from the first state that is
    negligible against one above 1e6 and follows a product that underflowed. If a state comes near
    overflow although the operands are finite, the row is solved again from its start, step by step
    and rounded as on the host: rounding may decide what the loop does. If nothing is wrong the
    repair is one launch that ends at once. :func:`launch_walk` solves many rows by the plain loop,
    which needs no repair.
    """
    device = Device.current()
    if multiprocessors:
        device = replace(device, multiprocessors=multiprocessors)
    source = describe(chunk, results[0].dtype)
    source.results = results
    layout = layout or choose_layout(chunk, source, len(transfer_map.identity), len(carry_in), device)
    if any(w.data.ptr % 16 for w in results):
        layout = replace(layout, bulk=False, staged=False)
    if layout.walking:
        arrays = (carry_in, results, device.multiprocessors)
        return PreparedLaunches(launch_walk(transfer_map, chunk, source, layout, *arrays))
    layout = replace(layout, guarded=transfer_map.redoes_rows_of(chunk.dtype))
    launch, units = launch_single_pass(
        transfer_map, chunk, source, layout, carry_in, results, device.multiprocessors, outcome
    )
    repair: tuple[Launch, ...] = ()
    if layout.guarded:
        arguments = launch.arguments if outcome is None else launch.arguments[:-1]
        repair = (launch_repair(transfer_map, chunk, source, arguments, carry_in),)
    return PreparedLaunches(launch, *repair, units=max(units, 1))


_WALK_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) walk_kernel(
    {parameters}, long long outers, long long steps, long long inners) {{
  const Source source = {{{fills}}};
  const Entry entry = {{{entry}}};
  Stored* const results[] = {{{result}}};
  const long long count = outers * inners, groups = (count + 31) / 32;
  const long long pieces = (steps + ITEMS - 1) / ITEMS;
  {call}
}}
"""
_WALK_ROWS = "walk_rows(source, entry, results, Rows{outers, steps, groups, pieces});"
_WALK_COLUMNS = """walk_columns(source, entry, results,
               Columns{outers, steps, inners, count, groups, pieces});"""


def launch_walk(
    transfer_map: TransferMap,
    chunk: Chunk,
    source: Source,
    layout: ScanLayout,
    carry_in: Arrays,
    results: Arrays,
    multiprocessors: int,
) -> Launch:
    """Return the launch of the plain loop over every row of a chunk, a lane for each row.

    No maps are composed: results have the bits of the loop. Blocks do not wait for each other, and
    need no memory except operands and results.
    """
    along_rows, states = chunk.shape[2] == 1, len(carry_in)
    piece = layout.items * chunk.dtype.itemsize
    pieces = layout.stages * len(source.streams)
    if along_rows:
        vectors = piece // 16
        piece, pieces = 16 * (vectors + 1 - vectors % 2), pieces + states
    files = ("scans/cuda/rows/walk_steps" if along_rows else "scans/cuda/columns/walk",)
    return Launch(
        print_program(
            transfer_map,
            states,
            source,
            layout,
            files,
            _WALK_KERNEL,
            carry_in_types(carry_in, source),
            call=_WALK_ROWS if along_rows else _WALK_COLUMNS,
        ),
        "walk_kernel",
        min(-(-chunk.shape[0] * chunk.shape[2] // 32), layout.blocks * multiprocessors),
        32,
        (
            *source.streams,
            *source.arguments,
            *map(as_argument, carry_in),
            *results,
            *map(np.int64, chunk.shape),
        ),
        pieces * 32 * piece,
        is_fused=False,
    )


_REPAIR_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS) repair_kernel(
    {parameters}, const Unit* space, long long outers,
    long long steps, long long inners, unsigned epoch) {{
  const Source source = {{{fills}}};
  const Entry entry = {{{entry}}};
  Stored* const results[] = {{{result}}};
  repair_rows(source, entry, results, reinterpret_cast<const Marks*>(space), outers, steps, inners,
              epoch);
}}
"""
_REPAIR_ITEMS = 8
_REPAIR_SHORT_STEPS = 4096
_REPAIR_BLOCKS = 1024


def marked_units(chunk: Chunk) -> int:
    """Count the 64-bit words of marks: a pair for the chunk, and for each row or 32 columns."""
    outers, _, inners = chunk.shape
    return 2 + 2 * (outers if inners == 1 else -(-outers * inners // 32))


def launch_repair(
    transfer_map: TransferMap,
    chunk: Chunk,
    source: Source,
    arguments: tuple[Any, ...],
    carry_in: Arrays,
    packed: bool = False,
) -> Launch:
    """Return the launch that repairs marked rows, with the arguments of the single pass before it.

    Blocks have few threads for short rows, many for long ones. `packed` is that of the layout.
    """
    threads = 64 if chunk.steps <= _REPAIR_SHORT_STEPS else 512
    layout = ScanLayout(threads, _REPAIR_ITEMS, reverse=chunk.reverse, guarded=True, packed=packed)
    text = print_program(
        transfer_map,
        len(carry_in),
        source,
        layout,
        ("scans/cuda/trust/repair",),
        _REPAIR_KERNEL,
        carry_in_types(carry_in, source),
    )
    blocks = min(chunk.shape[0] * chunk.shape[2], _REPAIR_BLOCKS)
    return Launch(text, "repair_kernel", blocks, threads, arguments, is_fused=False)


def states_of(carry_in: Arrays, chunk: Chunk, stored: np.dtype[Any] | None = None) -> Arrays:
    """Return states for kernels: numbers in host memory for all rows, or arrays (outer, inner).

    Arrays may have the dtype `stored`, numbers have that of the computation.
    """
    dtypes = (chunk.dtype, stored or chunk.dtype)
    return tuple(
        [_state(state if state.dtype in dtypes else state.astype(chunk.dtype)) for state in carry_in]
    )


def _state(array: Any) -> Any:
    import cupy

    if backend_of(array) is CPU:
        if array.size == 1:
            return np.asarray(array).reshape(())
        raise_if_capturing("a call with initial states in host memory", "they are copied once")
    return cupy.ascontiguousarray(cupy.asarray(array))


def broadcast_state(state: Any, chunk: Chunk) -> Any:
    """Return a state as an array (outer, inner)."""
    import cupy

    return cupy.full(chunk.row_shape, state[()], state.dtype) if is_value(state) else state
