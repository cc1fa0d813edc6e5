"""Parallel cyclic reduction of the recurrence of figure 7, as a system without a diagonal above."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import cupy
import numpy as np

from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda.device import Device
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
        plan = partial(in_blocks, blocks=BLOCKS, threads=threads)
        yield threads, partial(nopivot.launch_whole, plan, system, recurrence.out)


def in_blocks(
    shape: nopivot.Shape, dtype: np.dtype[Any], device: Device, *, blocks: int, threads: int
) -> nopivot.LaunchPlan:
    """Plan PARACR with a launch a level, of at most so many blocks."""
    plan = nopivot.pcr_none(shape, dtype, device)
    blocks = min(blocks, -(-prod(shape) // threads))
    launches = (replace(launch, blocks=blocks, threads=threads) for launch in plan.launches)
    return replace(plan, launches=tuple(launches))


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
