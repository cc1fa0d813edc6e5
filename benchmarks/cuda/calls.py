"""Public calls over common layouts on one GPU: checked, then timed against the floor of traffic.

The floor is one reading of the operands and one writing of the results. Cumulative sums along the
same axis by CuPy and PyTorch stand beside constant coefficients, whose traffic they have: they are
called less often where they are slow. The last rows are the host's share, by calls of 4,096 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np

import mgrec
from mgrec.signal import lfilter, sosfilt

from ..harness.clock import Call, host_clock
from .fractions import Row, Trial, run, timed
from .packages import as_torch

CHECKED = 2**20
"""Numbers of a result that are held against the same call on the CPU in float64."""


@dataclass(frozen=True)
class Case:
    """A call of a function of KINDS over float32 arrays of one shape."""

    kind: str
    shape: tuple[int, ...]
    axis: int = -1

    @property
    def name(self) -> str:
        sizes = " x ".join(f"{n:,}" for n in self.shape)
        return f"{self.kind}: {sizes}" + (f", axis {self.axis}" if len(self.shape) > 1 else "")


LAYOUTS = [
    ((2**28,), -1),
    ((10**6, 64), 1),
    ((64, 10**6), 0),
    ((2**25, 3), 0),
    ((2**24, 2), 0),
    ((2**22, 16), 0),
    ((2**20, 64), 0),
    ((256, 512, 512), 0),
    ((256, 512, 512), 1),
    ((2**11, 2**15), 0),
    ((2**15, 2**11), 0),
    ((2**11, 2**15), 1),
]
CASES = [
    *(Case(kind, *layout) for layout in LAYOUTS for kind in ("arrays", "constant")),
    Case("lfilter of order 2", (2**25, 3), 0),
    Case("lfilter of order 2", (2**22, 64), 0),
    Case("8 sections", (2**28,)),
    Case("a coefficient's formula", (2**26,)),
    Case("Lindley's map", (2**26,)),
    Case("Möbius", (2**26,)),
    *(Case("arrays", (2**k,)) for k in (12, 16, 20, 24)),
]
NUMERATOR, DENOMINATOR = np.array([1, 2, 1], "f4"), np.array([1, -1.2, 0.5], "f4")
SECTIONS = np.array([[1, 0.5, 0.1, 1, -0.5, 0.2]] * 8, "f4")
WAVE = mgrec.Coefficient(lambda i: 0.5 + 0.4 * np.sin(0.001 * i))
KINDS: dict[str, tuple[int, Any]] = {
    "arrays": (2, lambda s, t, **how: mgrec.linear_recurrence(s, t, **how)),
    "constant": (1, lambda t, **how: mgrec.linear_recurrence(0.5, t, **how)),
    "lfilter of order 2": (1, lambda x, **how: lfilter(NUMERATOR, DENOMINATOR, x, **how)),
    "8 sections": (1, lambda x, **how: sosfilt(SECTIONS, x, **how)),
    "a coefficient's formula": (1, lambda t, **how: mgrec.linear_recurrence(WAVE, t, **how)),
    "Lindley's map": (1, lambda s, **how: mgrec.scan(mgrec.maps.max_plus, s, 0.0, initial=0.0, **how)),
    "Möbius": (4, lambda a, b, c, d, **how: mgrec.rational_recurrence(a, b, c, d, initial=1.0, **how)),
}
"""By the kind of a call: how many arrays it takes, and the call."""


def draw(case: Case) -> list[Any]:
    """Operands whose recurrences forget; Möbius maps of positive numbers."""
    count = KINDS[case.kind][0]
    low = 1.0 if case.kind == "Möbius" else -0.9
    return [low + 0.9 * cupy.random.random(case.shape, dtype="f4") for _ in range(count)]


def difference(case: Case, operands: list[Any], result: Any) -> float:
    """The largest difference from the CPU's, of the first steps of all rows or of some rows."""
    rows = max(1, result.size // case.shape[case.axis])
    steps = max(1, min(case.shape[case.axis], CHECKED // rows, CHECKED))
    part = [slice(None)] * len(case.shape)
    part[case.axis] = slice(steps)
    if steps < 64:  # many rows: the first of the axis that has most of them
        part[case.axis] = slice(None)
        longest = max(range(len(case.shape)), key=lambda k: (k != case.axis % 9, case.shape[k]))
        part[longest] = slice(max(1, case.shape[longest] * CHECKED // result.size))
    own = [x[tuple(part)].get().astype("f8") for x in operands]
    wanted = KINDS[case.kind][1](*own, axis=case.axis)
    got = result[tuple(part)].get()
    return float((np.abs(got - wanted) / (1 + np.abs(wanted))).max())


def build(case: Case) -> Trial:
    operands = draw(case)
    out = cupy.empty(case.shape, "f4")
    out.view(cupy.uint8)[...] = 0xFE
    call = partial(KINDS[case.kind][1], *operands, axis=case.axis, out=out)
    builds: dict[str, Callable[[], Call]] = {"mgrec": lambda: call}
    if case.kind == "constant":
        (x,) = operands
        builds["cupy.cumsum"] = lambda: partial(cupy.cumsum, x, case.axis)
        builds["torch.cumsum"] = lambda: partial(as_torch(x)[0].cumsum, case.axis)

    def check(row: Row) -> Row:
        if row["candidate"] != "mgrec":
            return {}
        about = {"difference": difference(case, operands, out)}
        if out.size == 2**12:
            about["host us"] = min(host_clock(call, 200) for _ in range(5)) * 1e6
        return about

    return Trial(lambda bandwidth: (len(operands) + 1) * out.nbytes / bandwidth, builds, check)


if __name__ == "__main__":
    run("cuda_calls", __doc__, CASES, timed(build), lambda row: row.get("difference", 0.0) > 1e-3)
