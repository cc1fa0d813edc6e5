"""Tridiagonal systems of NumPy arrays against LAPACK's and numba's, and the bars of the CPU.

Every candidate allocates its result, as LAPACK's do. *random* diagonals need pivoting; the
others are dominant, which elimination without pivoting, numba's, must have. Everything runs on one
thread where no number is said.

usage: python -m benchmarks.cpu.tridiagonal [GROUP ...] [--quick] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack

import mgrec

from ..harness.command import run
from ..harness.study import Study
from .candidates import Call, threads
from .recurrences import draw
from .tridiagonal_peers import thomas_interleaved, thomas_rows, warm

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


def mine(operands: list[np.ndarray], **options: Any) -> dict[str, Call]:
    """The public call, on one thread and on two."""
    solve = mgrec.solve_tridiagonal
    return {
        "mgrec": threads(1, solve, *operands, **options),
        "mgrec, 2 threads": threads(2, solve, *operands, **options),
    }


def compare(
    study: Study, case: str, candidates: dict[str, Call], b: np.ndarray, repetitions: int
) -> dict[str, Any]:
    """Time candidates whose results agree."""
    wanted = candidates["mgrec"]()
    for name, call in candidates.items():
        error = np.linalg.norm(call() - wanted) / np.linalg.norm(wanted)
        assert error < TOLERANCE[b.dtype.name], (case, name, error)
    about = {"dtype": b.dtype.name, "shape": list(b.shape), "steps": b.size, "bytes": 5 * b.nbytes}
    return study.compare(case, candidates, repetitions, **about)


def one(study: Study, dtype: str, repetitions: int) -> None:
    """One system."""
    for count, is_dominant in ((10**6, False), (10**7, False), (10**7, True)):
        operands = system((count,), dtype, is_dominant)
        peers: dict[str, Call] = {"LAPACK gtsv": lambda operands=operands: dgtsv(*operands)}
        if is_dominant:
            rows = [part[None] for part in operands]
            peers["numba Thomas"] = lambda rows=rows: thomas_rows(*rows)[0]
        case = f"one of {count:,}, {dtype}, {'dominant' if is_dominant else 'random'}"
        times = compare(study, case, mine(operands) | peers, operands[3], repetitions)
        if dtype == "float64":
            lapacks = times["LAPACK gtsv"]
            study.ratio(f"{case}: LAPACK over mgrec", lapacks, times["mgrec"], 1.5)
            study.ratio(f"{case}: LAPACK over 2 threads", lapacks, times["mgrec, 2 threads"], 2.5)


def batches(study: Study, dtype: str, repetitions: int) -> None:
    """Systems side by side, contiguous and interleaved."""
    for systems, count in ((2000, 4095), (10**5, 64)):
        operands = system((systems, count), dtype, True)
        columns = [np.ascontiguousarray(part.T) for part in operands]
        label = f"{systems:,} of {count:,}, {dtype}"
        candidates = mine(operands) | {
            "mgrec thomas": threads(1, mgrec.solve_tridiagonal, *operands, method="thomas"),
            "numba Thomas by rows": lambda operands=operands: thomas_rows(*operands),
        }
        times = compare(study, label, candidates, operands[3], repetitions)
        interleaved = mine(columns, axis=0) | {
            "numba Thomas interleaved": lambda columns=columns: thomas_interleaved(*columns)
        }
        across = compare(study, f"{label}, interleaved", interleaved, columns[3], repetitions)
        if (systems, dtype) == (2000, "float64"):
            rows = times["numba Thomas by rows"]
            study.ratio(f"{label}: numba by rows over mgrec", rows, times["mgrec"], 3)
            study.ratio(
                f"{label}: contiguous over interleaved", times["mgrec"], across["mgrec"], 1.3, False
            )


def small(study: Study, repetitions: int) -> None:
    """What a call costs."""
    for count in (10, 1000):
        operands = system((count,), "float64", True)
        peers: dict[str, Call] = {"LAPACK gtsv": lambda operands=operands: dgtsv(*operands)}
        candidates = {"mgrec": mine(operands)["mgrec"]} | peers
        compare(study, f"one of {count}", candidates, operands[3], repetitions)


GROUPS: dict[str, Callable[[Study, int], None]] = {
    "one": lambda study, n: one(study, "float64", n),
    "one32": lambda study, n: one(study, "float32", n),
    "batches": lambda study, n: batches(study, "float64", n),
    "batches32": lambda study, n: batches(study, "float32", n),
    "small": small,
}


def measure(study: Study, arguments: argparse.Namespace) -> None:
    warm()
    for group in arguments.groups or GROUPS:
        GROUPS[group](study, 3 if arguments.quick else 11)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="3 repetitions, to see that it works")
    run("tridiagonal", measure, draw, parser)
