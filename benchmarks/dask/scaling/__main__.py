"""One recurrence over all the workers of a cluster: GPUs, or processes on a CPU.

Strong and weak scaling of one sequence and of 64 rows, with constant and array coefficients, a
custom map and a filter of second order; what Dask takes beside the kernels; whether operands
moved; latency against chains of empty tasks and one map task a chunk; plans; da.cumsum as peer;
and a model of Dask's share, fitted on what was measured.

``--minutes`` is for machines that are borrowed: the most important rows come first, files are
written as the study goes, and what there was no time for is listed in them. ``--predict`` writes
what a result says of 1 to 8 workers; the study prints that beside what it measures later.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...harness import machine
from ...harness.command import Command, Options
from ...harness.records import read, save
from ...harness.study import Study
from . import cluster, predictions
from .cases import steps_of_chunk
from .picture import draw
from .study import OTHERS, PARTS, measure


def write_predictions(arguments: argparse.Namespace) -> Path:
    """From results, in files like those of a study."""
    chunk = steps_of_chunk(arguments.cluster, arguments.small)
    records = {source.name: read(source) for source in arguments.predict}
    found = predictions.predict(records, chunk)
    if arguments.machine:
        found["machine"]["name"] = arguments.machine
    return save(found, arguments.out, predictions.tables(found))


OPTIONS: Options = {
    **cluster.OPTIONS,
    "--small": {"action": "store_true", "help": "sizes that tests and CI can bear"},
    "--parts": {"nargs": "+", "choices": [*OTHERS, *PARTS], "default": [*OTHERS, *PARTS]},
    "--minutes": {"type": float, "help": "start nothing that would last longer"},
    "--predictions": {"type": Path, "help": "to print beside: the newest, by default"},
    "--predict": {
        "type": Path,
        "nargs": "+",
        "metavar": "RESULT",
        "help": "write what it says of more; ways of solving that it lacks are of the next",
    },
}
COMMAND = Command("scaling", __doc__, measure, options=OPTIONS, picture=draw)
parser = COMMAND.parser


def main(arguments: argparse.Namespace) -> None:
    """Run the study, which writes its files as it goes; or draw or predict."""
    if arguments.plot:
        COMMAND.draw(arguments.plot)
    elif arguments.predict:
        print(write_predictions(arguments))
    else:
        study = Study("scaling" + ("-small" if arguments.small else ""))
        study.calibrations += [machine.calibrate() for _ in range(20)]
        print(measure(study, arguments))


if __name__ == "__main__":
    main(parser.parse_args())
