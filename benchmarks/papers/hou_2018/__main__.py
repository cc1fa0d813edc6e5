"""Wavefront loops as Hou, Wang and Feng (2018) study them.

Three loops, all as ``mgrec.wavefront``: SAT (summed-area table), SW (Smith-Waterman with a linear
gap), SOR (the averaging sweep), over grids of one area in all aspect ratios, by compensation,
tiles, hyperplanes (the paper's diamond tiles) and hybrid, beside mgrec's own function of each; then
weighted scans beside a library's scan.

usage: python -m benchmarks.papers.hou_2018 [--cpu] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

from ...harness.study import Study
from ..command import Paper
from . import measure
from .drawing import draw
from .report import tables

# Rows are 2^8 to 2^15, columns what is left of the area; of a CPU 2^6 to 2^12.
AREA, POWERS = 23, range(8, 16)
CPU_AREA, CPU_POWERS = 18, range(6, 13)
SIZES, CPU_SIZES = range(10, 29, 2), range(10, 21, 2)


def on_gpu() -> Study:
    """Everything, at the paper's sizes."""
    import os

    # Else jax takes three quarters of the memory when it begins.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import cupy

    from ...cuda.clock import copy_bandwidth, device_clock, flush_cache, host_clock

    study = Study("hou-2018", "the device, 1 GiB", copy_bandwidth())
    place = measure.ChunkIndex(cupy, flush_cache, device_clock, host_clock)
    measure.shapes(study, place, AREA, POWERS)
    measure.scans(study, place, SIZES)
    return study


def on_cpu(area: int = CPU_AREA, powers: range = CPU_POWERS, sizes: range = CPU_SIZES) -> Study:
    """The same over NumPy arrays, at small sizes."""
    import numpy as np

    study = Study("hou-2018-cpu")
    measure.shapes(study, measure.ChunkIndex(np), area, powers)
    measure.scans(study, measure.ChunkIndex(np), sizes)
    return study


PAPER = Paper(__doc__.split("\n")[0], on_gpu, on_cpu, tables, draw)

if __name__ == "__main__":
    PAPER.main()
