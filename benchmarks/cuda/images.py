"""Filters of images on one GPU: checked, then timed against the floor of memory traffic.

The floor is one reading of the image and one writing of the result along each axis, at the
bandwidth of a device-to-device copy measured in the same run. For splines it is twice that: a pass
forward and a pass backward. *fraction* is floor time over measured time: of the public call alone,
and of each of 20 calls in a row. ``cupyx.scipy.ndimage`` filters the same image in the same run.

usage: python -m benchmarks.cuda.images [CASE ...] [--out FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import cupy

import mgrec.ndimage

from .fractions import Call, fractions
from .fractions import run as study

SIDE = 2**14


@dataclass(frozen=True)
class Case:
    """A filter of an image of SIDE × SIDE float32.

    Attributes
    ----------
    axes : int
        Axes along which it filters.
    words : int
        Readings and writings of the floor along each axis.
    bound : float
        Largest distance from CuPy's result.
    """

    name: str
    function: str
    axes: int
    words: int = 2
    bound: float = 1e-5
    options: dict[str, Any] = field(default_factory=dict)


SPLINE = {"order": 3, "output": "f4", "mode": "mirror"}
CASES = [
    Case("spline along rows", "spline_filter1d", 1, 4, options={**SPLINE, "axis": 1}),
    Case("spline along columns", "spline_filter1d", 1, 4, options={**SPLINE, "axis": 0}),
    Case("spline", "spline_filter", 2, 4, options=SPLINE),
    # CuPy's Gaussian ends at 4 sigma.
    Case("gaussian, sigma 2", "gaussian_filter", 2, bound=1e-3, options={"sigma": 2}),
    Case("gaussian, sigma 50", "gaussian_filter", 2, bound=1e-3, options={"sigma": 50}),
    Case("box, size 51", "uniform_filter", 2, options={"size": 51}),
]


def candidates(case: Case, x: Any) -> Iterator[tuple[str, Call]]:
    yield "mgrec", partial(getattr(mgrec.ndimage, case.function), x, **case.options)
    try:
        from cupyx.scipy import ndimage
    except ImportError as error:
        print(f"cupyx: {error}", file=sys.stderr)
        return
    yield "cupyx", partial(getattr(ndimage, case.function), x, **case.options)


def measure(case: Case, bandwidth: float) -> Iterator[dict[str, Any]]:
    x = cupy.random.default_rng(1).random((SIDE, SIDE), dtype="f4")
    floor = case.axes * case.words * x.nbytes / bandwidth
    result = None
    for name, run in candidates(case, x):
        row = {"case": case.name, "candidate": name, **fractions(run, floor)}
        if result is None:
            result = run()
        else:
            row |= {"difference": float(abs(run() - result).max()), "bound": case.bound}
        yield row


def is_wrong(row: dict[str, Any]) -> bool:
    return bool(row.get("difference", 0.0) > row.get("bound", 0.0))


if __name__ == "__main__":
    study("cuda_images", __doc__, CASES, measure, is_wrong)
