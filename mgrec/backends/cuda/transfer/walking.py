"""Launch of the plain loop over many rows: a lane a row, with loads under way."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....algebra.transfer_map import TransferMap
from ....arrays.chunk import Chunk
from ..device.compilation import Device, compile_kernel
from ..device.launches import Launch
from ..trace.tracing import trace_transfer_map
from .program import Layout, print_program
from .sources import Source, describe, print_source, spell_arrays

_ENTRY = """
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) walk_kernel(
    {parameters}, long long outers, long long steps, long long inners) {{
  const Source source = {{{fills}}};
  const T* const entry[] = {{{entries}}};
  T* const results[] = {{{results}}};
  const long long count = outers * inners, groups = (count + 31) / 32;
  const long long pieces = (steps + ITEMS - 1) / ITEMS;
  {call}
}}
"""
_ROWS = "walk_rows(source, entry, results, Rows{outers, steps, groups, pieces});"
_COLUMNS = """walk_columns(source, entry, results,
               Columns{outers, steps, inners, count, groups, pieces});"""


def print_walk(
    transfer_map: TransferMap, chunk: Chunk, source: Source, states: int, layout: Layout
) -> str:
    """Print the program of a plain loop over every row."""
    along_rows = chunk.shape[2] == 1
    return print_program(
        trace_transfer_map(transfer_map, chunk.dtype, states),
        print_source(source),
        layout,
        ("rows/walk_steps" if along_rows else "columns/walk",),
        _ENTRY.format(
            call=_ROWS if along_rows else _COLUMNS,
            **spell_arrays(source, states),
        ),
    )


def walk_bytes(chunk: Chunk, source: Source, states: int, layout: Layout) -> int:
    """Count the dynamic shared memory of a block."""
    piece = 32 * layout.items * chunk.dtype.itemsize
    streams = len(source.streams)
    if chunk.shape[2] > 1:
        return layout.stages * streams * piece
    vectors = layout.items * chunk.dtype.itemsize // 16
    return (layout.stages * streams + states) * 32 * 16 * (vectors + 1 - vectors % 2)


def prepare_walk(
    transfer_map: TransferMap, chunk: Chunk, entry: tuple[Any, ...], results: tuple[Any, ...],
    layout: Layout, device: Device,
) -> Launch:  # fmt: skip
    """Compile the plain loop over every row of a chunk.

    Notes
    -----
    Nothing is composed: nan, inf and the last bit are those of the loop. Blocks do not
    wait for each other and no memory is needed beside operands and results.
    """
    source = describe(chunk)
    text = print_walk(transfer_map, chunk, source, len(entry), layout)
    shared = walk_bytes(chunk, source, len(entry), layout)
    kernel = compile_kernel(text, "walk_kernel", shared, is_fused=False)
    groups = -(-chunk.shape[0] * chunk.shape[2] // 32)
    blocks = min(groups, layout.blocks * device.multiprocessors)
    sizes = tuple(np.int64(length) for length in chunk.shape)
    arguments = (*source.streams, *source.arguments, *entry, *results)
    return Launch(((kernel, blocks, 32, shared, False),), arguments, sizes)
