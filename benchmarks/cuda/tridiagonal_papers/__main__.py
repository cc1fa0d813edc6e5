"""Tridiagonal systems as two papers study them, our times beside the printed ones.

Pogorelskih and Loganova (2019): Thomas, SERICR and PARACR in global and shared memory, many systems
of 4,095 and one of growing size. Wakatani (2012), figure 7: P-scheme against PCR.

usage: python -m benchmarks.cuda.tridiagonal_papers [--cpu] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ...harness import machine
from ...harness.records import RESULTS, draw_small, read, save
from ...harness.study import Study
from . import host, measure, printed
from .drawing import draw
from .report import tables

# Of the single system: 2^q - 1 rows.
POWERS = (12, 14, 16, 18, 20, 22, 24)


def on_gpu() -> Study:
    """Everything, at the papers' sizes."""
    import cupy

    from ..clock import copy_bandwidth
    from . import gpu

    study = Study("tridiagonal-papers", "the device, 1 GiB", copy_bandwidth())
    for count in printed.COUNTS:
        measure.systems(study, gpu, "batch", count, printed.ROWS)
        cupy.get_default_memory_pool().free_all_blocks()
    measure.loops(study, "batch", printed.COUNTS, printed.ROWS)
    for power in POWERS:
        measure.systems(study, gpu, "single", 1, 2**power - 1)
        measure.loops(study, "single", (1,), 2**power - 1)
        cupy.get_default_memory_pool().free_all_blocks()
    for steps in printed.SPEEDUPS:
        measure.figure_7(study, gpu, steps)
    return study


def on_cpu(counts: tuple[int, ...] = (50, 100, 200), rows: int = 1023, power: int = 16) -> Study:
    """The public methods over NumPy arrays, at small sizes."""
    study = Study("tridiagonal-papers-cpu")
    for count in counts:
        measure.systems(study, host, "batch", count, rows)
    measure.loops(study, "batch", counts, rows)
    for each in range(8, power + 1, 4):
        measure.systems(study, host, "single", 1, 2**each - 1)
        measure.loops(study, "single", (1,), 2**each - 1)
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
