"""One recurrence over all the workers of a cluster: GPUs, or processes on a CPU.

Strong and weak scaling of one sequence and of 64 rows, with constant and array coefficients, a
custom map and a filter of second order; what Dask takes beside the kernels; whether operands
moved; latency against chains of empty tasks and one map task a chunk; plans; da.cumsum as peer;
and a model of Dask's share, fitted on what was measured.

``--minutes`` is for machines that are borrowed: the most important rows come first, files are
written as the study goes, and what there was no time for is listed in them. ``--predict`` writes
what a result says of 1 to 8 workers; the study prints that beside what it measures later.

usage: python -m benchmarks.dask.scaling [--cluster local|cuda] [--workers N] [--small]
                                        [--parts PART ...] [--minutes M] [--predictions FILE]
                                        [--out FOLDER] [--plot RESULT | --predict RESULT]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...harness import machine
from ...harness.records import RESULTS, draw_small, read, save
from ...harness.study import Study
from . import predictions
from .cases import sizes
from .picture import draw
from .study import OTHERS, PARTS, measure


def write_predictions(arguments: argparse.Namespace) -> Path:
    """From results, in files like those of a study."""
    given = sizes(arguments.cluster, arguments.small)
    records = {source.name: read(source) for source in arguments.predict}
    found = predictions.predict(records, given)
    if arguments.machine:
        found["machine"]["name"] = arguments.machine
    return save(found, arguments.out, predictions.tables(found))


def main(arguments: argparse.Namespace) -> None:
    if arguments.plot:
        record = read(arguments.plot)
        draw_small(draw(record), arguments.plot.with_suffix(".png"))
    elif arguments.predict:
        print(write_predictions(arguments))
    else:
        study = Study("scaling" + ("-small" if arguments.small else ""))
        study.calibrations += [machine.calibrate() for _ in range(20)]
        print(measure(study, arguments))


parser = argparse.ArgumentParser(
    "python -m benchmarks.dask.scaling", description=__doc__.split("\n")[0]
)
parser.add_argument("--cluster", choices=("local", "cuda"), default="local")
parser.add_argument("--workers", type=int, help="all GPUs, or two processes, where not given")
parser.add_argument("--small", action="store_true", help="sizes that tests and CI can bear")
parser.add_argument("--parts", nargs="+", choices=[*OTHERS, *PARTS], default=[*OTHERS, *PARTS])
parser.add_argument("--minutes", type=float, help="start nothing that would last longer")
parser.add_argument("--predictions", type=Path, help="to print beside: the newest, by default")
parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
parser.add_argument("--machine", help="name in the file's name; the processor's by default")
parser.add_argument("--plot", type=Path, metavar="RESULT", help="draw a result, beside it")
parser.add_argument(
    "--predict", type=Path, nargs="+", metavar="RESULT",
    help="write what it says of more; ways of solving that it lacks are taken from the next",
)  # fmt: skip

if __name__ == "__main__":
    main(parser.parse_args())
