"""One grid over two workers of a cluster, GPUs or processes on a CPU: a table, and an alignment.

The summed-area table is in 4 rows of chunks, each worker with one half of the columns, so that
all but the first and last of its chunks run beside those of the other; one call on one worker has
half of the image. Of one pair of sequences every worker has a part of the query, and the target
comes in more and more chunks; one call on one worker has the whole pair. The target is the query
with every tenth letter drawn anew.

usage: python -m benchmarks.dask.grids [--cluster local|cuda] [--workers N] [--side N]
                                       [--letters N] [--out FOLDER] [--machine NAME]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, wait

import mgrec

from ..harness.clock import Times
from ..harness.command import run
from ..harness.study import Study
from .scaling import cluster as on

ROWS, COLUMNS, REPETITIONS = 4, (8, 16, 32), 5
SCORES = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2}
EFFICIENCY, SPEEDUP = 0.7, 1.7
"""Least ones, of a table and of a pair on two GPUs."""


def letters(kind: str, which: str, size: int, begin: int = 0, end: int | None = None) -> Any:
    """A part of the query or of the target, in the memory of its worker."""
    codes = np.random.default_rng(0).integers(0, 4, size, dtype=np.uint8)
    if which == "target":
        generator = np.random.default_rng(1)
        others = generator.integers(0, 4, size, dtype=np.uint8)
        codes = np.where(generator.random(size) < 0.1, others, codes)
    return _placed(kind, codes[begin:end])


def _placed(kind: str, array: np.ndarray) -> Any:
    if kind == "local":
        return array.copy()
    import cupy

    return cupy.asarray(array)


def sequence(
    client: Client, kind: str, which: str, size: int, count: int, addresses: list[str]
) -> da.Array:
    """A sequence in chunks on the workers in turn, in runs."""
    ends = [size * k // count for k in range(count + 1)]
    name, keys = f"operand-{next(on.NUMBERS)}", {}
    for k in range(count):
        keys[name, k] = client.submit(
            letters, kind, which, size, ends[k], ends[k + 1], key=(name, k),
            workers=[addresses[k * len(addresses) // count]],
        )  # fmt: skip
    wait(list(keys.values()))
    meta = _placed(kind, np.empty(0, np.uint8))
    return da.Array(keys, name, (tuple(np.diff(ends).tolist()),), meta=meta)


def one_table(kind: str, shape: tuple[int, int]) -> list[float]:
    """Seconds of calls for an image in the memory of one worker."""
    image = on.fill(kind, (0,), shape, -1.0, 1.0)
    out = np.empty_like(image)
    return _seconds(kind, partial(mgrec.summed_area_table, image, dtype="f4", out=out))[1]


def one_pair(kind: str, size: int, output: str) -> tuple[Any, list[float]]:
    """The result, and seconds, of calls for a pair in the memory of one worker."""
    pair = [letters(kind, which, size) for which in ("query", "target")]
    return _seconds(kind, partial(mgrec.smith_waterman, *pair, output=output, **SCORES))


def _seconds(kind: str, call: Callable[[], Any]) -> tuple[Any, list[float]]:
    seconds = []
    for _ in range(REPETITIONS + 1):
        on.synchronise(kind)
        start = time.perf_counter()
        result = call()
        on.synchronise(kind)
        seconds.append(time.perf_counter() - start)
    return result, seconds[1:]


def image(client: Client, kind: str, side: int, addresses: list[str]) -> da.Array:
    chunks = ((side // ROWS,) * ROWS, (side // len(addresses),) * len(addresses))
    return on.operand(client, kind, chunks, addresses, -1.0, 1.0)


def check_table(client: Client, kind: str, addresses: list[str]) -> float:
    """The largest deviation from NumPy's sums in float64, relative to their largest."""
    small = image(client, kind, 64 * len(addresses), addresses)
    table, values = (
        _to_host(array.compute()).astype(float)
        for array in (mgrec.summed_area_table(small, dtype="f4"), small)
    )
    wanted = values.cumsum(0).cumsum(1)
    return float(abs(table - wanted).max() / abs(wanted).max())


def _to_host(array: Any) -> np.ndarray:
    return np.asarray(array.get() if hasattr(array, "get") else array)


def measure_table(study: Study, client: Client, kind: str, side: int, own: list[str]) -> None:
    deviation = check_table(client, kind, own)
    assert deviation < 1e-5, deviation
    study.notes["largest relative deviation of a small table"] = deviation
    share = side, side // len(own)
    case = f"summed-area table, {side:,} x {side:,}, float32"
    about = {"steps": side * share[1], "bytes": 8 * side * share[1]}
    first = Times(tuple(client.submit(one_table, kind, share).result()))
    study.add(case, "one worker's share, one call", first, **about)
    x = image(client, kind, side, own)
    on.transfers(client)
    both = Times(
        on.times(
            client, kind, lambda: mgrec.summed_area_table(x, dtype="f4").persist(), REPETITIONS
        )
    )
    moved, of_operands = on.transfers(client)
    about = {"steps": side * side, "bytes": 8 * side * side}
    about |= {"bytes_across": moved // (REPETITIONS + 1), "operand_bytes_across": of_operands}
    study.add(case, f"{len(own)} workers, {ROWS * len(own)} chunks", both, **about)
    study.ratio(f"{case}: one call for a share over all", first, both, EFFICIENCY)


def measure_pair(study: Study, client: Client, kind: str, size: int, own: list[str]) -> None:
    for output in ("score", "alignment"):
        case = f"{size:,} x {size:,} letters, {output}"
        found, seconds = client.submit(one_pair, kind, size, output).result()
        first, all_times = Times(tuple(seconds)), []
        study.add(case, "one worker, one call", first, steps=size**2)
        query = sequence(client, kind, "query", size, len(own), own)
        for columns in COLUMNS:
            target = sequence(client, kind, "target", size, columns, own)

            def call(query: Any = query, target: Any = target, output: str = output) -> Any:
                best = mgrec.smith_waterman(query, target, output=output, **SCORES)
                return client.compute(list(best) if output == "score" else [best])

            results = client.gather(call())
            assert found == (tuple(results) if output == "score" else results[0])
            on.transfers(client)
            all_times.append(Times(on.times(client, kind, call, REPETITIONS)))
            moved = on.transfers(client)[0] // (REPETITIONS + 1)
            name = f"{len(own)} workers, {len(own)} x {columns} chunks"
            study.add(case, name, all_times[-1], steps=size**2, bytes_across=moved)
        if output == "score":
            best = min(all_times, key=lambda times: times.median)
            study.ratio(f"{case}: one worker over {len(own)}", first, best, SPEEDUP)


def measure(study: Study, arguments: argparse.Namespace) -> None:
    kind = arguments.cluster
    with on.open_cluster(kind, arguments.workers) as cluster, Client(cluster) as client:
        own = sorted(client.nthreads())
        study.memory = f"{len(own)} workers"
        size = min(arguments.side**2, 1 << 28)
        study.bandwidth = on.copy_bandwidth(client, kind, size, own)
        measure_table(study, client, kind, arguments.side, own)
        client.run(on.free, kind)
        measure_pair(study, client, kind, arguments.letters, own)


def draw(record: dict[str, Any]) -> Any:
    raise SystemExit("this study has no picture")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cluster", choices=("local", "cuda"), default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--side", type=int, default=1 << 16, help="of the image")
    parser.add_argument("--letters", type=int, default=400_000, help="of either sequence")
    run("grids-dask", measure, draw, parser)
