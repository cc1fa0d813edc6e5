"""The time of a solve on a cluster of any size: a model of Dask's share, added to measured kernels.

One solve takes::

    latency + asking + longer + (1 - overlap) * shorter
    longer, shorter = the larger and the smaller of (kernels + worker * tasks / workers,
                                                     scheduler * tasks)

Workers run kernels while the scheduler serves others: with `overlap` 1 the slower of the two
hides the other, with 0 they take turns. What kernels take is measured, or follows from the
bandwidth of a copy (:func:`kernels_of`); the five other terms are fitted, within bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from mgrec.distributed.graph.chains import LARGEST_PERSISTED
from mgrec.distributed.graph.packed import FEW, batch_size

WORST = 0.25
"""Median relative error above which a model predicts nothing."""
OUTLIER = 0.1
"""Relative error above which a row counts by its distance, not by the square."""


@dataclass(frozen=True)
class Model:
    """Seconds of the rounds of a solve, and of a task without its kernel.

    `latency` are the rounds that any solve takes, `asking` is to ask the scheduler where chunks
    lie, which graphs of `FEW` chunks or more do. `scheduler` and `worker` are one task on the
    scheduler, which serves all workers, and on its worker. `overlap` is the part of the shorter of
    the two that the longer one hides.
    """

    latency: float
    asking: float
    scheduler: float
    worker: float
    overlap: float

    def seconds(self, row: dict[str, Any]) -> float:
        """Seconds of a solve: its `kernels` in seconds, `tasks`, `workers`, and whether it asks."""
        works = row["kernels"] + self.worker * row["tasks"] / row["workers"]
        serves = self.scheduler * row["tasks"]
        hidden = self.overlap * min(works, serves)
        return self.latency + self.asking * row["is_asking"] + works + serves - hidden


BOUNDS = Model(0.2, 0.2, 0.02, 0.02, 1.0)
"""The largest values; the smallest are 0."""


def fit(rows: Sequence[dict[str, Any]]) -> Model:
    """Least squares of relative errors, of terms within bounds; outliers count less."""
    most = np.array(astuple(BOUNDS))
    # Where all rows ask, or none does, the latency covers it.
    most[1] *= len({row["is_asking"] for row in rows}) == 2

    def errors(scaled: np.ndarray) -> list[float]:
        model = Model(*(scaled * most))
        return [model.seconds(row) / row["median"] - 1 for row in rows]

    starts = product((0.1,), (0.03,), (0.01, 0.1), (0.001, 0.05), (0.1, 0.9))
    options: dict[str, Any] = {"bounds": (0, 1), "loss": "soft_l1", "f_scale": OUTLIER}
    options |= {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12, "max_nfev": 100}
    found = [least_squares(errors, start, **options) for start in starts]
    best = min(found, key=lambda each: each.cost)
    return Model(*map(float, best.x * most))


def errors_of(model: Model, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The median and the largest relative error of a model."""
    found = [abs(model.seconds(row) / row["median"] - 1) for row in rows]
    middle, worst = (round(float(each), 6) for each in (np.median(found), max(found)))
    return {"median": middle, "worst": worst, "rows": len(found)}


def describe(model: Model) -> dict[str, float]:
    """Four digits, to the nanosecond."""
    return {name: round(float(f"{value:.4g}"), 9) for name, value in asdict(model).items()}


def shares(chunks: int, workers: int) -> list[int]:
    """Chunks of each worker, which lie in runs."""
    return np.bincount([k * workers // chunks for k in range(chunks)], minlength=workers).tolist()


def asked(chunks: int, workers: int) -> list[int]:
    """Chunks of each worker whose summary is needed: all but the last chunk."""
    own = shares(chunks, workers)
    return [*own[:-1], max(0, own[-1] - 1)]


def tasks(chunks: int, workers: int, has_states: bool = True) -> int:
    """Tasks of the graph over persisted chunks, for workers of one thread.

    Whole rows that begin without states are one task a chunk.
    """
    if chunks == 1 and not has_states:
        return 1
    runs = chunks - 1
    if chunks >= FEW:
        runs = sum(-(-n // batch_size(n)) for n in asked(chunks, workers))
    return chunks + runs + -(-chunks // LARGEST_PERSISTED)


def kernels_of(
    words: tuple[int, int], chunk: int, chunks: int, workers: int, launch: float, bandwidth: float
) -> float:
    """Seconds of the kernels of the busiest worker, of so many chunks of `chunk` steps in all.

    `words` are those a step that a precomputation reads, 0 if chunks are speculative, and that a
    determination reads and writes. The phases of a chunk that has no steps take `launch` seconds;
    the `bandwidth` in bytes a second is that of one worker's kernels.
    """
    pairs = zip(asked(chunks, workers), shares(chunks, workers), strict=True)
    summaries, wholes = max(pairs, key=lambda pair: words[0] * pair[0] + words[1] * pair[1])
    traffic = 4 * chunk * (words[0] * summaries + words[1] * wholes)
    return launch * wholes + traffic / bandwidth
