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

# In float32 like the signal: float64 coefficients give float64 results, as in SciPy.
FILTER = np.array([[0.2, 0.3, 0.2], [1.0, -0.6, 0.2]], np.float32)
ROWS = 64
LONG, SHORT, HALF = "bar, long chunks", "bar, short chunks", "half"
SCALED = ("bar", LONG, "weak", "strong", SHORT, HALF)
"""Parts of the study that run on 1, 2, 4, ... and all workers."""
WAYS = ("graph", "solve", "plan")
"""A persisted graph, `mgrec.dask.solve`, and a solve of a built plan."""
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
    """A recurrence; words a step that each phase of a chunk reads and writes.

    The words of a determination are the least any solve needs. Whole rows that begin without
    `states` are one task a chunk.
    """

    recurrence: Callable[..., Any]
    operands: Callable[[Any, Any], tuple[Any, ...]]
    precompute: int
    determine: int
    options: dict[str, Any] = field(default_factory=dict)
    has_states: bool = True

    def solve(self, s: Any, t: Any) -> Any:
        return self.by(self.recurrence, s, t)

    def by(self, call: Callable[..., Any], s: Any, t: Any, *first: Any, **more: Any) -> Any:
        """A call of a function that takes the operands of the recurrence."""
        return call(*first, *self.operands(s, t), **self.options, **more)


CASES = {
    "constant": Case(mgrec.linear_recurrence, lambda s, t: (0.5, t), 1, 2),
    "arrays": Case(mgrec.linear_recurrence, lambda s, t: (s, t), 2, 3),
    "max-plus": Case(
        mgrec.scan, lambda s, t: (mgrec.maps.max_plus, s, t), 2, 3, {"initial": np.float32(0)}
    ),
    "filter, order 2": Case(lfilter, lambda s, t: (*FILTER, t), 1, 2, has_states=False),
}


@dataclass(frozen=True)
class Sizes:
    """Steps of chunks, of one worker, and of all workers in strong scaling."""

    chunk: int
    short: int
    long: int
    bar: int
    weak: int
    strong: int
    half: int
    """Of one worker, in four chunks."""


def sizes(kind: str, is_small: bool) -> Sizes:
    if is_small:
        return Sizes(1 << 12, 1 << 10, 1 << 13, 1 << 14, 1 << 12, 1 << 14, 1 << 13)
    if kind == "cuda":
        return Sizes(1 << 30, 1 << 28, 1 << 31, 1 << 32, 1 << 30, 1 << 32, 1 << 31)
    return Sizes(1 << 22, 1 << 20, 1 << 23, 1 << 24, 1 << 22, 1 << 24, 1 << 23)


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

    def cut(self, given: Sizes) -> tuple[int, int]:
        """Steps of a chunk, and the number of chunks.

        Chunks are as long as the study's, or shorter where some worker would have none.
        """
        if self.part == "strong":
            chunk = min(given.chunk, given.strong // self.workers)
            return chunk, given.strong // chunk
        own = {LONG: given.long, SHORT: given.short, HALF: given.half // 4}
        chunk = own.get(self.part, given.chunk)
        each = {"weak": given.weak, HALF: given.half}.get(self.part, given.bar)
        return min(chunk, each), max(1, each // chunk) * self.workers

    def alone(self, given: Sizes) -> tuple[int, int]:
        """Steps of the one call that the row is held against, and how many workers share it."""
        chunk, chunks = self.cut(given)
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
        host = [np.asarray(to_host(a.compute()), np.float64).reshape(rows, -1) for a in (s, t)]
        for name, case in CASES.items():
            got = to_host(case.solve(s, t).compute()).reshape(rows, -1)
            wanted = np.array([loop(name, *row) for row in zip(*host, strict=True)])
            # Sums of a random walk, as in max-plus, grow with the workers, and so do their errors.
            worst = float(np.abs(got - wanted).max() / max(1.0, np.abs(wanted).max()))
            study.notes[f"largest relative deviation, {name}, {rows} rows"] = worst
            assert worst < 1e-5, f"{name} deviates by {worst} of its largest value"


def to_host(array: Any) -> np.ndarray:
    return array.get() if hasattr(array, "get") else array


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
