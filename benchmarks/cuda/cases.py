"""What the CUDA studies run: cases, operands, and the check that results are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import TransferMap
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.scans import maps
from mgrec.scans.summaries import guarded_affine


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
    largest: float = 0.7
    """Largest size of the operands, drawn evenly from both signs."""


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
    Case("summary f32, |s| < 1.4", guarded_affine(np.dtype("f4")), (1, 2**28, 1), "f4", 2, 0,
         largest=1.4),
    Case("summary f64, |s| < 1.4", guarded_affine(np.dtype("f8")), (1, 2**27, 1), "f8", 2, 0,
         largest=1.4),
    Case("summary axis 0", guarded_affine(np.dtype("f4")), (1, 32768, 2048), "f4", 2, 0),
    Case("precompute 2,048 x 32,768 f32", maps.affine, (2048, 32768, 1), "f4", 2, 0),
    Case("precompute axis 0", maps.affine, (1, 32768, 2048), "f4", 2, 0),
    Case("2,048 x 32,768 f32", maps.affine, (2048, 32768, 1), "f4", 3),
    Case("1,000,000 x 64 f32", maps.affine, (1_000_000, 64, 1), "f4", 3),
    Case("32,768 x 2,048 axis 0", maps.affine, (1, 32768, 2048), "f4", 3),
    Case("64 x 1,000,000 axis 0", maps.affine, (1, 64, 1_000_000), "f4", 3),
]  # fmt: skip


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
    return Chunk(tuple(operands), case.shape, dtype, case.reverse), carry_in


def residual(
    case: Case, chunk: Chunk, carry_in: tuple[Any, ...], results: tuple[Any, ...]
) -> float:
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
