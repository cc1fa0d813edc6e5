"""Parts of the figures in the README: white cards, which can be read on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".readme"
INK, FAINT, LINE = "#3f3f46", "#71717a", "#d4d4d8"
FASTER, SLOWER = "#2563a8", "#c2570c"


def card(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    """Return a figure; `label` describes it to readers who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" '
        f'width="{width}" height="{height:g}" role="img" aria-label="{escape(label)}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1:g}" rx="8" '
        f'fill="#ffffff" stroke="{LINE}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def text(
    x: float,
    y: float,
    words: str,
    colour: str,
    weight: str = "normal",
    *,
    anchor: str = "start",
    size: int = 12,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:g}" fill="{colour}" font-weight="{weight}" '
        f'text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
    )


def box(x: float, y: float, width: float, colour: str) -> str:
    """Return a bar of one row."""
    return f'<rect x="{x:.1f}" y="{y:g}" width="{max(width, 1):.1f}" height="14" rx="2" fill="{colour}"/>'


def whisker(left: float, right: float, y: float) -> str:
    """Return the line from the least to the largest value of a row."""
    return (
        f'<path d="M{left:.1f},{y + 8:g} H{right:.1f} M{left:.1f},{y + 5:g} v6 '
        f'M{right:.1f},{y + 5:g} v6" stroke="{INK}" fill="none"/>'
    )


def tick(x: float, top: float, bottom: float, words: str, *, is_solid: bool = False) -> str:
    """Return a line of the grid and its label below."""
    dash = "" if is_solid else ' stroke-dasharray="2 3"'
    return f'<path d="M{x:.1f},{top:g} V{bottom:g}" stroke="{FAINT if is_solid else LINE}"{dash}/>' + text(
        x, bottom + 14, words, FAINT, anchor="middle", size=11
    )
