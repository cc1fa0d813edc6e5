"""Studies of public calls on one GPU: cases, one after the other, as fractions of a floor."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from .clock import copy_bandwidth, device_clock, record_of, store

IN_A_ROW = 20
SLOW, VERY_SLOW = 0.02, 0.2
"""Seconds."""
Call = Callable[[], Any]
Clock = Callable[[Call, int], float]
Row = dict[str, Any]


def fractions(run: Call, floor: float, clock: Clock = device_clock) -> Row:
    """Milliseconds of one call, and of each in a row, and the floor over them.

    Slow ones are called less often, the slowest once after two calls: gradients are prepared, and
    may be compiled, in the second one.
    """
    for _ in range(2):
        run()
    first = clock(run, 1)
    is_slow = first >= SLOW
    if first >= VERY_SLOW:
        return _row(first, first, floor)
    count, repeats = (3, 1) if is_slow else (IN_A_ROW, 3)
    alone = float(np.median([clock(run, 1) for _ in range(3 if is_slow else 7)]))
    row = float(np.median([clock(run, count) for _ in range(repeats)]))
    return _row(alone, row, floor)


def _row(alone: float, row: float, floor: float) -> Row:
    return {
        "alone ms": alone * 1e3, "fraction alone": floor / alone,
        "in a row ms": row * 1e3, "fraction": floor / row,
    }  # fmt: skip


def run(
    study: str,
    about: str | None,
    cases: Iterable[Any],
    measure: Callable[[Any, float], Iterable[Row]],
    is_wrong: Callable[[Row], bool],
) -> None:
    """The command of a study: print the rows of its cases, or of some, and write them.

    Parameters
    ----------
    study, about : str
        Name and description.
    cases : iterable
        Each with a `name`.
    measure : callable, ``(case, bandwidth) -> rows``
    is_wrong : callable, ``(row) -> bool``
        Of one such row the exit code is 1.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--out", type=Path, help="folder of the result, or its file")
    arguments = parser.parse_args()
    bandwidth = copy_bandwidth()
    gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    print(f"{gpu}, CuPy {cupy.__version__}, copy {bandwidth / 1e12:.3f} TB/s")
    rows: list[Row] = []
    for case in cases:
        if arguments.cases and not any(word in case.name for word in arguments.cases):
            continue
        for row in measure(case, bandwidth):
            rows.append(row)
            print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}"
                           for k, v in row.items()), flush=True)  # fmt: skip
        cupy.get_default_memory_pool().free_all_blocks()
    store(record_of(study, gpu, bandwidth, rows), arguments.out)
    sys.exit(any(map(is_wrong, rows)))
