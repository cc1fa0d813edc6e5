"""Launches of the pass that composes every row of a chunk, and summaries of w = s·w + t."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import MULTIPROCESSORS, Device, fetch, on_device
from ...engines.cuda.launches import Launch, PreparedLaunches, Slot, run_cached
from ...engines.cuda.tracing import state_count
from ..summaries import NAN, AffineSummary, Maps, rows_to_redo
from ..validity import guarded_affine
from .determine import shared_bytes
from .layouts import choose_precompute
from .long_coefficients import compose_in_pieces, is_ahead
from .program import Layout, print_program
from .sources import Source, describe

_KERNELS = """
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) precompute_kernel(
    {operands}Span* spans, long long outers, long long steps, long long inners,
    long long pieces) {{
  const Source source = {{{fills}}};
  {call}
}}
extern "C" __global__ void finish_kernel(const Span* spans, {map_out}, long long rows,
                                         long long pieces) {{
  T* const maps[] = {{{map}}};
  finish(spans, rows, pieces, maps);
}}
"""
_ROWS = "precompute_rows(source, spans, outers, steps, pieces);"
_COLUMNS = """const long long count = outers * inners;
  precompute_columns(source, spans,
                     Columns{outers, steps, inners, count, (count + 31) / 32,
                             (steps + STEPS - 1) / STEPS}, pieces);"""


_SPANS = Slot(-1)
"""The spans of the pieces of rows, which one kernel writes and the next one reads."""


def launch_reduction(
    transfer_map: TransferMap, chunk: Chunk, source: Source, layout: Layout, maps: Any
) -> tuple[Launch, Launch, tuple[int, int, int]]:
    """Return the launches that reduce pieces and join the pieces of rows, and the spans' shape."""
    width, states = len(transfer_map.identity), state_count(transfer_map)
    outers, steps, inners = chunk.shape
    rows, groups, tile = outers * inners, outers, layout.threads * layout.items
    if inners > 1:
        groups, tile = -(-rows // 32), layout.threads // 32 * layout.items
    pieces = max(1, min(layout.blocks * MULTIPROCESSORS // groups, -(-steps // tile)))
    kernels = (
        "scans/cuda/trust/calm" if layout.guarded else "scans/cuda/trust/steady",
        "scans/cuda/rows/precompute" if inners == 1 else "scans/cuda/columns/precompute",
        "scans/cuda/rows/finish",
    )
    call = _ROWS if inners == 1 else _COLUMNS
    text = print_program(transfer_map, states, source, layout, kernels, _KERNELS, call=call)
    join = Launch(
        text, "precompute_kernel", groups * pieces, layout.threads,
        (*source.streams, *source.arguments, _SPANS, *map(np.int64, (*chunk.shape, pieces))),
        shared_bytes(chunk, source, layout, stores=0),
    )  # fmt: skip
    arguments = (_SPANS, *maps, np.int64(rows), np.int64(pieces))
    finish = Launch(text, "finish_kernel", -(-rows // 8), 256, arguments)
    return join, finish, (rows, pieces, max(width, states) * chunk.dtype.itemsize + 16)


def _reserve(*shape: int) -> tuple[Any, ...]:
    import cupy

    return (cupy.empty(shape, cupy.uint8),)


def prepare_precompute(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Any, results: Any,
    layout: Layout | None = None,
) -> PreparedLaunches:  # fmt: skip
    """Compile the launches that write the maps (components, outer, inner), the only result.

    The chunk has at least one step and row, and no carry-in.
    """
    source = describe(chunk)
    width, states = len(transfer_map.identity), state_count(transfer_map)
    layout = layout or choose_precompute(chunk, source, width, states, Device.current())
    is_guarded = chunk.dtype.kind == "f" and transfer_map == guarded_affine(chunk.dtype)
    layout = replace(layout, guarded=is_guarded)
    *launches, spans = launch_reduction(transfer_map, chunk, source, layout, results[0])
    return PreparedLaunches(*launches, reserve=partial(_reserve, *spans))


def compose(transfer_map: TransferMap, chunk: Chunk) -> Callable[[], Maps]:
    """Launch the composition of every row of a chunk; the returned function waits for the maps."""
    import cupy

    if chunk.steps == 0:
        return lambda: None
    if math.prod(chunk.shape) and is_ahead(chunk):
        composed = compose_in_pieces(compose, transfer_map, chunk)
        return lambda: composed
    maps = cupy.empty((len(transfer_map.identity), *chunk.row_shape), chunk.dtype)
    if maps.size:
        run_cached(prepare_precompute, transfer_map, chunk, (), (maps,))
    wait = fetch(maps)
    return lambda: tuple(wait())


def precompute(transfer_map: TransferMap, chunk: Chunk) -> Callable[[], AffineSummary | Maps]:
    """Launch the summary of a chunk of CuPy arrays on the current device, and host scalars.

    The returned function waits for the summary, in host memory.
    """
    chunk = chunk.map_arrays(on_device, chunk.shape)
    if not transfer_map.redoes_rows_of(chunk.dtype):
        return compose(transfer_map, chunk)
    composed = compose(guarded_affine(chunk.dtype), chunk)
    return lambda: _summary_of(chunk, composed())


def _summary_of(chunk: Chunk, maps: Maps) -> AffineSummary | None:
    if maps is None:
        return None
    mantissa, _, offset, *_ = maps
    _, exponent, _, growth, more, _, _, flag = (part.real for part in maps)
    offset[flag == NAN] = np.nan
    wide = np.result_type(chunk.dtype, np.float64)
    with np.errstate(all="ignore"):
        # Beyond ±2**40 no state remains, and rows with such a growth are redone.
        known = np.where(exponent == exponent, exponent, 0).astype(np.float64)
        exponents = np.minimum(np.maximum(known, -(2.0**40)), 2.0**40)
        return AffineSummary(
            mantissa.astype(wide),
            exponents.astype(np.int64),
            offset,
            np.log2(growth.astype(np.float64)) + more,
            rows_to_redo(chunk, flag),
        )
