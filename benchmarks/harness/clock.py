"""Times of a call: a sample makes as many calls as the host's clock needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

# One sample lasts at least this long: shorter calls are made several times.
SAMPLE = 2e-3
# Seconds of one call, from this many.
Clock = Callable[[Callable[[], Any], int], float]


@dataclass(frozen=True)
class Times:
    """Seconds of one call, one a repetition."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    def summary(self) -> dict[str, Any]:
        extremes = {"min": min(self.seconds), "max": max(self.seconds)}
        return {"repetitions": len(self.seconds), "median": self.median, **extremes}


def count_calls(call: Callable[[], Any]) -> int:
    """Calls that make one sample; the first call may compile."""
    call()
    return max(1, round(SAMPLE / max(sample(call, 1), 1e-7)))


def sample(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count
