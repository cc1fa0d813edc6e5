"""Sums over windows of rows, without drift."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engines.cpu.compilation import compile_kernel

LANES = 32
"""Rows of a group."""


def _average_rows(
    x: Any, out: Any, x_at: Any, out_at: Any, rows: int, are_contiguous: bool, size: int
) -> None:
    """Write averages over windows of `size` steps of x, which has size − 1 more steps than `out`.

    Steps are in blocks of `size`. A window is the end of a block and the start of the next one.
    The sums of both start at their common border (van Herk 1992), and none is ever subtracted.
    """
    steps = out.shape[1]
    ends, sums = np.empty((size, LANES)), np.empty(LANES)
    down, across = (1, 0) if are_contiguous else (0, 1)
    for first in range(0, rows, LANES):
        used = min(LANES, rows - first)
        x_a, x_b = x_at[0] + down * first, x_at[1] + across * first
        out_a, out_b = out_at[0] + down * first, out_at[1] + across * first
        for start in range(0, steps, size):
            sums[:] = 0.0
            for r in range(size - 1, -1, -1):
                for lane in range(used):
                    sums[lane] += x[x_a + down * lane, start + r, x_b + across * lane]
                    ends[r, lane] = sums[lane]
            sums[:] = 0.0
            for r in range(min(size, steps - start)):
                if r > 0:
                    i = start + size + r - 1
                    for lane in range(used):
                        sums[lane] += x[x_a + down * lane, i, x_b + across * lane]
                for lane in range(used):
                    total = ends[r, lane] + sums[lane]
                    out[out_a + down * lane, start + r, out_b + across * lane] = total / size


average_rows = compile_kernel(_average_rows)
