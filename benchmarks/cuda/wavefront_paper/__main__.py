"""Wavefront loops as Hou, Wang and Feng (2018) study them.

Three loops, all as ``mgrec.wavefront``: SAT (summed-area table), SW (Smith-Waterman with a linear
gap), SOR (the averaging sweep), over grids of one area in all aspect ratios, by compensation,
tiles, hyperplanes (the paper's diamond tiles) and hybrid, beside mgrec's own function of each; then
weighted scans beside a library's scan.

usage: python -m benchmarks.cuda.wavefront_paper [--cpu] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ...harness import machine
from ...harness.records import RESULTS, draw_small, read, save
from ...harness.study import Study
from . import measure
from .drawing import draw
from .report import tables

# Rows are 2^8 to 2^15, columns what is left of the area; of a CPU 2^6 to 2^12.
AREA, POWERS = 23, range(8, 16)
CPU_AREA, CPU_POWERS = 18, range(6, 13)
SIZES, CPU_SIZES = range(10, 29, 2), range(10, 21, 2)


def on_gpu() -> Study:
    """Everything, at the paper's sizes."""
    import cupy

    from ..clock import copy_bandwidth, device_clock, flush_cache

    study = Study("wavefront-paper", "the device, 1 GiB", copy_bandwidth())
    place = measure.Place(cupy, flush_cache, device_clock)
    measure.shapes(study, place, AREA, POWERS)
    measure.scans(study, place, SIZES)
    return study


def on_cpu(area: int = CPU_AREA, powers: range = CPU_POWERS, sizes: range = CPU_SIZES) -> Study:
    """The same over NumPy arrays, at small sizes."""
    import numpy as np

    study = Study("wavefront-paper-cpu")
    measure.shapes(study, measure.Place(np), area, powers)
    measure.scans(study, measure.Place(np), sizes)
    return study


def write(record: dict[str, Any], folder: Path) -> Path:
    """The record, its tables and its picture."""
    path = save(record, folder, tables(record))
    draw_small(draw(record), path.with_suffix(".png"))
    return path


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cpu", action="store_true", help="small sizes of NumPy arrays, no GPU")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument("--machine", help="name in the file's name; the processor's by default")
    parser.add_argument(
        "--plot", type=Path, metavar="RESULT", help="tables and picture of a result"
    )
    given = parser.parse_args(arguments)
    if given.plot:
        record = read(given.plot)
        given.plot.with_suffix(".md").write_text(tables(record))
        draw_small(draw(record), given.plot.with_suffix(".png"))
        return
    calibrations = [machine.calibrate() for _ in range(20)]
    study = on_cpu() if given.cpu else on_gpu()
    study.calibrations += calibrations
    print(write(study.record(given.machine), given.out))


if __name__ == "__main__":
    main()
