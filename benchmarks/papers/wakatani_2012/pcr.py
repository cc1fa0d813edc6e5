"""Parallel cyclic reduction of the recurrence of figure 7, as a system without a diagonal above."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import cupy
import numpy as np

from mgrec.core.arrays.chunk import Chunk
from mgrec.tridiagonal.cuda import nopivot

from ...harness.study import Study
from .. import phases
from ..timing import Call, time_calls
from .printed import BLOCKS, PCR, THREADS


def calls(recurrence: phases.Recurrence) -> Iterator[tuple[int, Call]]:
    """Threads of a block, and a launch a level."""
    s, t = recurrence.chunk.operands
    ones = cupy.ones((1, 1, 1), "f4")
    chunk = recurrence.chunk
    system = Chunk((ones * -s.ravel()[0], ones, 0 * ones, t), chunk.shape, chunk.dtype)
    for threads in THREADS:
        plan = partial(nopivot.pcr_none, blocks=BLOCKS, threads=threads)
        yield threads, partial(nopivot.launch_whole, plan, system, recurrence.out)


def measure(study: Study, recurrence: phases.Recurrence) -> None:
    for threads, call in calls(recurrence):

        def solved(name: str, call: Call = call) -> np.ndarray:
            recurrence.out.fill(np.nan)
            call()
            return recurrence.out.get().ravel()

        time_calls(
            study, phases.GPU, phases.name_of(recurrence, BLOCKS, threads), {PCR: call}, solved,
            recurrence.wanted, blocks=BLOCKS, threads=threads, **recurrence.about("solve"),
        )  # fmt: skip
