"""Filters of images on one GPU: checked, then timed against the floor of memory traffic.

The floor is one reading of the image and one writing of the result along each axis. For splines it
is twice that: a pass forward and a pass backward. ``cupyx.scipy.ndimage`` filters the same image in
the same run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import cupy

import mgrec.ndimage

from .fractions import Row, Trial, run, timed

SIDE = 2**14


@dataclass(frozen=True)
class Case:
    """A filter of an image of SIDE × SIDE float32 along some axes.

    `words` are readings and writings of the floor along each axis, and the `bound` is the largest
    distance from CuPy's result.
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


def by_cupyx(case: Case, x: Any) -> Any:
    from cupyx.scipy import ndimage

    return partial(getattr(ndimage, case.function), x, **case.options)


def build(case: Case) -> Trial:
    x = cupy.random.default_rng(1).random((SIDE, SIDE), dtype="f4")
    call = partial(getattr(mgrec.ndimage, case.function), x, **case.options)

    def check(row: Row) -> Row:
        if row["candidate"] == "mgrec":
            return {}
        distance = float(abs(by_cupyx(case, x)() - call()).max())
        return {"difference": distance, "bound": case.bound}

    builds = {"mgrec": lambda: call, "cupyx": lambda: by_cupyx(case, x)}
    return Trial(lambda bandwidth: case.axes * case.words * x.nbytes / bandwidth, builds, check)


def is_wrong(row: Row) -> bool:
    return bool(row.get("difference", 0.0) > row.get("bound", 0.0))


if __name__ == "__main__":
    run("cuda_images", __doc__, CASES, timed(build), is_wrong)
