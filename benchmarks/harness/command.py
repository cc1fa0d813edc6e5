"""The command of a study: ``measure(study, arguments)`` and ``draw(record)``, handed to run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import machine
from .records import RESULTS, draw_small, read, save
from .study import Study


def run(
    name: str,
    measure: Callable[[Study, argparse.Namespace], None],
    draw: Callable[[dict[str, Any]], Any],
    parser: argparse.ArgumentParser,
) -> None:
    """The command of a study: measure and save, or draw what was saved."""
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument("--machine", help="name in the file's name; the processor's by default")
    parser.add_argument("--plot", type=Path, metavar="RESULT", help="draw a result, beside it")
    arguments = parser.parse_args()
    if arguments.plot:
        record = read(arguments.plot)
        draw_small(draw(record), arguments.plot.with_suffix(".png"))
        return
    study = Study(name)
    study.calibrations += [machine.calibrate() for _ in range(20)]
    measure(study, arguments)
    study.calibrations += [machine.calibrate() for _ in range(20)]
    record = study.record(arguments.machine)
    if not record["load"]["quiet"]:
        print(f"The machine was not quiet: {record['load']}")
    print(save(record, arguments.out))
