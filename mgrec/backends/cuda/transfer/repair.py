"""Launch of the repair: rows of w = s·w + t whose composed maps overflow or underflow."""

from __future__ import annotations

from ....algebra.affine import affine
from ....arrays.chunk import Chunk
from ..device.compilation import Kernel, compile_kernel
from ..trace.tracing import trace_transfer_map
from .program import Layout, print_program
from .sources import Source, print_source

_ENTRY = """
extern "C" __global__ void __launch_bounds__(THREADS) repair_kernel(
    {parameters}, const T* entry0, T* result0, const Unit* space, long long outers,
    long long steps, long long inners, unsigned epoch) {{
  const Source source = {{{fills}}};
  const T* const entry[] = {{entry0}};
  T* const results[] = {{result0}};
  repair_rows(source, entry, results, reinterpret_cast<const Marks*>(space), outers, steps, inners,
              epoch);
}}
"""
_ITEMS = 8
_SHORT_STEPS = 4096
_BLOCKS = 1024


def marked_units(chunk: Chunk) -> int:
    """Count the 64-bit words of a chunk's marks: a pair in all, a pair a row or 32 columns."""
    outers, _, inners = chunk.shape
    return 2 + 2 * (outers if inners == 1 else -(-outers * inners // 32))


def repair_layout(chunk: Chunk) -> Layout:
    """Choose few threads for short rows, many for long ones."""
    threads = 64 if chunk.steps <= _SHORT_STEPS else 512
    return Layout(threads, _ITEMS, reverse=chunk.reverse, guarded=True)


def print_repair(chunk: Chunk, source: Source, layout: Layout) -> str:
    """Print the program of the repair."""
    return print_program(
        trace_transfer_map(affine, chunk.dtype, 1),
        print_source(source),
        layout,
        ("trust/repair_rows",),
        _ENTRY.format(parameters=", ".join(source.all_parameters), fills=source.all_fills),
    )


def prepare_repair(chunk: Chunk, source: Source) -> tuple[Kernel, int, int, int, bool]:
    """Compile the repair of a chunk, a call with the arguments of the single pass before it."""
    layout = repair_layout(chunk)
    text = print_repair(chunk, source, layout)
    kernel = compile_kernel(text, "repair_kernel", is_fused=False)
    blocks = min(chunk.shape[0] * chunk.shape[2], _BLOCKS)
    return kernel, blocks, layout.threads, 0, False
