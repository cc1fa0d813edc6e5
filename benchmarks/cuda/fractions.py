"""Studies of calls on one GPU: cases, one after the other, as fractions of a floor.

The floor of a case is the time in which a device-to-device copy, measured in the same run, would
move its least traffic. *fraction* is that over the measured time: of the call alone, and of each of
20 calls in a row.
"""

from __future__ import annotations

import platform
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import cupy

from ..harness.clock import Call, Clock, copy_bandwidth, device_clock
from ..harness.command import Options, parser_of
from ..harness.machine import describe_commit
from ..harness.records import write

IN_A_ROW = 20
SLOW, VERY_SLOW = 0.02, 0.2
"""Seconds."""
Row = dict[str, Any]
OPTIONS: Options = {
    "cases": {"nargs": "*", "metavar": "CASE", "help": "words in names of cases; all by default"},
    "--out": {"type": Path, "help": "folder of the result, or its file"},
}


@dataclass(frozen=True)
class Trial:
    """What is timed of a case.

    Attributes
    ----------
    floor : callable, ``(bandwidth) -> seconds``
    builds : dict of str to callable, ``() -> call``
        Candidates by name. One that is not installed raises ImportError, and is left out.
    check : callable, ``(row) -> row``
        What a row has beside its case, candidate and times; called after the candidate was timed.
    key : str
        Name of the candidate in a row.
    """

    floor: Callable[[float], float]
    builds: dict[str, Callable[[], Call | tuple[Call, Clock]]]
    check: Callable[[Row], Row]
    key: str = "candidate"


def fractions(run: Call, floor: float, clock: Clock = device_clock) -> Row:
    """Milliseconds of one call, and of each in a row, and the floor over them.

    Slow ones are called less often, the slowest once after two calls: gradients are prepared, and
    may be compiled, in the second one.
    """
    for _ in range(2):
        run()
    alone = row = clock(run, 1)
    if alone < VERY_SLOW:
        is_slow = alone >= SLOW
        count, repeats = (3, 1) if is_slow else (IN_A_ROW, 3)
        alone = median(clock(run, 1) for _ in range(3 if is_slow else 7))
        row = median(clock(run, count) for _ in range(repeats))
    return {
        "alone ms": alone * 1e3,
        "fraction alone": floor / alone,
        "in a row ms": row * 1e3,
        "fraction": floor / row,
    }


def timed(build: Callable[[Any], Trial]) -> Callable[[Any, float], Iterator[Row]]:
    """Return the function that measures a case of which `build` says what is timed."""

    def measure(case: Any, bandwidth: float) -> Iterator[Row]:
        trial = build(case)
        floor = trial.floor(bandwidth)
        for name, build_call in trial.builds.items():
            try:
                built = build_call()
            except ImportError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            call, clock = built if isinstance(built, tuple) else (built, device_clock)
            row = {"case": case.name, trial.key: name, **fractions(call, floor, clock)}
            yield row | trial.check(row)

    return measure


def show(row: Row) -> str:
    return " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items())


def is_named(case: Any, arguments: Namespace) -> bool:
    return not arguments.cases or any(word in case.name for word in arguments.cases)


def run(
    study: str,
    about: str,
    cases: Iterable[Any],
    measure: Callable[[Any, float], Iterable[Row]],
    is_wrong: Callable[[Row], bool],
    before: Callable[[], Row] = dict,
    show: Callable[[Row], str] = show,
    options: Options = OPTIONS,
    is_chosen: Callable[[Any, Namespace], bool] = is_named,
) -> None:
    """The command of a study: print the rows of its cases, or of some, and write them.

    Parameters
    ----------
    study, about : str
        Name and description.
    cases : iterable
        Each with a `name`.
    measure : callable, ``(case, bandwidth) -> rows``
    is_wrong : callable, ``(row) -> bool``
        Of one such row the exit code is 1.
    before : callable, ``() -> dict``
        Measure what the record has beside its rows.
    show : callable, ``(row) -> str``
    options : dict
        Of the command.
    is_chosen : callable, ``(case, arguments) -> bool``
    """
    arguments = parser_of(about, options).parse_args()
    bandwidth = copy_bandwidth()
    gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    print(f"{gpu}, CuPy {cupy.__version__}, copy {bandwidth / 1e12:.3f} TB/s")
    more, rows = before(), []
    for case in cases:
        for row in measure(case, bandwidth) if is_chosen(case, arguments) else ():
            rows.append(row)
            print(show(row), flush=True)
        cupy.get_default_memory_pool().free_all_blocks()
    if arguments.out:
        store(record_of(study, gpu, bandwidth, rows, **more), arguments.out)
    sys.exit(any(map(is_wrong, rows)))


def record_of(study: str, gpu: str, bandwidth: float, rows: Any, **more: Any) -> Row:
    return {
        "study": study,
        "machine": {"gpu": gpu},
        "versions": {"cupy": cupy.__version__, "python": platform.python_version()},
        "commit": describe_commit(),
        "date": date.today().isoformat(),
        "copy_bandwidth_bytes_per_second": bandwidth,
        **more,
        "rows": rows,
    }


def store(record: Row, out: Path) -> None:
    """Write a record into a folder, under the name of its study, GPU and day; or into a file."""
    if out.suffix != ".json":
        # "NVIDIA H100 80GB HBM3" is an h100.
        words = record["machine"]["gpu"].lower().split()
        words = [word for word in words if word not in ("nvidia", "tesla", "geforce")]
        gpu = re.sub(r"[^a-z0-9]+", "-", words[0] if words else "gpu").strip("-")
        out = out / f"{record['study'].replace('_', '-')}-{gpu}-{record['date']}.json"
    write(record, out)
    print(out)
