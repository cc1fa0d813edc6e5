"""Speedups over one thread of a CPU by G and T, the model's optimum, and what the phases cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

from .curves import Curve, Rows, label, plot, rows_of

REARRANGED, NATURAL, AUTO, LOOP = "rearranged", "natural order", "mgrec auto", "CPU loop"
PHASES = ("precompute", "propagate", "determine")


@dataclass(frozen=True)
class Best:
    """The fastest of the measured configurations."""

    blocks: int
    threads: int
    seconds: float

    @property
    def processors(self) -> int:
        return self.blocks * self.threads


@dataclass(frozen=True)
class Solves:
    """The rows of one of the papers' cases with some steps."""

    rows: Rows
    case: str
    steps: int

    def of(self, **wanted: Any) -> Rows:
        return rows_of(self.rows, recurrence=self.case, steps=self.steps, **wanted)

    def seconds(self, candidate: str) -> float | None:
        """Of the CPU's loop, or of the public call."""
        found = self.of(part="solve", candidate=candidate)
        return found[0]["median"] if found else None

    def speedups(self, blocks: int, order: str = REARRANGED) -> Curve:
        """Over the CPU's loop, by T."""
        base, found = self.seconds(LOOP), self.of(part="solve", blocks=blocks, candidate=order)
        return {row["threads"]: base / row["median"] for row in found} if base else {}

    @property
    def blocks(self) -> list[int]:
        return sorted({row["blocks"] for row in self.of(part="solve", candidate=REARRANGED)})

    @property
    def best(self) -> Best | None:
        found = self.of(part="solve", candidate=REARRANGED)
        row = min(found, key=lambda row: row["median"], default=None)
        return Best(row["blocks"], row["threads"], row["median"]) if row else None

    @property
    def constants(self) -> tuple[float, float, float] | None:
        """alpha, beta and gamma in seconds, by equations 3 to 5."""
        found = self.of(part="phase")
        times = {row["candidate"]: row["median"] for row in found}
        if not all(name in times for name in PHASES):
            return None
        parts = found[0]["parts"]
        precompute, propagate, determine = (times[name] for name in PHASES)
        return precompute * parts / self.steps, propagate / parts, determine * parts / self.steps

    @property
    def optimum(self) -> float | None:
        """P_opt of equation 7."""
        if self.constants is None:
            return None
        alpha, beta, gamma = self.constants
        return sqrt((alpha + gamma) * self.steps / beta)

    def nearest(self, processors: float) -> Best | None:
        """What the policy chooses of what was measured: most blocks, then T nearest P_opt."""
        blocks = max(self.blocks, default=0)
        found = self.of(part="solve", candidate=REARRANGED, blocks=blocks)
        row = min(found, key=lambda row: abs(blocks * row["threads"] - processors), default=None)
        return Best(blocks, row["threads"], row["median"]) if row else None

    def draw(self, panel: Any, title: str, predicted: float | None = None) -> None:
        """A curve for each G over P, and the model's optimum."""
        for blocks in self.blocks:
            found = self.speedups(blocks)
            by_processors = {blocks * threads: times for threads, times in found.items()}
            plot(panel, by_processors, f"G = {blocks}")
        if predicted:
            panel.axvline(predicted, color="0.4", linestyle=":", label="P_opt by the model")
        base, auto = self.seconds(LOOP), self.seconds(AUTO)
        if base and auto:
            panel.axhline(base / auto, color="C7", linestyle="--", label="mgrec auto")
        label(panel, title, "P = G·T", "speedup over a CPU")
