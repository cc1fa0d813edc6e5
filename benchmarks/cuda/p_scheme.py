"""P-scheme/G: its constants, its policy against all configurations, and its time by phase.

As in its papers the phases are timed over arrays that are rearranged already; beside that stand
the whole with both transpositions, the phases in natural order, and the single pass. Single phases
have no public function: this study calls mgrec's internals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from mgrec import tuning
from mgrec.core.algebra.transfer_map import affine
from mgrec.scans.cuda.determine import prepare
from mgrec.scans.cuda.p_scheme import Phases, build, seconds_of

from .fractions import Row, run

PHASES = ("rearrange", "precompute", "propagate", "determine", "restore")


@dataclass(frozen=True)
class Case:
    """One recurrence of n steps."""

    n: int
    dtype: str
    kind: str = "arrays"

    @property
    def name(self) -> str:
        return f"{self.kind} {self.dtype} 2^{self.n.bit_length() - 1}"


CASES = [
    Case(2**20, "f4"),
    Case(2**24, "f4"),
    Case(2**28, "f4"),
    Case(2**27, "f8"),
    Case(2**28, "f4", "constant"),
    Case(2**28, "f4", "computed"),
]


def time_phases(case: Case, configuration: tuning.Configuration) -> dict[str, float]:
    """Seconds of every launch, of the phases in natural order, and of the single pass."""
    chunk, carry_in, results = build(case.n, np.dtype(case.dtype), case.kind)
    phases = Phases(affine, chunk, carry_in, results, configuration)
    phases()
    seconds = {name: seconds_of(getattr(phases, name)) for name in PHASES}
    natural = Phases(affine, chunk, carry_in, results, configuration, is_rearranged=False)
    seconds["natural"] = seconds_of(natural.solve_rearranged)
    seconds["single pass"] = seconds_of(prepare(affine, chunk, carry_in, results))
    return seconds


def measure(case: Case, bandwidth: float) -> Iterator[Row]:
    report = tuning.report(case.n, case.dtype, case.kind)
    yield {
        "case": asdict(case),
        "device": report.device,
        "floor": report.floor,
        "constants": asdict(report.constants),
        "policy": asdict(report.measurements[0]),
        "best": asdict(report.best),
        "phases": time_phases(case, report.best.configuration),
        "table": str(report),
        "all": [asdict(each) for each in report.measurements],
    }


def show(row: Row) -> str:
    """The table of a case, and fractions of the least traffic's time."""
    best, floor = row["best"], row["floor"]
    seconds = {"rearranged": best["rearranged"], "transposed": best["whole"], **row["phases"]}
    names = ("rearranged", "transposed", "natural", "single pass")
    found = ", ".join(f"{name} {floor / seconds[name]:.3f}" for name in names)
    return f"{row['table']}\nfractions of the best: {found}\n"


if __name__ == "__main__":
    run("cuda_p_scheme", __doc__, CASES, measure, lambda row: False, show=show)
