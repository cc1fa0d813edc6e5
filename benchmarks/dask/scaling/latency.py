"""The time of a solve without its kernels: chains of empty tasks, maps, plans, the first solve."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client

import mgrec
import mgrec.dask

from ...harness.clock import Times
from ...harness.study import Study
from . import cluster as on
from .kernels import kernels, one_call

CHUNKS = (2, 8, 32, 128, 256)
SHORT = 1024
OVER = 2.5
"""Milliseconds."""


def measure_latency(study: Study, client: Client, arguments: Any, addresses: list[str]) -> None:
    kind = arguments.cluster
    repetitions = 3 if arguments.small else 9
    chain = on.times(client, kind, on.empty_chain(client), repetitions)
    study.add("latency", "chain of three empty tasks", chain)
    study.add("latency", "one empty task", on.times(client, kind, on.empty_chain(client, 1)))
    few = CHUNKS[:2] if arguments.small else CHUNKS
    for chunks in few:
        _measure_chunks(study, client, kind, chunks, SHORT, addresses, chain, repetitions)
    large = {"cuda": (1 << 29, 1 << 30), "local": (1 << 22,)}[kind]
    for size in (1 << 12,) if arguments.small else large:
        _measure_chunks(study, client, kind, len(addresses), size, addresses, chain, repetitions)
    if kind == "cuda" and not arguments.small:
        _judge_plan(study, client, addresses, large[0])


def _judge_plan(study: Study, client: Client, addresses: list[str], size: int) -> None:
    """What a plan over a chunk a worker takes beside one call on one chunk."""
    alone = one_call(client, "cuda", addresses[0], "arrays", 1, size)
    case = f"{len(addresses)} chunks of {size:,}, persisted"
    study.add(case, "one call on one chunk", alone)
    plan = {row["candidate"]: row for row in study.cases if row["case"] == case}["plan"]
    over = 1e3 * (plan["median"] - alone.median), 1e3 * (plan["min"] - alone.best)
    text = f"{case}: milliseconds of a plan over one call on one chunk"
    study.bar(text, *over, OVER, is_least=False)


def measure_first(study: Study, client: Client, kind: str, addresses: list[str]) -> None:
    """The first and second solve, cold, and in another dtype after warm_up."""
    for name, dtype in (("cold", np.float32), ("after warm_up", np.float64)):
        t = on.operand(client, kind, ((5000,) * len(addresses),), addresses, 0.0, 1.0)
        t = client.persist(t.astype(dtype))
        if name == "after warm_up":
            start = time.perf_counter()
            mgrec.dask.warm_up(mgrec.linear_recurrence, t, t, client=client)
            study.add("first solve", "warm_up itself", Times((time.perf_counter() - start,)))
        for number in ("first", "second"):
            start = time.perf_counter()
            result = mgrec.linear_recurrence(t, t, float(number == "first")).persist()
            on.wait(result)
            client.run(on.synchronise, kind)
            seconds = Times((time.perf_counter() - start,))
            study.add("first solve", f"{name}, {np.dtype(dtype)}, {number}", seconds)


def _measure_chunks(
    study: Study,
    client: Client,
    kind: str,
    chunks: int,
    size: int,
    addresses: list[str],
    chain: Times,
    repetitions: int,
) -> None:
    case = f"{chunks} chunks of {size:,}, persisted"
    cut = ((size,) * chunks,)
    s, t = (on.operand(client, kind, cut, addresses, low, 0.5) for low in (-0.5, -1.0))
    np_initial = iter(range(1, 10**6))
    calls: dict[str, Callable[[], Any]] = {
        # Another initial state each time: else the scheduler would find the result by its key.
        "mgrec": lambda: mgrec.linear_recurrence(s, t, np.float32(next(np_initial))).persist(),
        "one map task a chunk": lambda: da.map_blocks(
            np.multiply, s, t, name=f"map-{next(on.NUMBERS)}", meta=t._meta
        ).persist(),
    }
    alone = kernels(client, kind, lambda: mgrec.linear_recurrence(s, t))
    times = {name: on.times(client, kind, c, repetitions) for name, c in calls.items()}
    on.transfers(client)
    solve = partial(mgrec.dask.solve, mgrec.linear_recurrence, s, t, client=client)
    times["solve"] = on.times(client, kind, solve, repetitions)
    with mgrec.plan(mgrec.linear_recurrence, s, t, client=client) as plan:
        times["plan"] = on.times(client, kind, plan, repetitions)
        times["plan, another initial"] = on.times(
            client, kind, lambda: plan(initial=np.float32(next(np_initial))), repetitions
        )
    moved, of_operands = on.transfers(client)
    study.notes[f"bytes that Dask moved for plans, {case}"] = moved
    assert of_operands == 0, f"{of_operands} bytes of operands moved in {case}"
    for name, each in times.items():
        study.add(case, name, each, kernels=alone)
    for name, wanted in (("mgrec", 1.3), ("plan", 0.5)):
        if chunks == len(addresses):
            text = f"{case}: {name} over three empty tasks and the kernels"
            floor = Times(tuple(each + alone for each in chain.seconds))
            study.ratio(text, times[name], floor, wanted, is_least=False)
    if chunks == CHUNKS[-1]:
        for name in ("solve", "mgrec"):
            text = f"{case}: {name} over one map task a chunk"
            study.ratio(text, times[name], times["one map task a chunk"], 1.25, is_least=False)
