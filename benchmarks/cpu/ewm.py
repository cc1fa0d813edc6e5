"""Exponentially weighted statistics, and recurrences with resets, against pandas and SciPy.

pandas is asked for the same array on one thread. Memory is the largest that Python's allocators
hold during a call, over that of the input.
"""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import signal

import mgrec
from mgrec.signal import ewm, lfilter

from ..harness.clock import Call
from ..harness.command import Command
from ..harness.study import Study
from .candidates import about, threads

STEPS = 10_000_000
SEGMENTED = 1_000_000
# How many times as fast as pandas, and of how many times the input in memory.
WANTED, MEMORY = 3.0, 2.0
# Statistics, and whether weights are adjusted.
STATISTICS = (("mean", True), ("mean", False), ("sum", True), ("var", True), ("var", False), ("corr", True))


def series(missing: str) -> np.ndarray:
    x = np.random.default_rng(5).normal(size=STEPS)
    if missing == "a tenth missing":
        x[np.random.default_rng(6).random(STEPS) < 0.1] = np.nan
    if missing == "runs missing":
        x.reshape(-1, 100_000)[:, :3000] = np.nan
    return x


def peak(call: Call, x: np.ndarray) -> float:
    """The most memory that a call holds, over that of its input."""
    call()
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / x.nbytes


def weigh(study: Study, missing: str, statistic: str, adjust: bool, n: int) -> None:
    x = series(missing)
    y = x[::-1].copy() if statistic == "corr" else None
    options = {"alpha": 0.05, "adjust": adjust}
    own = threads(1, ewm, x, statistic=statistic, other=y, **options)
    weighted = pd.Series(x, copy=False).ewm(**options)
    further = () if y is None else (pd.Series(y, copy=False),)

    def by_pandas() -> Any:
        return getattr(weighted, statistic)(*further).to_numpy()

    np.testing.assert_allclose(own(), by_pandas(), rtol=1e-9, atol=1e-12)
    case = f"{statistic}, {'adjusted' if adjust else 'recursive'}, {missing}"
    times = study.compare(case, {"mgrec": own, "pandas": by_pandas}, n, **about(x, 2))
    study.ratio(f"{case}: pandas over mgrec", times["pandas"], times["mgrec"], WANTED)
    memory, most = peak(own, x), peak(by_pandas, x)
    study.bar(f"{case}: memory over the input", memory, memory, MEMORY, is_least=False)
    study.notes[f"{case}: memory of pandas over the input"] = round(most, 2)


def statistics(study: Study, n: int, missing: str) -> None:
    for statistic, adjust in STATISTICS:
        if statistic == "mean" or missing != "runs missing":
            weigh(study, missing, statistic, adjust, n)


def segments(study: Study, n: int) -> None:
    """Segments of one length: one call, and a call a segment."""
    x = np.random.default_rng(7).normal(size=SEGMENTED)
    b, a = [0.1, 0.2, 0.1], [1.0, -1.2, 0.5]
    for length in (20, 1000, 50_000):
        marks = mgrec.starts(np.full(SEGMENTED // length, length))
        parts = x.reshape(-1, length)
        assert np.allclose(lfilter(b, a, x, reset=marks), signal.lfilter(b, a, parts).ravel())
        few = parts[: max(1, 10_000 // length)]
        candidates = {
            "linear_recurrence": threads(1, mgrec.linear_recurrence, 0.9, x, reset=marks),
            "linear_recurrence, one segment": threads(1, mgrec.linear_recurrence, 0.9, x),
            "lfilter": threads(1, lfilter, b, a, x, reset=marks),
            "lfilter, one segment": threads(1, lfilter, b, a, x),
        }
        study.compare(f"segments of {length:,} steps", candidates, n, **about(x))
        loop = {"scipy.signal.lfilter": partial(filter_each, b, a, few)}
        case = f"segments of {length:,} steps, a call each"
        study.compare(case, loop, n, **about(few.ravel()))


def filter_each(b: Any, a: Any, parts: np.ndarray) -> list[Any]:
    return [signal.lfilter(b, a, part) for part in parts]


PARTS = {
    **{
        missing.replace(" ", "-"): partial(statistics, missing=missing)
        for missing in ("none missing", "a tenth missing", "runs missing")
    },
    "segments": segments,
}

if __name__ == "__main__":
    Command("ewm", __doc__, PARTS, (9, 3)).main()
