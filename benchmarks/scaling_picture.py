"""Pictures of a scaling study: efficiency by workers, and what each worker did when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask.utils import key_split
from distributed import Client, get_task_stream, wait

import mgrec

COLOURS = {"precompute": "#4477aa", "propagate": "#ee6677", "determine": "#228833"}


def stream(
    client: Client, arguments: Any, addresses: list[str], operands: Callable[..., Any]
) -> list[dict[str, Any]]:
    """The tasks of one solve: worker, phase, and when it ran, in milliseconds."""
    size = 1 << 12 if arguments.small else 1 << 20
    s, t = operands(client, arguments.cluster, 1, size, 8 * len(addresses), addresses)
    with get_task_stream(client=client) as tasks:
        wait(mgrec.linear_recurrence(s, t, 3.0).persist())
    found = []
    for task in tasks.data:
        for span in task["startstops"]:
            about = {"worker": addresses.index(task["worker"]), "action": span["action"]}
            name = key_split(task["key"])
            found.append({**about, "task": name, "start": span["start"], "stop": span["stop"]})
    begin = min((span["start"] for span in found), default=0.0)
    for span in found:
        span["start"], span["stop"] = ((span[k] - begin) * 1e3 for k in ("start", "stop"))
    return found


def draw(record: dict[str, Any]) -> Any:
    """Efficiency by workers, the fraction of a copy, and the task stream."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), layout="constrained")
    axes = figure.subplots(2, 2)
    rows = [row for row in record["cases"] if "efficiency" in row]
    for place, how in zip(axes[0], ("strong", "large"), strict=True):
        _lines(place, [row for row in rows if row["case"].startswith(how)], "efficiency")
        place.set(xlabel="workers", ylabel="efficiency", title=f"{how} scaling", ylim=(0, None))
    _lines(axes[1, 0], rows, "copy_fraction")
    axes[1, 0].set(xlabel="workers", ylabel="fraction of a copy", ylim=(0, None))
    spans = [span for row in record["cases"] for span in row.get("spans", [])]
    _gantt(axes[1, 1], spans)
    return figure


def _lines(axes: Any, rows: list[dict[str, Any]], key: str) -> None:
    for case in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == case]
        axes.plot([r["workers"] for r in own], [r[key] for r in own], "o-", label=case)
    if rows:
        axes.legend(fontsize=6)


def _gantt(axes: Any, spans: list[dict[str, Any]]) -> None:
    for span in spans:
        colour = COLOURS.get(span["task"], "#bbbbbb")
        colour = colour if span["action"] == "compute" else "#cc3311"
        axes.barh(span["worker"], span["stop"] - span["start"], left=span["start"], color=colour)
    axes.set(xlabel="milliseconds", ylabel="worker", title="tasks of one solve (red: transfers)")
