"""P-scheme/G as Wakatani (2013) studies it: phase costs, rearrangement, the policy for G and T."""

from __future__ import annotations

from ...harness.command import Command
from ...harness.study import Study
from .. import overhead
from ..loops import CASES
from ..speedups import NATURAL, REARRANGED
from ..timing import OPTIONS, on_cpu_or_gpu
from .report import FEW_STEPS, FIGURE_4, REARRANGEMENT, STEPS, draw, tables

BLOCKS, THREADS = (16, 32, 64, 128), (16, 32, 64, 128, 256, 512)
# Where the constants are measured: a warp a block, as the model has no memory that saturates.
CONSTANTS = (32, 32)
# Of table I, whose P is not said.
PARTS = 2_000


def on_gpu(study: Study, steps: int = STEPS, few: int = FEW_STEPS) -> None:
    """Everything, at the paper's sizes."""
    from .. import phases

    for count in REARRANGEMENT:
        phases.rearrangement(study, count, PARTS)
    for case in CASES:
        recurrence = phases.Recurrence(case, steps)
        phases.base(study, recurrence)
        phases.each_phase(study, recurrence, *CONSTANTS)
        for blocks in (*BLOCKS, phases.multiprocessors()):
            for threads in THREADS:
                phases.solves(study, recurrence, blocks, threads)
    for case in FIGURE_4:
        recurrence = phases.Recurrence(case, few)
        phases.base(study, recurrence)
        for threads in THREADS:
            phases.solves(study, recurrence, 32, threads, (REARRANGED, NATURAL))
    overhead.linear(study)


def on_cpu(study: Study, powers: range = range(12, 23, 2)) -> None:
    """Figure 1: the phases against plain substitution, on one thread."""
    overhead.linear(study, powers)


STUDY = Command(
    "wakatani-2013", __doc__, on_cpu_or_gpu(on_cpu, on_gpu), options=OPTIONS, tables=tables, picture=draw
)

if __name__ == "__main__":
    STUDY.main()
