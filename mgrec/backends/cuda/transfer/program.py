"""One program a recurrence: its traced algebra, its operands and the kernels around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_KERNELS = Path(__file__).parents[1] / "kernels"

_PRELUDE = """
#define DEVICE __device__
"""


@dataclass(frozen=True)
class Layout:
    """Constants that a kernel is compiled with.

    Attributes
    ----------
    threads, items, stages : int
        Threads a block, steps a thread, tiles of loads under way (0: columns are read
        when they are needed).
    team : int
        Blocks that share a group of columns.
    blocks : int
        Blocks a multiprocessor.
    chains : int
        Runs of steps that a thread walks side by side, where a map has a quick side.
    reverse, segmented, bulk, crowded, guarded, walking : bool
        Time runs against memory; rows begin inside tiles; tiles move by bulk copies
        (rows that are walked: by words of 16 bytes; columns: by words of 8 bytes, which
        hold neighbouring ones); several rows may begin in one
        thread's part; steps whose composed maps overflow or underflow are repaired; a
        lane walks a row step by step.
    staged : bool
        Tiles pass through shared memory without bulk copies; columns: by words of 16 bytes.
    """

    threads: int
    items: int
    stages: int = 1
    reverse: bool = False
    segmented: bool = False
    bulk: bool = False
    crowded: bool = False
    guarded: bool = False
    walking: bool = False
    staged: bool = False
    team: int = 1
    blocks: int = 1
    chains: int = 1

    def print(self) -> str:
        numbers = "".join(
            f"constexpr int {name.upper()} = {getattr(self, name)};\n"
            for name in ("threads", "items", "stages", "team", "blocks", "chains")
        )
        flags = "".join(
            f"constexpr bool {name.upper()} = {str(getattr(self, name)).lower()};\n"
            for name in ("reverse", "segmented", "bulk", "crowded", "guarded", "staged")
        )
        return numbers + flags


def print_program(
    transfer: str, source: str, layout: Layout, kernels: Sequence[str], entry: str
) -> str:
    """Join the parts of a program.

    Parameters
    ----------
    transfer, source : str
        ``struct Transfer`` and ``struct Source``.
    layout : Layout
    kernels : sequence of str
        Files of the kernels, such as ``rows/determine``.
    entry : str
        The ``__global__`` function.
    """
    parts = (
        _PRELUDE, layout.print(), kernel_text("scalar/numeric"), transfer,
        "typedef Transfer::T T;\n", source, kernel_text(*kernels), entry,
    )  # fmt: skip
    return "".join(parts)


@cache
def kernel_text(*names: str) -> str:
    """Read kernel files with the files that they include, each once.

    The text goes to the compiler whole, so that a compiled program can be found
    again by its text alone.
    """
    seen: set[str] = set()
    return "".join(line for name in names for line in _expand(name, seen))


def _expand(name: str, seen: set[str]) -> list[str]:
    if name in seen:
        return []
    seen.add(name)
    lines: list[str] = []
    for line in (_KERNELS / f"{name}.cuh").read_text().splitlines(keepends=True):
        if line.startswith('#include "'):
            lines += _expand(line.split('"')[1].removesuffix(".cuh"), seen)
        elif not line.startswith("#pragma once"):
            lines.append(line)
    return lines
