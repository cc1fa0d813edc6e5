"""Public calls over common layouts on one GPU: checked, then timed against the floor.

The floor is one reading of the operands and one writing of the results at the bandwidth of a
device-to-device copy measured in the same run; *fraction* is floor time over measured time: of
the call alone, and of each of 20 calls in a row. Cumulative sums along the same axis by CuPy and
PyTorch stand beside constant coefficients, whose traffic they have: they are called less often
where they are slow. The last rows are the host's share, by calls of 4,096 steps.

usage: python -m benchmarks.cuda.calls [CASE ...] [--out FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np

import mgrec
from mgrec.signal import lfilter, sosfilt

from .clock import host_clock
from .fractions import Call, fractions
from .fractions import run as study
from .packages import as_torch

CHECKED = 2**20
"""Numbers of a result that are held against the same call on the CPU in float64."""


@dataclass(frozen=True)
class Case:
    """A call over float32 arrays of one shape.

    Attributes
    ----------
    kind : str
        A function of KINDS.
    """

    kind: str
    shape: tuple[int, ...]
    axis: int = -1

    @property
    def name(self) -> str:
        sizes = " x ".join(f"{n:,}" for n in self.shape)
        return f"{self.kind}: {sizes}" + (f", axis {self.axis}" if len(self.shape) > 1 else "")


LAYOUTS = [
    ((2**28,), -1), ((10**6, 64), 1), ((64, 10**6), 0), ((2**25, 3), 0), ((2**24, 2), 0),
    ((2**22, 16), 0), ((2**20, 64), 0), ((256, 512, 512), 0), ((256, 512, 512), 1),
    ((2**11, 2**15), 0), ((2**15, 2**11), 0), ((2**11, 2**15), 1),
]  # fmt: skip
CASES = [
    *(Case(kind, *layout) for layout in LAYOUTS for kind in ("arrays", "constant")),
    Case("lfilter of order 2", (2**25, 3), 0), Case("lfilter of order 2", (2**22, 64), 0),
    Case("8 sections", (2**28,)), Case("a coefficient's formula", (2**26,)),
    Case("Lindley's map", (2**26,)), Case("Möbius", (2**26,)),
    *(Case("arrays", (2**k,)) for k in (12, 16, 20, 24)),
]  # fmt: skip
NUMERATOR, DENOMINATOR = np.array([1, 2, 1], "f4"), np.array([1, -1.2, 0.5], "f4")
SECTIONS = np.array([[1, 0.5, 0.1, 1, -0.5, 0.2]] * 8, "f4")
WAVE = mgrec.Coefficient(lambda i: 0.5 + 0.4 * np.sin(0.001 * i))
KINDS: dict[str, tuple[int, Any]] = {
    "arrays": (2, lambda s, t, **how: mgrec.linear_recurrence(s, t, **how)),
    "constant": (1, lambda t, **how: mgrec.linear_recurrence(0.5, t, **how)),
    "lfilter of order 2": (1, lambda x, **how: lfilter(NUMERATOR, DENOMINATOR, x, **how)),
    "8 sections": (1, lambda x, **how: sosfilt(SECTIONS, x, **how)),
    "a coefficient's formula": (1, lambda t, **how: mgrec.linear_recurrence(WAVE, t, **how)),
    "Lindley's map": (
        1, lambda s, **how: mgrec.scan(mgrec.maps.max_plus, s, 0.0, initial=0.0, **how)
    ),
    "Möbius": (4, lambda a, b, c, d, **how: mgrec.rational_recurrence(
        a, b, c, d, initial=1.0, **how
    )),
}  # fmt: skip
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


def candidates(case: Case, operands: list[Any], out: Any) -> Iterator[tuple[str, Call]]:
    yield "mgrec", partial(KINDS[case.kind][1], *operands, axis=case.axis, out=out)
    if case.kind != "constant":
        return
    (x,) = operands
    yield "cupy.cumsum", partial(cupy.cumsum, x, case.axis)
    try:
        (tensor,) = as_torch(x)
        yield "torch.cumsum", partial(tensor.cumsum, case.axis)
    except ImportError as error:
        print(f"torch: {error}", file=sys.stderr)


def measure(case: Case, bandwidth: float) -> Iterator[dict[str, Any]]:
    operands = draw(case)
    out = cupy.empty(case.shape, "f4")
    out.view(cupy.uint8)[...] = 0xFE
    floor = (len(operands) + 1) * out.nbytes / bandwidth
    for name, run in candidates(case, operands, out):
        row = {"case": case.name, "candidate": name, **fractions(run, floor)}
        about: dict[str, Any] = {}
        if name == "mgrec":
            about = {"difference": difference(case, operands, out)}
            if out.size == 2**12:
                about["host us"] = min(host_clock(run, 200) for _ in range(5)) * 1e6
        yield row | about


if __name__ == "__main__":
    study("cuda_calls", __doc__, CASES, measure, lambda row: row.get("difference", 0.0) > 1e-3)
