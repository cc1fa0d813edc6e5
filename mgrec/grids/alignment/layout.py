"""Layouts of alignments on a GPU (rows of lanes, strips, bands), and their programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import ctype
from ...engines.cuda.device import Device
from ...engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from .scoring import MODES, Scoring

LANES = 32
_SOURCES = ("EQUAL", "BYTES", "TABLE")

_ROWS = (2, 4, 6, 8, 12, 16)
# Strips of a block: a warp for each scheduler of a multiprocessor, or one if memory is short.
_STRIPS = (4, 1)
# Most blocks of a multiprocessor.
_MOST_BLOCKS = 4
# For each number of columns in a step: cycles of latency of a column, and of each row more; and
# the factor by which a strip is further behind the strip above than its lag in columns.
_LATENCIES = {1: (150.0, 8.0, 1.0), 4: (96.0, 9.6, 2.0)}
# The same if H is written.
_LATENCIES_WRITTEN = {1: (200.0, 32.0, 1.0)}
# Cycles that a scheduler is busy with a column, and with each row more.
_STEP, _STEP_PER_ROW = 24, 6
# Columns by which a block is behind the block above, in addition to the lag of its strips.
_BLOCK_LAG = 32
# Most shared memory that a kernel declares itself, in bytes.
_DECLARED = 20 * 1024
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


@dataclass(frozen=True, kw_only=True)
class AlignmentLayout:
    """Constants that the kernels are compiled with; results do not depend on them."""

    letter: np.dtype[Any]  # of the sequences
    score: np.dtype[Any]  # of H in registers
    dtype: np.dtype[Any]  # of H in the edges and in the table
    # Source of the score of two letters: a comparison ("EQUAL"), bytes of a profile in shared
    # memory ("BYTES"), or a table in device memory ("TABLE").
    source: str
    mode: str
    is_affine: bool
    rows: int  # of a lane, of which 32 make a strip
    strips: int = 4  # of a block, one for each warp
    step_columns: int = 1  # in a step a lane waits once for the lane before it
    # Columns of a round, between which the warps of a block synchronize, and of a line of memory
    # of the table.
    columns: int = 16
    has_matrix: bool = False  # whether H is written to a table
    store_size: int = 1  # adjacent numbers of the table that a lane writes at once
    # Whether one instruction leads from the score of a row to that of the next row. Otherwise
    # two share an addition with the next column: fewer instructions, but a longer latency.
    is_chain_short: bool = True

    @property
    def threads(self) -> int:
        return LANES * self.strips * (1 + self.has_matrix)

    @property
    def strip_rows(self) -> int:
        return LANES * self.rows

    @property
    def latencies(self) -> dict[int, tuple[float, float, float]]:
        return _LATENCIES_WRITTEN if self.has_matrix else _LATENCIES

    @property
    def lag(self) -> int:
        """Columns by which a strip is behind the strip above it in a block."""
        return self.columns + LANES * self.step_columns

    @property
    def column_words(self) -> int:
        """Words of 64 bits for one column of a strip's last row."""
        return (1 + self.is_affine) * (self.score.itemsize // 4)

    def profile_bytes(self, letters: int) -> int:
        """Return the shared memory of one strip's profile over so many letters."""
        if self.source != "BYTES":
            return 0
        cell_words = -(-self.rows // 4)
        words = cell_words if cell_words <= 2 else -(-cell_words // 4) * 4
        return letters * LANES * words * 4

    @property
    def pitch(self) -> int:
        """Numbers between rows of staged scores; lanes, K columns apart, have no bank conflicts."""
        return 3 * self.columns + (1 if self.step_columns % 2 == 0 else 2)

    @property
    def staged_bytes(self) -> int:
        """Shared memory of one strip's scores before they are written."""
        return self.strip_rows * self.pitch * self.score.itemsize if self.has_matrix else 0

    def print(self) -> str:
        """Return the constants and types in C++."""
        constants = {
            "R": self.rows,
            "K": self.step_columns,
            "C": self.columns,
            "N": self.store_size,
            "SOURCE": _SOURCES.index(self.source),
            "AFFINE": self.is_affine,
            "LOCAL": self.mode == "local",
            "MATRIX": self.has_matrix,
            "SHORT": self.is_chain_short,
            "PITCH": self.pitch,
        }
        types = {"X": self.letter, "T": self.score, "B": self.dtype}
        lines = [
            f"constexpr {type(value).__name__} {name} = {str(value).lower()};"
            for name, value in constants.items()
        ]
        lines += [f"typedef {ctype(dtype)} {name};" for name, dtype in types.items()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class TileLaunch:
    """The launch of one tile of rows × columns, in bands of strips."""

    layout: AlignmentLayout
    shape: tuple[int, int]
    blocks: int
    per_processor: int  # concurrent blocks of a multiprocessor
    shared_bytes: int  # dynamic shared memory of a block
    skip: int = 0  # padding rows before the first row, so that the last row is a lane's last one

    @property
    def bands(self) -> int:
        return -(-self.strips // self.layout.strips)

    @property
    def strips(self) -> int:
        return -(-(self.shape[0] + self.skip) // self.layout.strip_rows)

    @property
    def words(self) -> int:
        """Words of 64 bits: a counter of bands, and a row that passes from band to band."""
        return 1 + (self.bands > 1) * self.shape[1] * self.layout.column_words

    @property
    def cycles(self) -> float:
        """Estimated duration."""
        layout, columns = self.layout, self.shape[1]
        processors = self.blocks / self.per_processor
        # A scheduler has a quarter of the strips of a multiprocessor.
        strips = min(self.per_processor, max(1.0, self.bands / processors)) * layout.strips
        occupancy = max(1.0, strips / 4)
        latency, latency_per_row, factor = layout.latencies[layout.step_columns]
        step = max(latency + latency_per_row * layout.rows, occupancy * (_STEP + _STEP_PER_ROW * layout.rows))
        lag = factor * (layout.lag * layout.strips + _BLOCK_LAG)
        waves = -(-self.bands // self.blocks)
        last = self.bands - (waves - 1) * self.blocks
        return step * max(waves * columns + lag * last, columns + lag * self.bands)


@lru_cache(maxsize=1024)
def choose_launch(shape: tuple[int, int], device: Device, *, letters: int, **layout: Any) -> TileLaunch:
    """Return the launch of a tile with the shortest estimated duration.

    `letters`: size of the alphabet; `layout`: attributes of the layout that the call determines.
    """
    base = AlignmentLayout(rows=0, **layout)
    launches = []
    for rows, strips, step_columns in product(_ROWS, _STRIPS, base.latencies):
        chosen = replace(base, rows=rows, strips=strips, step_columns=step_columns)
        shared = strips * (chosen.profile_bytes(letters) + chosen.staged_bytes)
        most = (device.shared_bytes + 1024) // (shared + _DECLARED + 1024)
        bands = -(-shape[0] // (strips * chosen.strip_rows))
        for per_processor in range(1, min(_MOST_BLOCKS, most) + 1):
            blocks = min(bands, per_processor * device.multiprocessors)
            launches.append(TileLaunch(chosen, shape, blocks, per_processor, shared))
    return min(launches, key=lambda launch: launch.cycles)


def _print(layout: AlignmentLayout, constants: str, name: str) -> str:
    text = "\n#define DEVICE __device__\n" + kernel_text("engines/cuda/numeric") + layout.print() + constants
    return text + kernel_text(f"grids/alignment/{name}")


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
    return PreparedLaunches(Launch(text, f"{name}_kernel", blocks, layout.threads, arguments, shared))


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
    """Return the source of the scores of letters: see :class:`AlignmentLayout`."""
    if scoring.table is None:
        return "EQUAL"
    is_narrow = score.itemsize == 4 and scoring.lowest >= -128 and scoring.highest <= 127
    return "BYTES" if is_narrow and len(scoring.table) <= _MOST_LETTERS else "TABLE"
