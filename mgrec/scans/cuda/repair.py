"""Launch of the repair: rows of w = s·w + t whose composed maps overflow or underflow."""

from __future__ import annotations

from typing import Any

from ...core.algebra.transfer_map import affine
from ...core.arrays.chunk import Chunk
from ...engines.cuda.launches import Launch
from .program import Layout, print_program
from .sources import Source

_CARRY_IN = """
extern "C" __global__ void __launch_bounds__(THREADS) repair_kernel(
    {parameters}, const Unit* space, long long outers,
    long long steps, long long inners, unsigned epoch) {{
  const Source source = {{{fills}}};
  const Entry entry = {{{entry}}};
  T* const results[] = {{{result}}};
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


def launch_repair(
    chunk: Chunk, source: Source, arguments: tuple[Any, ...], has_value: bool = False
) -> Launch:
    """The launch with the arguments of the single pass before it.

    `has_value`: the state before the first step is one for all rows, a value.
    Few threads for short rows, many for long ones.
    """
    threads = 64 if chunk.steps <= _SHORT_STEPS else 512
    layout = Layout(threads, _ITEMS, reverse=chunk.reverse, guarded=True)
    text = print_program(
        affine, 1, source, layout, ("scans/cuda/trust/repair_rows",), _CARRY_IN, (has_value,)
    )
    blocks = min(chunk.shape[0] * chunk.shape[2], _BLOCKS)
    return Launch(text, "repair_kernel", blocks, threads, arguments, is_fused=False)
