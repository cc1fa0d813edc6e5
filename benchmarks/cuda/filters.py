"""Filters on one GPU: checked against SciPy, then timed against the floor of memory traffic.

The floor is one reading of x and one writing of y, each in its own dtype. *fraction* is floor time
over measured time: of the kernels, by calls that wait in the queue, and of a call on an idle
device, which waits 0.1 ms for Python. cupyx.scipy.signal, which needs 50 times as long, filters
shorter signals in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import cupy
import numpy as np
from scipy import signal

import mgrec.signal

from ..harness.clock import median_time, queued_time
from .fractions import Row, run

FILTERS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "order 1, 0.1": ("lfilter", tuple(signal.butter(1, 0.1))),
    "order 2, 0.1": ("lfilter", tuple(signal.butter(2, 0.1))),
    "order 4, 0.1": ("lfilter", tuple(signal.butter(4, 0.1))),
    "order 8, 0.2": ("lfilter", tuple(signal.butter(8, 0.2))),
    "8 sections, 0.2": ("sosfilt", (signal.butter(16, 0.2, output="sos"),)),
    "33 taps": ("lfilter", (signal.firwin(33, 0.2), [1.0])),
    "order 2, 0.001, long memory": ("lfilter", tuple(signal.butter(2, 0.001))),
    "notch at 1e-4, long memory": ("lfilter", tuple(signal.iirnotch(2e-4, 30))),
}


@dataclass(frozen=True)
class Case:
    """A filter, the shape and dtype of x, and the dtype of the coefficients and of y."""

    name: str
    shape: tuple[int, ...]
    x_dtype: str = "f4"
    axis: int = 0
    dtype: str = "f4"
    has_peer: bool = False

    def apply(self, library: Any, x: Any, dtype: Any = None, **options: Any) -> Any:
        """The filter of a library; y has the dtype of the coefficients if they are wider than x."""
        function, coefficients = FILTERS[self.name]
        given = [np.asarray(part, self.dtype).astype(dtype or self.dtype) for part in coefficients]
        return getattr(library, function)(*given, x, **options)


NARROW = ["order 2, 0.1", "order 8, 0.2", "8 sections, 0.2"]
CASES = [
    *(Case(name, (1 << 28,)) for name in FILTERS),
    *(Case(name, (1 << 27,), "f8", dtype="f8") for name in FILTERS),
    *(Case(name, (1 << 28,), dtype, dtype="f8") for dtype in ("f4", "i2") for name in NARROW),
    Case("order 2, 0.1", (64, 1 << 22), axis=1),
    Case("order 2, 0.1", (1 << 22, 64)),
    Case("8 sections, 0.2", (1 << 22, 64)),
    Case("order 2, 0.1", (1 << 24,)),
    *(Case(name, (1 << 26,), has_peer=True) for name in ("order 1, 0.1", "order 2, 0.1")),
    *(Case(name, (1 << 24,), has_peer=True) for name in ("order 8, 0.2", "8 sections, 0.2")),
]
CHECKED = 1 << 16


def draw(case: Case) -> Any:
    dtype = "f4" if case.x_dtype == "i2" else case.x_dtype
    x = cupy.random.default_rng(1).random(case.shape, dtype)
    x -= 0.5
    return (x * 60_000).astype("i2") if case.x_dtype == "i2" else x


def deviation(case: Case, x: Any, y: Any) -> float:
    """Largest deviation of a few rows from SciPy's in float64, relative to the largest output."""
    if x.ndim == 2:
        x, y = (part[3] if case.axis else part[:, 3] for part in (x, y))
    wanted = case.apply(signal, x[:CHECKED].get().astype(float), float)
    return float(np.abs(y[:CHECKED].get() - wanted).max() / np.abs(wanted).max())


def compare(case: Case, x: Any, call: Any) -> Row:
    from cupyx.scipy import signal as cupyx

    function, coefficients = FILTERS[case.name]
    given = [cupy.asarray(part, "f4") for part in coefficients]
    theirs, ours = median_time(partial(getattr(cupyx, function), *given, x)), median_time(call)
    return {
        "filter": case.name,
        "samples": x.size,
        "dtype": "f4",
        "cupyx ms": theirs * 1e3,
        "mgrec ms": ours * 1e3,
        "times": theirs / ours,
    }


def measure(case: Case, bandwidth: float) -> Iterator[Row]:
    row: Row = {"filter": case.name, "shape": list(case.shape), "dtype": case.dtype}
    row |= {"axis": case.axis}
    row |= {"x dtype": case.x_dtype} if case.x_dtype != case.dtype else {}
    try:
        x, y = draw(case), cupy.full(case.shape, cupy.nan, case.dtype)
        call = partial(case.apply, mgrec.signal, x, axis=case.axis, out=y)
        if case.has_peer:
            yield compare(case, x, call)
            return
        call()
        first = y.copy()
        row["deviation"] = deviation(case, x, y)
        y.fill(cupy.nan)
        call()
        row["same"] = bool((y == first).all())
        del first
        floor = (x.nbytes + y.nbytes) / bandwidth
        queued, alone = queued_time(call, 20), median_time(call)
        row |= {"ms": queued * 1e3, "fraction": floor / queued}
        row |= {"call ms": alone * 1e3, "call fraction": floor / alone}
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    yield row


if __name__ == "__main__":
    run("cuda_filters", __doc__, CASES, measure, lambda row: "error" in row or not row.get("same", True))
