"""Alignments of NumPy arrays against parasail's kernels and Biopython, and the bars of the CPU.

parasail's kernel is the fastest of all that give the right score: striped, scan or diag, of 8, 16
or 32 bits. mgrec chooses its numbers itself. A step is a cell; 0.1 ns a step are 10 GCUPS.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

import mgrec

from ..harness.clock import Call, sample
from ..harness.command import Command
from ..harness.machine import optional
from ..harness.study import Study
from .candidates import calls, threads

SIZE, QUERY, TARGETS = 10_000, 400, (2000, 350)
DNA, AMINO_ACIDS = "ACGT", "ACDEFGHIKLMNPQRSTVWY"
LINEAR = {"match": 2, "mismatch": -1, "gap": -1}
AFFINE = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2}
BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
KINDS = (("DNA, linear", DNA, LINEAR), ("DNA, affine", DNA, AFFINE), ("BLOSUM62", AMINO_ACIDS, BLOSUM))
MODES = {"local": "sw", "global": "nw", "semi-global": "sg"}
parasail, align = optional("parasail"), optional("Bio.Align")


def text(letters: str, size: int, seed: int) -> str:
    return "".join(np.random.default_rng(seed).choice(list(letters), size))


def penalties(scores: dict[str, Any]) -> tuple[int, int]:
    return -scores["gap"], -scores.get("extend", scores["gap"])


def matrix_of(scores: dict[str, Any]) -> Any:
    """The scores of pairs of letters, for parasail."""
    if "matrix" in scores:
        return parasail.blosum62
    return parasail.matrix_create(DNA, scores["match"], scores["mismatch"])


def best_kernel(pair: tuple[str, str], mode: str, scores: dict[str, Any], score: int) -> dict[str, Call]:
    """The fastest kernel of parasail that finds the score."""
    if parasail is None:
        return {}
    seconds, found, matrix = {}, {}, matrix_of(scores)
    for kind, bits in product(("striped", "scan", "diag"), (8, 16, 32)):
        name = f"{MODES[mode]}_{kind}_{bits}"
        call = partial(getattr(parasail, name), *pair, *penalties(scores), matrix)
        if call().score == score:
            seconds[name], found[name] = sample(call, 1), call
    best = min(seconds, key=lambda name: seconds[name])
    return {f"parasail {best}": found[best]}


def one_pair(study: Study, n: int) -> None:
    for (kind, letters, scores), mode in product(KINDS, MODES):
        pair = text(letters, SIZE, 1), text(letters, SIZE, 2)
        own = calls("mgrec", mgrec.smith_waterman, *pair, mode=mode, **scores)
        one, two = (call() for call in own.values())
        assert one == two
        case = f"{SIZE:,} × {SIZE:,}, {kind}, {mode}"
        peer = best_kernel(pair, mode, scores, one.score)
        times = study.compare(case, {**own, **peer}, n, shape=[SIZE, SIZE], steps=SIZE**2)
        giga = [SIZE**2 / 1e9 / t for t in (times["mgrec"].median, times["mgrec"].best)]
        study.bar(f"{case}: GCUPS", *giga, 4)
        for name in peer:
            study.ratio(f"{case}: parasail over mgrec", times[name], times["mgrec"], 0.8)
        if not peer:
            study.miss(case, "parasail", "parasail is not installed")


def database(study: Study, n: int) -> None:
    count, length = TARGETS
    query = text(AMINO_ACIDS, QUERY, 1)
    targets = [text(AMINO_ACIDS, length, seed) for seed in range(count)]
    candidates = calls("mgrec", mgrec.smith_waterman, query, targets, **BLOSUM)
    if parasail is not None:
        profile = parasail.profile_create_sat(query, parasail.blosum62)

        def search() -> Any:
            align = parasail.sw_striped_profile_sat
            return [align(profile, target, *penalties(BLOSUM)).score for target in targets]

        assert search() == candidates["mgrec"]().score.tolist()
        candidates["parasail striped_profile_sat"] = search
    case = f"{QUERY} × {count:,} of {length}, BLOSUM62, local"
    about = {"shape": [QUERY, count, length], "steps": QUERY * count * length}
    study.compare(case, candidates, n, **about)


def paths(study: Study, n: int) -> None:
    query = text(AMINO_ACIDS, 2000, 1)
    target = query[:700] + text(AMINO_ACIDS, 600, 2) + query[700:]
    candidates: dict[str, Call] = {
        "mgrec": threads(1, mgrec.smith_waterman, query, target, output="alignment", **BLOSUM),
        "mgrec, score alone": threads(1, mgrec.smith_waterman, query, target, **BLOSUM),
    }
    if align is not None:
        matrix = align.substitution_matrices.load("BLOSUM62")
        aligner = align.PairwiseAligner(mode="local", substitution_matrix=matrix)
        aligner.open_gap_score, aligner.extend_gap_score = BLOSUM["gap"], BLOSUM["extend"]
        candidates["Biopython"] = lambda: aligner.align(query, target)[0].coordinates
        assert aligner.score(query, target) == candidates["mgrec"]().score
    shape = [len(query), len(target)]
    case = f"{shape[0]:,} × {shape[1]:,}, BLOSUM62, local, the alignment"
    study.compare(case, candidates, n, shape=shape, steps=shape[0] * shape[1])


PARTS = {"pairs": one_pair, "database": database, "paths": paths}

if __name__ == "__main__":
    Command("alignment", __doc__, PARTS, (15, 3)).main()
