"""The picture of ``mgrec demo``; the only file that draws."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import earth, records
from .output import in_place_when_complete

if TYPE_CHECKING:
    from .trial import Run

INK, FAINT, PAPER = "#22303c", "#8795a1", "#fbfaf7"
LAND, SEA = "#c9b48c", "#dfe9ee"
AIR = ("#8c4a1f", "#d9a05b", "#f2e2b8", "#9ecfd3", "#3a86a8", "#12466b")
COLOURS = {
    "begin": "#7a9a4b",
    "precompute": "#3a86a8",
    "propagate": "#c0392b",
    "determine": "#e0a030",
}
OTHER = "#c3ccd2"
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


def draw(run: Run, path: Path) -> None:
    """Draw input, result, a profile and the task stream of a demo as a PNG."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(12, 11.4), layout="constrained")
        FigureCanvasAgg(figure)
        lines = figure.add_gridspec(3, 2, height_ratios=(6.2, 2.5, 1.9))
        _headline(figure, run)
        _result(figure, figure.add_subplot(lines[0, :]), run)
        _input(figure.add_subplot(lines[1, 0]), run)
        _profile(figure.add_subplot(lines[1, 1]), run)
        _task_stream(figure.add_subplot(lines[2, :]), run)
        with in_place_when_complete(path) as part:
            figure.savefig(part, dpi=140, format="png")


def _headline(figure: Any, run: Run) -> None:
    figure.suptitle(
        f"How far does the sea reach into the land?  {run.steps:,} steps in {run.solving:.2f} s",
        x=0.012,
        ha="left",
        fontsize=15,
        fontweight="bold",
    )


def _sea(run: Run) -> np.ndarray:
    begin = run.air.first * earth.PLACES
    sea = earth.is_sea(begin, begin + run.steps).reshape(run.air.turns, -1)
    return sea[:, :: sea.shape[1] // run.shown.shape[1]]


def _extent(run: Run) -> tuple[float, float, float, float]:
    latitude = run.air.latitude()
    return -180, 180, latitude[-1] - 1 / 24, latitude[0] + 1 / 24


def _map(axes: Any, run: Run, values: np.ndarray, colours: Any) -> Any:
    image = axes.imshow(values, extent=_extent(run), cmap=colours, vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(-180, 181, 60), [_degrees(x, "W", "E") for x in range(-180, 181, 60)])
    low, high = _extent(run)[2:]
    ticks = [y for y in range(-60, 61, 30) if low < y < high]
    axes.set_yticks(ticks, [_degrees(y, "S", "N") for y in ticks])
    axes.tick_params(length=2, labelsize=8)
    return image


def _parallel(latitude: float) -> str:
    return f"{abs(latitude):.0f}° {'N' if latitude > 0 else 'S'}"


def _degrees(angle: int, below: str, above: str) -> str:
    return f"{abs(angle)}°{'' if angle % 180 == 0 else below if angle < 0 else above}"


def _result(figure: Any, axes: Any, run: Run) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("air", AIR)
    image = _map(axes, run, run.shown, colours)
    sea = _sea(run).astype(float)
    longitude = np.linspace(-180, 180, sea.shape[1])
    axes.contour(longitude, run.air.latitude(), sea, [0.5], colors=INK, linewidths=0.25)
    axes.set_title("Result: the share of maritime air in a wind from the west")
    axes.set_title(
        f"$w_i = s_i\\,w_{{i-1}} + t_i$  along one thread, wound {run.air.turns:,} times round the "
        f"Earth from {_parallel(run.air.latitude()[0])} to {_parallel(run.air.latitude()[-1])}",
        loc="right",
        fontsize=9,
        fontweight="normal",
    )
    bar = figure.colorbar(image, ax=axes, fraction=0.018, pad=0.01)
    bar.set_ticks([0, 0.5, 1], labels=["continental", "half", "maritime"])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)


def _input(axes: Any, run: Run) -> None:
    from matplotlib.colors import ListedColormap

    _map(axes, run, _sea(run), ListedColormap([LAND, SEA]))
    axes.set_title("Input: land and sea (GLOBE, NOAA 1999)")
    if run.air.turns >= earth.PARALLELS // 2:
        axes.axhline(PROFILE, color=COLOURS["propagate"], linewidth=0.8)


def _profile(axes: Any, run: Run) -> None:
    row = int(np.abs(run.air.latitude() - PROFILE).argmin())
    w, sea = run.shown[row], _sea(run)[row]
    longitude = np.linspace(-180, 180, w.size, endpoint=False)
    axes.fill_between(longitude, 0, 1, where=~sea, step="post", color=LAND, alpha=0.55, lw=0)
    axes.plot(longitude, w, color=AIR[-1], linewidth=1.3)
    axes.set_xlim(-180, 180)
    axes.set_ylim(0, 1.04)
    axes.set_xticks(range(-180, 181, 60), [_degrees(x, "W", "E") for x in range(-180, 181, 60)])
    axes.set_yticks([0, 0.5, 1])
    axes.tick_params(length=2, labelsize=8)
    axes.set_title(
        f"One turn of the thread: w at {_parallel(run.air.latitude()[row])} (land shaded)"
    )


def _task_stream(axes: Any, run: Run) -> None:
    from matplotlib.patches import Patch

    for record in run.records:
        colour = COLOURS.get(record.phase, OTHER)
        # A propagation takes a fraction of a millisecond: it is drawn as a tick.
        width = max(record.stop - record.start, 0.0)
        axes.broken_barh(
            [(record.start, width)],
            (record.lane + 0.1, 0.8),
            color=colour,
            linewidth=1.2 if record.phase == "propagate" else 0,
        )
    lanes = 1 + max((record.lane for record in run.records), default=0)
    axes.set_ylim(lanes, 0)
    axes.set_yticks(np.arange(lanes) + 0.5, [f"thread {k + 1}" for k in range(lanes)])
    axes.set_xlim(0, max((record.stop for record in run.records), default=1))
    axes.set_xlabel("seconds")
    axes.tick_params(length=2, labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    names = ("pack", *records.PHASES)
    patches = [Patch(color=COLOURS.get(name, OTHER), label=name) for name in names]
    axes.legend(
        handles=patches,
        ncols=len(names),
        loc="lower right",
        bbox_to_anchor=(1, 1),
        frameon=False,
        fontsize=8,
    )
    axes.set_title(f"Work of the {run.workers} workers: {run.chunks} chunks in three phases")
