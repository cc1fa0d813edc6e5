"""What a scaling study measures: cases, chunks, and their order of importance."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from distributed import Client

import mgrec
from mgrec.signal import lfilter

from ...harness.study import Study
from . import cluster as on
from .cluster import WAYS

# In float32 like the signal: float64 coefficients give float64 results, as in SciPy.
FILTER = np.array([[0.2, 0.3, 0.2], [1.0, -0.6, 0.2]], np.float32)
ROWS = 64
LONG, SHORT, HALF = "bar, long chunks", "bar, short chunks", "half"
SCALED = ("bar", LONG, "weak", "strong", SHORT, HALF)
"""Parts of the study that run on 1, 2, 4, ... and all workers."""
BARS = {
    ("bar", "arrays"): {"plan": 0.85, "solve": 0.55, "graph": 0.5},
    ("bar", "constant"): {"plan": 0.78, "solve": 0.45, "graph": 0.4},
    (HALF, "arrays"): {"plan": 0.72, "solve": 0.35, "graph": 0.3},
    (HALF, "constant"): {"plan": 0.65, "solve": 0.3, "graph": 0.22},
}
"""Wanted efficiencies of one sequence on all workers, by part, case and way.

The efficiency of N workers is the time of one call of one worker, on an array of n steps that is
no Dask array, over that of N·n steps in chunks; in strong scaling, over N times that of n.
"""


@dataclass(frozen=True)
class Case:
    """A recurrence, and the words a step that a solve reads and writes at least."""

    recurrence: Callable[..., Any]
    operands: Callable[[Any, Any], tuple[Any, ...]]
    words: int
    options: dict[str, Any] = field(default_factory=dict)

    def solve(self, s: Any, t: Any) -> Any:
        return self.recurrence(*self.operands(s, t), **self.options)


CASES = {
    "constant": Case(mgrec.linear_recurrence, lambda s, t: (0.5, t), 2),
    "arrays": Case(mgrec.linear_recurrence, lambda s, t: (s, t), 3),
    "max-plus": Case(mgrec.scan, lambda s, t: (mgrec.maps.max_plus, s, t), 3, {"initial": np.float32(0)}),
    "filter, order 2": Case(lfilter, lambda s, t: (*FILTER, t), 2),
}


def steps_of_chunk(kind: str, is_small: bool) -> int:
    """Steps of a chunk in most parts."""
    return 1 << (12 if is_small else {"cuda": 30, "local": 22}[kind])


@dataclass(frozen=True)
class Cell:
    """One row of the study: a case on some workers, in one of three ways."""

    part: str
    rows: int
    workers: int
    name: str
    way: str = "graph"

    @property
    def case(self) -> str:
        shape = "one sequence" if self.rows == 1 else f"{self.rows} rows"
        return f"{self.part}, {shape}, {self.name}"

    @property
    def candidate(self) -> str:
        return f"{self.workers} workers" + ("" if self.way == WAYS[0] else f", {self.way}")

    def cut(self, most: int) -> tuple[int, int]:
        """Steps of a chunk, and the number of chunks.

        Chunks have `most` steps, the length of the part, or fewer where a worker would have none.
        """
        if self.part == "strong":
            chunk = min(most, 4 * most // self.workers)
            return chunk, 4 * most // chunk
        chunk = {LONG: 2 * most, SHORT: most // 4, HALF: most // 2}.get(self.part, most)
        each = {"weak": most, HALF: 2 * most}.get(self.part, 4 * most)
        return chunk, each // chunk * self.workers

    def alone(self, most: int) -> tuple[int, int]:
        """Steps of the one call that the row is held against, and how many workers share it."""
        chunk, chunks = self.cut(most)
        if self.part == "strong":
            return chunk * chunks, self.workers
        return chunk * chunks // self.workers, 1


def way_of(candidate: str) -> str:
    """The way of a row, by its candidate."""
    return next((way for way in WAYS if candidate.endswith(f", {way}")), WAYS[0])


def counts(workers: int) -> list[int]:
    """1, 2, 4, ... and all."""
    return sorted({*(1 << k for k in range(workers.bit_length())), workers})


def stages(parts: Sequence[str], workers: int) -> list[list[Cell]]:
    """The rows of the study, in stages, the most important first."""
    ends = sorted({1, workers})
    between = [count for count in counts(workers) if count not in ends]
    most = tuple(part for part in SCALED if part not in (LONG, SHORT, HALF))
    order: tuple[tuple[Sequence[str], int, list[int]], ...] = (
        (("bar",), 1, ends),
        (SCALED[1:], 1, ends),
        (most, ROWS, ends),
        (SCALED, 1, between),
        (most, ROWS, between),
        ((LONG, SHORT, HALF), ROWS, [*ends, *between]),
    )
    found = [
        [cell for part in some if part in parts for cell in _cells(part, rows, those)]
        for some, rows, those in order
    ]
    return [cells for cells in found if cells]


def _cells(part: str, rows: int, those: list[int]) -> Iterator[Cell]:
    for workers in those:
        for name in CASES:
            for way in WAYS if name == "arrays" or part in (SCALED[0], HALF) else WAYS[:1]:
                yield Cell(part, rows, workers, name, way)


class Budget:
    """The time limit of a study; None for none."""

    def __init__(self, minutes: float | None) -> None:
        self.end = float("inf") if minutes is None else time.monotonic() + 60 * minutes
        self.longest: dict[str, float] = {}

    def allows(self, what: str, guess: float) -> bool:
        """Whether there is time for one more row, as long as the longest so far."""
        return time.monotonic() + 1.2 * self.longest.get(what, guess) < self.end

    def spend(self, what: str, seconds: float) -> None:
        self.longest[what] = max(self.longest.get(what, 0.0), seconds)


def check(study: Study, client: Client, kind: str, addresses: list[str]) -> None:
    """Check every case against a sequential loop in float64, before it is timed."""
    for rows in (1, 4):
        cut: Any = ((4096 // rows,) * (3 * len(addresses)),)
        cut = cut if rows == 1 else ((rows,), *cut)
        s, t = (on.operand(client, kind, cut, addresses, low, -low) for low in (-0.5, -1.0))
        host = [on.to_host(a.compute()).astype(float).reshape(rows, -1) for a in (s, t)]
        for name, case in CASES.items():
            got = on.to_host(case.solve(s, t).compute()).reshape(rows, -1)
            wanted = np.array([loop(name, *row) for row in zip(*host, strict=True)])
            # Sums of a random walk, as in max-plus, grow with the workers, and so do their errors.
            worst = float(np.abs(got - wanted).max() / max(1.0, np.abs(wanted).max()))
            study.notes[f"largest relative deviation, {name}, {rows} rows"] = worst
            assert worst < 1e-5, f"{name} deviates by {worst} of its largest value"


def loop(name: str, s: np.ndarray, t: np.ndarray) -> list[float]:
    w, states, found = 0.0, [0.0, 0.0], []
    (b0, b1, b2), (_, a1, a2) = FILTER.tolist()
    for a, b in zip(s, t, strict=True):
        if name == "filter, order 2":
            w = b0 * b + states[0]
            states = [b1 * b - a1 * w + states[1], b2 * b - a2 * w]
        elif name == "max-plus":
            w = max(a + w, b)
        else:
            w = (0.5 if name == "constant" else a) * w + b
        found.append(w)
    return found
