"""P-scheme/G on a GPU over G blocks of T threads: its phases, with and without rearrangement; PCR.

These have no public functions: this module calls mgrec's internals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import cupy
import numpy as np

import mgrec
from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import affine
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.engines.cuda.device import Device
from mgrec.scans.cuda.p_scheme import Phases, RowPartition, rearrange
from mgrec.scans.policy import Configuration
from mgrec.tridiagonal.cuda import nopivot

from ..harness.clock import sample
from ..harness.study import Study
from . import loops
from .speedups import AUTO, LOOP, PHASES, REARRANGED
from .timing import GPU, REPETITIONS, time_calls


def multiprocessors() -> int:
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])


@dataclass(frozen=True)
class Recurrence:
    """One of the papers' cases over N steps of float32."""

    case: str
    steps: int

    @cached_property
    def chunk(self) -> Chunk:
        shape = (1, self.steps, 1)
        t = cupy.asarray(loops.draw(self.steps)).reshape(shape)
        s: Any = cupy.full((1, 1, 1), loops.SCALE)
        if loops.CASES[self.case]:
            s = CoefficientOperand(StepFunction(loops.operations(loops.CASES[self.case])), 0)
        return Chunk((s, t), shape, np.dtype("f4"))

    @cached_property
    def out(self) -> Any:
        return cupy.empty(self.chunk.shape, "f4")

    @cached_property
    def wanted(self) -> np.ndarray:
        return loops.solve(self.case, self.steps)

    def phases(self, blocks: int, threads: int, *, is_rearranged: bool = True) -> Phases:
        """Ready to be timed: its operands are rearranged."""
        entry, results = (cupy.zeros((1, 1), "f4"),), (self.out,)
        configuration = Configuration(blocks, threads)
        found = Phases(affine, self.chunk, entry, results, configuration, is_rearranged=is_rearranged)
        found()
        return found

    def solve(self) -> Any:
        """The public call, as mgrec chooses it."""
        s: Any = loops.SCALE
        if loops.CASES[self.case]:
            s = mgrec.Coefficient(loops.operations(loops.CASES[self.case]))
        return mgrec.linear_recurrence(s, self.chunk.operands[1].ravel(), out=self.out.ravel())

    def about(self, part: str) -> dict[str, Any]:
        return {"part": part, "recurrence": self.case, "steps": self.steps}


def base(study: Study, recurrence: Recurrence) -> None:
    """A thread of a CPU, in proportion for more steps than are measured; and `auto`."""
    few, call = loops.loop(recurrence.case, recurrence.steps)
    case, about = name_of(recurrence), recurrence.about("solve")
    scale = recurrence.steps / few
    study.compare(
        case,
        {LOOP: call},
        REPETITIONS,
        clock=lambda call, count: scale * sample(call, count),
        measured_steps=few,
        **about,
    )
    time_calls(
        study,
        GPU,
        case,
        {AUTO: recurrence.solve},
        lambda name: recurrence.solve().get(),
        recurrence.wanted,
        **about,
    )


def solves(
    study: Study, recurrence: Recurrence, blocks: int, threads: int, orders: tuple[str, ...] = (REARRANGED,)
) -> None:
    """The three phases together, over arrays that are rearranged already, or never."""
    for order in orders:
        phases = recurrence.phases(blocks, threads, is_rearranged=order == REARRANGED)

        def solved(name: str, phases: Phases = phases) -> Any:
            recurrence.out.fill(np.nan)
            phases()
            return recurrence.out.get().ravel()

        time_calls(
            study,
            GPU,
            name_of(recurrence, blocks, threads),
            {order: phases.solve_rearranged},
            solved,
            recurrence.wanted,
            blocks=blocks,
            threads=threads,
            **recurrence.about("solve"),
        )


def each_phase(
    study: Study, recurrence: Recurrence, blocks: int, threads: int, order: str = REARRANGED
) -> None:
    """Every phase by itself."""
    phases = recurrence.phases(blocks, threads, is_rearranged=order == REARRANGED)
    calls = {name: getattr(phases, name) for name in PHASES}
    about = {"blocks": blocks, "threads": threads, "order": order, "parts": phases.partition.count}
    case = f"{name_of(recurrence, blocks, threads)}, {order}"
    about |= recurrence.about("phase")
    study.compare(case, calls, REPETITIONS, GPU.settle, GPU.clock, **about)


def by_pcr(study: Study, recurrence: Recurrence, blocks: int, threads: int, name: str) -> None:
    """Parallel cyclic reduction of a system without a diagonal above, a launch a level."""
    chunk, ones = recurrence.chunk, cupy.ones((1, 1, 1), "f4")
    s, t = chunk.operands
    system = Chunk((ones * -s.ravel()[0], ones, 0 * ones, t), chunk.shape, chunk.dtype)
    plan = partial(pcr_in_blocks, blocks=blocks, threads=threads)
    call = partial(nopivot.launch_whole, plan, system, recurrence.out)

    def solved(_: str) -> np.ndarray:
        recurrence.out.fill(np.nan)
        call()
        return recurrence.out.get().ravel()

    time_calls(
        study,
        GPU,
        name_of(recurrence, blocks, threads),
        {name: call},
        solved,
        recurrence.wanted,
        blocks=blocks,
        threads=threads,
        **recurrence.about("solve"),
    )


def pcr_in_blocks(
    shape: nopivot.Shape, dtype: np.dtype[Any], device: Device, *, blocks: int, threads: int
) -> nopivot.LaunchPlan:
    """Plan PARACR with a launch a level, of at most so many blocks."""
    plan = nopivot.pcr_none(shape, dtype, device)
    blocks = min(blocks, -(-prod(shape) // threads))
    launches = (replace(launch, blocks=blocks, threads=threads) for launch in plan.launches)
    return replace(plan, launches=tuple(launches))


def rearrangement(study: Study, steps: int, count: int) -> None:
    """The transposition through shared memory, and through global memory alone."""
    x = cupy.arange(steps, dtype="f4").reshape(1, steps, 1)
    partition = RowPartition.of(x.shape, count)
    out = cupy.empty(partition.rearranged_shape, "f4")
    # The last part is shorter, and the plain transposition moves what lies behind it, too.
    parts = cupy.zeros((partition.count, partition.length), "f4")
    parts.ravel()[:steps] = x.ravel()
    plain = cupy.empty(parts.T.shape, "f4")
    calls = {
        "without shared memory": lambda: cupy.copyto(plain, parts.T),
        "with shared memory": lambda: rearrange(x, partition, out),
    }
    for call in calls.values():
        call()
    whole = partition.count - 1
    if not (out[1:, :whole] == plain[:, :whole]).all():
        raise ArithmeticError("the rearrangements differ")
    study.compare(
        f"rearrangement of {steps:,}",
        calls,
        REPETITIONS,
        GPU.settle,
        GPU.clock,
        part="rearrangement",
        steps=steps,
        parts=partition.count,
        bytes=2 * x.nbytes,
    )


def name_of(recurrence: Recurrence, blocks: int = 0, threads: int = 0) -> str:
    name = f"{recurrence.case}, N = {recurrence.steps:,}"
    return f"{name}, G = {blocks}, T = {threads}" if blocks else name
