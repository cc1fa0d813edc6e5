"""Calls that are checked before they are timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..harness.study import Study

REPETITIONS = 3
TOLERANCE = 1e-5
Call = Callable[[], Any]


def time_calls(
    study: Study, machine: Any, case: str, calls: dict[str, Call], result: Callable[[str], Any],
    wanted: Any, **about: Any,
) -> None:  # fmt: skip
    """Check that calls agree, then time them; what fails is recorded as not measured.

    The `machine` may have a ``settle``, which runs before each call, and a ``clock``.
    """
    sound = {}
    for name, call in calls.items():
        try:
            error = deviation(result(name), wanted)
            if not error < TOLERANCE:
                raise ArithmeticError(f"deviates by {error:.3g} of the norm")
            sound[name] = call
        except Exception as error:
            study.miss(case, name, " ".join(f"{type(error).__name__}: {error}".split())[:300])
    settle, clock = getattr(machine, "settle", None), getattr(machine, "clock", None)
    study.compare(case, sound, REPETITIONS, settle, clock, **about)


def deviation(x: Any, wanted: Any) -> float:
    difference = (x - wanted).ravel()
    return float(abs(difference).max() / abs(wanted).max())
