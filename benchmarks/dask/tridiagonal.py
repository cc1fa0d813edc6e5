"""One tridiagonal system over all the workers of a cluster: GPUs, or processes on a CPU.

*dominant* systems forget their ends within a chunk, *random* ones too, but need pivoting. Beside
the ways of solving them in chunks stand one call for the share of one worker, on one array, and
the chunks solved each as a system of its own, which is the work that nothing can be without.

usage: python -m benchmarks.dask.tridiagonal [--cluster local|cuda] [--workers N] [--unknowns N]
                                             [--chunks N] [--out FOLDER] [--machine NAME]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client

import mgrec
import mgrec.dask

from ..harness.clock import Times
from ..harness.command import run
from ..harness.study import Study
from .scaling import cluster as on

# Of d, where the entries of dl and du are from -1 to 1.
DIAGONALS = {"dominant": (2.5, 3.5), "random": (-1.0, 1.0)}
BARS = {"cuda": 0.70, "local": 1 / 1.3}
"""Least efficiency: of a plan against one call on a GPU, of a graph against its chunks alone."""


def system(
    client: Client, arguments: argparse.Namespace, addresses: list[str], kind: str
) -> list[da.Array]:
    """dl, d, du and b in chunks on the workers in turn."""
    count = arguments.chunks * len(addresses)
    cut = ((arguments.unknowns // arguments.chunks,) * count,)
    sides = (-1.0, 1.0)
    ranges = (sides, DIAGONALS[kind], sides, sides)
    return [
        on.operand(client, arguments.cluster, cut, addresses, *each, seed)
        for seed, each in enumerate(ranges)
    ]


def one_call(cluster: str, unknowns: int, kind: str) -> float:
    """Seconds of one call for a system in the memory of one worker."""
    ranges = ((-1.0, 1.0), DIAGONALS[kind], (-1.0, 1.0), (-1.0, 1.0))
    operands = [on.fill(cluster, (k,), (unknowns,), *each) for k, each in enumerate(ranges)]
    seconds = []
    for _ in range(6):
        on.synchronise(cluster)
        start = time.perf_counter()
        mgrec.solve_tridiagonal(*operands)
        on.synchronise(cluster)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1:]))


def each_alone(operands: list[da.Array]) -> Any:
    """Every chunk as a system of its own."""
    meta = operands[0]._meta
    return da.map_blocks(mgrec.solve_tridiagonal, *operands, dtype=meta.dtype, meta=meta).persist()


def check(client: Client, arguments: argparse.Namespace, addresses: list[str], kind: str) -> float:
    """The largest residual of a row, relative to the largest sum of a row's terms."""
    small = argparse.Namespace(cluster=arguments.cluster, unknowns=1 << 14, chunks=4)
    operands = system(client, small, addresses, kind)
    x = mgrec.solve_tridiagonal(*operands)
    dl, d, du, b, x = (_to_host(a.compute()).astype(float) for a in (*operands, x))
    rest, size = d * x - b, abs(d * x) + abs(b)
    rest[1:] += dl[1:] * x[:-1]
    rest[:-1] += du[:-1] * x[1:]
    return float(abs(rest).max() / size.max())


def _to_host(array: Any) -> np.ndarray:
    return np.asarray(array.get() if hasattr(array, "get") else array)


def compare(
    study: Study, client: Client, arguments: argparse.Namespace, addresses: list[str], kind: str
) -> None:
    deviation = check(client, arguments, addresses, kind)
    assert deviation < 1e-4, (kind, deviation)
    study.notes[f"largest relative residual, {kind}"] = deviation
    operands = system(client, arguments, addresses, kind)
    unknowns = arguments.unknowns * len(addresses)
    workers = f"{len(addresses)} workers"
    case = f"{kind}, {arguments.unknowns:,} unknowns a worker in {arguments.chunks} chunks"
    # Its future is not kept: the clock waits until the cluster has forgotten what ran before.
    seconds = client.submit(one_call, arguments.cluster, arguments.unknowns, kind).result()
    about = {"steps": unknowns, "bytes": 20 * unknowns}
    first = Times((seconds,))
    study.add(case, "one worker's share, one call", first, **about | {"steps": arguments.unknowns})
    calls: dict[str, Callable[[], Any]] = {
        "each chunk alone": lambda: each_alone(operands),
        "graph": lambda: mgrec.solve_tridiagonal(*operands).persist(),
        "solve": lambda: mgrec.dask.solve(mgrec.solve_tridiagonal, *operands, client=client),
    }
    found: dict[str, Times] = {}
    for name, call in calls.items():
        on.transfers(client)
        found[name] = Times(on.times(client, arguments.cluster, call, 5))
        moved, of_operands = on.transfers(client)
        about |= {"bytes_across": moved // 6, "operand_bytes_across": of_operands}
        study.add(case, f"{workers}, {name}", found[name], **about)
    with mgrec.plan(mgrec.solve_tridiagonal, *operands, client=client) as plan:
        found["plan"] = Times(on.times(client, arguments.cluster, plan, 5))
        study.add(case, f"{workers}, plan", found["plan"], **about)
    if arguments.cluster == "cuda":
        study.ratio(f"{case}: one call over a plan of all", first, found["plan"], BARS["cuda"])
    else:
        chunks = found["each chunk alone"]
        study.ratio(f"{case}: chunks alone over the graph", chunks, found["graph"], BARS["local"])


def measure(study: Study, arguments: argparse.Namespace) -> None:
    with (
        on.open_cluster(arguments.cluster, arguments.workers) as cluster,
        Client(cluster) as client,
    ):
        mgrec.dask.pin_operands(client)
        addresses = sorted(client.nthreads())
        study.memory = f"{len(addresses)} workers"
        size = min(arguments.unknowns, 1 << 28)
        study.bandwidth = on.copy_bandwidth(client, arguments.cluster, size, addresses)
        for kind in DIAGONALS:
            compare(study, client, arguments, addresses, kind)
            client.run(on.free, arguments.cluster)
    moved = sum(row.get("operand_bytes_across", 0) for row in study.cases)
    study.bar("bytes of operands that moved between workers", moved, moved, 0, is_least=False)


def draw(record: dict[str, Any]) -> Any:
    raise SystemExit("this study has no picture")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cluster", choices=("local", "cuda"), default="local")
    parser.add_argument("--workers", type=int, help="all GPUs, or two processes, if not given")
    parser.add_argument("--unknowns", type=int, default=10**8, help="of one worker")
    parser.add_argument("--chunks", type=int, default=32, help="of one worker")
    run("tridiagonal-dask", measure, draw, parser)
