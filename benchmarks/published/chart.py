"""The bar chart of calls against peers, ``.readme/calls.svg``."""

from __future__ import annotations

import math

from .calls import CALLS, Call
from .svg import FASTER, FOLDER, INK, SLOWER, box, card, text, tick, whisker

PATH = FOLDER / "calls.svg"
WIDTH, LEFT, RIGHT, TOP = 740, 396, 690, 52
LEAST, MOST = 0.1, 100.0
ROW, HEAD = 22, 34


def draw() -> str:
    parts, y = _titles(), float(TOP)
    for title, calls in CALLS.items():
        parts.append(text(20, y + 12, title, INK, "bold"))
        y += HEAD - 8
        for call in calls:
            parts += _bar(call, y)
            y += ROW
        y += 12
    grid = [
        tick(_place(times), TOP, y, f"{times:g}×", is_solid=times == 1) for times in (0.1, 1.0, 10.0, 100.0)
    ]
    notes = (
        "Ratios of medians in one run; allocation included. Whiskers: the fastest and the slowest",
        "call of mgrec, where the result has them. Each peer has the best of its settings.",
    )
    footer = [text(20, y + 36 + 15 * k, note, INK, size=11) for k, note in enumerate(notes)]
    label = "Calls of mgrec against their peers"
    return card(WIDTH, y + 64, label, [*grid, *parts, *footer])


def _titles() -> list[str]:
    return [
        text(20, 30, "How much faster than its peer is each call?", INK, "bold", size=14),
        text(WIDTH - 20, 24, "blue: mgrec is faster", FASTER, anchor="end", size=11),
        text(WIDTH - 20, 38, "orange: its peer is", SLOWER, anchor="end", size=11),
    ]


def _place(times: float) -> float:
    share = math.log(times / LEAST) / math.log(MOST / LEAST)
    return LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0)


def _bar(call: Call, y: float) -> list[str]:
    """From 1, to the right where mgrec is faster and to the left where its peer is."""
    times, spread, one = call.times, call.spread, _place(1.0)
    end = _place(times)
    parts = [
        text(20, y + 12, call.words, INK),
        text(246, y + 12, call.peer, INK),
        box(min(one, end), y + 1, abs(end - one), FASTER if times >= 1 else SLOWER),
    ]
    furthest = max(end, one)
    if spread is not None:
        low, high = map(_place, spread)
        furthest = max(furthest, high)
        parts.append(whisker(low, high, y))
    # Beside the end that is further from the names of peers.
    figure = f"{times:.2g}" if times < 10 else f"{times:.0f}"
    return [*parts, text(furthest + 6, y + 12, figure, INK)]
