"""One recurrence over all the workers of a cluster: GPUs, or processes on a CPU.

Strong and weak scaling of one sequence and of 64 rows, with constant and array coefficients, a
custom map and a filter of second order; what Dask takes beside the kernels; whether operands
moved; latency against chains of empty tasks and one map task a chunk; plans; and da.cumsum as peer.

``--minutes`` is for machines that are borrowed: the most important rows come first, files are
written as the study goes, and what there was no time for is listed in them.
"""

from __future__ import annotations

import argparse

from ...harness import machine
from ...harness.command import Command, Options
from ...harness.study import Study
from . import cluster
from .study import OTHERS, PARTS, measure

OPTIONS: Options = {
    **cluster.OPTIONS,
    "--small": {"action": "store_true", "help": "sizes that tests and CI can bear"},
    "--parts": {"nargs": "+", "choices": [*OTHERS, *PARTS], "default": [*OTHERS, *PARTS]},
    "--minutes": {"type": float, "help": "start nothing that would last longer"},
}
COMMAND = Command("scaling", __doc__, measure, options=OPTIONS)
parser = COMMAND.parser


def main(arguments: argparse.Namespace) -> None:
    """Run the study, which writes its files as it goes; or draw."""
    if arguments.plot:
        COMMAND.draw(arguments.plot)
    else:
        study = Study("scaling" + ("-small" if arguments.small else ""))
        study.calibrations += [machine.calibrate() for _ in range(20)]
        print(measure(study, arguments))


if __name__ == "__main__":
    main(parser.parse_args())
