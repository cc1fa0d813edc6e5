"""Summed-area tables of NumPy arrays against OpenCV's and NumPy's, and the bars of the CPU.

OpenCV (opencv-python-headless) is compared with if it is installed; its table has one row and one
column of zeros more. Candidates *into out* write to existing memory, the others to new memory.

usage: python -m benchmarks.cpu.tables [--quick] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

import numpy as np

import mgrec

from ..harness.command import run
from ..harness.study import Study
from .candidates import Call, threads
from .recurrences import draw

SIZE = 8192
# Kinds of image and of sums, and how many times as fast as OpenCV.
KINDS = (("uint8", "int32", 1.0), ("float64", "float64", 1.2))


def peers_of(x: np.ndarray, dtype: str, cv2: Any) -> dict[str, Call]:
    found: dict[str, Call] = {
        "numpy.cumsum twice": lambda: x.cumsum(1, dtype).cumsum(0, dtype),
    }
    if cv2 is not None:
        into = np.empty((SIZE + 1, SIZE + 1), dtype)
        found["cv2.integral"] = lambda: cv2.integral(x)
        found["cv2.integral into out"] = lambda: cv2.integral(x, into)
    return found


def compare(study: Study, kind: tuple[str, str, float], cv2: Any, repetitions: int) -> None:
    own, dtype, wanted = kind
    x = np.random.default_rng(3).integers(0, 256, (SIZE, SIZE)).astype(own)
    out, solve = np.empty(x.shape, dtype), mgrec.summed_area_table
    candidates = {
        "mgrec": threads(1, solve, x, dtype=dtype),
        "mgrec, 2 threads": threads(2, solve, x, dtype=dtype),
        "mgrec into out": threads(1, solve, x, dtype=dtype, out=out),
        "mgrec into out, 2 threads": threads(2, solve, x, dtype=dtype, out=out),
    } | peers_of(x, dtype, cv2)
    table = candidates["mgrec, 2 threads"]()
    assert (table == candidates["numpy.cumsum twice"]()).all()
    case = f"{SIZE:,} × {SIZE:,}, {own} to {dtype}"
    about = {
        "dtype": dtype,
        "shape": list(x.shape),
        "steps": x.size,
        "bytes": x.nbytes + out.nbytes,
    }
    times = study.compare(case, candidates, repetitions, **about)
    if cv2 is None:
        study.miss(case, "cv2.integral", "OpenCV is not installed")
        return
    for form in ("", " into out"):
        peer, mine = times[f"cv2.integral{form}"], times[f"mgrec{form}, 2 threads"]
        study.ratio(f"{case}: OpenCV{form} over 2 threads", peer, mine, wanted)


def measure(study: Study, arguments: argparse.Namespace) -> None:
    try:
        cv2 = import_module("cv2")
    except ImportError:
        cv2 = None
    for kind in KINDS:
        compare(study, kind, cv2, 3 if arguments.quick else 9)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="3 repetitions, to see that it works")
    run("tables", measure, draw, parser)
