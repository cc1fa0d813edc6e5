"""One row of 2^10 to 2^30 float32 steps on one GPU: time by size, mgrec beside its peers.

The cache is cold for every candidate. Of CUB's tunings and layouts the fastest at each size
is taken. *kernel* is timed by the device, *call* by the host: what the caller of the public
function waits for.

usage: python -m benchmarks.cuda.sizes [GROUP ...] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..harness.study import Study
from .groups import Groups, main

POWERS = {"small": range(10, 20), "large": range(20, 28), "huge": range(28, 31)}
# Candidates of the table, by how their names begin, and how they are drawn.
COLUMNS = {
    "copy": {"color": "0.5", "linestyle": "--"},
    "mgrec kernel": {"color": "C0", "linewidth": 2},
    "CUB 3.0": {"color": "C1"},
    "CUB 3.5": {"color": "C3"},
    "cupy.cumsum": {"color": "C2"},
    "mgrec call": {"color": "C0", "linestyle": ":"},
}


def measure_size(study: Study, power: int) -> None:
    from . import packages
    from .candidates import compare, draw_work
    from .cub.libraries import libraries

    work = draw_work(f"2^{power}", (1, 2**power, 1), "f4")
    builds = {"copy": work.copy, "mgrec kernel": work.kernel}
    for library in libraries():
        found = library.builds(work.s, work.t)
        if name := choose(found):
            builds[name] = found[name]
    compare(study, work, builds)
    compare(study, work, {"mgrec call": work.call}, by_host=True)
    sums = draw_work(f"2^{power}", (1, 2**power, 1), "f4", 1.0)
    compare(study, sums, {"cupy.cumsum": partial(packages.cumulative_sum, sums.t)})


def choose(builds: dict[str, Any]) -> str | None:
    """Name the fastest, by the best of three runs each."""
    from .clock import device_clock, flush_cache

    times = {}
    for name, build in builds.items():
        samples = []
        try:
            call = build().call
            call()
            for _ in range(3):
                flush_cache()
                samples.append(device_clock(call, 1))
        except RuntimeError as error:
            print(f"{name}: {error}")
            continue
        times[name] = min(samples)
    return min(times, key=lambda name: times[name], default=None)


def measure_group(powers: range, study: Study) -> None:
    import cupy

    for power in powers:
        measure_size(study, power)
        cupy.get_default_memory_pool().free_all_blocks()


def find(rows: list[dict[str, Any]], case: str, column: str) -> dict[str, Any] | None:
    matches = (r for r in rows if r["case"] == case and r["candidate"].startswith(column))
    return next(matches, None)


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Microseconds, and the fraction of the floor; a copy has two words, as the sum has."""
    lines = ["steps  " + "".join(f"{column:>20}" for column in COLUMNS)]
    for case in dict.fromkeys(row["case"] for row in rows):
        found = [find(rows, case, column) for column in COLUMNS]
        texts = [f"{r['median'] * 1e6:12.2f} ({r['fraction']:.2f})" if r else "-" for r in found]
        lines.append(f"{case:7}" + "".join(f"{text:>20}" for text in texts))
    return lines


def draw(record: dict[str, Any]) -> Any:
    """Time, and gigabytes of the least traffic a second, by size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    times, speeds = figure.subplots(1, 2)
    for column in COLUMNS:
        rows = [row for row in record["cases"] if row["candidate"].startswith(column)]
        style = {
            "linewidth": 2 if column.startswith("mgrec") else 1,
            "marker": ".",
            "label": column,
        }
        if column == "copy":
            style |= {"color": "0.5", "linestyle": "--"}
        steps = [row["steps"] for row in rows]
        times.plot(steps, [row["median"] * 1e6 for row in rows], **style)
        speeds.plot(steps, [row["bytes"] / row["median"] / 1e12 for row in rows], **style)
    times.set(yscale="log", xlabel="steps", ylabel="microseconds")
    speeds.set(xlabel="steps", ylabel="least traffic, TB/s", ylim=0)
    for axes in (times, speeds):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    times.legend(fontsize=8)
    figure.suptitle(f"float32, {'; '.join(record['machine']['gpus'])}, {record['date'][:10]}")
    return figure


GROUPS: Groups = {name: partial(measure_group, powers) for name, powers in POWERS.items()}

if __name__ == "__main__":
    main("cuda-sizes", __spec__.name, __doc__, GROUPS, draw, summary)
