"""P-scheme/G: its constants, its policy against all configurations, and its time by phase.

As in its papers the phases are timed over arrays that are rearranged already; beside that stand
the whole with both transpositions, the phases in natural order, and the single pass.

usage: python -m benchmarks.cuda.p_scheme [--out FILE]
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from mgrec import tuning
from mgrec.core.algebra.transfer_map import affine
from mgrec.scans.cuda.determine import prepare
from mgrec.scans.cuda.p_scheme import Phases, build, seconds_of

from .clock import copy_bandwidth, record_of, store

PHASES = ("rearrange", "precompute", "propagate", "determine", "restore")


@dataclass(frozen=True)
class Case:
    """One recurrence of n steps."""

    n: int
    dtype: str
    kind: str = "arrays"


CASES = [
    Case(2**20, "f4"), Case(2**24, "f4"), Case(2**28, "f4"), Case(2**27, "f8"),
    Case(2**28, "f4", "constant"), Case(2**28, "f4", "computed"),
]  # fmt: skip
COLUMNS = (
    "case", "policy", "best", "policy ms", "best ms", "fraction", "transposed", "natural", "single",
)  # fmt: skip


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


def study(case: Case) -> dict[str, Any]:
    """Measure one case."""
    report = tuning.report(case.n, case.dtype, case.kind)
    seconds = time_phases(case, report.best.configuration)
    return {
        "case": asdict(case), "device": report.device, "floor": report.floor,
        "constants": asdict(report.constants), "policy": asdict(report.measurements[0]),
        "best": asdict(report.best), "phases": seconds, "table": str(report),
        "all": [asdict(each) for each in report.measurements],
    }  # fmt: skip


def summary(row: dict[str, Any]) -> str:
    """One line of the table."""
    case, policy, best = row["case"], row["policy"], row["best"]
    name = f"{case['kind']} {case['dtype']} 2^{case['n'].bit_length() - 1}"

    def size(measured: dict[str, Any]) -> str:
        return "{blocks}x{threads}".format(**measured["configuration"])

    values = [
        name, size(policy), size(best), f"{policy['rearranged'] * 1e3:.4g}",
        f"{best['rearranged'] * 1e3:.4g}", f"{row['floor'] / best['rearranged']:.2f}",
        f"{row['floor'] / best['whole']:.2f}",
        f"{row['floor'] / row['phases']['natural']:.3f}",
        f"{row['floor'] / row['phases']['single pass']:.2f}",
    ]  # fmt: skip
    return " | ".join(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the result, or its file")
    arguments = parser.parse_args()
    rows = []
    for case in CASES:
        rows.append(study(case))
        print(rows[-1]["table"], "\n", flush=True)
        cupy.get_default_memory_pool().free_all_blocks()
    gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    store(record_of("cuda_p_scheme", gpu, copy_bandwidth(), rows), arguments.out)
    print("fractions of the least traffic's time; transposed: with both transpositions")
    print(" | ".join(COLUMNS))
    print("\n".join(map(summary, rows)))


if __name__ == "__main__":
    main()
