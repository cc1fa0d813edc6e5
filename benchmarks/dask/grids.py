"""One grid over two workers of a cluster, GPUs or processes on a CPU: a table, and an alignment.

The summed-area table is in 4 rows of chunks, each worker with one half of the columns, so that
all but the first and last of its chunks run beside those of the other; one call on one worker has
half of the image. Of one pair of sequences every worker has a part of the query, and the target
comes in more and more chunks; one call on one worker has the whole pair. The target is the query
with every tenth letter drawn again. Each is solved by a graph, by `mgrec.dask.solve` and by a plan
that is built before; the best of these is judged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, wait

import mgrec
import mgrec.dask

from ..harness.clock import Call, Times
from ..harness.command import Command, Options
from ..harness.study import Study
from .scaling import cluster as on

ROWS, COLUMNS, REPETITIONS = 4, (2, 4, 8), 7
SCORES = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2}
OUTPUTS = "score", "alignment"
EFFICIENCY, SPEEDUP = 0.7, 1.7
"""Least ones, of a table and of a pair on two GPUs."""


def letters(kind: str, which: str, size: int, begin: int = 0, end: int | None = None) -> Any:
    """A part of the query or of the target, in the memory of its worker."""
    codes = np.random.default_rng(0).integers(0, 4, size, dtype=np.uint8)
    if which == "target":
        generator = np.random.default_rng(1)
        others = generator.integers(0, 4, size, dtype=np.uint8)
        codes = np.where(generator.random(size) < 0.1, others, codes)
    return on.library(kind).array(codes[begin:end])


def sequence(client: Client, kind: str, which: str, size: int, count: int, addresses: list[str]) -> da.Array:
    """A sequence in chunks on the workers in turn, in runs."""
    ends = [size * k // count for k in range(count + 1)]
    name, keys = f"operand-{next(on.NUMBERS)}", {}
    for k in range(count):
        keys[name, k] = client.submit(
            letters,
            kind,
            which,
            size,
            ends[k],
            ends[k + 1],
            key=(name, k),
            workers=[addresses[k * len(addresses) // count]],
        )
    wait(list(keys.values()))
    meta = on.library(kind).empty(0, np.uint8)
    return da.Array(keys, name, (tuple(np.diff(ends).tolist()),), meta=meta)


def one_table(kind: str, shape: tuple[int, int]) -> Times:
    """Times of calls for an image in the memory of one worker."""
    image = on.fill(kind, (0,), shape, -1.0, 1.0)
    out = np.empty_like(image)
    call = partial(mgrec.summed_area_table, image, dtype="f4", out=out)
    return on.times_here(kind, call, REPETITIONS)


def one_pair(kind: str, size: int, output: str) -> tuple[Any, Times]:
    """The result, and times, of calls for a pair in the memory of one worker."""
    pair, results = [letters(kind, which, size) for which in ("query", "target")], []
    align = partial(mgrec.smith_waterman, *pair, output=output, **SCORES)
    times = on.times_here(kind, lambda: results.append(align()), REPETITIONS)
    return results[-1], times


def image(client: Client, kind: str, side: int, addresses: list[str]) -> da.Array:
    chunks = ((side // ROWS,) * ROWS, (side // len(addresses),) * len(addresses))
    return on.operand(client, kind, chunks, addresses, -1.0, 1.0)


def check_table(client: Client, kind: str, addresses: list[str]) -> float:
    """The largest deviation from NumPy's sums in float64, relative to their largest.

    All ways have the same bits.
    """
    small = image(client, kind, 64 * len(addresses), addresses)
    values = on.to_host(small.compute()).astype(float)
    found = []
    for way in on.WAYS:
        with on.solving(client, way, mgrec.summed_area_table, small, dtype="f4") as call:
            found.append(on.to_host(call().compute()))
    first, *others = found
    assert all(np.array_equal(first, other) for other in others)
    wanted = values.cumsum(0).cumsum(1)
    return float(abs(first - wanted).max() / abs(wanted).max())


def measure_table(study: Study, client: Client, kind: str, side: int, own: list[str]) -> None:
    deviation = check_table(client, kind, own)
    assert deviation < 1e-5, deviation
    study.notes["largest relative deviation of a small table"] = deviation
    share = side, side // len(own)
    case = f"summed-area table, {side:,} x {side:,}, float32"
    about = {"steps": side * share[1], "bytes": 8 * side * share[1]}
    first = client.submit(one_table, kind, share).result()
    study.add(case, "one worker's share, one call", first, **about)
    x = image(client, kind, side, own)
    about = {"steps": side * side, "bytes": 8 * side * side}
    name = f"{len(own)} workers, {ROWS * len(own)} chunks"
    found = []
    for way in on.WAYS:
        with on.solving(client, way, mgrec.summed_area_table, x, dtype="f4") as call:
            found.append(measure_way(study, client, kind, case, f"{name}, {way}", call, **about))
    best = min(found, key=lambda times: times.median)
    study.ratio(f"{case}: one call for a share over all", first, best, EFFICIENCY)


def measure_way(
    study: Study, client: Client, kind: str, case: str, name: str, call: Call, **about: Any
) -> Times:
    times, across = on.times_and_transfers(client, kind, call, REPETITIONS)
    study.add(case, name, times, **about | across)
    return times


def measure_pair(
    study: Study, client: Client, kind: str, size: int, own: list[str], outputs: Sequence[str]
) -> None:
    for output in outputs:
        case = f"{size:,} x {size:,} letters, {output}"
        wanted, first = client.submit(one_pair, kind, size, output).result()
        study.add(case, "one worker, one call", first, steps=size**2)
        query, found = sequence(client, kind, "query", size, len(own), own), []
        for columns in COLUMNS:
            target = sequence(client, kind, "target", size, columns, own)
            name = f"{len(own)} workers, {len(own)} x {columns} chunks"
            for way in on.WAYS if output == "score" else on.WAYS[:1]:
                with aligning(client, way, query, target, output) as call:
                    assert wanted == call()
                    done, about = partial(_done, call), {"steps": size**2}
                    times = measure_way(study, client, kind, case, f"{name}, {way}", done, **about)
                    found.append(times)
        if output == "score":
            best = min(found, key=lambda times: times.median)
            study.ratio(f"{case}: one worker over {len(own)}", first, best, SPEEDUP)


def _done(call: Call) -> None:
    """Call what returns its result to the client: there is nothing to wait for then."""
    call()


@contextmanager
def aligning(client: Client, way: str, query: da.Array, target: da.Array, output: str) -> Iterator[Call]:
    """A call that aligns a pair; the results come to the client."""
    align = partial(mgrec.smith_waterman, query, target, output=output, **SCORES)
    if output == "alignment":
        yield lambda: align().compute()
    elif way == "graph":
        yield lambda: tuple(client.gather(client.compute(list(align()))))
    else:
        options = {"output": output, **SCORES}
        with on.solving(client, way, mgrec.smith_waterman, query, target, **options) as call:
            yield call


def measure(study: Study, arguments: argparse.Namespace) -> None:
    kind = arguments.cluster
    with on.connect(study, arguments, arguments.side**2, is_pinned=False) as (client, own):
        measure_table(study, client, kind, arguments.side, own)
        client.run(on.free, kind)
        measure_pair(study, client, kind, arguments.letters, own, arguments.outputs)


OPTIONS: Options = {
    **on.OPTIONS,
    "--workers": {"type": int, "default": 2},
    "--side": {"type": int, "default": 1 << 16, "help": "of the image"},
    "--letters": {"type": int, "default": 400_000, "help": "of either sequence"},
    "--outputs": {"nargs": "+", "choices": OUTPUTS, "default": OUTPUTS, "help": "of the pair"},
}

if __name__ == "__main__":
    Command("grids-dask", __doc__, measure, options=OPTIONS).main()
