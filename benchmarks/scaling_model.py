"""What a cluster of any size should take: a model fitted on what was measured.

One solve takes ``latency + task * tasks + bytes / (workers * bandwidth)``: rounds of the cluster,
what the scheduler spends a task, and memory traffic shared by all workers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WORST = 0.25
"""Median relative error above which a model predicts nothing."""


def fit(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Least squares of relative errors, of terms that are not negative.

    Parameters
    ----------
    rows : list of dict
        With ``median`` in seconds, ``tasks``, ``bytes`` and ``workers``.
    """
    seconds = np.array([row["median"] for row in rows])
    terms = np.array([[1.0, r["tasks"], r["bytes"] / r["workers"]] for r in rows])
    relative = terms / seconds[:, None]
    scale = np.linalg.norm(relative, axis=0)
    relative = relative / scale
    chosen = list(range(3))
    while True:
        found, *_ = np.linalg.lstsq(relative[:, chosen], np.ones(len(rows)), rcond=None)
        if (found >= 0).all() or len(chosen) == 1:
            break
        chosen.pop(int(np.argmin(found)))
    values = np.zeros(3)
    values[chosen] = np.maximum(found, 0)
    error = np.abs(relative @ values - 1)
    values = values / scale
    bandwidth = float("inf") if values[2] == 0 else 1 / values[2]
    return {
        "latency": float(values[0]),
        "task": float(values[1]),
        "bandwidth": float(bandwidth),
        "median_error": float(np.median(error)),
    }


def predict(model: dict[str, float], workers: int, tasks: int, traffic: float) -> float:
    """Seconds of a solve."""
    share = traffic / workers / model["bandwidth"]
    return model["latency"] + model["task"] * tasks + share


def predictions(
    model: dict[str, float], steps: int, bytes_a_step: int = 12, chunks: int = 4
) -> dict[str, dict[str, float]]:
    """Milliseconds and efficiency of weak scaling, for workers of `steps` steps each."""
    found: dict[str, dict[str, float]] = {}
    for workers in (1, 2, 8, 64, 1024):
        count = chunks * workers
        # A precomputation for eight chunks, a propagation for 128, a determination for each.
        tasks = count + -(-count // 8) + -(-count // 128)
        seconds = predict(model, workers, tasks, steps * workers * bytes_a_step)
        alone = found["1"]["milliseconds"] if found else seconds * 1e3
        found[str(workers)] = {
            "milliseconds": seconds * 1e3,
            "efficiency": alone / (seconds * 1e3),
        }
    return found
