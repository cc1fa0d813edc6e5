"""Alignments of NumPy arrays against parasail's kernels and Biopython, and the bars of the CPU.

parasail's kernel is the fastest of all that give the right score: striped, scan or diag, of 8, 16
or 32 bits. mgrec chooses its numbers itself. A step is a cell; 0.1 ns a step are 10 GCUPS.

usage: python -m benchmarks.cpu.alignment [--quick] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

import mgrec

from ..harness.clock import sample
from ..harness.command import run
from ..harness.study import Study
from .candidates import Call, threads
from .recurrences import draw

SIZE, QUERY, TARGETS = 10_000, 400, (2000, 350)
DNA, AMINO_ACIDS = "ACGT", "ACDEFGHIKLMNPQRSTVWY"
LINEAR = {"match": 2, "mismatch": -1, "gap": -1}
AFFINE = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2}
BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
KINDS = (
    ("DNA, linear", DNA, LINEAR),
    ("DNA, affine", DNA, AFFINE),
    ("BLOSUM62", AMINO_ACIDS, BLOSUM),
)
MODES = {"local": "sw", "global": "nw", "semi-global": "sg"}


def text(letters: str, size: int, seed: int) -> str:
    return "".join(np.random.default_rng(seed).choice(list(letters), size))


def penalties(scores: dict[str, Any]) -> tuple[int, int]:
    return -scores["gap"], -scores.get("extend", scores["gap"])


def matrix_of(parasail: Any, scores: dict[str, Any]) -> Any:
    if "matrix" in scores:
        return parasail.blosum62
    return parasail.matrix_create(DNA, scores["match"], scores["mismatch"])


def best_kernel(
    parasail: Any, pair: tuple[str, str], mode: str, scores: dict[str, Any], score: int
) -> tuple[str, Call]:
    """The fastest kernel of parasail that finds the score."""
    matrix, found = matrix_of(parasail, scores), {}
    for kind, bits in product(("striped", "scan", "diag"), (8, 16, 32)):
        name = f"{MODES[mode]}_{kind}_{bits}"
        align = getattr(parasail, name)

        def call(align: Any = align) -> Any:
            return align(*pair, *penalties(scores), matrix)

        if call().score == score:
            found[name] = sample(call, 1), call
    name = min(found, key=lambda name: found[name][0])
    return name, found[name][1]


def one_pair(study: Study, parasail: Any, repetitions: int) -> None:
    for (kind, letters, scores), mode in product(KINDS, MODES):
        pair = text(letters, SIZE, 1), text(letters, SIZE, 2)
        own = [threads(k, mgrec.smith_waterman, *pair, mode=mode, **scores) for k in (1, 2)]
        candidates: dict[str, Call] = dict(zip(("mgrec", "mgrec, 2 threads"), own, strict=True))
        found = candidates["mgrec"]()
        assert found == candidates["mgrec, 2 threads"]()
        case = f"{SIZE:,} × {SIZE:,}, {kind}, {mode}"
        about = {"shape": [SIZE, SIZE], "steps": SIZE**2}
        peer = "parasail"
        if parasail is not None:
            name, call = best_kernel(parasail, pair, mode, scores, found.score)
            peer = f"parasail {name}"
            candidates[peer] = call
        times = study.compare(case, candidates, repetitions, **about)
        giga = [SIZE**2 / 1e9 / t for t in (times["mgrec"].median, times["mgrec"].best)]
        study.bar(f"{case}: GCUPS", *giga, 4)
        if parasail is None:
            study.miss(case, peer, "parasail is not installed")
        else:
            study.ratio(f"{case}: parasail over mgrec", times[peer], times["mgrec"], 0.8)


def database(study: Study, parasail: Any, repetitions: int) -> None:
    count, length = TARGETS
    query = text(AMINO_ACIDS, QUERY, 1)
    targets = [text(AMINO_ACIDS, length, seed) for seed in range(count)]
    candidates = {
        "mgrec": threads(1, mgrec.smith_waterman, query, targets, **BLOSUM),
        "mgrec, 2 threads": threads(2, mgrec.smith_waterman, query, targets, **BLOSUM),
    }
    if parasail is not None:
        profile = parasail.profile_create_sat(query, parasail.blosum62)

        def search() -> Any:
            align = parasail.sw_striped_profile_sat
            return [align(profile, target, *penalties(BLOSUM)).score for target in targets]

        candidates["parasail striped_profile_sat"] = search
        assert search() == candidates["mgrec"]().score.tolist()
    case = f"{QUERY} × {count:,} of {length}, BLOSUM62, local"
    about = {"shape": [QUERY, count, length], "steps": QUERY * count * length}
    study.compare(case, candidates, repetitions, **about)


def paths(study: Study, repetitions: int) -> None:
    query = text(AMINO_ACIDS, 2000, 1)
    target = query[:700] + text(AMINO_ACIDS, 600, 2) + query[700:]
    candidates: dict[str, Call] = {
        "mgrec": threads(1, mgrec.smith_waterman, query, target, output="alignment", **BLOSUM),
        "mgrec, score alone": threads(1, mgrec.smith_waterman, query, target, **BLOSUM),
    }
    try:
        align = import_module("Bio.Align")
    except ImportError:
        align = None
    if align is not None:
        matrix = align.substitution_matrices.load("BLOSUM62")
        aligner = align.PairwiseAligner(mode="local", substitution_matrix=matrix)
        aligner.open_gap_score, aligner.extend_gap_score = BLOSUM["gap"], BLOSUM["extend"]
        candidates["Biopython"] = lambda: aligner.align(query, target)[0].coordinates
        assert aligner.score(query, target) == candidates["mgrec"]().score
    size = len(query) * len(target)
    case = f"{len(query):,} × {len(target):,}, BLOSUM62, local, the alignment"
    study.compare(case, candidates, repetitions, shape=[len(query), len(target)], steps=size)


def measure(study: Study, arguments: argparse.Namespace) -> None:
    try:
        parasail = import_module("parasail")
    except ImportError:
        parasail = None
    repetitions = 3 if arguments.quick else 15
    one_pair(study, parasail, repetitions)
    database(study, parasail, repetitions)
    paths(study, repetitions)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="3 repetitions, to see that it works")
    run("alignment", measure, draw, parser)
