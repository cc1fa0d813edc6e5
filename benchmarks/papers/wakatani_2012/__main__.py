"""P-scheme/G as Wakatani (2012) studies it: its phases over T, PCR, and tridiagonal systems.

usage: python -m benchmarks.papers.wakatani_2012 [--cpu] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

from ...harness.study import Study
from .. import overhead
from ..command import Paper
from ..pogorelskih_2019 import host
from ..pogorelskih_2019.measure import loops, systems
from ..speedups import NATURAL, REARRANGED
from .drawing import draw
from .printed import LARGE, SMALL, THREADS
from .report import tables

BLOCKS = (4, 8, 16, 32)
# Of figures 3 and 5.
PHASE_BLOCKS = (4, 16, 32)


def on_gpu(sizes: tuple[int, ...] = (SMALL, LARGE)) -> Study:
    """Everything, at the paper's sizes."""
    from .. import phases
    from ..pogorelskih_2019 import gpu
    from . import pcr

    study = phases.begin("wakatani-2012")
    for steps in sizes:
        recurrence = phases.Recurrence("L", steps)
        phases.base(study, recurrence)
        for threads in THREADS:
            for blocks in BLOCKS:
                phases.solves(study, recurrence, blocks, threads, (REARRANGED, NATURAL))
            for blocks in PHASE_BLOCKS:
                for order in (REARRANGED, NATURAL):
                    phases.each_phase(study, recurrence, blocks, threads, order)
        pcr.measure(study, recurrence)
        systems(study, gpu, "single", 1, steps)
        loops(study, "single", (1,), steps)
    overhead.rational(study)
    return study


def on_cpu(powers: range = range(12, 23, 2), rows: int = 2**16) -> Study:
    """Figure 1, and the methods for tridiagonal systems over NumPy arrays."""
    study = Study("wakatani-2012-cpu")
    systems(study, host, "single", 1, rows)
    loops(study, "single", (1,), rows)
    overhead.rational(study, powers)
    return study


PAPER = Paper(__doc__.split("\n")[0], on_gpu, on_cpu, tables, draw)

if __name__ == "__main__":
    PAPER.main()
