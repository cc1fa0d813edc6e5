"""What the papers' pictures share: curves by size on logarithmic axes."""

from __future__ import annotations

from typing import Any

from .text import Curve


def plot(axes: Any, found: Curve, label: str, line: str = "-", **style: Any) -> None:
    """A curve, if anything was measured."""
    if found:
        axes.plot(list(found), list(found.values()), line, marker=".", label=label, **style)


def finish(axes: Any, title: str, x: str, y: str) -> None:
    """Scales, names and a legend; a panel without curves is not shown."""
    axes.set_visible(bool(axes.lines))
    if not axes.lines:
        return
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=6)
