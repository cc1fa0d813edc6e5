"""Alignments on one GPU: checked, then timed, in cells a second.

GCUPS are 10^9 cells of the grids a second: of the public call alone, and of each of 20 calls in a
row. *fraction* is, where H is written, the time in which a device-to-device copy measured in the
same run would write it, over the measured time; elsewhere 10^12 cells a second over those
reached. Results are those of the same call over NumPy arrays, of parts where these would take
too long, and of parasail where it is installed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import cupy
import numpy as np

import mgrec

from ..cpu.alignment import matrix_of, parasail, penalties
from .fractions import Row, Trial, run, timed

NUCLEOTIDES = np.frombuffer(b"ACGT", np.uint8)
AMINO_ACIDS = np.frombuffer(b"ARNDCQEGHILKMFPSTWYV", np.uint8)
LINEAR = {"match": 2, "mismatch": -1, "gap": -2}
AFFINE = {"match": 5, "mismatch": -4, "gap": -10, "extend": -1}
BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
AIM = 1e12
"""Cells a second."""
# Characters of each sequence that are aligned over NumPy arrays as well, and pairs of a batch.
CHECKED, CHECKED_PAIRS = 20_000, 200


@dataclass(frozen=True)
class Case:
    """A query of n and targets of m characters, and what they are asked for.

    Without `pairs`, the number of targets, there is one target that is no list.
    """

    name: str
    n: int
    m: int
    scores: dict[str, Any] = field(default_factory=lambda: LINEAR)
    pairs: int = 0
    output: str = "score"

    @property
    def cells(self) -> int:
        return self.n * self.m * max(1, self.pairs)


CASES = [
    Case("10^5 x 10^5", 10**5, 10**5),
    Case("10^5 x 10^5 affine", 10**5, 10**5, AFFINE),
    Case("10^5 x 10^5 BLOSUM62", 10**5, 10**5, BLOSUM),
    Case("10^6 x 10^6", 10**6, 10**6),
    Case("30,000 x 30,000", 30_000, 30_000),
    Case("10,000 x 10,000", 10_000, 10_000),
    Case("1,000 x 1,000", 1000, 1000),
    Case("10^5 x 1,000", 10**5, 1000),
    Case("1,000 x 10^5", 1000, 10**5),
    Case("400 x 10^5 of 350", 400, 350, pairs=10**5),
    Case("400 x 10^5 of 350 affine", 400, 350, AFFINE, pairs=10**5),
    Case("400 x 10^5 of 350 BLOSUM62", 400, 350, BLOSUM, pairs=10**5),
    Case("60,000 x 60,000 matrix", 60_000, 60_000, output="matrix"),
    Case("60,000 x 60,000 matrix affine", 60_000, 60_000, AFFINE, output="matrix"),
]


def draw(case: Case, count: int) -> Any:
    letters = AMINO_ACIDS if "matrix" in case.scores else NUCLEOTIDES
    return np.random.default_rng(count).choice(letters, count)


def draw_pair(case: Case) -> tuple[np.ndarray, Any]:
    """A query and a target of which a part is like a part of the query, or many targets."""
    query = draw(case, case.n)
    if case.pairs:
        codes = draw(case, case.m * case.pairs)
        return query, mgrec.Sequences(codes, np.arange(case.pairs + 1, dtype=np.int64) * case.m)
    target = draw(case, case.m + 1)[1:]
    size = min(case.n, case.m) // 2
    is_like = np.random.default_rng(0).random(size) < 0.8
    part = target[case.m // 4 : case.m // 4 + size]
    part[is_like] = query[case.n // 3 : case.n // 3 + size][is_like]
    return query, target


def on_gpu(sequence: Any) -> Any:
    if isinstance(sequence, mgrec.Sequences):
        return mgrec.Sequences(cupy.asarray(sequence.codes), sequence.offsets)
    return cupy.asarray(sequence)


def shortened(case: Case, query: Any, target: Any) -> tuple[Any, Any]:
    """What is aligned over NumPy arrays as well."""
    if not case.pairs:
        return query[:CHECKED], target[:CHECKED]
    offsets = target.offsets[: CHECKED_PAIRS + 1]
    return query, mgrec.Sequences(target.codes[: offsets[-1]], offsets)


def is_wrong(case: Case, query: Any, target: Any) -> bool:
    parts = shortened(case, query, target)
    align = partial(mgrec.smith_waterman, **case.scores, output=case.output)
    have, want = align(*map(on_gpu, parts)), align(*parts)
    if case.output == "matrix":
        return bool((have.get() != want).any())
    is_other = any((np.asarray(a) != np.asarray(b)).any() for a, b in zip(have, want, strict=True))
    return is_other or is_unlike_parasail(case, parts, have)


def is_unlike_parasail(case: Case, parts: tuple[Any, Any], have: Any) -> bool:
    """False where parasail is not installed."""
    if parasail is None:
        return False
    query, targets = parts[0], [*parts[1]] if case.pairs else [parts[1]]
    gaps, matrix = penalties(case.scores), matrix_of(case.scores)
    # The striped kernels of parasail 1.3.4 return too low scores of 21 in 400 pairs of 10 to 200
    # letters with a linear gap.
    scores = [parasail.sw_scan_sat(query.tobytes(), each.tobytes(), *gaps, matrix).score for each in targets]
    return scores != (np.asarray(have.score).tolist() if case.pairs else [have.score])


def build(case: Case) -> Trial:
    pair = draw_pair(case)
    wrong = is_wrong(case, *pair)
    call = partial(mgrec.smith_waterman, *map(on_gpu, pair), **case.scores, output=case.output)

    def floor(bandwidth: float) -> float:
        return call().nbytes / bandwidth if case.output == "matrix" else case.cells / AIM

    def check(row: Row) -> Row:
        ways = ("alone", "in a row")
        speeds = {f"GCUPS {way}": case.cells / row[f"{way} ms"] / 1e6 for way in ways}
        return {**speeds, "wrong": wrong}

    return Trial(floor, {"mgrec": lambda: call}, check)


if __name__ == "__main__":
    run("cuda_alignment", __doc__, CASES, timed(build), lambda row: row["wrong"])
