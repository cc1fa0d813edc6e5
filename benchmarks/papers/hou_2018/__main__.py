"""Wavefront loops as Hou, Wang and Feng (2018) study them.

Three loops, all as ``mgrec.wavefront``: SAT (summed-area table), SW (Smith-Waterman with a linear
gap), SOR (the averaging sweep), over grids of one area in all aspect ratios, by compensation,
tiles, hyperplanes (the paper's diamond tiles) and hybrid, beside mgrec's own function of each; then
weighted scans beside a library's scan.
"""

from __future__ import annotations

import os

import numpy as np

from ...harness.command import Command
from ...harness.study import Study
from ..timing import OPTIONS, on_cpu_or_gpu
from . import measure
from .report import draw, tables

# Rows are 2^8 to 2^15, columns what is left of the area; of a CPU 2^6 to 2^12.
AREA, POWERS = 23, range(8, 16)
CPU_AREA, CPU_POWERS = 18, range(6, 13)
SIZES, CPU_SIZES = range(10, 29, 2), range(10, 21, 2)


def on_gpu(study: Study) -> None:
    """Everything, at the paper's sizes."""
    # Else jax takes three quarters of the memory when it begins.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import cupy

    measure.shapes(study, cupy, AREA, POWERS)
    measure.scans(study, cupy, SIZES)


def on_cpu(study: Study, area: int = CPU_AREA, powers: range = CPU_POWERS, sizes: range = CPU_SIZES) -> None:
    """The same over NumPy arrays, at small sizes."""
    measure.shapes(study, np, area, powers)
    measure.scans(study, np, sizes)


STUDY = Command(
    "hou-2018", __doc__, on_cpu_or_gpu(on_cpu, on_gpu), options=OPTIONS, tables=tables, picture=draw
)

if __name__ == "__main__":
    STUDY.main()
