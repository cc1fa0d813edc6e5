"""When the workers ran which phase, from the scheduler's records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dask.utils import key_split

from ..placement.dask.tasks import keys

PHASES = tuple(phase for phase in keys.PHASES if phase != "pack")


@dataclass(frozen=True)
class Record:
    """One task: its phase, the number of the thread that ran it, and seconds from the first."""

    phase: str
    lane: int
    start: float
    stop: float


def read(stream: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Records of a task stream, as :func:`distributed.get_task_stream` collects it."""
    tasks = [
        (key_split(task["key"]), (task["worker"], task["thread"]), span["start"], span["stop"])
        for task in stream
        for span in task["startstops"]
        if span["action"] == "compute"
    ]
    lanes = {lane: number for number, lane in enumerate(sorted({task[1] for task in tasks}))}
    first = min((task[2] for task in tasks), default=0.0)
    return [Record(name, lanes[lane], a - first, b - first) for name, lane, a, b in tasks]


def seconds(records: Iterable[Record]) -> dict[str, float]:
    """Seconds of work in each phase but loading, all threads together."""
    total = dict.fromkeys(PHASES, 0.0)
    for record in records:
        if record.phase in total:
            total[record.phase] += record.stop - record.start
    return total
