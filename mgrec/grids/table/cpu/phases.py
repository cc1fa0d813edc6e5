"""determine for one tile of a table in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ....core.contract.kernels import Kernels, Part
from ...parts import part_of_host
from .table import determine_table

# Of a part, which takes about a millisecond then; a call takes 0.1 at most.
_CELLS = 1 << 20


def kernels(method: str) -> Kernels:
    """The phases of a tile, on all threads by "threads"."""
    return Kernels(partial(_determine, is_shared=method == "threads"), part=_part)


def _determine(loop: Any, x: Any, before: Any, table: Any, is_shared: bool) -> Any:
    return determine_table(x, before, table, is_shared)


def _part(loop: Any, shape: Sequence[int], side: int) -> Part:
    return part_of_host(_CELLS, shape, side)
