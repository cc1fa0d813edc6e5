"""One row of 2^10 to 2^30 float32 steps on one GPU: time by size, mgrec beside its peers.

The cache is cold for every candidate. Of CUB's tunings and layouts the fastest at each size
is taken. *kernel* and *call* are those of `benchmarks.cuda.peers`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..harness.clock import device_clock, flush_cache
from ..harness.study import Study
from . import packages
from .candidates import Build, compare, compare_with_call, draw_work
from .cub.libraries import libraries
from .groups import Groups, main

POWERS = {"small": range(10, 20), "large": range(20, 28), "huge": range(28, 31)}
COLUMNS = ("copy", "mgrec kernel", "CUB 3.0", "CUB 3.5", "cupy.cumsum", "mgrec call")
"""How the names of candidates begin."""


def measure_size(study: Study, power: int) -> None:
    work = draw_work(f"2^{power}", (2**power,), "f4")
    builds: dict[str, Build] = {}
    for library in libraries():
        builds |= choose(library.builds(work.s, work.t))
    compare_with_call(study, work, builds)
    sums = draw_work(f"2^{power}", (2**power,), "f4", 1.0)
    compare(study, sums, {"cupy.cumsum": partial(packages.cumulative_sum, sums.t)})


def choose(builds: dict[str, Build]) -> dict[str, Build]:
    """The fastest, by the best of three runs each."""
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
    return {name: builds[name] for name in sorted(times, key=lambda name: times[name])[:1]}


def measure_group(powers: range, study: Study) -> None:
    for power in powers:
        measure_size(study, power)
        packages.cupy.get_default_memory_pool().free_all_blocks()


def draw(record: dict[str, Any]) -> Any:
    """Time, and gigabytes of the least traffic a second, by size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    times, speeds = figure.subplots(1, 2)
    for column in COLUMNS:
        rows = [row for row in record["cases"] if row["candidate"].startswith(column)]
        style: dict[str, Any] = {"marker": ".", "label": column}
        style["linewidth"] = 2 if column.startswith("mgrec") else 1
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
    main("cuda-sizes", __spec__.name, __doc__, GROUPS, COLUMNS, draw)
