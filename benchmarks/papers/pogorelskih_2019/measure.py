"""What is measured: batches and single systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...harness.clock import Times, sample
from ...harness.study import Study
from ..timing import REPETITIONS, time_calls
from . import host
from .printed import AUTO

# Systems that a CPU solves; more take as many times as long.
CPU_SYSTEMS = 1_000


def systems(study: Study, machine: Any, part: str, count: int, rows: int) -> None:
    """One shape by all methods: `part` is "batch" or "single"."""
    operands = machine.draw(count, rows)
    out = operands[3] * np.nan
    calls = getattr(machine, part)(operands, out)
    calls[AUTO]()
    wanted = out.copy()

    def result(name: str) -> Any:
        out.fill(np.nan)
        calls[name]()
        return out

    about = {"part": part, "systems": count, "rows": rows}
    about |= {"steps": count * rows, "bytes": 5 * out.nbytes}
    time_calls(study, machine, case_of(count, rows), calls, result, wanted, **about)


def loops(study: Study, part: str, counts: tuple[int, ...], rows: int) -> None:
    """The loops of a CPU: measured with few systems, and in proportion for more."""
    few = min(CPU_SYSTEMS, counts[0])
    calls = host.loops(host.draw(few, rows))
    for call in calls.values():
        call()
    for name, call in calls.items():
        measured = [sample(call, 1) for _ in range(REPETITIONS)]
        for count in counts:
            times = Times(tuple(seconds * count / few for seconds in measured))
            about = {"part": part, "systems": count, "rows": rows, "steps": count * rows}
            study.add(case_of(count, rows), name, times, measured_systems=few, **about)


def case_of(count: int, rows: int) -> str:
    return f"{count:,} of {rows:,}" if count > 1 else f"one of {rows:,}"
