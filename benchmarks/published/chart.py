"""The bar chart of calls against peers: ``python -m benchmarks.published.chart``.

Writes ``.readme/calls.svg`` from stored results. It is a white card, so that it can be read on
light and on dark pages.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

from .calls import CALLS, Call

PATH = Path(__file__).parents[2] / ".readme" / "calls.svg"
INK, FAINT, LINE = "#3f3f46", "#71717a", "#d4d4d8"
FASTER, SLOWER = "#2563a8", "#c2570c"
WIDTH, LEFT, RIGHT = 740, 396, 690
LEAST, MOST = 0.1, 100.0
ROW, HEAD = 22, 34


def draw() -> str:
    parts, y = _titles(), 52.0
    for title, calls in CALLS.items():
        parts.append(_text(20, y + 12, title, INK, "bold"))
        y += HEAD - 8
        for call in calls:
            parts += _bar(call, y)
            y += ROW
        y += 12
    height = y + 26
    grid = [_tick(times, y) for times in (0.1, 1.0, 10.0, 100.0)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{WIDTH}" height="{height:g}" role="img" '
        f'aria-label="Calls of mgrec against their peers" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8" '
        f'fill="#ffffff" stroke="{LINE}"/>\n' + "\n".join([*grid, *parts]) + "\n</svg>\n"
    )


def _titles() -> list[str]:
    return [
        _text(20, 30, "How many times as fast as its peer is a call?", INK, "bold", size=14),
        _text(WIDTH - 20, 24, "blue: mgrec is faster", FASTER, anchor="end", size=11),
        _text(WIDTH - 20, 38, "orange: its peer is", SLOWER, anchor="end", size=11),
    ]


def _place(times: float) -> float:
    share = math.log(times / LEAST) / math.log(MOST / LEAST)
    return LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0)


def _bar(call: Call, y: float) -> list[str]:
    """From 1, to the right where mgrec is faster and to the left where its peer is."""
    times, one = call.times, _place(1.0)
    end = _place(times)
    colour = FASTER if times >= 1 else SLOWER
    # Beside the end that is further from the names of peers.
    figure = _text(max(end, one) + 6, y + 12, f"{times:.2g}" if times < 10 else f"{times:.0f}", INK)
    return [
        _text(20, y + 12, call.words, INK),
        _text(246, y + 12, call.peer, FAINT),
        f'<rect x="{min(one, end):.1f}" y="{y + 1:g}" width="{max(abs(end - one), 1):.1f}" '
        f'height="14" rx="2" fill="{colour}"/>',
        figure,
    ]


def _tick(times: float, bottom: float) -> str:
    x = _place(times)
    dash = "" if times == 1 else ' stroke-dasharray="2 3"'
    return (
        f'<path d="M{x:.1f},52 V{bottom:g}" stroke="{FAINT if times == 1 else LINE}"{dash}/>'
        + _text(x, bottom + 14, f"{times:g}×", FAINT, anchor="middle", size=11)
    )


def _text(
    x: float, y: float, words: str, colour: str, weight: str = "normal", *,
    anchor: str = "start", size: int = 12,
) -> str:  # fmt: skip
    return (
        f'<text x="{x:.1f}" y="{y:g}" fill="{colour}" font-weight="{weight}" '
        f'text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
    )


if __name__ == "__main__":
    PATH.write_text(draw())
