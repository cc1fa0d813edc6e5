"""What the tests of the CUDA kernels share: a plain loop, operands, layouts and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import TransferMap
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.engines.cuda.device import Device
from mgrec.engines.cuda.launches import Slot
from mgrec.scans import maps
from mgrec.scans.matrix.recurrence import scalar_map

# By ten times the compute capability; Turing has the least shared memory.
DEVICES = {
    75: Device(75, 40, 64 * 1024),
    80: Device(80, 108, 163 * 1024),
    90: Device(90, 132, 227 * 1024),
    100: Device(100, 148, 227 * 1024),
}


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
    transfer_map: TransferMap, chunk: Chunk, carry_in: Any, layout: Any = None, sms: int | None = None
) -> list[Any]:
    """Determine into memory full of 0xFF, which is nan, with a layout and a grid of one's own."""
    import cupy

    from mgrec.scans.cuda.determine import prepare

    results = tuple(cupy.empty(chunk.shape, chunk.dtype) for _ in carry_in)
    for w in results:
        w.view(cupy.uint8)[...] = 0xFF
    prepare(transfer_map, chunk, tuple(map(cupy.asarray, carry_in)), results, layout, sms)()
    return [w.get() for w in results]


def determine(transfer_map: TransferMap, chunk: Chunk, carry_in: Any) -> tuple[Any, ...]:
    """Determine by launches that are prepared once for chunks of the same signature."""
    import cupy

    from mgrec.engines.cuda.launches import run_cached
    from mgrec.scans.cuda.determine import prepare

    results = tuple(cupy.empty(chunk.shape, chunk.dtype) for _ in carry_in)
    run_cached(prepare, transfer_map, chunk, carry_in, results)
    return results


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
    transfer_map: TransferMap,
    operands: Any,
    shape: Any,
    dtype: str,
    states: int,
    reverse: bool,
    layout: Any = None,
    sms: int | None = None,
) -> None:
    import cupy

    rng = np.random.default_rng(5)
    carry_in = [draw(rng, (shape[0], shape[2]), dtype) for _ in range(states)]
    chunk = Chunk(tuple(map(cupy.asarray, operands)), shape, np.dtype(dtype), reverse)
    results = solve(transfer_map, chunk, carry_in, layout, sms)
    wide = {"f": "f8", "c": "c16", "i": "i8"}[np.dtype(dtype).kind]
    wanted = loop(
        transfer_map, [x.astype(wide) for x in operands], [w.astype(wide) for w in carry_in], shape, reverse
    )
    assert_close(transfer_map, results, wanted)


def small_layout(kind: str, shape: Any, dtype: str, reverse: bool) -> Any:
    """Tiles so small that rows of a few thousand steps have many, and groups of 32 of them."""
    from mgrec.scans.cuda.program import ScanLayout

    vector, steps = 16 // np.dtype(dtype).itemsize, shape[1]
    items = 3 * vector
    # Tiles of 8 parts of 3 steps: of all channels, or of 32 bytes of each step.
    parts = -(-8 // vector) * vector

    def channels(count: int, **options: Any) -> ScanLayout:
        threads = -(-parts * count // 32) * 32
        given = {"bulk": True, "channels": count, "ahead": 2, "distance": 2, "reverse": reverse}
        return ScanLayout(threads, 3, **{"stages": 4, **given, **options})

    flags = {"reverse": reverse, "segmented": shape[0] > 1, "crowded": steps < items}
    return {
        "bulk rows": ScanLayout(64, items, 2, bulk=True, **flags),
        "staged rows": ScanLayout(64, items, 2, staged=True, **flags),
        "direct rows": ScanLayout(64, items, 1, **flags),
        "columns": ScanLayout(96, 4, 2, reverse=reverse),
        "teams of columns": ScanLayout(96, 4, 2, reverse=reverse, team=3),
        "columns read late": ScanLayout(96, 4, 0, reverse=reverse, team=2),
        "channels": channels(shape[2]),
        "channels read by threads": channels(shape[2], bulk=False),
        "channels of few stages": channels(shape[2], stages=3),
        "lines": channels(8, all_columns=shape[2], bulk=False),
        "teams of lines": channels(8, all_columns=shape[2], bulk=False, team=3, stages=3, distance=1),
        "lines read late": channels(8, all_columns=shape[2], bulk=False, team=2, stages=0),
        "walked rows": ScanLayout(32, 4 * vector, 2, reverse=reverse, walking=True, bulk=steps % vector == 0),
        "walked columns": ScanLayout(32, 4, 3, reverse=reverse, walking=True),
    }[kind]


KINDS = [
    "bulk rows",
    "staged rows",
    "direct rows",
    "columns",
    "teams of columns",
    "columns read late",
    "walked rows",
    "walked columns",
]


KINDS_OF_CHANNELS = [
    "channels",
    "channels read by threads",
    "channels of few stages",
    "lines",
    "teams of lines",
    "lines read late",
]


def wave(i: Any, x: Any) -> Any:
    return 0.5 + 0.4 * np.sin(0.001 * i) * x


def chunk_of(name: str, dtype: str, shape: tuple[int, int, int], reverse: bool) -> Any:
    kind = np.dtype(dtype)
    full, constant = Slot(0, shape, kind), Slot(0, (1, 1, 1), kind)
    row = Slot(0, (shape[0], 1, shape[2]), kind)
    operands: dict[str, Any] = {
        "affine": (maps.affine, [full, full]),
        "constant": (maps.affine, [constant, full]),
        "computed": (maps.affine, [CoefficientOperand(StepFunction(wave), 0, (row,)), full]),
        "mobius": (maps.mobius, [full] * 4),
        "max_plus": (maps.max_plus, [full] * 2),
        "matrix2": (maps.matrix2, [full] * 6),
        "matrix(4)": (scalar_map(maps.matrix(4)), [full] * 20),
    }
    transfer_map, arrays = operands[name]
    return transfer_map, Chunk(tuple(arrays), shape, kind, reverse)


def mobius_case(name: str, shape: Any) -> tuple[list[Any], float]:
    """Coefficients in float64 and an entry, by the steps that take the exact side of the map."""
    rng = np.random.default_rng(21)
    a, b, c, d = (rng.uniform(0.5, 2, shape) for _ in range(4))
    step = np.arange(shape[1])[None, :, None] + np.zeros(shape)
    power = 2.0 ** rng.integers(-90, 91, shape)
    zero = 0 * a
    return {
        "plain": ([a, b, c, d], 0.7),
        "from infinity": ([a, b, c, d], np.inf),
        # Columns of spans move so far apart that their products must be found exactly.
        "fixed at 0": ([2 + zero, zero, 1 + zero, 1 + zero], 0.0),
        "fixed at infinity": ([1 + zero, zero, zero, 2 + zero], np.inf),
        "scaled": ([a * power, b * power, c * power, d * power], 0.7),
        "poles": ([a, b, np.where(step % 97 == 5, 0, c), np.where(step % 97 == 5, 0, d)], 0.7),
        "nan": ([a, np.where(step == shape[1] // 2, np.nan, b), c, d], 0.7),
    }[name]


def loop_in_float64(transfer_map: Any, operands: Any, start: float, shape: Any, reverse: bool) -> Any:
    """The states of a loop over operands of float32 or float64, in their dtype."""
    carry_in = [np.full((shape[0], shape[2]), start)]
    with np.errstate(all="ignore"):
        wide = [x.astype("f8") for x in operands]
        return loop(transfer_map, wide, carry_in, shape, reverse)[0].astype(operands[0].dtype)


def long_formula(i: Any) -> Any:
    """A coefficient of so many operations that it is evaluated ahead."""
    x = 0.5 + 1e-6 * i
    for _ in range(40):
        x = x * 1.25 / 1.2505
    return x


def hostile(rng: Any, shape: Any, kind: str) -> tuple[Any, Any, Any]:
    """Draw operands whose products overflow or underflow although the loop may stay finite."""
    s, t = draw(rng, shape, "float32"), draw(rng, shape, "float32")
    carry_in = draw(rng, (shape[0], shape[2]), "float32")
    third = shape[1] // 3
    part = slice(third, shape[1] // 2)
    if kind == "overflowing product of a zero state":
        s[:, part], t[:, part] = 10.0, 0.0
        s[:, third] = 0.0
    elif kind == "nan":
        t[:, third] = np.nan
    elif kind == "inf, later zero":
        t[:, third] = np.inf
        s[:, shape[1] // 2] = 0.0
    elif kind == "inf in one row":
        t[shape[0] // 2, third, shape[2] // 2] = np.inf
    elif kind == "inf at an end":
        t[:, 3] = np.inf
    elif kind == "inf everywhere":
        t[:] = np.inf
    elif kind == "inf before the first step":
        carry_in[:] = -np.inf
    elif kind == "large entry decays":
        s[:], t[:], carry_in[:] = 0.9, 0.0, 1e30
    elif kind == "growth to infinity":
        s[:, part] = 1.5
    elif kind == "growth stopped by a zero":
        s[:, part] = 1e4
        s[:, third + 25] = 0.0
    return s, t, carry_in


HOSTILE = [
    "overflowing product of a zero state",
    "nan",
    "inf, later zero",
    "inf in one row",
    "inf at an end",
    "inf everywhere",
    "inf before the first step",
    "large entry decays",
    "growth to infinity",
    "growth stopped by a zero",
]


def assert_near(got: Any, wanted: Any, rtol: float, atol: float = 3e-6) -> None:
    """Assert that nan and inf stand at the same places, and that other numbers are near."""
    for mark in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(mark(got), mark(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(got[finite], wanted[finite], rtol=rtol, atol=atol)
