"""The figure of weak and strong scaling, ``.readme/scaling.svg``.

Times are divided by the best call of one GPU on the same number of steps a GPU (weak scaling), or
on all steps (strong scaling), in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from .rows import newest
from .svg import FASTER, FOLDER, INK, SLOWER, box, card, text, tick, whisker

PATH = FOLDER / "scaling.svg"
WIDTH, LEFT, RIGHT, TOP, ROW = 740, 250, 640, 84, 22
MOST = 4.0
SCALING, QUEUED = "scaling-h200-2", "queued-h200-2"


@dataclass(frozen=True)
class Solve:
    """One bar: times divided by the base.

    `times` is the median, `kernels` the part of it in which GPUs compute, `spread` the least and
    the largest time, and `ideal` what perfect scaling would be.
    """

    words: str
    times: float
    kernels: float
    spread: tuple[float, float]
    ideal: float = 1.0

    @property
    def efficiency(self) -> float:
        return self.ideal / self.times


def measured(words: str, case: str, candidate: str, ideal: float = 1.0) -> Solve:
    """Return a solve of the study of scaling."""
    number = partial(newest(SCALING).number, case, candidate)
    least, largest, median, kernels = (
        number(key) / number("one_call") for key in ("min", "max", "median", "kernels")
    )
    return Solve(words, median, min(kernels, median), (least, largest), ideal)


def queued(words: str, case: str) -> Solve:
    """Return a solve of the study of queued solves. All but the one call's time is overhead."""
    result = newest(QUEUED)
    base = result.number(case, "one worker's part, one call", "median")
    keys = ("min", "max", "median")
    least, largest, median = (result.number(case, "plan, queued", key) / base for key in keys)
    return Solve(words, median, 1.0, (least, largest))


def groups() -> dict[str, list[Solve]]:
    weak, strong = "bar, one sequence, arrays", "strong, one sequence, arrays"
    return {
        "Weak scaling: 2³² steps on each GPU": [
            measured("1 GPU, a plan", weak, "1 workers, plan"),
            measured("2 GPUs, a plan", weak, "2 workers, plan"),
            queued("2 GPUs, plan, queued (2³¹ steps)", "arrays, 2^31"),
            measured("2 GPUs, mgrec.dask.solve", weak, "2 workers, solve"),
            measured("2 GPUs, a Dask graph", weak, "2 workers"),
        ],
        "Strong scaling: 2³² steps on all GPUs together": [
            measured("2 GPUs, a plan", strong, "2 workers, plan", 1 / 2),
            measured("2 GPUs, mgrec.dask.solve", strong, "2 workers, solve", 1 / 2),
            measured("2 GPUs, a Dask graph", strong, "2 workers", 1 / 2),
        ],
    }


def draw() -> str:
    title = "How long does a solve take, in units of the best call of one GPU?"
    parts = [text(20, 30, title, INK, "bold", size=14), *_legend()]
    y = float(TOP)
    for heading, solves in groups().items():
        parts.append(text(20, y + 12, heading, INK, "bold"))
        parts.append(text(WIDTH - 20, y + 12, "efficiency", INK, anchor="end"))
        y += 26
        for solve in solves:
            parts += _bar(solve, y)
            y += ROW
        y += 12
    grid = [tick(_place(k), TOP + 20, y, str(k), is_solid=k == 1) for k in range(5)]
    machine, date = newest(SCALING).machine, newest(SCALING).date
    notes = (
        f"w = s·w + t, s and t float32 in memory, chunks of 2³⁰; {machine}, {date}.",
        "Medians of 7 solves after a pause, whiskers from the least to the largest; queued: 5",
        "times 20 solves. Black marks: perfect scaling. Overhead: launches, messages between",
        "workers, and the reply to the client.",
    )
    footer = [text(20, y + 38 + 15 * k, note, INK, size=11) for k, note in enumerate(notes)]
    return card(WIDTH, y + 96, "Weak and strong scaling on two GPUs", [*grid, *parts, *footer])


def _legend() -> list[str]:
    names = ((FASTER, "kernels"), (SLOWER, "overhead"))
    return [
        part
        for k, (colour, name) in enumerate(names)
        for part in (box(20 + 110 * k, 46, 14, colour), text(40 + 110 * k, 58, name, INK, size=11))
    ]


def _place(times: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(times, MOST) / MOST


def _bar(solve: Solve, y: float) -> list[str]:
    left, middle, right = map(_place, (0.0, solve.kernels, solve.times))
    return [
        text(20, y + 12, solve.words, INK),
        box(left, y + 1, middle - left, FASTER),
        box(middle, y + 1, right - middle, SLOWER),
        whisker(*map(_place, solve.spread), y),
        f'<path d="M{_place(solve.ideal):.1f},{y - 1:g} v18" stroke="{INK}" stroke-width="2"/>',
        text(WIDTH - 20, y + 12, f"{solve.efficiency:.2f}", INK, anchor="end"),
    ]
