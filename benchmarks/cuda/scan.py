"""Kernels of recurrences on one GPU: checked, then timed against the floor of memory traffic.

The floor is the least traffic that a case needs; *fraction* is floor time over measured time. With
``--layouts`` other sizes of tiles than those that mgrec chooses are tried, too. These kernels,
among them summaries of chunks, have no public function: this study calls mgrec's internals.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import cupy
import numpy as np

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import TransferMap
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.engines.cuda.compilation import compile_kernel
from mgrec.engines.cuda.device import Device
from mgrec.scans import maps
from mgrec.scans.cuda.determine import prepare
from mgrec.scans.cuda.layouts import column_layout, row_layout
from mgrec.scans.cuda.phases import prepare_precompute
from mgrec.scans.cuda.program import describe
from mgrec.scans.summaries import guarded_affine

from ..harness.clock import median_time, queued_time
from .candidates import draw
from .fractions import OPTIONS, Row, is_named, run


@dataclass(frozen=True)
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
    largest: float = 0.7
    """Largest size of the operands, drawn evenly from both signs."""
    layout: tuple[int, ...] | None = None
    """Threads, items, stages and blocks a multiprocessor."""


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
    # The summary of a Dask chunk: products with exponents, and whether it can be trusted.
    Case("summary f32", guarded_affine(np.dtype("f4")), (1, 2**28, 1), "f4", 2, 0),
    Case("summary f64", guarded_affine(np.dtype("f8")), (1, 2**27, 1), "f8", 2, 0),
    Case("summary f32, |s| < 1.4", guarded_affine(np.dtype("f4")), (1, 2**28, 1), "f4", 2, 0, largest=1.4),
    Case("summary f64, |s| < 1.4", guarded_affine(np.dtype("f8")), (1, 2**27, 1), "f8", 2, 0, largest=1.4),
    Case("summary axis 0", guarded_affine(np.dtype("f4")), (1, 32768, 2048), "f4", 2, 0),
    Case("precompute 2,048 x 32,768 f32", maps.affine, (2048, 32768, 1), "f4", 2, 0),
    Case("precompute axis 0", maps.affine, (1, 32768, 2048), "f4", 2, 0),
    Case("2,048 x 32,768 f32", maps.affine, (2048, 32768, 1), "f4", 3),
    Case("1,000,000 x 64 f32", maps.affine, (1_000_000, 64, 1), "f4", 3),
    Case("32,768 x 2,048 axis 0", maps.affine, (1, 32768, 2048), "f4", 3),
    Case("64 x 1,000,000 axis 0", maps.affine, (1, 64, 1_000_000), "f4", 3),
]
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
}


def with_layouts(cases: list[Case]) -> Iterator[Case]:
    for case in cases:
        yield case
        yield from (replace(case, layout=sizes) for sizes in LAYOUTS.get(case.name, ()))


def is_chosen(case: Case, arguments: Namespace) -> bool:
    return is_named(case, arguments) and (arguments.layouts or case.layout is None)


def build(case: Case) -> tuple[Chunk, tuple[Any, ...]]:
    rng = cupy.random.default_rng(len(case.name))
    arity = {"mobius": 4, "matrix2": 6}.get(case.transfer_map.name, 2)
    operands: list[Any] = [draw(rng, case.shape, case.dtype, case.largest) for _ in range(arity)]
    if case.operands != "arrays":
        operands[0] = draw(rng, (1, 1, 1), case.dtype, 0.7)
    if case.operands == "computed":
        operands[0] = CoefficientOperand(StepFunction(light_coefficient), 0)
    if case.transfer_map is maps.mobius:
        operands[0] += 2
        operands[3] += 3
    rows = (case.shape[0], case.shape[2])
    carry_in = tuple(draw(rng, rows, case.dtype, 1.0) for _ in range(max(case.states, 1)))
    return Chunk(tuple(operands), case.shape, np.dtype(case.dtype), case.reverse), carry_in


def residual(case: Case, chunk: Chunk, carry_in: tuple[Any, ...], results: tuple[Any, ...]) -> float:
    """Largest deviation of any step from its own recurrence, relative to the step's terms."""
    worst = 0.0
    steps = case.shape[1]
    piece = max(1, 2**25 // (case.shape[0] * case.shape[2]))
    for first in range(0, steps, piece):
        part = slice(first, min(first + piece, steps))
        values = [_at(operand, part) for operand in chunk.operands]
        before = []
        for w, start in zip(results, carry_in, strict=True):
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


def report_latency() -> Row:
    """Microseconds of one short row, and of empty launches of as many kernels."""
    case = next(case for case in CASES if case.name == "one row of 65,536 f32")
    run = prepare(case.transfer_map, *build(case), (cupy.empty(case.shape, case.dtype),))
    text = 'extern "C" __global__ void empty(int* x) {}'
    kernel = compile_kernel(text, "empty")
    space = cupy.zeros(1, cupy.int32)

    def empty() -> None:
        kernel(8, 288, (space,), 0)
        kernel(1, 64, (space,), 0, False)

    calls = {"one row of 65,536 float32": run, "as many empty launches": empty}
    found = {name: round(queued_time(call) * 1e6, 2) for name, call in calls.items()}
    print(f"queued, microseconds: {found}")
    return {"queued_microseconds": found}


def measure(case: Case, bandwidth: float) -> Iterator[Row]:
    layout = "x".join(map(str, case.layout)) if case.layout else "chosen"
    row: Row = {"case": case.name, "layout": layout}
    try:
        call, about = prepare_and_check(case)
        seconds = median_time(call)
        size = np.dtype(case.dtype).itemsize * float(np.prod(case.shape))
        floor = case.words * size / bandwidth
        row |= {**about, "ms": seconds * 1e3, "fraction": floor / seconds}
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {str(error)[:600]}"
    yield row


def prepare_and_check(case: Case) -> tuple[Any, Row]:
    """The launch of a case, its largest error, and whether two runs have the same bits."""
    chunk, carry_in = build(case)
    layout = None
    if case.layout:
        choose = row_layout if case.shape[2] == 1 else column_layout
        layout = choose(chunk, describe(chunk), Device.current(), *case.layout)
    results = tuple(cupy.empty(case.shape, case.dtype) for _ in range(max(case.states, 1)))
    if case.states:
        outputs = results
        call = prepare(case.transfer_map, chunk, carry_in, results, layout)
    else:
        size = (len(case.transfer_map.identity), *chunk.row_shape)
        outputs = (cupy.empty(size, case.dtype),)
        call = prepare_precompute(case.transfer_map, chunk, (), outputs, layout)
    runs = []
    for _ in range(2):
        for array in outputs:
            array.view(cupy.uint8)[:] = 0xFF
        call()
        runs.append([array.copy() for array in outputs])
    pairs = zip(*runs, strict=True)
    same = all(bool((x.view(cupy.uint8) == y.view(cupy.uint8)).all()) for x, y in pairs)
    if case.states:
        error = residual(case, chunk, carry_in, results)
    else:
        prepare(maps.affine, chunk, carry_in, results)()
        last = case.transfer_map.apply(tuple(outputs[0]), carry_in[0])
        error = float(cupy.abs(last - results[0][:, -1]).max())
    return call, {"same": same, "residual": error}


if __name__ == "__main__":
    run(
        "cuda_scan",
        __doc__,
        with_layouts(CASES),
        measure,
        lambda row: "error" in row or not row.get("same"),
        report_latency,
        options=OPTIONS | {"--layouts": {"action": "store_true"}},
        is_chosen=is_chosen,
    )
