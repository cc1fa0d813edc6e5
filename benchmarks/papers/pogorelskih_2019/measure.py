"""What is measured: batches and single systems, by the methods over NumPy arrays or a GPU's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import mgrec

from ...cpu.candidates import threads
from ...cpu.peers import thomas_rows
from ...harness.clock import Call, Times, sample
from ...harness.study import Study
from .. import timing
from ..timing import Machine
from .printed import AUTO, CPU_SERICR, CPU_THOMAS, P_SCHEME, PCR, REDUCTION

# Systems that a CPU solves; more take as many times as long.
CPU_SYSTEMS = 1_000


@dataclass(frozen=True)
class Place:
    """Where systems are solved: how they are drawn, the methods of batches and of one system."""

    draw: Callable[[int, int], list[Any]]
    batch: Callable[[list[Any], Any], dict[str, Call]]
    single: Callable[[list[Any], Any], dict[str, Call]]
    machine: Machine


def draw(systems: int, rows: int) -> list[np.ndarray]:
    """dl, d, du and b of dominant systems."""
    parts = np.random.default_rng(systems + rows).standard_normal((4, systems, rows), np.float32)
    parts[[0, 2]] = parts[[0, 2]].clip(-2, 2)
    parts[1] = 4.5
    return list(parts)


def loops_of(operands: list[np.ndarray]) -> dict[str, Call]:
    """One thread of a CPU."""
    solve, out = mgrec.solve_tridiagonal, np.empty_like(operands[3])
    return {
        CPU_THOMAS: lambda: thomas_rows(*operands),
        CPU_SERICR: threads(1, solve, *operands, method="cyclic-reduction", out=out),
    }


def batch(operands: list[np.ndarray], out: np.ndarray) -> dict[str, Call]:
    methods = {AUTO: "auto", "mgrec thomas": "thomas", REDUCTION: "cyclic-reduction", PCR: "pcr"}
    return {name: _into(out, operands, method) for name, method in methods.items()}


def single(operands: list[np.ndarray], out: np.ndarray) -> dict[str, Call]:
    return batch(operands, out) | {P_SCHEME: _into(out, operands, "p-scheme")}


def _into(out: np.ndarray, operands: list[Any], method: str) -> Call:
    return threads(1, mgrec.solve_tridiagonal, *operands, method=method, out=out)


HOST = Place(draw, batch, single, timing.HOST)


def systems(study: Study, place: Place, part: str, count: int, rows: int) -> None:
    """One shape by all methods; `part` is "batch" or "single"."""
    operands = place.draw(count, rows)
    out = operands[3] * np.nan
    calls = getattr(place, part)(operands, out)
    calls[AUTO]()
    wanted = out.copy()

    def result(name: str) -> Any:
        out.fill(np.nan)
        calls[name]()
        return out

    about = {"part": part, "systems": count, "rows": rows}
    about |= {"steps": count * rows, "bytes": 5 * out.nbytes}
    case = case_of(count, rows)
    timing.time_calls(study, place.machine, case, calls, result, wanted, **about)


def loops(study: Study, part: str, counts: tuple[int, ...], rows: int) -> None:
    """The loops of a CPU: measured with few systems, and in proportion for more."""
    few = min(CPU_SYSTEMS, counts[0])
    calls = loops_of(draw(few, rows))
    for call in calls.values():
        call()
    for name, call in calls.items():
        measured = [sample(call, 1) for _ in range(timing.REPETITIONS)]
        for count in counts:
            times = Times(tuple(seconds * count / few for seconds in measured))
            about = {"part": part, "systems": count, "rows": rows, "steps": count * rows}
            study.add(case_of(count, rows), name, times, measured_systems=few, **about)


def case_of(count: int, rows: int) -> str:
    return f"{count:,} of {rows:,}" if count > 1 else f"one of {rows:,}"
