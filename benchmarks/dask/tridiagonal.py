"""One tridiagonal system over all the workers of a cluster: GPUs, or processes on a CPU.

*dominant* systems forget their ends within a chunk, *random* ones too, but need pivoting. Beside
the ways of solving them in chunks stand one call for the share of one worker, on one array, and
the chunks solved each as a system of its own, which is the work that nothing can be without.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import dask.array as da
from distributed import Client

import mgrec

from ..harness.clock import Call, Times
from ..harness.command import Command, Options
from ..harness.study import Study
from .scaling import cluster as on

# Of d, where the entries of dl and du are from -1 to 1.
SIDE = (-1.0, 1.0)
DIAGONALS = {"dominant": (2.5, 3.5), "random": SIDE}
BARS = {"cuda": 0.70, "local": 1 / 1.3}
"""Least efficiency: of a plan against one call on a GPU, of a graph against its chunks alone."""


def ranges(kind: str) -> tuple[tuple[float, float], ...]:
    """Of dl, d, du and b."""
    return SIDE, DIAGONALS[kind], SIDE, SIDE


def system(
    client: Client, cluster: str, addresses: list[str], kind: str, unknowns: int, chunks: int
) -> list[da.Array]:
    """dl, d, du and b in chunks on the workers in turn; numbers are those of one worker."""
    cut = ((unknowns // chunks,) * (chunks * len(addresses)),)
    return [
        on.operand(client, cluster, cut, addresses, *ends, seed) for seed, ends in enumerate(ranges(kind))
    ]


def one_call(cluster: str, unknowns: int, kind: str) -> float:
    """Seconds of one call for a system in the memory of one worker."""
    operands = [on.fill(cluster, (k,), (unknowns,), *ends) for k, ends in enumerate(ranges(kind))]
    return on.times_here(cluster, partial(mgrec.solve_tridiagonal, *operands), 5).median


def each_alone(operands: list[da.Array]) -> Any:
    """Every chunk as a system of its own."""
    meta = operands[0]._meta
    return da.map_blocks(mgrec.solve_tridiagonal, *operands, dtype=meta.dtype, meta=meta).persist()


def check(operands: list[da.Array]) -> float:
    """The largest residual of a row, relative to the largest sum of a row's terms."""
    x = mgrec.solve_tridiagonal(*operands)
    dl, d, du, b, x = (on.to_host(a.compute()).astype(float) for a in (*operands, x))
    rest, size = d * x - b, abs(d * x) + abs(b)
    rest[1:] += dl[1:] * x[:-1]
    rest[:-1] += du[:-1] * x[1:]
    return float(abs(rest).max() / size.max())


def compare(
    study: Study, client: Client, arguments: argparse.Namespace, addresses: list[str], kind: str
) -> None:
    cluster, unknowns, chunks = arguments.cluster, arguments.unknowns, arguments.chunks
    deviation = check(system(client, cluster, addresses, kind, 1 << 14, 4))
    assert deviation < 1e-4, (kind, deviation)
    study.notes[f"largest relative residual, {kind}"] = deviation
    operands = system(client, cluster, addresses, kind, unknowns, chunks)
    workers, steps = f"{len(addresses)} workers", unknowns * len(addresses)
    case = f"{kind}, {unknowns:,} unknowns a worker in {chunks} chunks"
    # Its future is not kept: the clock waits until the cluster has forgotten what ran before.
    first = Times((client.submit(one_call, cluster, unknowns, kind).result(),))
    about = {"steps": steps, "bytes": 20 * steps}
    study.add(case, "one worker's share, one call", first, **about | {"steps": unknowns})
    found: dict[str, Times] = {}

    def add(name: str, call: Call) -> None:
        found[name], across = on.times_and_transfers(client, cluster, call, 5)
        study.add(case, f"{workers}, {name}", found[name], **about | across)

    add("each chunk alone", lambda: each_alone(operands))
    for way in on.WAYS:
        with on.solving(client, way, mgrec.solve_tridiagonal, *operands) as call:
            add(way, call)
    if cluster == "cuda":
        study.ratio(f"{case}: one call over a plan of all", first, found["plan"], BARS["cuda"])
    else:
        alone = found["each chunk alone"]
        study.ratio(f"{case}: chunks alone over the graph", alone, found["graph"], BARS["local"])


def measure(study: Study, arguments: argparse.Namespace) -> None:
    with on.connect(study, arguments, arguments.unknowns) as (client, addresses):
        for kind in DIAGONALS:
            compare(study, client, arguments, addresses, kind)
            client.run(on.free, arguments.cluster)
    moved = sum(row.get("operand_bytes_across", 0) for row in study.cases)
    study.bar("bytes of operands that moved between workers", moved, moved, 0, is_least=False)


OPTIONS: Options = {
    **on.OPTIONS,
    "--unknowns": {"type": int, "default": 10**8, "help": "of one worker"},
    "--chunks": {"type": int, "default": 32, "help": "of one worker"},
}

if __name__ == "__main__":
    Command("tridiagonal-dask", __doc__, measure, options=OPTIONS).main()
