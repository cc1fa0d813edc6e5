"""Summed-area tables of NumPy arrays against OpenCV's and NumPy's, and the bars of the CPU.

OpenCV (opencv-python-headless) is compared with if it is installed; its table has one row and one
column of zeros more. Candidates *into out* write to existing memory, the others to new memory.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import mgrec

from ..harness.clock import Call
from ..harness.command import Command
from ..harness.machine import optional
from ..harness.study import Study
from .candidates import calls

SIZE = 8192
cv2 = optional("cv2")


def compare(study: Study, n: int, kind: str, dtype: str, wanted: float) -> None:
    """Time tables of a kind of images; `wanted` is how many times as fast as OpenCV."""
    x = np.random.default_rng(3).integers(0, 256, (SIZE, SIZE)).astype(kind)
    out, into = np.empty(x.shape, dtype), np.empty((SIZE + 1, SIZE + 1), dtype)
    candidates: dict[str, Call] = {
        **calls("mgrec", mgrec.summed_area_table, x, dtype=dtype),
        **calls("mgrec into out", mgrec.summed_area_table, x, dtype=dtype, out=out),
        "numpy.cumsum twice": lambda: x.cumsum(1, dtype).cumsum(0, dtype),
    }
    if cv2 is not None:
        candidates["cv2.integral"] = lambda: cv2.integral(x)
        candidates["cv2.integral into out"] = lambda: cv2.integral(x, into)
    table = candidates["mgrec, 2 threads"]()
    assert (table == candidates["numpy.cumsum twice"]()).all()
    case, size = f"{SIZE:,} × {SIZE:,}, {kind} to {dtype}", x.nbytes + out.nbytes
    about = {"dtype": dtype, "shape": list(x.shape), "steps": x.size, "bytes": size}
    times = study.compare(case, candidates, n, **about)
    if cv2 is None:
        study.miss(case, "cv2.integral", "OpenCV is not installed")
        return
    for form in ("", " into out"):
        peer, own = times[f"cv2.integral{form}"], times[f"mgrec{form}, 2 threads"]
        study.ratio(f"{case}: OpenCV{form} over 2 threads", peer, own, wanted)


PARTS = {
    "uint8": partial(compare, kind="uint8", dtype="int32", wanted=1.0),
    "float64": partial(compare, kind="float64", dtype="float64", wanted=1.2),
}

if __name__ == "__main__":
    Command("tables", __doc__, PARTS, (9, 3)).main()
