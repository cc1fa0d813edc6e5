"""What is measured: batches, single systems, and the recurrence of figure 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...cpu import peers
from ...harness.clock import Times
from ...harness.study import Study
from . import host
from .printed import AUTO, CPU_LOOP

# Systems that a CPU solves; more take as many times as long.
CPU_SYSTEMS, REPETITIONS = 1_000, 3
TOLERANCE = 1e-5
Call = Callable[[], Any]


def time_calls(
    study: Study, machine: Any, case: str, calls: dict[str, Call], result: Callable[[str], Any],
    wanted: Any, **about: Any,
) -> None:  # fmt: skip
    """Check that calls agree, then time them; what fails is recorded as not measured."""
    sound = {}
    for name, call in calls.items():
        try:
            error = deviation(result(name), wanted)
            if not error < TOLERANCE:
                raise ArithmeticError(f"deviates by {error:.3g} of the norm")
            sound[name] = call
        except Exception as error:
            study.miss(case, name, " ".join(f"{type(error).__name__}: {error}".split())[:300])
    settle, clock = getattr(machine, "settle", None), getattr(machine, "clock", None)
    study.compare(case, sound, REPETITIONS, settle, clock, **about)


def deviation(x: Any, wanted: Any) -> float:
    difference = (x - wanted).ravel()
    return float(abs(difference).max() / abs(wanted).max())


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
        measured = [host_seconds(call) for _ in range(REPETITIONS)]
        for count in counts:
            times = Times(tuple(seconds * count / few for seconds in measured))
            about = {"part": part, "systems": count, "rows": rows, "steps": count * rows}
            study.add(case_of(count, rows), name, times, measured_systems=few, **about)


def host_seconds(call: Call) -> float:
    from ...harness.clock import sample

    return sample(call, 1)


def figure_7(study: Study, gpu: Any, steps: int) -> None:
    s, t = gpu.recurrence(steps)
    w = np.empty_like(t)
    wanted = peers.loop_constant(s, t, w).copy()
    about = {"part": "figure 7", "steps": steps}
    case = f"recurrence of {steps:,}"
    study.compare(case, {CPU_LOOP: lambda: peers.loop_constant(s, t, w)}, REPETITIONS, **about)
    for threads, name, call, solved in gpu.figure_7(steps):
        time_calls(
            study, gpu, f"{case}, T = {threads}", {name: call},
            lambda name, solved=solved: solved().get().ravel(), wanted, threads=threads, **about,
        )  # fmt: skip


def case_of(count: int, rows: int) -> str:
    return f"{count:,} of {rows:,}" if count > 1 else f"one of {rows:,}"
