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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..harness.command import run
from ..harness.study import Study

Groups = dict[str, Callable[[Study], None]]
MEMORY = "the device, 1 GiB"
# Seconds that must be left to start a group, and those kept to save its results.
LEAST, GRACE = 15, 8


def measure(study: Study, arguments: argparse.Namespace, groups: Groups) -> None:
    """Run each group in a process of its own and collect its results."""
    study.memory = MEMORY
    end = time.perf_counter() + arguments.budget
    with tempfile.TemporaryDirectory() as folder:
        for group in arguments.groups or groups:
            start = time.perf_counter()
            limit = min(arguments.limit, end - start)
            reason = "no time was left"
            part = Path(folder) / f"{group}.json"
            if limit >= LEAST:
                reason = run_part(arguments.module, group, part, limit)
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
    from .clock import copy_bandwidth

    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(max(1, int(limit) - GRACE))
    study = Study(group, MEMORY, copy_bandwidth())
    try:
        groups[group](study)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        study.miss(f"group {group}", "the rest", reason[:300])
    found = {"cases": study.cases, "not_measured": study.missing, "notes": study.notes}
    path.write_text(json.dumps({**found, "bandwidth": study.bandwidth}))


def _stop(*_: Any) -> None:
    raise TimeoutError("no time was left")


def fastest(rows: list[dict[str, Any]], families: tuple[str, ...]) -> list[dict[str, Any]]:
    """Keep the fastest of each family in each case, and all without a family."""
    kept: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        name = next((f for f in families if row["candidate"].startswith(f)), row["candidate"])
        key = (row["case"], name)
        if key not in kept or row["median"] < kept[key]["median"]:
            kept[key] = row
    return list(kept.values())


def main(name: str, module: str, doc: str, groups: Groups, draw: Callable[[dict[str, Any]], Any],
         summary: Callable[[list[dict[str, Any]]], list[str]]) -> None:  # fmt: skip
    """The command of a study in parts, whose processes run the same module."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.set_defaults(module=module)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(groups))
    parser.add_argument("--limit", type=float, default=100, help="seconds that a group may take")
    parser.add_argument("--budget", type=float, default=1e6, help="seconds for all of them")
    parser.add_argument("--part", type=Path, help=argparse.SUPPRESS)
    if "--part" in sys.argv:
        chosen = parser.parse_args()
        measure_part(chosen.groups[0], chosen.part, chosen.limit, groups)
        return

    def measure_all(study: Study, arguments: argparse.Namespace) -> None:
        measure(study, arguments, groups)
        print("\n".join(summary(study.cases)))

    run(name, measure_all, draw, parser)
