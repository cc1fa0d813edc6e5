"""Recurrences on one GPU: checked, then timed against the floor of memory traffic.

The floor is the least traffic a case needs at the bandwidth of a device-to-device
copy measured in the same run; *fraction* is floor time over measured time.

usage: python benchmarks/cuda_scan.py [CASE ...] [--layouts] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from mgrec.backends.cuda.compilation import Device, compile_kernel
from mgrec.backends.cuda.determine import prepare
from mgrec.backends.cuda.precompute import prepare_precompute
from mgrec.backends.cuda.sources import describe
from mgrec.backends.cuda.tuning import column_layout, row_layout
from mgrec.phases.chunk import Chunk, CoefficientOperand
from mgrec.phases.fingerprint import StepFunction
from mgrec.phases.transfer_map import TransferMap
from mgrec.recurrences import maps

REPEATS = 15


@dataclass
class Case:
    """One row of the table: what runs, and the words a step must move."""

    name: str
    transfer_map: TransferMap
    shape: tuple[int, int, int]
    dtype: str
    words: int
    states: int = 1
    operands: str = "arrays"
    reverse: bool = False


def light_coefficient(i: Any) -> Any:
    return 0.9 - 1e-9 * i


CASES = [
    Case("affine f32", maps.affine, (1, 2**28, 1), "f4", 3),
    Case("affine f64", maps.affine, (1, 2**27, 1), "f8", 3),
    Case("constant f32", maps.affine, (1, 2**28, 1), "f4", 2, operands="constant"),
    Case("constant f64", maps.affine, (1, 2**27, 1), "f8", 2, operands="constant"),
    Case("on the fly f32", maps.affine, (1, 2**28, 1), "f4", 2, operands="computed"),
    Case("affine c64", maps.affine, (1, 2**27, 1), "c8", 3),
    Case("affine f32 reverse", maps.affine, (1, 2**28, 1), "f4", 3, reverse=True),
    Case("mobius f32", maps.mobius, (1, 2**27, 1), "f4", 5),
    Case("matrix2 f32", maps.matrix2, (1, 2**26, 1), "f4", 8, states=2),
    Case("max_plus f32", maps.max_plus, (1, 2**28, 1), "f4", 3),
    Case("constant f32 reverse", maps.affine, (1, 2**28, 1), "f4", 2, 1, "constant", True),
    Case("one row of 65,536 f32", maps.affine, (1, 2**16, 1), "f4", 3),
    Case("precompute f32", maps.affine, (1, 2**28, 1), "f4", 2, 0),
    Case("precompute f64", maps.affine, (1, 2**27, 1), "f8", 2, 0),
    Case("precompute 2,048 x 32,768 f32", maps.affine, (2048, 32768, 1), "f4", 2, 0),
    Case("precompute axis 0", maps.affine, (1, 32768, 2048), "f4", 2, 0),
    Case("2,048 x 32,768 f32", maps.affine, (2048, 32768, 1), "f4", 3),
    Case("1,000,000 x 64 f32", maps.affine, (1_000_000, 64, 1), "f4", 3),
    Case("32,768 x 2,048 axis 0", maps.affine, (1, 32768, 2048), "f4", 3),
    Case("64 x 1,000,000 axis 0", maps.affine, (1, 64, 1_000_000), "f4", 3),
]
# Threads, items, stages and blocks a multiprocessor.
LAYOUTS = {
    "affine f32": [(224, 36, 1), (224, 44, 1), (224, 28, 2)],
    "affine f64": [(224, 22, 1), (224, 18, 2)],
    "constant f32": [(224, 68, 1), (224, 60, 2)],
    "constant f64": [(224, 34, 1), (224, 42, 1)],
    "64 x 1,000,000 axis 0": [(128, 8, 2, 4)],
}  # fmt: skip


def draw(rng: cupy.random.Generator, shape: tuple[int, ...], dtype: str, scale: float) -> Any:
    values = cupy.empty(shape, dtype)
    real = values.view(values.real.dtype).reshape(-1)
    for first in range(0, real.size, 2**26):
        part = real[first : first + 2**26]
        part[:] = rng.random(part.size, dtype=part.dtype) * (2 * scale) - scale
    return values


def build(case: Case, seed: int) -> tuple[Chunk, tuple[Any, ...]]:
    rng = cupy.random.default_rng(seed)
    dtype = np.dtype(case.dtype)
    arity = {"affine": 2, "max_plus": 2, "mobius": 4, "matrix2": 6}[case.transfer_map.name]
    operands: list[Any] = [draw(rng, case.shape, case.dtype, 0.7) for _ in range(arity)]
    if case.operands != "arrays":
        operands[0] = draw(rng, (1, 1, 1), case.dtype, 0.7)
    if case.operands == "computed":
        operands[0] = CoefficientOperand(StepFunction(light_coefficient), 0)
    if case.transfer_map is maps.mobius:
        operands[0] += 2
        operands[3] += 3
    rows = (case.shape[0], case.shape[2])
    entry = tuple(draw(rng, rows, case.dtype, 1.0) for _ in range(max(case.states, 1)))
    return Chunk(tuple(operands), case.shape, dtype, case.reverse), entry


def residual(case: Case, chunk: Chunk, entry: tuple[Any, ...], results: tuple[Any, ...]) -> float:
    """Largest deviation of any step from its own recurrence, relative to the step's terms."""
    worst = 0.0
    steps = case.shape[1]
    piece = max(1, 2**25 // (case.shape[0] * case.shape[2]))
    for first in range(0, steps, piece):
        part = slice(first, min(first + piece, steps))
        values = [_at(operand, part) for operand in chunk.operands]
        before = []
        for w, start in zip(results, entry, strict=True):
            edge = start[:, None, :]
            if case.reverse:
                after = w[:, part.stop : part.stop + 1] if part.stop < steps else edge
                before.append(cupy.concatenate([w[:, first + 1 : part.stop], after], axis=1))
            else:
                last = w[:, first - 1 : first] if first else edge
                before.append(cupy.concatenate([last, w[:, first : part.stop - 1]], axis=1))
        state = tuple(before) if case.states > 1 else before[0]
        wanted = case.transfer_map.apply(case.transfer_map.lift(*values), state)
        wanted = wanted if case.states > 1 else (wanted,)
        for w, x, y in zip(results, wanted, before, strict=True):
            error = cupy.abs(w[:, part] - x) / (1 + cupy.abs(x) + cupy.abs(y))
            peak = float(error.max())
            worst = peak if not peak <= worst else worst
    return worst


def _at(operand: Any, part: slice) -> Any:
    if isinstance(operand, CoefficientOperand):
        index = cupy.arange(part.start, part.stop) + operand.first
        return operand.function.function(index)[None, :, None]
    return operand[:, part] if operand.shape[1] > 1 else operand


def median_time(run: Callable[[], Any]) -> float:
    """Return seconds of one call on the device."""
    for _ in range(3):
        run()
    times = []
    for _ in range(REPEATS):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    return float(np.median(times))


def queued_time(run: Callable[[], Any], count: int = 40) -> float:
    """Return seconds of one of many calls that wait in the device's queue."""
    blocker = cupy.zeros(2**31, cupy.uint8)
    run()
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(6):  # about 8 ms, while the host queues the calls
        blocker += cupy.uint8(1)
    start.record()
    for _ in range(count):
        run()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop) / 1e3 / count)


def report_latency() -> None:
    """Print the time of one short row against empty launches of as many kernels."""
    case = next(case for case in CASES if case.name == "one row of 65,536 f32")
    chunk, entry = build(case, 0)
    results = (cupy.empty(case.shape, case.dtype),)
    run = prepare(case.transfer_map, chunk, entry, results)
    text = 'extern "C" __global__ void empty(int* x) {}'
    kernel = compile_kernel(text, "empty")
    space = cupy.zeros(1, cupy.int32)

    def empty() -> None:
        kernel(8, 288, (space,), 0)
        kernel(1, 64, (space,), 0, False)

    for name, call in (("one row of 65,536", run), ("empty launches", empty)):
        print(f"queued: {name} {queued_time(call) * 1e6:.2f} us")


def copy_bandwidth() -> float:
    source = cupy.zeros(2**30, cupy.uint8)
    source[:] = 7
    target = cupy.empty_like(source)
    size = source.nbytes
    seconds = median_time(lambda: target.data.copy_from_device_async(source.data, size))
    return 2 * size / seconds


def measure(case: Case, layouts: list[Any], bandwidth: float) -> Iterator[dict[str, Any]]:
    chunk, entry = build(case, seed=len(case.name))
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
                run = prepare_precompute(case.transfer_map, chunk, maps_out, layout)
                maps_out.view(cupy.uint8)[:] = 0xFF
                run()
                first = maps_out.copy()
                run()
                row["same"] = bool((first == maps_out).all())
                prepare(case.transfer_map, chunk, entry, results)()
                last = case.transfer_map.apply(tuple(maps_out), entry[0])
                row["residual"] = float(cupy.abs(last - results[0][:, -1]).max())
            else:
                run = prepare(case.transfer_map, chunk, entry, results, layout)
                for w in results:
                    w.view(cupy.uint8)[:] = 0xFF
                run()
                row["residual"] = residual(case, chunk, entry, results)
                prepare(case.transfer_map, chunk, entry, again, layout)()
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
    parser.add_argument("--out")
    arguments = parser.parse_args()
    bandwidth = copy_bandwidth()
    name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    print(f"{name}, CuPy {cupy.__version__}, copy {bandwidth / 1e12:.3f} TB/s")
    report_latency()
    rows = []
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
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump({"device": name, "bandwidth": bandwidth, "rows": rows}, file, indent=1)
    sys.exit(any("error" in row or not row.get("same") for row in rows))


if __name__ == "__main__":
    main()
