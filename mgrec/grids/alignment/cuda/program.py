"""The programs of alignments on a GPU, their launches, and scores in device memory."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.device import pack_words
from ....engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from ..scoring import MODES, Scoring, Table
from .layout import AlignmentLayout

# Gaps in local alignments start at any score below 0 and are extended: twice as low at most.
_INT32_RANGE = 2**29
# Letters whose profile fits shared memory.
_MOST_LETTERS = 64

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


def _print(layout: AlignmentLayout, constants: str, name: str) -> str:
    text = (
        "\n#define DEVICE __device__\n"
        + kernel_text("engines/cuda/scalar/numeric")
        + layout.print()
        + constants
    )
    return text + kernel_text(f"grids/alignment/cuda/{name}")


@cache
def print_tile(layout: AlignmentLayout, blocks: int) -> str:
    """Return the program that aligns one tile, with `blocks` on a multiprocessor."""
    text = _print(layout, f"constexpr int W = {layout.strips};\n", "tile")
    return text + _TILE.format(blocks=blocks)


@cache
def print_pairs(layout: AlignmentLayout, blocks: int) -> str:
    """Return the program that aligns many pairs, each by one warp of a block."""
    numbers = {"W": 1, "WARPS": layout.strips, "MODE": MODES.index(layout.mode)}
    constants = "".join(f"constexpr int {name} = {value};\n" for name, value in numbers.items())
    return _print(layout, constants, "pairs") + _PAIRS.format(blocks=blocks)


@lru_cache(maxsize=256)
def prepare_launch(
    name: str, layout: AlignmentLayout, blocks: int, per_processor: int, shared: int, device: int
) -> RunLaunches:
    """Return the launch of a kernel, "tile" or "pairs", with its struct and scores as arguments.

    Blocks take the next band or pair from a counter: a block only waits for blocks that run.
    """
    text = (print_tile if name == "tile" else print_pairs)(layout, per_processor)
    arguments = Slot(0), Slot(1)
    return PreparedLaunches(
        Launch(text, f"{name}_kernel", blocks, layout.threads, arguments, shared)
    )


def score_dtype(scoring: Scoring, size: int, largest: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return int32 if it holds every value that a kernel computes, else `dtype`.

    No path through a tile has more cells than `size`, its rows and columns together. `largest`
    is the largest magnitude of H around the tile.
    """
    if dtype.kind == "f":
        return dtype
    step = max(abs(number) for number in (scoring.gap, scoring.highest, scoring.lowest))
    return np.dtype(np.int32) if largest + (size + 2) * step <= _INT32_RANGE else dtype


def source_of(scoring: Scoring, score: np.dtype[Any]) -> str:
    """Return the source of the scores of letters: see :class:`.layout.AlignmentLayout`."""
    if scoring.table is None:
        return "EQUAL"
    is_narrow = score.itemsize == 4 and scoring.lowest >= -128 and scoring.highest <= 127
    return "BYTES" if is_narrow and len(scoring.table) <= _MOST_LETTERS else "TABLE"


@lru_cache(maxsize=256)
def _packed_scores(scoring: Scoring, score: np.dtype[Any]) -> np.ndarray:
    """Return the scores as one struct, which a kernel takes by value."""
    numbers = [scoring.gap, scoring.extend, scoring.gap, scoring.match, scoring.mismatch]
    return np.array(numbers, score).view(f"V{len(numbers) * score.itemsize}")


@lru_cache(maxsize=32)
def _on_device(table: Table, dtype: np.dtype[Any], device: int) -> Any:
    import cupy

    copy = cupy.asarray(np.array(table, dtype))
    # Any stream may read the copy from now on.
    cupy.cuda.get_current_stream().synchronize()
    return copy


def run_kernel(
    name: str, scoring: Scoring, layout: AlignmentLayout, blocks: int, per_processor: int,
    shared: int, before: list[int], after: list[int],
) -> None:  # fmt: skip
    """Launch a kernel whose struct has the words `before`, the alphabet, and the words `after`."""
    import cupy

    device, table = cupy.cuda.runtime.getDevice(), None
    alphabet = [0, 0, 0]  # addresses of bytes and of another table, and the number of letters
    if scoring.table is not None:
        is_bytes = layout.source == "BYTES"
        table = _on_device(scoring.table, np.dtype(np.int8) if is_bytes else layout.score, device)
        alphabet = [table.data.ptr, 0] if is_bytes else [0, table.data.ptr]
        alphabet.append(len(table))
    run = prepare_launch(name, layout, blocks, per_processor, shared, device)
    run((pack_words([*before, *alphabet, *after]), _packed_scores(scoring, layout.score)))
