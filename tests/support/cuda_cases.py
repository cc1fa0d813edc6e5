"""What the tests of the CUDA kernels share: a plain loop, operands, layouts and comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import TransferMap
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.scans import maps


def loop(transfer_map: TransferMap, operands: Any, carry_in: Any, shape: Any, reverse: bool) -> Any:
    """Run a recurrence a step at a time, all rows at once."""
    states = tuple(carry_in)
    results = [np.empty(shape, w.dtype) for w in carry_in]
    order = range(shape[1])
    for i in reversed(order) if reverse else order:
        step = transfer_map.lift(*(x[:, i if x.shape[1] > 1 else 0] for x in operands))
        after = transfer_map.apply(step, states if len(states) > 1 else states[0])
        states = after if isinstance(after, tuple) else (after,)
        for w, state in zip(results, states, strict=True):
            w[:, i] = state
    return results


def draw(rng: Any, shape: Any, dtype: str, scale: float = 0.9) -> Any:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-100, 100, shape).astype(dtype)
    values = rng.uniform(-scale, scale, shape)
    if np.dtype(dtype).kind == "c":
        values = 0.7 * (values + 1j * rng.uniform(-scale, scale, shape))
    return values.astype(dtype)


def solve(
    transfer_map: TransferMap,
    chunk: Chunk,
    carry_in: Any,
    layout: Any = None,
    sms: int | None = None,
) -> list[Any]:
    """Determine into memory full of 0xFF, which is nan, with a layout and a grid of one's own."""
    import cupy

    from mgrec.scans.cuda.determine import prepare

    results = tuple(cupy.empty(chunk.shape, chunk.dtype) for _ in carry_in)
    for w in results:
        w.view(cupy.uint8)[...] = 0xFF
    prepare(transfer_map, chunk, tuple(map(cupy.asarray, carry_in)), results, layout, sms)()
    return [w.get() for w in results]


def assert_close(transfer_map: TransferMap, results: Any, wanted: Any) -> None:
    for got, reference in zip(results, wanted, strict=True):
        kind, steps = got.dtype.kind, got.shape[1]
        tolerance = 0 if kind == "i" else 300 * np.finfo(got.dtype).eps
        if transfer_map.name.endswith("plus"):
            # A run's map holds the sum of its steps, a random walk of up to sqrt(steps).
            tolerance *= 1 + steps**0.5
        reference = reference.astype(got.dtype)
        error = np.abs(got - reference) / (1 + np.abs(reference) if tolerance else 1)
        assert error.max() <= tolerance, (got.shape, got.dtype, error.max(), np.argmax(error))


def check(
    transfer_map: TransferMap, operands: Any, shape: Any, dtype: str, states: int, reverse: bool,
    layout: Any = None, sms: int | None = None,
) -> None:  # fmt: skip
    import cupy

    rng = np.random.default_rng(5)
    carry_in = [draw(rng, (shape[0], shape[2]), dtype) for _ in range(states)]
    chunk = Chunk(tuple(map(cupy.asarray, operands)), shape, np.dtype(dtype), reverse)
    results = solve(transfer_map, chunk, carry_in, layout, sms)
    wide = {"f": "f8", "c": "c16", "i": "i8"}[np.dtype(dtype).kind]
    wanted = loop(
        transfer_map, [x.astype(wide) for x in operands], [w.astype(wide) for w in carry_in],
        shape, reverse,
    )  # fmt: skip
    assert_close(transfer_map, results, wanted)


def small_layout(kind: str, shape: Any, dtype: str, reverse: bool) -> Any:
    """Tiles so small that rows of a few thousand steps have many, and groups of 32 of them."""
    from mgrec.scans.cuda.program import Layout

    vector, steps = 16 // np.dtype(dtype).itemsize, shape[1]
    items = 3 * vector
    flags = {"reverse": reverse, "segmented": shape[0] > 1, "crowded": steps < items}
    return {
        "bulk rows": Layout(64, items, 2, bulk=True, **flags),
        "staged rows": Layout(64, items, 2, staged=True, **flags),
        "direct rows": Layout(64, items, 1, **flags),
        "columns": Layout(96, 4, 2, reverse=reverse),
        "teams of columns": Layout(96, 4, 2, reverse=reverse, team=3),
        "columns read late": Layout(96, 4, 0, reverse=reverse, team=2),
        "walked rows": Layout(32, 4 * vector, 2, reverse=reverse, walking=True,
                              bulk=steps % vector == 0),
        "walked columns": Layout(32, 4, 3, reverse=reverse, walking=True),
    }[kind]  # fmt: skip


KINDS = ["bulk rows", "staged rows", "direct rows", "columns", "teams of columns",
         "columns read late", "walked rows", "walked columns"]  # fmt: skip


@dataclass
class Operand:
    """Shape and dtype of an array that no kernel reads, well aligned."""

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]

    @property
    def data(self) -> Operand:
        return self

    @property
    def ptr(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


def wave(i: Any, x: Any) -> Any:
    return 0.5 + 0.4 * np.sin(0.001 * i) * x


def chunk_of(name: str, dtype: str, shape: tuple[int, int, int], reverse: bool) -> Any:
    kind = np.dtype(dtype)
    full, constant = Operand(shape, kind), Operand((1, 1, 1), kind)
    row = Operand((shape[0], 1, shape[2]), kind)
    operands: dict[str, Any] = {
        "affine": (maps.affine, [full, full]),
        "constant": (maps.affine, [constant, full]),
        "computed": (maps.affine, [CoefficientOperand(StepFunction(wave), 0, (row,)), full]),
        "mobius": (maps.mobius, [full] * 4),
        "max_plus": (maps.max_plus, [full] * 2),
        "matrix2": (maps.matrix2, [full] * 6),
    }
    transfer_map, arrays = operands[name]
    return transfer_map, Chunk(tuple(arrays), shape, kind, reverse)
