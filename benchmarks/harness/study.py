"""A run of a study: interleaved times, bars, and the load of the machine meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import machine
from .clock import Call, Clock, Times, copy_bandwidth, count_calls, sample


@dataclass
class Study:
    """The cases and bars of one run, and the load of the machine meanwhile.

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
    load_before: dict[str, float] = field(default_factory=machine.read_load)

    def on_device(self) -> None:
        """Let fractions refer to the memory of the current GPU."""
        self.memory, self.bandwidth = "the device, 1 GiB", copy_bandwidth()

    def compare(
        self,
        case: str,
        candidates: Mapping[str, Call],
        repetitions: int,
        settle: Call | None = None,
        clock: Clock | None = None,
        check: Callable[[str], dict[str, Any]] | None = None,
        **about: Any,
    ) -> dict[str, Times]:
        """Time candidates A B C, C B A, ...: a drift of the machine affects all equally.

        The result file has the case with what `about` says of it: ``steps`` gives
        nanoseconds a step, and ``bytes`` GB/s. Every candidate runs once before the clock
        starts; not so where there is a `settle`, which runs before each and is not timed.
        The `clock` is the host's where no other is given. A `check` of a candidate returns
        what else its row has; one whose check raises an error is not measured.
        """
        read, found = clock or sample, dict[str, dict[str, Any]]()
        for name in candidates:
            try:
                found[name] = check(name) if check else {}
            except Exception as error:
                self.fail(case, name, error)
        counts = {name: 1 if settle else count_calls(candidates[name]) for name in found}
        order, seconds = list(found), {name: list[float]() for name in found}
        for _ in range(repetitions):
            self.calibrations.append(machine.calibrate())
            for name in order:
                if settle:
                    settle()
                seconds[name].append(read(candidates[name], counts[name]))
            order.reverse()
        times = {name: Times(tuple(values)) for name, values in seconds.items()}
        for name, each in times.items():
            self.add(case, name, each, **about | found[name])
        return times

    def add(self, case: str, candidate: str, times: Times, **about: Any) -> None:
        row = {"case": case, "candidate": candidate, **about, **times.summary()}
        if self.bandwidth and "bytes" in about:
            row["fraction"] = about["bytes"] / self.bandwidth / times.median
        self.cases.append(row)
        print(f"  {case:44} {candidate:30} {_time(row)}", flush=True)

    def miss(self, case: str, candidate: str, reason: str) -> None:
        """Record why a candidate was not measured."""
        self.missing.append({"case": case, "candidate": candidate, "reason": reason})
        print(f"  {case:44} {candidate:30} not measured: {reason}", flush=True)

    def fail(self, case: str, candidate: str, error: Exception) -> None:
        """Record the error of a candidate that was not measured."""
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        self.miss(case, candidate, reason[:300])

    def bar(self, text: str, figure: float, best: float, wanted: float, is_least: bool = True) -> None:
        """Compare a figure (of the medians, and of the best times) with its bar, a goal."""
        met = figure >= wanted if is_least else figure <= wanted
        sign = "≥" if is_least else "≤"
        row = {"bar": text, "figure": figure, "best": best, "wanted": f"{sign} {wanted:g}"}
        self.bars.append({**row, "met": bool(met)})
        verdict = f"goal {sign} {wanted:g}, {'reached' if met else 'not reached here'}"
        print(f"* {text}: {figure:.3g} (best times: {best:.3g}), {verdict}", flush=True)

    def hold(
        self,
        case: str,
        own: Mapping[str, Call],
        peers: Mapping[str, Call],
        repetitions: int,
        check: Callable[[Mapping[str, Call], Any], None],
        **about: Any,
    ) -> dict[str, Times]:
        """Check candidates of mgrec by the result of the first peer, and time them beside all."""
        check(own, next(iter(peers.values()))())
        return self.compare(case, {**own, **peers}, repetitions, **about)

    def note(self, text: str, over: Times, under: Times) -> None:
        """Keep a ratio of medians that no bar is set for."""
        self.notes[text] = over.median / under.median
        print(f"  {text}: {self.notes[text]:.3g}", flush=True)

    def ratio(self, text: str, over: Times, under: Times, wanted: float, is_least: bool = True) -> None:
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
            "load": machine.describe_load(self.load_before, machine.read_load(), self.calibrations),
            "notes": self.notes,
            "bars": self.bars,
            "cases": self.cases,
            "not_measured": self.missing,
        }


def _time(row: dict[str, Any]) -> str:
    words = f"{row['median'] * 1e3:10.4g} ms"
    if "steps" in row:
        words += f" {row['median'] / row['steps'] * 1e9:8.3g} ns a step"
    if "bytes" in row:
        words += f" {row['bytes'] / row['median'] / 1e9:7.3g} GB/s"
    if "fraction" in row:
        words += f" {row['fraction']:6.3f}"
    return words
