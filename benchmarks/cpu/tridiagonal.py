"""Tridiagonal systems of NumPy arrays against LAPACK's and numba's, and the bars of the CPU.

Every candidate allocates its result, as LAPACK's do. *random* diagonals need pivoting; the
others are dominant, which elimination without pivoting, numba's, must have. Everything runs on one
thread where no number is said.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import lapack

import mgrec

from ..harness.clock import Call
from ..harness.command import Command
from ..harness.study import Study
from .candidates import about, calls, threads
from .peers import thomas_interleaved, thomas_rows

# Of results that agree. Random matrices of 10^7 rows have condition numbers of some 10^6.
TOLERANCE = {"float32": 0.2, "float64": 1e-8}


def system(shape: tuple[int, ...], dtype: str, is_dominant: bool) -> list[np.ndarray]:
    """dl, d, du and b."""
    parts = list(np.random.default_rng(5).normal(size=(4, *shape)).astype(dtype))
    if is_dominant:
        parts[0], parts[2] = parts[0].clip(-2, 2), parts[2].clip(-2, 2)
        parts[1] = np.full(shape, 4.5, dtype)
    return parts


def dgtsv(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = lapack.get_lapack_funcs("gtsv", (b,))(dl[1:], d, du[:-1], b)[3]
    return np.asarray(x).reshape(b.shape)


def compare(
    study: Study, n: int, case: str, candidates: dict[str, Call], b: Any, words: int = 5
) -> dict[str, Any]:
    """Time candidates whose results agree; a row reads and writes so many words."""
    wanted = candidates["mgrec"]()
    for name, call in candidates.items():
        error = np.linalg.norm(call() - wanted) / np.linalg.norm(wanted)
        assert error < TOLERANCE[b.dtype.name], (case, name, error)
    return study.compare(case, candidates, n, **about(b, words))


def one(study: Study, n: int, dtype: str) -> None:
    """One system."""
    for count, is_dominant in ((10**6, False), (10**7, False), (10**7, True)):
        operands = system((count,), dtype, is_dominant)
        candidates = calls("mgrec", mgrec.solve_tridiagonal, *operands)
        candidates["LAPACK gtsv"] = partial(dgtsv, *operands)
        if is_dominant:
            rows = [part[None] for part in operands]
            candidates["numba Thomas"] = lambda rows=rows: thomas_rows(*rows)[0]
        case = f"one of {count:,}, {dtype}, {'dominant' if is_dominant else 'random'}"
        times = compare(study, n, case, candidates, operands[3])
        if dtype == "float64":
            lapacks = times["LAPACK gtsv"]
            study.ratio(f"{case}: LAPACK over mgrec", lapacks, times["mgrec"], 1.5)
            study.ratio(f"{case}: LAPACK over 2 threads", lapacks, times["mgrec, 2 threads"], 2.5)


def batches(study: Study, n: int, dtype: str) -> None:
    """Systems side by side, contiguous and interleaved."""
    solve = mgrec.solve_tridiagonal
    for systems, count in ((2000, 4095), (10**5, 64)):
        operands = system((systems, count), dtype, True)
        columns = [np.ascontiguousarray(part.T) for part in operands]
        case = f"{systems:,} of {count:,}, {dtype}"
        candidates = calls("mgrec", solve, *operands) | {
            "mgrec thomas": threads(1, solve, *operands, method="thomas"),
            "numba Thomas by rows": partial(thomas_rows, *operands),
        }
        times = compare(study, n, case, candidates, operands[3])
        interleaved = calls("mgrec", solve, *columns, axis=0)
        interleaved["numba Thomas interleaved"] = partial(thomas_interleaved, *columns)
        across = compare(study, n, f"{case}, interleaved", interleaved, columns[3])["mgrec"]
        if (systems, dtype) == (2000, "float64"):
            rows, own = times["numba Thomas by rows"], times["mgrec"]
            study.ratio(f"{case}: numba by rows over mgrec", rows, own, 3)
            study.ratio(f"{case}: contiguous over interleaved", own, across, 1.3, False)


def small(study: Study, n: int) -> None:
    """What a call costs."""
    for count in (10, 1000):
        operands = system((count,), "float64", True)
        own = {"mgrec": threads(1, mgrec.solve_tridiagonal, *operands)}
        candidates = own | {"LAPACK gtsv": partial(dgtsv, *operands)}
        compare(study, n, f"one of {count}", candidates, operands[3])


PARTS = {
    "one": partial(one, dtype="float64"),
    "one32": partial(one, dtype="float32"),
    "batches": partial(batches, dtype="float64"),
    "batches32": partial(batches, dtype="float32"),
    "small": small,
}

if __name__ == "__main__":
    Command("tridiagonal", __doc__, PARTS, (11, 3)).main()
