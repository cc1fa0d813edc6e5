"""The picture of ``mgrec demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..distributed import observability
from .files import replaced_when_complete
from .streaming import LIMIT

if TYPE_CHECKING:
    from .demo import DemoReport
    from .streaming import Streamed

INK, FAINT, PAPER = "#22303c", "#8795a1", "#fbfaf7"
LAND = "#c9b48c"
AIR = ("#8c4a1f", "#d9a05b", "#f2e2b8", "#9ecfd3", "#3a86a8", "#12466b")
COLOURS = {
    "pack": "#c3ccd2",
    "speculate": "#7a9a4b",
    "precompute": "#3a86a8",
    "propagate": "#c0392b",
    "determine": "#e0a030",
}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.facecolor": PAPER,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.facecolor": PAPER,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
PROFILE = 48.0  # degrees north: Brittany, the Alps, the steppe, Sakhalin, Newfoundland


def draw(report: DemoReport, streamed: Streamed, path: Path) -> None:
    """Draw result, a profile, times, memory and the task stream of a demo."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(12, 6.4), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.add_gridspec(3, 2, width_ratios=(2.1, 1), height_ratios=(2, 2, 1.3))
        title = f"How far does the sea reach into the land?  {report.air.steps:,} steps in "
        title += f"{min(report.call):#.2g} s, {report.speedup:.1f} times as fast as a compiled loop"
        figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold")
        sea = report.air.is_sea(0, report.air.steps).reshape(report.air.parallels, -1)
        sea = sea[:, :: sea.shape[1] // report.shown.shape[1]]
        _result(figure, figure.add_subplot(grid[:2, 0]), report, sea)
        _profile(figure.add_subplot(grid[0, 1]), report, sea)
        _times(figure.add_subplot(grid[1, 1]), report)
        _task_stream(figure.add_subplot(grid[2, 0]), streamed)
        _memory(figure.add_subplot(grid[2, 1]), streamed)
        with replaced_when_complete(path) as part:
            figure.savefig(part, dpi=140, format="png")


def _map(axes: Any, report: DemoReport, values: np.ndarray, colours: Any) -> Any:
    latitude = report.air.latitude()
    low, high = latitude[-1] - 1 / 24, latitude[0] + 1 / 24
    extent = (-180, 180, low, high)
    image = axes.imshow(values, extent=extent, cmap=colours, vmin=0, vmax=1, aspect="auto")
    _longitudes(axes)
    ticks = [y for y in range(-60, 61, 30) if low < y < high]
    axes.set_yticks(ticks, [_degrees(y, "S", "N") for y in ticks])
    return image


def _longitudes(axes: Any) -> None:
    ticks = range(-180, 181, 60)
    axes.set_xticks(ticks, [_degrees(x, "W", "E") for x in ticks])
    axes.tick_params(length=2, labelsize=8)


def _degrees(angle: int, below: str, above: str) -> str:
    return f"{abs(angle)}°{'' if angle % 180 == 0 else below if angle < 0 else above}"


def _parallel(latitude: float) -> str:
    return f"{abs(latitude):.0f}° {'N' if latitude > 0 else 'S'}"


def _result(figure: Any, axes: Any, report: DemoReport, sea: np.ndarray) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    image = _map(axes, report, report.shown, LinearSegmentedColormap.from_list("air", AIR))
    longitude, latitude = np.linspace(-180, 180, sea.shape[1]), report.air.latitude()
    if report.air.parallels > 1:
        axes.contour(longitude, latitude, sea.astype(float), [0.5], colors=INK, linewidths=0.25)
    axes.set_title("The share of maritime air in a wind from the west")
    axes.set_xlabel(
        f"$w_i = s_i\\,w_{{i-1}} + t_i$ along one line, wound {report.air.parallels:,} times round "
        f"the Earth from {_parallel(latitude[0])} to {_parallel(latitude[-1])}"
    )
    bar = figure.colorbar(image, ax=axes, fraction=0.018, pad=0.01)
    bar.set_ticks([0, 0.5, 1], labels=["continental", "half", "maritime"])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)


def _profile(axes: Any, report: DemoReport, sea: np.ndarray) -> None:
    latitude = report.air.latitude()
    row = int(np.abs(latitude - PROFILE).argmin())
    longitude = np.linspace(-180, 180, sea.shape[1], endpoint=False)
    axes.fill_between(longitude, 0, 1, where=~sea[row], step="post", color=LAND, alpha=0.55, lw=0)
    axes.plot(longitude, report.shown[row], color=AIR[-1], linewidth=1.3)
    axes.set(xlim=(-180, 180), ylim=(0, 1.04), yticks=[0, 0.5, 1])
    _longitudes(axes)
    axes.set_title(f"w at {_parallel(latitude[row])}, land shaded")


def _times(axes: Any, report: DemoReport) -> None:
    size = f"{8e-6 * max(report.chunks):.0f} MB"
    names = ["plain loop", "one call", f"cluster, {len(report.chunks)} chunks\nof up to {size}"]
    seconds = [min(report.loop), min(report.call), min(report.cluster)]
    colours = [FAINT, COLOURS["precompute"], COLOURS["determine"]]
    _bars(axes, names, seconds, colours, [f"{each:#.2g} s" for each in seconds])
    axes.set_title(f"In memory: time, best of {len(report.call)}")


def _memory(axes: Any, streamed: Streamed) -> None:
    gigabytes = [streamed.needed / 1e9, streamed.peak / 1e9]
    labels = [f"{each:#.2g} GB" for each in gigabytes]
    if streamed.is_refused:
        labels[0] += ": refused"
    colours = [COLOURS["precompute"], COLOURS["determine"]]
    _bars(axes, ["one call", "cluster"], gigabytes, colours, labels)
    limit = LIMIT / 1e9
    if limit < axes.get_xlim()[1]:
        axes.axvline(limit, color=COLOURS["propagate"], linewidth=1.2, linestyle="--")
    axes.set_title(f"From disk to disk: memory, limit {limit:g} GB")


def _bars(axes: Any, names: list[str], values: list[float], colours: list[str], labels: list[str]) -> None:
    bars = axes.barh(names, values, color=colours)
    box = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5}
    axes.bar_label(bars, labels, padding=3, bbox=box, zorder=3)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.5 * max(values)), xticks=[])
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _task_stream(axes: Any, streamed: Streamed) -> None:
    from matplotlib.patches import Patch

    records = streamed.records
    for phase, thread, start, stop in records:
        # A propagation takes a fraction of a millisecond: an edge makes it visible.
        edge = 1.2 if phase == "propagate" else 0
        colour = COLOURS.get(phase, COLOURS["pack"])
        axes.broken_barh([(start, stop - start)], (thread + 0.1, 0.8), color=colour, linewidth=edge)
    threads = 1 + max((thread for _, thread, _, _ in records), default=0)
    axes.set_yticks(np.arange(threads) + 0.5, [f"thread {k + 1}" for k in range(threads)])
    end = max((stop for *_, stop in records), default=1)
    axes.set(xlim=(0, end), ylim=(threads, 0))
    axes.set_xlabel("seconds", loc="left")
    axes.tick_params(length=2, labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(
        handles=[Patch(color=COLOURS[phase], label=phase) for phase in observability.PHASES],
        ncols=len(observability.PHASES),
        loc="upper right",
        bbox_to_anchor=(1, -0.15),
        frameon=False,
        fontsize=8,
    )
    size = 8e-6 * streamed.steps_a_chunk
    axes.set_title(
        f"From disk to disk: {streamed.chunks} chunks of {size:.0f} MB in {streamed.seconds:#.2g} s"
    )
