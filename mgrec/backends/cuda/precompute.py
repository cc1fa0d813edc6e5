"""Launch of the read-only pass that composes every row of a chunk to one map."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...phases.affine_growth import guarded_affine
from ...phases.chunk import Chunk
from ...phases.summary import ComposedMaps
from ...phases.transfer_map import TransferMap
from .ahead import compose_ahead, is_ahead
from .compilation import Device, compile_kernel
from .determine import shared_bytes
from .program import Layout, print_program
from .sources import Source, describe, print_source
from .tracing import state_count, trace_transfer_map
from .tuning import MULTIPROCESSORS, choose_precompute

_ENTRIES = """
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) precompute_kernel(
    {parameters}, Span* spans, long long outers, long long steps, long long inners,
    long long pieces) {{
  const Source source = {{{fills}}};
  {call}
}}
extern "C" __global__ void finish_kernel(const Span* spans, {maps}, long long rows,
                                         long long pieces) {{
  T* const maps[] = {{{names}}};
  finish(spans, rows, pieces, maps);
}}
"""
_ROWS = "precompute_rows(source, spans, outers, steps, pieces);"
_COLUMNS = """const long long count = outers * inners;
  precompute_columns(source, spans,
                     Columns{outers, steps, inners, count, (count + 31) / 32,
                             (steps + STEPS - 1) / STEPS}, pieces);"""


def print_precompute(
    transfer_map: TransferMap, chunk: Chunk, source: Source, states: int, layout: Layout
) -> str:
    """Print the program of :func:`precompute`."""
    along_rows = chunk.shape[2] == 1
    names = [f"map{k}" for k in range(len(transfer_map.identity))]
    return print_program(
        trace_transfer_map(transfer_map, chunk.dtype, states),
        print_source(source),
        layout,
        (
            "calm" if layout.guarded else "steady",
            "precompute_rows" if along_rows else "precompute_columns",
            "finish",
        ),
        _ENTRIES.format(
            parameters=", ".join(source.all_parameters),
            fills=source.all_fills,
            call=_ROWS if along_rows else _COLUMNS,
            maps=", ".join(f"T* {name}" for name in names),
            names=", ".join(names),
        ),
    )


def prepare_precompute(
    transfer_map: TransferMap, chunk: Chunk, maps: Any, layout: Layout | None = None
) -> Callable[[], None]:
    """Compile the reduction of a chunk and return its launch.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
        With at least one step and row.
    maps : array (components, outer, inner)
        Receives the composed maps.
    layout : Layout, optional
        Chosen from the shape, dtype and device when not given.
    """
    import cupy

    device = Device.current()
    source = describe(chunk)
    width, states = len(transfer_map.identity), state_count(transfer_map)
    layout = layout or choose_precompute(chunk, source, width, states, device)
    is_guarded = chunk.dtype.kind == "f" and transfer_map == guarded_affine(chunk.dtype)
    layout = replace(layout, guarded=is_guarded)
    text = print_precompute(transfer_map, chunk, source, states, layout)
    shared = shared_bytes(chunk, source, layout, stores=0)
    kernel = compile_kernel(text, "precompute_kernel", shared)
    finish = compile_kernel(text, "finish_kernel")
    outers, steps, inners = chunk.shape
    rows = outers * inners
    groups, tile = (rows, layout.threads * layout.items)
    if inners > 1:
        groups, tile = -(-rows // 32), layout.threads // 32 * layout.items
    pieces = max(1, min(layout.blocks * MULTIPROCESSORS // groups, -(-steps // tile)))
    span_bytes = max(len(transfer_map.identity), states) * chunk.dtype.itemsize + 16
    arrays = (*source.streams, *source.arguments)
    sizes = tuple(np.int64(n) for n in (*chunk.shape, pieces))

    def run() -> None:
        spans = cupy.empty((rows, pieces, span_bytes), cupy.uint8)
        kernel(groups * pieces, layout.threads, (*arrays, spans, *sizes), shared, False)
        arguments = (spans, *maps, np.int64(rows), np.int64(pieces))
        finish(-(-rows // 8), 256, arguments, 0, False)

    return run


def precompute(transfer_map: TransferMap, chunk: Chunk) -> ComposedMaps:
    """Compose every row of a chunk to one map.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
        Of CuPy arrays on the current device.

    Returns
    -------
    ComposedMaps
        On the host: a few scalars a row.
    """
    import cupy

    if chunk.steps == 0:
        return ComposedMaps(transfer_map, None)
    if math.prod(chunk.shape) and is_ahead(chunk):
        return ComposedMaps(transfer_map, compose_ahead(precompute, transfer_map, chunk))
    maps = cupy.empty((len(transfer_map.identity), *chunk.row_shape), chunk.dtype)
    if maps.size:
        prepare_precompute(transfer_map, chunk, maps)()
    return ComposedMaps(transfer_map, tuple(maps.get()))
