"""How whole systems are solved: the kernel for a method and a layout, and the calls of threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.threads import split_range
from ..partitions import Layout, lanes_of
from . import line, pivoting, reduction, thomas
from .tiles import group_count, groups_together, work_for

# Longer systems are cut into partitions, or solved one by one without pivoting: what is kept of
# them side by side is 50 MB a thread.
LONG = 1 << 17
# Methods that solve one system after the other.
_ALONE = {"cyclic-reduction": reduction.solve_in_levels, "pcr": reduction.solve_in_parallel}


def is_by_partitions(method: str, layout: Layout, dtype: np.dtype[Any]) -> bool:
    """Whether whole systems are cut into partitions."""
    if method != "auto":
        return method == "partition"
    return not _go_side_by_side(layout, dtype)


def _go_side_by_side(layout: Layout, dtype: np.dtype[Any]) -> bool:
    """Whether there are enough systems, and short ones, to have one in each lane."""
    outer, steps, inner = layout.shape
    return outer * inner >= lanes_of(dtype) and steps <= LONG


def calls_of(
    method: str, operands: tuple[np.ndarray, ...], layout: Layout, result: np.ndarray, threads: int
) -> list[Callable[[], int]]:
    """Calls for the threads; each returns a system that is singular, or -1.

    Parameters
    ----------
    method : {"auto", "thomas", "cyclic-reduction", "pcr"}
    operands : four arrays, 1-d
    layout : Layout
    result : array, 1-d
        Its axes are (outer, steps, inner), contiguous.
    threads : int
    """
    dtype, (outer, steps, inner) = result.dtype, layout.shape
    alone = _ALONE.get(method)
    if method == "thomas" and not _go_side_by_side(layout, dtype):
        alone = line.solve
    if alone is not None:
        return [
            partial(alone, operands, layout, np.empty((4, 2 * steps), dtype), *part, result)
            for part in split_range(outer * inner, threads)
        ]
    kernel = thomas.solve if method == "thomas" else pivoting.solve
    together = groups_together(layout.shape, dtype)
    return [
        partial(kernel, operands, layout, work_for(layout.shape, dtype), together, *part, result)
        for part in split_range(group_count(layout.shape, dtype), threads)
    ]
