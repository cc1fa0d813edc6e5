"""Figure 1 of Wakatani's papers: what the P-scheme costs on one thread."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..harness.clock import Call
from ..harness.study import Study
from . import loops
from .curves import Curve, Rows, curve, label, plot
from .timing import deviation

PLAIN, SCHEME = "plain substitution", "P-scheme, one thread"
POWERS, REPETITIONS = range(12, 23, 2), 5


def linear(study: Study, powers: range = POWERS) -> None:
    """w[i] = s[i]·w[i-1] + t[i]."""
    for power in powers:
        s, t = np.random.default_rng(power).random((2, 2**power))
        w, a, u = (np.empty_like(t) for _ in range(3))
        plain = partial(loops.loop_arrays, s, t, w)
        _compare(study, "linear recurrence", power, plain, partial(loops.linear_phases, s, t, a, u))


def rational(study: Study, powers: range = POWERS) -> None:
    """p[i] = b[i]/(a[i] - b[i]·p[i-1]) of a dominant tridiagonal system."""
    for power in powers:
        a, b = np.random.default_rng(power).random((2, 2**power))
        a += 3
        p, q, *three = (np.empty_like(a) for _ in range(5))
        plain = partial(loops.rational_loop, a, b, p)
        scheme = partial(loops.rational_phases, a, b, *three, q)
        _compare(study, "p of a tridiagonal system", power, plain, scheme)


def _compare(study: Study, what: str, power: int, plain: Call, scheme: Call) -> None:
    case = f"{what} of 2^{power}"
    if not deviation(scheme(), plain()) < 1e-12:
        raise ArithmeticError(f"{case}: the P-scheme deviates from plain substitution")
    calls = {PLAIN: plain, SCHEME: scheme}
    study.compare(case, calls, REPETITIONS, part="overhead", size=2**power, steps=2**power)


def times(rows: Rows) -> dict[str, Curve]:
    """Seconds by size."""
    names = (PLAIN, SCHEME)
    return {name: curve(rows, "size", part="overhead", candidate=name) for name in names}


def draw(panel: Any, rows: Rows) -> None:
    for name, found in times(rows).items():
        plot(panel, {size: seconds * 1e3 for size, seconds in found.items()}, name)
    label(panel, "figure 1: one thread of a CPU", "N", "milliseconds")
