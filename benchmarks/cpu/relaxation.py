"""Successive over-relaxation of NumPy arrays against a plain numba loop, and the bar of the CPU.

The loop copies its grid first, as the public call writes a new array; results must have the
same bits. The loop runs on one thread, since no two of its points can be computed at once.

usage: python -m benchmarks.cpu.relaxation [--quick] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse

import numba
import numpy as np

import mgrec

from ..harness.command import run
from ..harness.study import Study
from .candidates import Call, threads
from .recurrences import draw

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


def candidates_of(x: np.ndarray, rhs: np.ndarray, sweeps: int) -> dict[str, Call]:
    options = {"omega": OMEGA, "sweeps": sweeps}
    found = {
        "mgrec": threads(1, mgrec.sor, x, rhs, **options),
        "mgrec, 2 threads": threads(2, mgrec.sor, x, rhs, **options),
        "mgrec without rhs": threads(1, mgrec.sor, x, **options),
        "mgrec without rhs, 2 threads": threads(2, mgrec.sor, x, **options),
        "numba loop": lambda: loop(x, rhs, sweeps),
    }
    wanted = found["numba loop"]()
    assert all((found[name]() == wanted).all() for name in ("mgrec", "mgrec, 2 threads"))
    return found


def measure(study: Study, arguments: argparse.Namespace) -> None:
    for dtype in ("float32", "float64"):
        for size in SIZES:
            x, rhs = np.random.default_rng(3).normal(size=(2, size, size)).astype(dtype)
            for sweeps in SWEEPS:
                case = f"{size:,} × {size:,}, {dtype}, {sweeps} sweeps"
                about = {"dtype": dtype, "shape": [size, size], "steps": x.size * sweeps}
                repetitions = 3 if arguments.quick else 7
                times = study.compare(case, candidates_of(x, rhs, sweeps), repetitions, **about)
                if sweeps == 16:
                    own = times["mgrec, 2 threads"]
                    study.ratio(f"{case}: loop over 2 threads", times["numba loop"], own, 4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="3 repetitions, to see that it works")
    run("relaxation", measure, draw, parser)
