"""P-scheme/G as Wakatani (2013) studies it: phase costs, rearrangement, and the policy for G and T.

usage: python -m benchmarks.papers.wakatani_2013 [--cpu] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

from ...harness.study import Study
from .. import overhead
from ..command import Paper
from ..loops import CASES
from ..speedups import NATURAL, REARRANGED
from . import printed
from .drawing import draw
from .printed import FEW_STEPS, STEPS
from .report import tables

BLOCKS, THREADS = (16, 32, 64, 128), (16, 32, 64, 128, 256, 512)
# Where the constants are measured: a warp a block, as the model has no memory that saturates.
CONSTANTS = (32, 32)
# Of table I, whose P is not said.
PARTS = 2_000


def on_gpu(steps: int = STEPS, few: int = FEW_STEPS) -> Study:
    """Everything, at the paper's sizes."""
    from .. import phases

    study = phases.begin("wakatani-2013")
    for count in printed.REARRANGEMENT:
        phases.rearrangement(study, count, PARTS)
    for case in CASES:
        recurrence = phases.Recurrence(case, steps)
        phases.base(study, recurrence)
        phases.each_phase(study, recurrence, *CONSTANTS)
        for blocks in (*BLOCKS, phases.multiprocessors()):
            for threads in THREADS:
                phases.solves(study, recurrence, blocks, threads)
    for case in printed.FIGURE_4:
        recurrence = phases.Recurrence(case, few)
        phases.base(study, recurrence)
        for threads in THREADS:
            phases.solves(study, recurrence, 32, threads, (REARRANGED, NATURAL))
    overhead.linear(study)
    return study


def on_cpu(powers: range = range(12, 23, 2)) -> Study:
    """Figure 1: the phases against plain substitution, on one thread."""
    study = Study("wakatani-2013-cpu")
    overhead.linear(study, powers)
    return study


PAPER = Paper(__doc__.split("\n")[0], on_gpu, on_cpu, tables, draw)

if __name__ == "__main__":
    PAPER.main()
