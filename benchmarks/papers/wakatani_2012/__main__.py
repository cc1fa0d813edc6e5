"""P-scheme/G as Wakatani (2012) studies it: its phases over T, PCR, and tridiagonal systems."""

from __future__ import annotations

from ...harness.command import Command
from ...harness.study import Study
from .. import overhead
from ..pogorelskih_2019.measure import HOST, loops, systems
from ..speedups import NATURAL, REARRANGED
from ..timing import OPTIONS, on_cpu_or_gpu
from .report import BLOCKS as PCR_BLOCKS
from .report import LARGE, PCR, SMALL, THREADS, draw, tables

BLOCKS = (4, 8, 16, 32)
# Of figures 3 and 5.
PHASE_BLOCKS = (4, 16, 32)


def on_gpu(study: Study, sizes: tuple[int, ...] = (SMALL, LARGE)) -> None:
    """Everything, at the paper's sizes."""
    from .. import phases
    from ..pogorelskih_2019.gpu import GPU

    for steps in sizes:
        recurrence = phases.Recurrence("L", steps)
        phases.base(study, recurrence)
        for threads in THREADS:
            for blocks in BLOCKS:
                phases.solves(study, recurrence, blocks, threads, (REARRANGED, NATURAL))
            for blocks in PHASE_BLOCKS:
                for order in (REARRANGED, NATURAL):
                    phases.each_phase(study, recurrence, blocks, threads, order)
        for threads in THREADS:
            phases.by_pcr(study, recurrence, PCR_BLOCKS, threads, PCR)
        systems(study, GPU, "single", 1, steps)
        loops(study, "single", (1,), steps)
    overhead.rational(study)


def on_cpu(study: Study, powers: range = range(12, 23, 2), rows: int = 2**16) -> None:
    """Figure 1, and the methods for tridiagonal systems over NumPy arrays."""
    systems(study, HOST, "single", 1, rows)
    loops(study, "single", (1,), rows)
    overhead.rational(study, powers)


STUDY = Command(
    "wakatani-2012", __doc__, on_cpu_or_gpu(on_cpu, on_gpu), options=OPTIONS, tables=tables, picture=draw
)

if __name__ == "__main__":
    STUDY.main()
