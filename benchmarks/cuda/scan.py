"""Recurrences on one GPU: checked, then timed against the floor of memory traffic.

The floor is the least traffic a case needs at the bandwidth of a device-to-device
copy measured in the same run; *fraction* is floor time over measured time.

usage: python -m benchmarks.cuda.scan [CASE ...] [--layouts] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from mgrec.engines.cuda.compilation import compile_kernel
from mgrec.engines.cuda.device import Device
from mgrec.scans import maps
from mgrec.scans.cuda.determine import prepare
from mgrec.scans.cuda.layouts import column_layout, row_layout
from mgrec.scans.cuda.phases import prepare_precompute
from mgrec.scans.cuda.program import describe

from .cases import CASES, Case, build, residual
from .clock import copy_bandwidth, median_time, queued_time, record_of, store

# Threads, items, stages and blocks a multiprocessor.
LAYOUTS = {
    "affine f32": [(224, 36, 1), (224, 44, 1), (224, 28, 2)],
    "affine f64": [(224, 22, 1), (224, 18, 2)],
    "constant f32": [(224, 68, 1), (224, 60, 2)],
    "constant f64": [(224, 34, 1), (224, 42, 1)],
    "64 x 1,000,000 axis 0": [(128, 8, 2, 4)],
    "summary f32": [(224, 36, 3), (256, 36, 2), (352, 20, 2), (352, 20, 3), (224, 20, 2, 2)],
    "summary f64": [(224, 18, 3), (352, 10, 3), (224, 10, 2, 2)],
    "summary f32, |s| < 1.4": [(224, 36, 3), (352, 20, 3), (224, 20, 2, 2)],
    "summary f64, |s| < 1.4": [(352, 10, 3), (224, 10, 2, 2)],
}  # fmt: skip


def report_latency() -> dict[str, float]:
    """Microseconds of one short row, and of empty launches of as many kernels."""
    case = next(case for case in CASES if case.name == "one row of 65,536 f32")
    chunk, carry_in = build(case, 0)
    results = (cupy.empty(case.shape, case.dtype),)
    run = prepare(case.transfer_map, chunk, carry_in, results)
    text = 'extern "C" __global__ void empty(int* x) {}'
    kernel = compile_kernel(text, "empty")
    space = cupy.zeros(1, cupy.int32)

    def empty() -> None:
        kernel(8, 288, (space,), 0)
        kernel(1, 64, (space,), 0, False)

    calls = {"one row of 65,536 float32": run, "as many empty launches": empty}
    found = {name: round(queued_time(call) * 1e6, 2) for name, call in calls.items()}
    print(f"queued, microseconds: {found}")
    return found


def measure(case: Case, layouts: list[Any], bandwidth: float) -> Iterator[dict[str, Any]]:
    chunk, carry_in = build(case, seed=len(case.name))
    count = max(case.states, 1)
    results, again = (
        tuple(cupy.empty(case.shape, case.dtype) for _ in range(count)) for _ in range(2)
    )
    maps_out = cupy.empty((len(case.transfer_map.identity), *chunk.row_shape), case.dtype)
    floor = case.words * np.dtype(case.dtype).itemsize * float(np.prod(case.shape)) / bandwidth
    for sizes in layouts:
        row: dict[str, Any] = {"case": case.name, "layout": _short(sizes)}
        try:
            layout = None
            if sizes:
                choose = row_layout if case.shape[2] == 1 else column_layout
                layout = choose(chunk, describe(chunk), Device.current(), *sizes)
            if case.states == 0:
                run = prepare_precompute(case.transfer_map, chunk, (), (maps_out,), layout)
                maps_out.view(cupy.uint8)[:] = 0xFF
                run()
                first = maps_out.copy()
                run()
                row["same"] = bool((first == maps_out).all())
                prepare(maps.affine, chunk, carry_in, results)()
                last = case.transfer_map.apply(tuple(maps_out), carry_in[0])
                row["residual"] = float(cupy.abs(last - results[0][:, -1]).max())
            else:
                run = prepare(case.transfer_map, chunk, carry_in, results, layout)
                for w in results:
                    w.view(cupy.uint8)[:] = 0xFF
                run()
                row["residual"] = residual(case, chunk, carry_in, results)
                prepare(case.transfer_map, chunk, carry_in, again, layout)()
                row["same"] = all(
                    bool((x.view(cupy.uint32) == y.view(cupy.uint32)).all())
                    for x, y in zip(results, again, strict=True)
                )
            seconds = median_time(run)
            row |= {"ms": seconds * 1e3, "fraction": floor / seconds}
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {str(error)[:600]}"
        yield row


def _short(sizes: tuple[int, ...] | None) -> str:
    return "chosen" if sizes is None else "x".join(str(size) for size in sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--layouts", action="store_true")
    parser.add_argument("--out", type=Path, help="folder of the result, or its file")
    arguments = parser.parse_args()
    bandwidth = copy_bandwidth()
    name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    print(f"{name}, CuPy {cupy.__version__}, copy {bandwidth / 1e12:.3f} TB/s")
    queued = report_latency()
    rows: list[dict[str, Any]] = []
    for case in CASES:
        if arguments.cases and not any(word in case.name for word in arguments.cases):
            continue
        layouts: list[Any] = [None]
        if arguments.layouts:
            tried = LAYOUTS.get(case.name, [])
            layouts += tried
        for row in measure(case, layouts, bandwidth):
            rows.append(row)
            print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}"
                           for k, v in row.items()), flush=True)  # fmt: skip
        cupy.get_default_memory_pool().free_all_blocks()
    record = record_of("cuda_scan", name, bandwidth, rows, queued_microseconds=queued)
    store(record, arguments.out)
    sys.exit(any("error" in row or not row.get("same") for row in rows))


if __name__ == "__main__":
    main()
