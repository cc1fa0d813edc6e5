"""The rows of a scaling study: a case on some workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from ...harness.clock import Times
from ...harness.study import Study
from . import cluster as on
from .cases import BARS, CASES, Budget, Cell
from .kernels import kernels, one_call

REPETITIONS = 7
GUESS = 15.0
"""Seconds of the first row of its kind: operands are filled."""


@dataclass
class Table:
    """What measured rows have in common.

    Attributes
    ----------
    chunk : int
        Steps of a chunk in most parts.
    """

    study: Study
    client: Client
    kind: str
    chunk: int
    addresses: list[str]
    budget: Budget
    bandwidths: dict[int, float] = field(default_factory=dict)
    alone: dict[tuple[str, int], float] = field(default_factory=dict)
    calls: dict[tuple[str, int, int], Times] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.operands = on.Operands(self.client, self.kind, self.addresses)

    def measure(self, cell: Cell) -> None:
        """Add a row, or the reason why there is none."""
        what = f"{cell.rows} rows"
        if not self.budget.allows(what, GUESS):
            self.study.miss(cell.case, cell.candidate, "the minutes of the study were over")
            return
        start = time.monotonic()
        try:
            self._measure(cell)
        except Exception as error:
            # Earlier rows are kept, and later cases may succeed.
            self.study.miss(cell.case, cell.candidate, f"{type(error).__name__}: {error}")
        self.budget.spend(what, time.monotonic() - start)

    def _measure(self, cell: Cell) -> None:
        client, kind, case = self.client, self.kind, CASES[cell.name]
        chunk, chunks = cell.cut(self.chunk)
        alone, share = self._one_call(cell)
        s, t = self.operands.get(cell.rows, chunk, chunks, cell.workers)
        operands = case.operands(s, t)
        with on.solving(client, cell.way, case.recurrence, *operands, **case.options) as call:
            seconds, across = on.times_and_transfers(client, kind, call, REPETITIONS)
        steps, lazy = chunks * chunk, case.solve(s, t)
        self.study.add(
            cell.case,
            cell.candidate,
            seconds,
            steps=steps,
            rows=cell.rows,
            workers=cell.workers,
            chunks=chunks,
            chunk=chunk,
            tasks=_tasks(lazy),
            begins=_begins(lazy),
            one_call=alone.median,
            efficiency=alone.median / seconds.median / share,
            traffic=4 * case.words * steps,
            **across,
            **self._shares(cell, seconds, lambda: case.solve(s, t), 4 * case.words * steps),
        )
        self._judge(cell, alone, seconds)

    def _shares(self, cell: Cell, seconds: Times, solve: Callable[[], Any], traffic: int) -> dict[str, float]:
        """Local kernels, Dask's share beside them, and the fraction of a copy."""
        key = (cell.case, cell.workers)
        if key not in self.alone:
            self.alone[key] = kernels(self.client, self.kind, solve)
        if cell.workers not in self.bandwidths:
            own, size = self.addresses[: cell.workers], min(self.chunk, 1 << 28)
            self.bandwidths[cell.workers] = on.copy_bandwidth(self.client, self.kind, size, own)
        alone, bandwidth = self.alone[key], self.bandwidths[cell.workers]
        fraction = traffic / seconds.median / bandwidth
        return {
            "kernels": alone,
            "dask": seconds.median - alone,
            "copy_fraction": fraction,
            "worker_copy_bandwidth": bandwidth / cell.workers,
        }

    def _one_call(self, cell: Cell) -> tuple[Times, int]:
        """One call of one worker on an array of its own, and how many workers share its steps.

        It has the memory of its worker for itself: those of all cases are timed at once.
        """
        steps, share = cell.alone(self.chunk)
        if (cell.name, cell.rows, steps) not in self.calls:
            self.operands.drop()
            for name in CASES:
                own = one_call(self.client, self.kind, self.addresses[0], name, cell.rows, steps)
                self.calls[name, cell.rows, steps] = own
        return self.calls[cell.name, cell.rows, steps], share

    def _judge(self, cell: Cell, call: Times, seconds: Times) -> None:
        """Compare the efficiency of all workers with its bar."""
        wanted = BARS.get((cell.part, cell.name), {}).get(cell.way)
        if wanted and cell.rows == 1 and 1 < cell.workers == len(self.addresses):
            text = f"{cell.case}, {cell.way}: one call over {cell.workers} workers' solve"
            self.study.ratio(text, call, seconds, wanted)


def _tasks(result: Any) -> int:
    layers = result.dask.layers.items()
    return sum(len(layer) for name, layer in layers if not name.startswith("operand-"))


def _begins(result: Any) -> bool:
    """Whether chunks have speculative tasks."""
    return any(name.startswith("speculate-") for name in result.dask.layers)
