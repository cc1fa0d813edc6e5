"""Implicit time steps of the heat equation in a box over the workers of a cluster.

A step solves tridiagonal systems along each of the three axes, one after the other (Yanenko 1971).
The first axis is split over the workers, in a loop with `group=`: 20 steps without a message of the
client. One worker steps through its part in as many calls. Matrices are numbers, or arrays of the
size of the box, as where the conductivity varies. The first axis, too, is solved by one reading of the
operands where heat does not come from one end of a part to the other.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np

import mgrec
import mgrec.dask

from ..harness.clock import of_slowest, seconds_on_rank
from ..harness.command import Command, Options
from ..harness.study import Study
from .scaling import cluster as on

RATE = 0.4  # of diffusion: dt / h²
STEPS, REPETITIONS = 20, 5
MATRICES = {"numbers": 2, "arrays": 5}
"""Words that a solve along an axis moves for each point, at least."""


def step(u: Any, *diagonals: Any, group: Any = None) -> Any:
    """Return the temperatures after a step; the box is cold outside."""
    dl, d, du = diagonals or (-RATE, 1 + 2 * RATE, -RATE)
    for axis in (2, 1):
        u = mgrec.solve_tridiagonal(dl, d, du, u, axis=axis)
    return mgrec.solve_tridiagonal(dl, d, du, u, axis=0, group=group)


def loop(u: Any, *diagonals: Any, group: Any, kind: str) -> list[float]:
    """Seconds of steps on a rank."""
    call = partial(step, u, *diagonals, group=group)
    return seconds_on_rank(group, call, STEPS, REPETITIONS, partial(on.synchronise, kind))


def operands(matrix: str) -> list[tuple[float, float]]:
    """Ranges of u, and of the diagonals if they are arrays."""
    side = (-RATE, -0.8 * RATE)
    diagonals = [side, (1 + 1.8 * RATE, 1 + 2 * RATE), side]
    return [(0.0, 1.0), *(diagonals if matrix == "arrays" else [])]


def one_worker(kind: str, shape: tuple[int, int, int], dtype: str, matrix: str) -> Any:
    """Times of a step through one worker's part, in its memory."""
    parts = [on.fill(kind, (k,), shape, *ends, dtype) for k, ends in enumerate(operands(matrix))]
    try:
        return on.times_here(kind, partial(step, *parts), REPETITIONS)
    finally:
        del parts
        on.free(kind)


def compare(study: Study, client: Any, own: list[str], arguments: Any, dtype: str, matrix: str) -> None:
    kind, side = arguments.cluster, arguments.side
    shape, word = (side, side, side), np.dtype(dtype).itemsize
    case = f"{side}³ points of {dtype} a worker, matrices of {matrix}"
    moved = {"bytes": 3 * MATRICES[matrix] * word * side**3}
    first = client.submit(one_worker, kind, shape, dtype, matrix, workers=own[:1]).result()
    study.add(case, "one worker's part, calls", first, **moved)
    chunks = ((side,) * len(own),)
    parts = [
        on.operand(client, kind, chunks, own, *ends, seed, (side, side), dtype)
        for seed, ends in enumerate(operands(matrix))
    ]
    together = of_slowest(mgrec.dask.run(loop, *parts, client=client, kind=kind))
    study.add(case, f"{len(own)} workers, loop", together, **moved)
    study.ratio(f"{case}: one worker over {len(own)}", first, together, 0.85)


def check(client: Any, own: list[str], kind: str) -> float:
    """The largest difference of a step over all workers from one in host memory."""
    parts = [
        on.operand(client, kind, ((8,) * len(own),), own, *ends, seed, (6, 7), "f8")
        for seed, ends in enumerate(operands("arrays"))
    ]
    found = on.to_host(mgrec.dask.run(step, *parts, client=client).compute())
    return float(abs(found - step(*(on.to_host(part.compute()) for part in parts))).max())


def measure(study: Study, arguments: argparse.Namespace) -> None:
    with on.connect(study, arguments, arguments.side**3) as (client, own):
        deviation = check(client, own, arguments.cluster)
        assert deviation < 1e-14, deviation
        for dtype in ("f4", "f8"):
            for matrix in MATRICES:
                compare(study, client, own, arguments, dtype, matrix)
                client.run(on.free, arguments.cluster)


OPTIONS: Options = {
    **on.OPTIONS,
    "--workers": {"type": int, "default": 2},
    "--side": {"type": int, "default": 512, "help": "points of a worker along an axis"},
}

if __name__ == "__main__":
    Command("adi", __doc__, measure, options=OPTIONS).main()
