"""Banded systems of NumPy arrays against scipy.linalg.solve_banded.

SciPy solves (1, 1) by LAPACK's gtsv, the others by gbsv, and of a batch one system after the other.
Matrices are dominant, so that gbsv exchanges no rows. Everything runs on one thread where no number
is said.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import solve_banded

import mgrec

from ..harness.command import Command
from ..harness.study import Study
from .candidates import calls
from .tridiagonal import compare

WIDTHS = (1, 1), (2, 2), (3, 1), (4, 4)


def system(widths: tuple[int, int], *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Random diagonals (..., l + u + 1, n), the main one dominant, and right-hand sides."""
    random, count = np.random.default_rng(5), sum(widths) + 1
    ab = random.uniform(-1, 1, (*shape[:-1], count, shape[-1]))
    ab[..., widths[1], :] += count
    return ab, random.normal(size=shape)


def of_scipy(widths: tuple[int, int], ab: np.ndarray, b: np.ndarray) -> np.ndarray:
    if b.ndim == 1:
        return np.asarray(solve_banded(widths, ab, b))
    return np.stack([solve_banded(widths, *one) for one in zip(ab, b, strict=True)])


def solve(study: Study, n: int, shape: tuple[int, ...], wanted: float | None = None) -> None:
    """Systems of a shape; SciPy takes at least `wanted` times as long as two threads, if it is given."""
    for widths in WIDTHS:
        ab, b = system(widths, *shape)
        candidates = calls("mgrec", mgrec.solve_banded, widths, ab, b)
        candidates["SciPy"] = partial(of_scipy, widths, ab, b)
        case = f"{' of '.join(f'{count:,}' for count in shape)}, l and u {widths}"
        times = compare(study, n, case, candidates, b, sum(widths) + 3)
        if wanted:
            study.ratio(f"{case}: SciPy over 2 threads", times["SciPy"], times["mgrec, 2 threads"], wanted)


PARTS = {
    "short": partial(solve, shape=(100,)),
    "medium": partial(solve, shape=(10**4,)),
    "long": partial(solve, shape=(10**6,), wanted=1.5),
    "batches": partial(solve, shape=(1000, 1000)),
}

if __name__ == "__main__":
    Command("banded", __doc__, PARTS, (11, 3)).main()
