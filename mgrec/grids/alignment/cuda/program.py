"""The programs and launches of alignments."""

from __future__ import annotations

from functools import cache, lru_cache

from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from .layout import AlignmentLayout

_TILE = """
extern "C" __global__ void __launch_bounds__(THREADS, {blocks}) tile_kernel(
    const Tile tile, const Scores scores) {{
  align_tile(tile, scores);
}}
"""
_PAIRS = """
extern "C" __global__ void __launch_bounds__(32 * WARPS, {blocks}) pairs_kernel(
    const Pairs pairs, const Scores scores) {{
  align_pairs(pairs, scores);
}}
"""
_MODES = ("local", "global", "semi-global")


def _print(layout: AlignmentLayout, more: str, name: str) -> str:
    text = (
        "\n#define DEVICE __device__\n"
        + kernel_text("engines/cuda/scalar/numeric")
        + layout.print()
        + more
    )
    return text + kernel_text(f"grids/alignment/cuda/{name}")


@cache
def print_tile(layout: AlignmentLayout, blocks: int) -> str:
    """The program that aligns one tile, `blocks` of a multiprocessor."""
    text = _print(layout, f"constexpr int W = {layout.strips};\n", "tile")
    return text + _TILE.format(blocks=blocks)


@cache
def print_pairs(layout: AlignmentLayout, blocks: int) -> str:
    """The program that aligns many pairs, each by one of the warps of a block."""
    numbers = {"W": 1, "WARPS": layout.strips, "MODE": _MODES.index(layout.mode)}
    more = "".join(f"constexpr int {name} = {value};\n" for name, value in numbers.items())
    return _print(layout, more, "pairs") + _PAIRS.format(blocks=blocks)


@lru_cache(maxsize=256)
def prepared_of(
    kind: str, layout: AlignmentLayout, blocks: int, per_processor: int, shared: int, device: int
) -> RunLaunches:
    """What launches a kernel, "tile" or "pairs", on a device; given its struct and its scores.

    Blocks take what comes next, so that those that wait for others wait for blocks that run.
    """
    text = (print_tile if kind == "tile" else print_pairs)(layout, per_processor)
    arguments = Slot(0), Slot(1)
    return PreparedLaunches(
        Launch(text, f"{kind}_kernel", blocks, layout.threads, arguments, shared)
    )
