"""Launch of the plain loop over many rows: a lane a row, with loads under way."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cuda.launches import Launch, as_argument, is_value
from .program import Layout, print_program
from .sources import Source

_CARRY_IN = """
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) walk_kernel(
    {parameters}, long long outers, long long steps, long long inners) {{
  const Source source = {{{fills}}};
  const Entry entry = {{{entry}}};
  T* const results[] = {{{result}}};
  const long long count = outers * inners, groups = (count + 31) / 32;
  const long long pieces = (steps + ITEMS - 1) / ITEMS;
  {call}
}}
"""
_ROWS = "walk_rows(source, entry, results, Rows{outers, steps, groups, pieces});"
_COLUMNS = """walk_columns(source, entry, results,
               Columns{outers, steps, inners, count, groups, pieces});"""


def launch_walk(
    transfer_map: TransferMap, chunk: Chunk, source: Source, layout: Layout,
    carry_in: tuple[Any, ...], results: tuple[Any, ...], multiprocessors: int,
) -> Launch:  # fmt: skip
    """The launch of the plain loop over every row of a chunk.

    Notes
    -----
    Nothing is composed: nan, inf and the last bit are those of the loop. Blocks do not
    wait for each other and no memory is needed beside operands and results.
    """
    along_rows, states = chunk.shape[2] == 1, len(carry_in)
    piece = layout.items * chunk.dtype.itemsize
    pieces = layout.stages * len(source.streams)
    if along_rows:
        vectors = piece // 16
        piece, pieces = 16 * (vectors + 1 - vectors % 2), pieces + states
    return Launch(
        print_program(
            transfer_map, states, source, layout,
            ("scans/cuda/rows/walk_steps" if along_rows else "scans/cuda/columns/walk",), _CARRY_IN,
            tuple(map(is_value, carry_in)), call=_ROWS if along_rows else _COLUMNS,
        ),
        "walk_kernel",
        min(-(-chunk.shape[0] * chunk.shape[2] // 32), layout.blocks * multiprocessors),
        32,
        (*source.streams, *source.arguments, *map(as_argument, carry_in), *results,
         *map(np.int64, chunk.shape)),
        pieces * 32 * piece,
        is_fused=False,
    )  # fmt: skip
