"""Successive over-relaxation of NumPy arrays against a plain numba loop, and the bar of the CPU.

The loop copies its grid first, as the public call writes a new array; results must have the
same bits. The loop runs on one thread, since no two of its points can be computed at once.
"""

from __future__ import annotations

from functools import partial

import numba
import numpy as np

import mgrec

from ..harness.clock import Call
from ..harness.command import Command
from ..harness.study import Study
from .candidates import calls

OMEGA, SIZES, SWEEPS = 1.9, (1024, 4096), (1, 4, 16, 64)


@numba.njit(nogil=True)
def _sweep(x, rhs, keep, weight, sweeps):
    for _ in range(sweeps):
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                around = x[i - 1, j] + x[i, j - 1] + x[i + 1, j] + x[i, j + 1] - rhs[i, j]
                x[i, j] = keep * x[i, j] + weight * around


def loop(x: np.ndarray, rhs: np.ndarray, sweeps: int) -> np.ndarray:
    result, number = x.copy(), x.dtype.type
    _sweep(result, rhs, number(1 - OMEGA), number(OMEGA / 4), sweeps)
    return result


def compare(study: Study, n: int, dtype: str, size: int) -> None:
    x, rhs = np.random.default_rng(3).normal(size=(2, size, size)).astype(dtype)
    for sweeps in SWEEPS:
        options = {"omega": OMEGA, "sweeps": sweeps}
        own = calls("mgrec", mgrec.sor, x, rhs, **options)
        candidates: dict[str, Call] = {
            **own,
            **calls("mgrec without rhs", mgrec.sor, x, **options),
            "numba loop": partial(loop, x, rhs, sweeps),
        }
        wanted = loop(x, rhs, sweeps)
        assert all((call() == wanted).all() for call in own.values())
        case = f"{size:,} × {size:,}, {dtype}, {sweeps} sweeps"
        about = {"dtype": dtype, "shape": [size, size], "steps": x.size * sweeps}
        times = study.compare(case, candidates, n, **about)
        if sweeps == 16:
            best = times["mgrec, 2 threads"]
            study.ratio(f"{case}: loop over 2 threads", times["numba loop"], best, 4)


PARTS = {
    f"{dtype}-{size}": partial(compare, dtype=dtype, size=size)
    for dtype in ("float32", "float64")
    for size in SIZES
}

if __name__ == "__main__":
    Command("relaxation", __doc__, PARTS, (7, 3)).main()
