"""The text of CUDA kernels, which lie in the folders of their families."""

from __future__ import annotations

from functools import cache
from pathlib import Path

MULTIPROCESSORS = 132
"""Of the GPU that tiles are sized for."""
_PACKAGE = Path(__file__).parents[2]


@cache
def kernel_text(*names: str) -> str:
    """Read kernel files with the files that they include, each once.

    A name is a path in this package without its ending, such as ``scans/cuda/rows/determine``.
    The text goes to the compiler whole, so that a compiled program can be found again by its text
    alone.
    """
    seen: set[str] = set()
    return "".join(line for name in names for line in _expand(name, seen))


def _expand(name: str, seen: set[str]) -> list[str]:
    if name in seen:
        return []
    seen.add(name)
    lines: list[str] = []
    for line in (_PACKAGE / f"{name}.cuh").read_text().splitlines(keepends=True):
        if line.startswith('#include "'):
            lines += _expand(line.split('"')[1].removesuffix(".cuh"), seen)
        elif not line.startswith("#pragma once"):
            lines.append(line)
    return lines
