"""The launches that compose the maps of every row of a chunk, in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import MULTIPROCESSORS
from ...engines.cuda.launches import Launch, Slot
from ...engines.cuda.tracing import state_count
from .determine import shared_bytes
from .program import ScanLayout, Source, print_program

_PRECOMPUTE_KERNELS = """
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) precompute_kernel(
    {operands}Span* spans, long long outers, long long steps, long long inners,
    long long pieces) {{
  const Source source = {{{fills}}};
  {call}
}}
extern "C" __global__ void finish_kernel(const Span* spans, {map_out}, long long rows,
                                         long long pieces) {{
  T* const maps[] = {{{map}}};
  join_pieces(spans, rows, pieces, maps);
}}
"""
_ROWS = "precompute_rows(source, spans, outers, steps, pieces);"
_COLUMNS = """const long long count = outers * inners;
  precompute_columns(source, spans,
                     Columns{outers, steps, inners, count, (count + 31) / 32,
                             (steps + STEPS - 1) / STEPS}, pieces);"""


SPANS = Slot(-1)
"""The spans of the pieces of rows, which one kernel writes and the next one reads."""


def launch_reduction(
    transfer_map: TransferMap, chunk: Chunk, source: Source, layout: ScanLayout, maps: Any
) -> tuple[Launch, Launch, tuple[int, int, int]]:
    """Return the launches that reduce pieces and join the pieces of rows, and the spans' shape."""
    width, states = len(transfer_map.identity), state_count(transfer_map)
    outers, steps, inners = chunk.shape
    rows, groups, tile = outers * inners, outers, layout.threads * layout.items
    if inners > 1:
        groups, tile = -(-rows // 32), layout.threads // 32 * layout.items
    pieces = max(1, min(layout.blocks * MULTIPROCESSORS // groups, -(-steps // tile)))
    kernels = (
        "scans/cuda/trust/bounded" if layout.guarded else "scans/cuda/trust/steady",
        "scans/cuda/rows/precompute" if inners == 1 else "scans/cuda/columns/precompute",
    )
    call = _ROWS if inners == 1 else _COLUMNS
    text = print_program(transfer_map, states, source, layout, kernels, _PRECOMPUTE_KERNELS, call=call)
    join = Launch(
        text,
        "precompute_kernel",
        groups * pieces,
        layout.threads,
        (*source.streams, *source.arguments, SPANS, *map(np.int64, (*chunk.shape, pieces))),
        shared_bytes(chunk, source, layout, stores=0),
    )
    arguments = (SPANS, *maps, np.int64(rows), np.int64(pieces))
    finish = Launch(text, "finish_kernel", -(-rows // 8), 256, arguments)
    return join, finish, (rows, pieces, max(width, states) * chunk.dtype.itemsize + 16)
