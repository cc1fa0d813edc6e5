"""What the studies share: interleaved times, the machine and its load, result files.

A study is ``measure(study, arguments)`` and ``draw(record, axes)``, handed to :func:`run`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from . import machine

RESULTS = Path(__file__).parents[1] / "results"
# One sample lasts at least this long: shorter calls are made several times.
SAMPLE = 2e-3
# Seconds of one of so many calls.
Clock = Callable[[Callable[[], Any], int], float]


@dataclass(frozen=True)
class Times:
    """Seconds of one call, one a repetition."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    def summary(self) -> dict[str, Any]:
        extremes = {"min": min(self.seconds), "max": max(self.seconds)}
        return {"repetitions": len(self.seconds), "median": self.median, **extremes}


@dataclass
class Study:
    """The cases and bars of one run, and the load that it noticed meanwhile.

    Where the fractions refer to another memory than the host's, `bandwidth` is that of a
    copy there, in bytes read and written a second.
    """

    name: str
    memory: str = "memory, one thread"
    bandwidth: float | None = None
    cases: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, str]] = field(default_factory=list)
    bars: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    calibrations: list[float] = field(default_factory=list)
    begun: dict[str, float] = field(default_factory=machine.read_load)

    def compare(
        self,
        case: str,
        candidates: dict[str, Callable[[], Any]],
        repetitions: int,
        settle: Callable[[], Any] | None = None,
        clock: Clock | None = None,
        **about: Any,
    ) -> dict[str, Times]:
        """Time candidates A B C, C B A, ...: a drift of the machine hits all of them alike.

        The result file has the case with what `about` says of it: ``steps`` gives
        nanoseconds a step, and ``bytes`` GB/s. Every candidate runs once before the clock
        starts; not so where there is a `settle`, which runs before each and is not timed.
        The `clock` is the host's where no other is given.
        """
        sample = clock or _sample
        counts = {name: 1 if settle else _count(call) for name, call in candidates.items()}
        order = list(candidates)
        seconds: dict[str, list[float]] = {name: [] for name in candidates}
        for _ in range(repetitions):
            self.calibrations.append(machine.calibrate())
            for name in order:
                if settle:
                    settle()
                seconds[name].append(sample(candidates[name], counts[name]))
            order.reverse()
        times = {name: Times(tuple(values)) for name, values in seconds.items()}
        for name, each in times.items():
            self.add(case, name, each, **about)
        return times

    def add(self, case: str, candidate: str, times: Times, **about: Any) -> None:
        row = {"case": case, "candidate": candidate, **about, **times.summary()}
        if self.bandwidth and "bytes" in about:
            row["fraction"] = about["bytes"] / self.bandwidth / times.median
        self.cases.append(row)
        print(f"  {case:44} {candidate:30} {_time(row)}", flush=True)

    def miss(self, case: str, candidate: str, reason: str) -> None:
        """Say of a candidate why it was not measured."""
        self.missing.append({"case": case, "candidate": candidate, "reason": reason})
        print(f"  {case:44} {candidate:30} not measured: {reason}", flush=True)

    def bar(
        self, text: str, figure: float, best: float, wanted: float, is_least: bool = True
    ) -> None:
        """Hold a figure (of the medians, and of the best times) against what is wanted."""
        met = figure >= wanted if is_least else figure <= wanted
        sign = "≥" if is_least else "≤"
        row = {"bar": text, "figure": figure, "best": best, "wanted": f"{sign} {wanted:g}"}
        self.bars.append({**row, "met": bool(met)})
        verdict = f"wanted {sign} {wanted:g}: {'met' if met else 'MISSED'}"
        print(f"* {text}: {figure:.3g} (best times: {best:.3g}), {verdict}", flush=True)

    def ratio(
        self, text: str, over: Times, under: Times, wanted: float, is_least: bool = True
    ) -> None:
        """A bar whose figure is a ratio of two times."""
        medians, bests = over.median / under.median, over.best / under.best
        self.bar(text, medians, bests, wanted, is_least)

    def record(self, name: str | None) -> dict[str, Any]:
        about = machine.describe_machine()
        return {
            "study": self.name,
            "machine": {"name": name or machine.slug(about), **about},
            "date": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime()),
            "versions": machine.describe_versions(),
            "commit": machine.describe_commit(),
            "memory": self.memory,
            "copy_bandwidth": self.bandwidth or machine.copy_bandwidth(),
            "load": machine.describe_load(self.begun, machine.read_load(), self.calibrations),
            "notes": self.notes,
            "bars": self.bars,
            "cases": self.cases,
            "not_measured": self.missing,
        }


def _count(call: Callable[[], Any]) -> int:
    """Calls that make one sample; the first call may compile."""
    call()
    return max(1, round(SAMPLE / max(_sample(call, 1), 1e-7)))


def _sample(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def nothing(*results: Any) -> None:
    """An empty task; here, since workers import it by name."""


def _time(row: dict[str, Any]) -> str:
    words = f"{row['median'] * 1e3:10.4g} ms"
    if "steps" in row:
        words += f" {row['median'] / row['steps'] * 1e9:8.3g} ns a step"
    if "bytes" in row:
        words += f" {row['bytes'] / row['median'] / 1e9:7.3g} GB/s"
    if "fraction" in row:
        words += f" {row['fraction']:6.3f}"
    return words


def save(record: dict[str, Any], folder: Path) -> Path:
    """Write the record, and its tables beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['study']}-{record['machine']['name']}-{record['date'][:10]}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    path.with_suffix(".md").write_text(tables(record))
    return path


def tables(record: dict[str, Any]) -> str:
    about, load = record["machine"], record["load"]
    lines = [
        f"# {record['study']}: {about['processor']}, {about['cores']} cores, {record['date']}",
        "",
        f"mgrec {record['commit']}. Others took {load['foreign_processors']:.2f} processors; the "
        f"calibration loop's median is {load['calibration_median'] / load['calibration_best']:.2f} "
        f"of its best: the machine was {'' if load['quiet'] else 'not '}quiet.",
        "",
        *(f"- GPU: {name}" for name in about["gpus"]),
        f"- copy bandwidth of {record['memory']}, GB/s: {record['copy_bandwidth'] / 1e9:.4g}",
        *(f"- {name}: {value}" for name, value in record["notes"].items()),
    ]
    if record["bars"]:
        lines += ["", "| bar | figure | of the best times | wanted | met |", "|---" * 5 + "|"]
    for bar in record["bars"]:
        met = "yes" if bar["met"] else "**missed**"
        lines.append(
            f"| {bar['bar']} | {bar['figure']:.3g} | {bar['best']:.3g} | {bar['wanted']} | {met} |"
        )
    lines += ["", *_case_table(record["cases"])]
    if record["not_measured"]:
        lines += ["", "| case | candidate | not measured, because |", "|---" * 3 + "|"]
    for row in record["not_measured"]:
        lines.append(f"| {row['case']} | {row['candidate']} | {row['reason']} |")
    return "\n".join(lines) + "\n"


def _case_table(rows: list[dict[str, Any]]) -> list[str]:
    last = "fraction" if any("fraction" in row for row in rows) else "ns a step"
    lines = [f"| case | candidate | n | median ms | min | max | {last} |", "|---" * 7 + "|"]
    for row in rows:
        times = " | ".join(f"{row[key] * 1e3:.4g}" for key in ("median", "min", "max"))
        each = f"{row['median'] / row['steps'] * 1e9:.3g}" if "steps" in row else ""
        if last == "fraction":
            each = f"{row['fraction']:.3f}" if "fraction" in row else ""
        lines.append(
            f"| {row['case']} | {row['candidate']} | {row['repetitions']} | {times} | {each} |"
        )
    return lines


def draw_small(figure: Any, path: Path) -> None:
    """A PNG of few colours: a third of the bytes."""
    from PIL import Image

    figure.savefig(path, dpi=90)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(32)
    small.save(path, optimize=True)


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
        record = json.loads(arguments.plot.read_text())
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
