"""A CUDA study in parts: each group of cases runs in a process of its own.

One that crashes or hangs loses its own candidates only.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..harness.command import Command, Options
from ..harness.study import Study

Groups = dict[str, Callable[[Study], None]]
# Seconds that must be left to start a group, and those kept to save its results.
LEAST, GRACE = 15, 8
OPTIONS: Options = {
    "--limit": {"type": float, "default": 100, "help": "seconds that a group may take"},
    "--budget": {"type": float, "default": 1e6, "help": "seconds for all of them"},
    "--part": {"type": Path, "help": argparse.SUPPRESS},
}


def measure(study: Study, arguments: argparse.Namespace, module: str, groups: Groups) -> None:
    """Run each group in a process of its own and collect its results."""
    study.memory = "the device, 1 GiB"
    end = time.perf_counter() + arguments.budget
    with tempfile.TemporaryDirectory() as folder:
        for group in arguments.groups or groups:
            start = time.perf_counter()
            limit = min(arguments.limit, end - start)
            reason = "no time was left"
            part = Path(folder) / f"{group}.json"
            if limit >= LEAST:
                reason = run_part(module, group, part, limit)
            gather(study, group, json.loads(part.read_text()) if part.exists() else None, reason)
            print(f"group {group}: {time.perf_counter() - start:.0f} s", flush=True)


def run_part(module: str, group: str, part: Path, limit: float) -> str:
    """Run one group; say how it ended."""
    options = ["--part", str(part), "--limit", str(limit), group]
    command = [sys.executable, "-m", module, *options]
    try:
        return f"its process ended with {subprocess.run(command, timeout=limit).returncode}"
    except subprocess.TimeoutExpired:
        return f"it took longer than {limit:.0f} s"


def gather(study: Study, group: str, part: dict[str, Any] | None, reason: str) -> None:
    if not part:
        study.miss(f"group {group}", "all", reason)
        return
    study.cases += part["cases"]
    study.missing += part["not_measured"]
    study.notes |= part["notes"]
    study.notes[f"copy bandwidth, group {group}, GB/s"] = f"{part['bandwidth'] / 1e9:.4g}"
    study.bandwidth = max(study.bandwidth or 0, part["bandwidth"])


def measure_part(group: str, path: Path, limit: float, groups: Groups) -> None:
    """In the process of one group: measure, and write the results even after a failure."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(max(1, int(limit) - GRACE))
    study = Study(group)
    study.on_device()
    try:
        groups[group](study)
    except Exception as error:
        study.fail(f"group {group}", "the rest", error)
    found = {"cases": study.cases, "not_measured": study.missing, "notes": study.notes}
    path.write_text(json.dumps({**found, "bandwidth": study.bandwidth}))


def _stop(*_: Any) -> None:
    raise TimeoutError("no time was left")


def fastest(rows: list[dict[str, Any]], families: Sequence[str]) -> list[dict[str, Any]]:
    """Keep the fastest of each family in each case, and all without a family."""
    kept: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        name = next((f for f in families if row["candidate"].startswith(f)), row["candidate"])
        key = (row["case"], name)
        if key not in kept or row["median"] < kept[key]["median"]:
            kept[key] = row
    return list(kept.values())


def summary(rows: list[dict[str, Any]], families: Sequence[str]) -> list[str]:
    """A line for the fastest of each family in each case."""
    lines = []
    for row in fastest(rows, families):
        bits = "" if row.get("same_bits", True) else ", other bits in a second run"
        lines.append(
            f"{row['case']:32} {row['candidate']:38} {row['median'] * 1e3:9.4f} ms "
            f"{row['fraction']:6.3f} by the {row['timed_by']}'s clock{bits}"
        )
    return lines


def main(
    name: str,
    module: str,
    about: str,
    groups: Groups,
    families: Sequence[str],
    picture: Callable[[dict[str, Any]], Any] | None = None,
) -> None:
    """The command of a study in parts, whose processes run the same module."""

    def measure_all(study: Study, arguments: argparse.Namespace) -> None:
        measure(study, arguments, module, groups)
        print("\n".join(summary(study.cases, families)))

    options = {"groups": {"nargs": "*", "metavar": "GROUP", "help": ", ".join(groups)}, **OPTIONS}
    command = Command(name, about, measure_all, options=options, picture=picture)
    arguments = command.parser.parse_args()
    if arguments.part:
        measure_part(arguments.groups[0], arguments.part, arguments.limit, groups)
    else:
        command.main()
