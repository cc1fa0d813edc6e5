"""Launch of the read-only pass that composes every row of a chunk to one map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....algebra.transfer_map import TransferMap
from ....arrays.chunk import Chunk
from ....families.transfer.growth import guarded_affine
from ....families.transfer.summary import ComposedMaps
from ..device.compilation import Device, Kernel, compile_kernel
from ..device.launches import Slot, bind
from ..trace.tracing import state_count, trace_transfer_map
from .determine import shared_bytes
from .layouts import MULTIPROCESSORS, choose_precompute
from .long_coefficients import compose_ahead, is_ahead
from .program import Layout, print_program
from .sources import Source, describe, print_source

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
            "trust/calm" if layout.guarded else "trust/steady",
            "rows/precompute" if along_rows else "columns/precompute",
            "rows/finish",
        ),
        _ENTRIES.format(
            parameters=", ".join(source.all_parameters),
            fills=source.all_fills,
            call=_ROWS if along_rows else _COLUMNS,
            maps=", ".join(f"T* {name}" for name in names),
            names=", ".join(names),
        ),
    )


@dataclass(frozen=True)
class Reduction:
    """The two kernels of a reduction and what they are launched with.

    Attributes
    ----------
    kernel, finish : Kernel
        One joins pieces of rows, the other the pieces of each row.
    blocks, threads, shared_bytes : int
        Of the first.
    shape : (int, int, int)
    pieces, span_bytes : int
        Pieces of a row, and the bytes of what is known of one.
    arguments : tuple
        Arrays, scalars of coefficients, and slots that :meth:`on` fills.
    maps : array (components, outer, inner), or Slot
        Receives the composed maps.
    """

    kernel: Kernel
    finish: Kernel
    blocks: int
    threads: int
    shared_bytes: int
    shape: tuple[int, int, int]
    pieces: int
    span_bytes: int
    arguments: tuple[Any, ...]
    maps: Any

    def __call__(self) -> None:
        import cupy

        outers, _, inners = self.shape
        rows, pieces = np.int64(outers * inners), np.int64(self.pieces)
        spans = cupy.empty((outers * inners, self.pieces, self.span_bytes), cupy.uint8)
        sizes = (*map(np.int64, self.shape), pieces)
        arguments = (*self.arguments, spans, *sizes)
        self.kernel(self.blocks, self.threads, arguments, self.shared_bytes, False)
        self.finish(-(-int(rows) // 8), 256, (spans, *self.maps, rows, pieces), 0, False)

    def on(self, arrays: Sequence[Any]) -> Reduction:
        """The same reduction of other arrays of its kind; the last one receives the maps."""
        filled = (arrays[a.number] if isinstance(a, Slot) else a for a in self.arguments)
        return replace(self, arguments=tuple(filled), maps=arrays[-1])


def prepare_precompute(
    transfer_map: TransferMap, chunk: Chunk, maps: Any, layout: Layout | None = None
) -> Reduction:
    """Compile the reduction of a chunk.

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
    device = Device.current()
    source = describe(chunk)
    width, states = len(transfer_map.identity), state_count(transfer_map)
    layout = layout or choose_precompute(chunk, source, width, states, device)
    is_guarded = chunk.dtype.kind == "f" and transfer_map == guarded_affine(chunk.dtype)
    layout = replace(layout, guarded=is_guarded)
    text = print_precompute(transfer_map, chunk, source, states, layout)
    shared = shared_bytes(chunk, source, layout, stores=0)
    outers, steps, inners = chunk.shape
    groups, tile = (outers, layout.threads * layout.items)
    if inners > 1:
        groups, tile = -(-outers * inners // 32), layout.threads // 32 * layout.items
    pieces = max(1, min(layout.blocks * MULTIPROCESSORS // groups, -(-steps // tile)))
    return Reduction(
        compile_kernel(text, "precompute_kernel", shared),
        compile_kernel(text, "finish_kernel"),
        groups * pieces,
        layout.threads,
        shared,
        chunk.shape,
        pieces,
        max(width, states) * chunk.dtype.itemsize + 16,
        (*source.streams, *source.arguments),
        maps,
    )


def _prepare(transfer_map: TransferMap, chunk: Chunk, entry: Any, results: Any) -> Reduction:
    return prepare_precompute(transfer_map, chunk, results[0])


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
    return launch_precompute(transfer_map, chunk)()


def launch_precompute(transfer_map: TransferMap, chunk: Chunk) -> Callable[[], ComposedMaps]:
    """Launch :func:`precompute`; a call of what is returned waits for it."""
    import cupy

    if chunk.steps == 0:
        return lambda: ComposedMaps(transfer_map, None)
    if math.prod(chunk.shape) and is_ahead(chunk):
        composed = ComposedMaps(transfer_map, compose_ahead(precompute, transfer_map, chunk))
        return lambda: composed
    maps = cupy.empty((len(transfer_map.identity), *chunk.row_shape), chunk.dtype)
    if maps.size:
        bind(_prepare, transfer_map, chunk, (), (maps,))()
    return lambda: ComposedMaps(transfer_map, tuple(maps.get()))
