"""One recurrence over all the workers of a cluster: GPUs, or processes on a CPU.

Strong and weak scaling of one sequence and of 64 rows, with constant and array coefficients, a
custom map and a filter of second order; what Dask takes beside the kernels; whether operands
moved; latency against chains of empty tasks and one map task a chunk; plans; da.cumsum as peer;
and a model of latency and bandwidth, fitted on what was measured.

usage: python benchmarks/scaling.py [--cluster local|cuda] [--workers N] [--small]
                                    [--parts PART ...] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import dask.array as da
import numpy as np
import scaling_cluster as on
import scaling_model as model
from distributed import Client
from record import Study, Times, run, save
from scaling_latency import measure_first, measure_latency
from scaling_picture import draw, stream
from scaling_simulation import simulate

import mgrec
import mgrec.dask
from mgrec.signal import lfilter

FILTER = ([0.2, 0.3, 0.2], [1.0, -0.6, 0.2])
CASES: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "constant": (lambda s, t: mgrec.linear_recurrence(0.5, t), 2),
    "arrays": (lambda s, t: mgrec.linear_recurrence(s, t), 3),
    "max-plus": (lambda s, t: mgrec.scan(mgrec.maps.max_plus, s, t, initial=np.float32(0)), 3),
    "filter, order 2": (lambda s, t: lfilter(*FILTER, t), 2),
}
PARTS = ("first", "check", "latency", "strong", "weak", "large", "peers", "simulation")
ROWS = 64


def sizes(arguments: argparse.Namespace) -> dict[str, int]:
    """Steps of a chunk; chunks of a worker, and in all for strong scaling; steps for the peers."""
    if arguments.small:
        return {"chunk": 1 << 12, "weak": 2, "large": 4, "strong": 4, "peer": 1 << 12}
    if arguments.cluster == "cuda":
        return {"chunk": 1 << 28, "weak": 4, "large": 16, "strong": 16, "peer": 1 << 30}
    return {"chunk": 1 << 22, "weak": 4, "large": 8, "strong": 8, "peer": 1 << 22}


def operands(client: Client, kind: str, rows: int, steps: int, chunks: int, own: list[str]) -> Any:
    cut: Any = ((steps // rows,) * chunks,)
    cut = cut if rows == 1 else ((rows,), *cut)
    s = on.operand(client, kind, cut, own, -0.5, 0.5)
    return s, on.operand(client, kind, cut, own, -1.0, 1.0)


def check(study: Study, client: Client, kind: str, addresses: list[str]) -> None:
    """Every case against a sequential loop in float64, before anything is timed."""
    for rows in (1, 4):
        s, t = operands(client, kind, rows, 4096, 3 * len(addresses), addresses)
        host = [np.asarray(to_host(a.compute()), np.float64).reshape(rows, -1) for a in (s, t)]
        for name, (solve, _) in CASES.items():
            got = to_host(solve(s, t).compute()).reshape(rows, -1)
            wanted = np.array([loop(name, *row) for row in zip(*host, strict=True)])
            worst = float(np.abs(got - wanted).max())
            study.notes[f"largest deviation, {name}, {rows} rows"] = worst
            assert worst < 1e-4, f"{name} deviates by {worst}"


def to_host(array: Any) -> np.ndarray:
    return array.get() if hasattr(array, "get") else array


def loop(name: str, s: np.ndarray, t: np.ndarray) -> list[float]:
    w, states, found = 0.0, [0.0, 0.0], []
    (b0, b1, b2), (_, a1, a2) = FILTER
    for a, b in zip(s, t, strict=True):
        if name == "filter, order 2":
            w = b0 * b + states[0]
            states = [b1 * b - a1 * w + states[1], b2 * b - a2 * w]
        elif name == "max-plus":
            w = max(a + w, b)
        else:
            w = (0.5 if name == "constant" else a) * w + b
        found.append(w)
    return found


def counts(workers: int) -> list[int]:
    """1, 2, 4, ... and all."""
    return sorted({*(1 << k for k in range(workers.bit_length())), workers})


def measure_scaling(
    study: Study, client: Client, arguments: argparse.Namespace, how: str, addresses: list[str]
) -> None:
    kind, size = arguments.cluster, sizes(arguments)
    first: dict[str, float] = {}
    for workers in counts(len(addresses)):
        own = addresses[:workers]
        bandwidth = on.copy_bandwidth(client, kind, size["chunk"], own)
        study.notes[f"copy bandwidth of {workers} workers, GB/s"] = round(bandwidth / 1e9, 1)
        for rows in (1, ROWS):
            chunks = size[how] * (1 if how == "strong" else workers)
            steps = chunks * size["chunk"]
            s, t = operands(client, kind, rows, size["chunk"], chunks, own)
            for name, (solve, words) in CASES.items():
                case = f"{how}, {'one sequence' if rows == 1 else f'{rows} rows'}, {name}"
                call = _call(solve, s, t)
                on.transfers(client, 4 * size["chunk"])
                seconds = Times(on.times(client, kind, call))
                moved, of_operands = on.transfers(client, 4 * size["chunk"])
                assert of_operands == 0, f"{of_operands} bytes of operands moved in {case}"
                alone = on.kernels(client, kind, _call(solve, s, t, is_lazy=True))
                base = first.setdefault(case, seconds.median)
                gain = base / seconds.median * (1 / workers if how == "strong" else 1)
                study.add(
                    case, f"{workers} workers", seconds, steps=steps, workers=workers,
                    chunks=chunks, tasks=2 * chunks, bytes=4 * words * steps, kernels=alone,
                    dask=None if alone is None else seconds.median - alone, efficiency=gain,
                    bytes_across=moved // 4,
                    copy_fraction=4 * words * steps / seconds.median / bandwidth,
                )  # fmt: skip
            del s, t, call


def _call(solve: Any, s: Any, t: Any, is_lazy: bool = False) -> Callable[[], Any]:
    return (lambda: solve(s, t)) if is_lazy else (lambda: solve(s, t).persist())


def measure_peers(
    study: Study, client: Client, arguments: argparse.Namespace, addresses: list[str]
) -> None:
    """A prefix sum by da.cumsum, on the same chunks in the same run."""
    kind, size = arguments.cluster, sizes(arguments)["peer"]
    chunks = len(addresses) * (1 if kind == "cuda" else 4)
    t = on.operand(client, kind, ((size,) * chunks,), addresses, -1.0, 1.0)
    case = f"prefix sum, {chunks} chunks of {size:,}"
    about = {"steps": size * chunks, "workers": len(addresses), "bytes": 8 * size * chunks}
    candidates = {
        "mgrec": lambda: mgrec.linear_recurrence(1.0, t).persist(),
        "da.cumsum, sequential": lambda: da.cumsum(t, axis=0, method="sequential").persist(),
        "da.cumsum, blelloch": lambda: da.cumsum(t, axis=0, method="blelloch").persist(),
    }
    if kind == "cuda":
        # It did not finish in four minutes over two chunks of 2^30 (anchors).
        study.miss(case, "da.cumsum, blelloch", "asked of small chunks alone")
        del candidates["da.cumsum, blelloch"]
    for name, call in candidates.items():
        study.add(case, name, Times(on.times(client, kind, call)), **about)


def sections(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[..., None]]]:
    yield "first", lambda study, client, own: measure_first(study, client, arguments.cluster, own)
    yield "check", lambda study, client, own: check(study, client, arguments.cluster, own)
    yield "latency", lambda study, client, own: measure_latency(study, client, arguments, own)
    for how in ("strong", "weak", "large"):
        yield (
            how,
            lambda study, client, own, how=how: measure_scaling(study, client, arguments, how, own),
        )
    yield "peers", lambda study, client, own: measure_peers(study, client, arguments, own)


def measure(study: Study, arguments: argparse.Namespace) -> None:
    if arguments.small:
        study.name += "-small"
    with on.open_cluster(arguments.cluster, arguments.workers) as cluster, Client(cluster) as own:
        mgrec.dask.pin_operands(own)
        addresses = sorted(own.scheduler_info(n_workers=-1)["workers"])
        size = sizes(arguments)["chunk"]
        study.memory = f"{len(addresses)} workers"
        study.bandwidth = on.copy_bandwidth(own, arguments.cluster, size, addresses)
        for name, section in sections(arguments):
            if name not in arguments.parts:
                continue
            start = time.perf_counter()
            try:
                section(study, own, addresses)
            except Exception as error:
                # What was measured before is worth keeping.
                study.miss(name, "the rest of this part", f"{type(error).__name__}: {error}")
            study.notes[f"seconds of part {name}"] = round(time.perf_counter() - start, 1)
            save(study.record(arguments.machine), arguments.out)
        if "strong" in arguments.parts:
            spans = stream(own, arguments, addresses, operands)
            seconds = Times((max((span["stop"] for span in spans), default=0.0) / 1e3,))
            study.add("task stream", "mgrec", seconds, spans=spans)
    conclude(study, arguments)
    if "simulation" in arguments.parts:
        for chunks in (1000,) if arguments.small else (10_000, 100_000):
            found = simulate(chunks)
            study.notes[f"scheduler alone, {chunks:,} chunks"] = found
            text = (
                f"{found['seconds_to_take']:.1f} s to take in, {found['seconds_to_run']:.1f} to run"
            )
            print(f"  the graph of {chunks:,} chunks on a scheduler alone: {text}", flush=True)


def conclude(study: Study, arguments: argparse.Namespace) -> None:
    """Fit the model on the rows of one sequence, and write down what it predicts."""
    rows = [row for row in study.cases if "tasks" in row and "one sequence" in row["case"]]
    if len(rows) >= 3:
        fitted = study.notes["model"] = model.fit(rows)
        if fitted["median_error"] > model.WORST or not np.isfinite(fitted["bandwidth"]):
            study.miss("predictions", "model", "it does not fit what was measured")
            return
        chunks = sizes(arguments)["large"]
        steps = sizes(arguments)["chunk"] * chunks
        study.notes["predictions"] = model.predictions(fitted, steps, chunks=chunks)


parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--cluster", choices=("local", "cuda"), default="local")
parser.add_argument("--workers", type=int, help="all GPUs, or two processes, where not given")
parser.add_argument("--small", action="store_true", help="sizes that tests and CI can bear")
parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))

if __name__ == "__main__":
    run("scaling", measure, draw, parser)
