"""Speedups over one thread of a CPU by G and T, the model's optimum, and what the phases cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

from .curves import Curve, Rows, curve, label, plot, rows_of

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


def seconds_of(rows: Rows, case: str, steps: int, candidate: str) -> float | None:
    """Of the CPU's loop, or of the public call."""
    found = rows_of(rows, part="solve", recurrence=case, steps=steps, candidate=candidate)
    return found[0]["median"] if found else None


def speedups(rows: Rows, case: str, steps: int, blocks: int, order: str = REARRANGED) -> Curve:
    """By T."""
    base = seconds_of(rows, case, steps, LOOP)
    times = curve(
        rows, "threads", part="solve", recurrence=case, steps=steps, blocks=blocks, candidate=order
    )
    return {} if base is None else {key: base / value for key, value in times.items()}


def blocks_of(rows: Rows, case: str, steps: int) -> list[int]:
    found = rows_of(rows, part="solve", recurrence=case, steps=steps, candidate=REARRANGED)
    return sorted({row["blocks"] for row in found})


def best_of(rows: Rows, case: str, steps: int) -> Best | None:
    found = rows_of(rows, part="solve", recurrence=case, steps=steps, candidate=REARRANGED)
    row = min(found, key=lambda row: row["median"], default=None)
    return Best(row["blocks"], row["threads"], row["median"]) if row else None


def constants(rows: Rows, case: str, steps: int) -> tuple[float, float, float] | None:
    """alpha, beta and gamma in seconds, by equations 3 to 5."""
    found = rows_of(rows, part="phase", recurrence=case, steps=steps)
    times = {row["candidate"]: row["median"] for row in found}
    if not all(name in times for name in PHASES):
        return None
    parts = found[0]["parts"]
    return (
        times["precompute"] * parts / steps,
        times["propagate"] / parts,
        times["determine"] * parts / steps,
    )


def optimum(found: tuple[float, float, float], steps: int) -> float:
    """P_opt of equation 7."""
    alpha, beta, gamma = found
    return sqrt((alpha + gamma) * steps / beta)


def nearest(rows: Rows, case: str, steps: int, processors: float) -> Best | None:
    """What the policy chooses of the measured configurations: most blocks, then T nearest P_opt."""
    blocks = max(blocks_of(rows, case, steps), default=0)
    found = rows_of(
        rows, part="solve", recurrence=case, steps=steps, candidate=REARRANGED, blocks=blocks
    )
    row = min(found, key=lambda row: abs(blocks * row["threads"] - processors), default=None)
    return Best(blocks, row["threads"], row["median"]) if row else None


def draw(
    panel: Any, rows: Rows, case: str, steps: int, title: str, predicted: float | None = None
) -> None:
    """A curve for each G over P, and the model's optimum."""
    for blocks in blocks_of(rows, case, steps):
        found = speedups(rows, case, steps, blocks)
        by_processors = {blocks * threads: each for threads, each in found.items()}
        plot(panel, by_processors, f"G = {blocks}")
    if predicted:
        panel.axvline(predicted, color="0.4", linestyle=":", label="P_opt by the model")
    base, auto = (seconds_of(rows, case, steps, name) for name in (LOOP, AUTO))
    if base and auto:
        panel.axhline(base / auto, color="C7", linestyle="--", label="mgrec auto")
    label(panel, title, "P = G·T", "speedup over a CPU")
