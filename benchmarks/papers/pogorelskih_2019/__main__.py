"""Tridiagonal systems as Pogorelskih and Loganova (2019) study them, beside the printed times.

Thomas, SERICR and PARACR in global and shared memory, many systems of 4,095 and one of growing
size.

usage: python -m benchmarks.papers.pogorelskih_2019 [--cpu] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

from ...harness.study import Study
from ..command import Paper
from . import host, measure, printed
from .drawing import draw
from .report import tables

# Of the single system: 2^q - 1 rows.
POWERS = (12, 14, 16, 18, 20, 22, 24)


def on_gpu() -> Study:
    """Everything, at the paper's sizes."""
    import cupy

    from ...cuda.clock import copy_bandwidth
    from . import gpu

    study = Study("pogorelskih-2019", "the device, 1 GiB", copy_bandwidth())
    for count in printed.COUNTS:
        measure.systems(study, gpu, "batch", count, printed.ROWS)
        cupy.get_default_memory_pool().free_all_blocks()
    measure.loops(study, "batch", printed.COUNTS, printed.ROWS)
    for power in POWERS:
        measure.systems(study, gpu, "single", 1, 2**power - 1)
        measure.loops(study, "single", (1,), 2**power - 1)
        cupy.get_default_memory_pool().free_all_blocks()
    return study


def on_cpu(counts: tuple[int, ...] = (50, 100, 200), rows: int = 1023, power: int = 16) -> Study:
    """The public methods over NumPy arrays, at small sizes."""
    study = Study("pogorelskih-2019-cpu")
    for count in counts:
        measure.systems(study, host, "batch", count, rows)
    measure.loops(study, "batch", counts, rows)
    for each in range(8, power + 1, 4):
        measure.systems(study, host, "single", 1, 2**each - 1)
        measure.loops(study, "single", (1,), 2**each - 1)
    return study


PAPER = Paper(__doc__.split("\n")[0], on_gpu, on_cpu, tables, draw)

if __name__ == "__main__":
    PAPER.main()
