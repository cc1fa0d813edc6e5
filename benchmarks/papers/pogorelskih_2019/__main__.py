"""Tridiagonal systems as Pogorelskih and Loganova (2019) study them, beside the printed times.

Thomas, SERICR and PARACR in global and shared memory, many systems of 4,095 and one of growing
size.
"""

from __future__ import annotations

from ...harness.command import Command
from ...harness.study import Study
from ..timing import OPTIONS, on_cpu_or_gpu
from . import measure, printed
from .report import draw, tables

# Of the single system: 2^q - 1 rows.
POWERS = (12, 14, 16, 18, 20, 22, 24)


def on_gpu(study: Study) -> None:
    """Everything, at the paper's sizes."""
    import cupy

    from .gpu import GPU

    for count in printed.COUNTS:
        measure.systems(study, GPU, "batch", count, printed.ROWS)
        cupy.get_default_memory_pool().free_all_blocks()
    measure.loops(study, "batch", printed.COUNTS, printed.ROWS)
    for power in POWERS:
        measure.systems(study, GPU, "single", 1, 2**power - 1)
        measure.loops(study, "single", (1,), 2**power - 1)
        cupy.get_default_memory_pool().free_all_blocks()


def on_cpu(study: Study, counts: tuple[int, ...] = (50, 100, 200), rows: int = 1023, power: int = 16) -> None:
    """The public methods over NumPy arrays, at small sizes."""
    for count in counts:
        measure.systems(study, measure.HOST, "batch", count, rows)
    measure.loops(study, "batch", counts, rows)
    for each in range(8, power + 1, 4):
        measure.systems(study, measure.HOST, "single", 1, 2**each - 1)
        measure.loops(study, "single", (1,), 2**each - 1)


STUDY = Command(
    "pogorelskih-2019", __doc__, on_cpu_or_gpu(on_cpu, on_gpu), options=OPTIONS, tables=tables, picture=draw
)

if __name__ == "__main__":
    STUDY.main()
