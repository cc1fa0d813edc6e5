"""The kernels of one GPU against a plain loop in wide precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mgrec.phases.chunk import Chunk, CoefficientOperand
from mgrec.phases.fingerprint import StepFunction
from mgrec.phases.transfer_map import TransferMap
from mgrec.recurrences import maps

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cupy.is_available(), reason="no CUDA GPU"),
]

SHAPES = [
    (1, 1, 1), (1, 7167, 1), (1, 7168, 1), (1, 7169, 1), (1, 100_003, 1), (1, 2_000_001, 1),
    (3, 70_001, 1), (2048, 1, 1), (1000, 64, 1), (777, 33, 1), (300, 7168, 1), (131, 7169, 1),
    (1, 1, 5), (1, 64, 1000), (2, 129, 33), (1, 5000, 31), (5, 300, 3), (1, 40_000, 64),
    (7, 128, 32),
]  # fmt: skip


def loop(transfer_map: TransferMap, operands: Any, entry: Any, shape: Any, reverse: bool) -> Any:
    """Run a recurrence a step at a time, all rows at once."""
    states = tuple(entry)
    results = [np.empty(shape, w.dtype) for w in entry]
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


def check(
    transfer_map: TransferMap, operands: Any, shape: Any, dtype: str, states: int, reverse: bool
) -> None:
    from mgrec.backends.cuda.determine import determine

    rng = np.random.default_rng(5)
    entry = [draw(rng, (shape[0], shape[2]), dtype) for _ in range(states)]
    on_device = tuple(cupy.asarray(x) for x in operands)
    chunk = Chunk(on_device, shape, np.dtype(dtype), reverse)
    poison = cupy.full(shape, -99, dtype)
    del poison
    results = determine(transfer_map, chunk, tuple(cupy.asarray(w) for w in entry))
    wide = {"f": "f8", "c": "c16", "i": "i8"}[np.dtype(dtype).kind]
    wanted = loop(
        transfer_map, [x.astype(wide) for x in operands], [w.astype(wide) for w in entry],
        shape, reverse,
    )  # fmt: skip
    tolerance = 0 if np.dtype(dtype).kind == "i" else 300 * np.finfo(dtype).eps
    if transfer_map.name.endswith("plus"):
        # A run's map holds the sum of its steps, a random walk of up to sqrt(steps).
        tolerance *= 1 + shape[1] ** 0.5
    for got, reference in zip(results, wanted, strict=True):
        reference = reference.astype(dtype)
        scale = 1 + np.abs(reference) if tolerance else 1
        error = np.abs(got.get() - reference) / scale
        assert error.max() <= tolerance, (shape, dtype, error.max(), np.argmax(error))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32"])
def test_affine(shape: Any, reverse: bool, dtype: str) -> None:
    rng = np.random.default_rng(1)
    operands = [draw(rng, shape, dtype) for _ in range(2)]
    check(maps.affine, operands, shape, dtype, 1, reverse)


@pytest.mark.parametrize("shape", [(1, 70_001, 1), (100, 500, 1), (2, 300, 40)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axes", [(1, 1, 1), (0, 1, 1), (1, 0, 1), (0, 1, 0), (1, 1, 0)], ids=str)
def test_broadcast_coefficient(shape: Any, reverse: bool, axes: Any) -> None:
    rng = np.random.default_rng(2)
    part = tuple(1 if one else n for one, n in zip(axes, shape, strict=True))
    operands = [draw(rng, part, "float32"), draw(rng, shape, "float32")]
    check(maps.affine, operands, shape, "float32", 1, reverse)


@pytest.mark.parametrize("shape", SHAPES[3::2], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("transfer_map", "arity", "states"),
    [(maps.mobius, 4, 1), (maps.matrix2, 6, 2), (maps.max_plus, 2, 1), (maps.min_plus, 2, 1)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_other_maps(
    transfer_map: TransferMap, arity: int, states: int, shape: Any, reverse: bool
) -> None:
    rng = np.random.default_rng(3)
    operands = [draw(rng, shape, "float64", 0.45) for _ in range(arity)]
    if transfer_map is maps.mobius:
        operands[0] += 2
        operands[3] += 3
    check(transfer_map, operands, shape, "float64", states, reverse)


@pytest.mark.parametrize("shape", [(1, 70_001, 1), (100, 500, 1), (2, 300, 40)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_coefficient_on_the_fly(shape: Any, reverse: bool) -> None:
    from mgrec.backends.cuda.determine import determine

    def wave(i: Any, x: Any) -> Any:
        return x * np.sin(0.001 * i) + np.where(i % 3 == 0, 0.1, -0.1)

    rng = np.random.default_rng(4)
    x = draw(rng, (shape[0], 1, 1), "float64", 0.5)
    t, entry = draw(rng, shape, "float64"), draw(rng, (shape[0], shape[2]), "float64")
    index = np.arange(1000, 1000 + shape[1])[None, :, None]
    (wanted,) = loop(maps.affine, [wave(index, x), t], [entry], shape, reverse)
    computed = CoefficientOperand(StepFunction(wave), 1000, (cupy.asarray(x),))
    chunk = Chunk((computed, cupy.asarray(t)), shape, np.dtype("f8"), reverse)
    (got,) = determine(maps.affine, chunk, (cupy.asarray(entry),))
    np.testing.assert_allclose(got.get(), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_precompute_agrees_with_determine(shape: Any, reverse: bool) -> None:
    from mgrec.backends.cuda.determine import determine
    from mgrec.backends.cuda.precompute import precompute

    rng = np.random.default_rng(6)
    operands = tuple(cupy.asarray(draw(rng, shape, "float64", 0.45)) for _ in range(6))
    chunk = Chunk(operands, shape, np.dtype("f8"), reverse)
    entry = tuple(draw(rng, (shape[0], shape[2]), "float64") for _ in range(2))
    summary = precompute(maps.matrix2, chunk)
    assert summary.maps is not None
    wanted = determine(maps.matrix2, chunk, tuple(cupy.asarray(w) for w in entry))
    got = maps.matrix2.apply(summary.maps, entry)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y[:, 0 if reverse else -1].get(), rtol=0, atol=1e-13)


def hostile(rng: Any, shape: Any, kind: str) -> tuple[Any, Any, Any]:
    """Draw operands whose products overflow or underflow although the loop may stay finite."""
    s, t = draw(rng, shape, "float32"), draw(rng, shape, "float32")
    entry = draw(rng, (shape[0], shape[2]), "float32")
    part = slice(shape[1] // 3, shape[1] // 2)
    if kind == "overflowing product of a zero state":
        s[:, part], t[:, part] = 10.0, 0.0
        s[:, shape[1] // 3] = 0.0
    elif kind == "nan":
        t[:, shape[1] // 3] = np.nan
    elif kind == "inf, later zero":
        t[:, shape[1] // 3] = np.inf
        s[:, shape[1] // 2] = 0.0
    elif kind == "large entry decays":
        s[:], t[:], entry[:] = 0.9, 0.0, 1e30
    elif kind == "growth to infinity":
        s[:, part] = 1.5
    return s, t, entry


@pytest.mark.parametrize("shape", [(1, 60_001, 1), (40, 1700, 1), (1, 3000, 33)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "kind",
    ["overflowing product of a zero state", "nan", "inf, later zero", "large entry decays",
     "growth to infinity"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_stand_where_the_loop_has_them(shape: Any, reverse: bool, kind: str) -> None:
    from mgrec.backends.cuda.determine import determine

    s, t, entry = hostile(np.random.default_rng(7), shape, kind)
    (wanted,) = loop(maps.affine, [s, t], [entry], shape, reverse)
    chunk = Chunk((cupy.asarray(s), cupy.asarray(t)), shape, np.dtype("f4"), reverse)
    (result,) = determine(maps.affine, chunk, (cupy.asarray(entry),))
    got = result.get()
    for mark in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(mark(got), mark(wanted))
    finite = np.isfinite(wanted)
    # 36 steps of 2**-24 each in a thread's part, as many again in the tile: relative to the
    # terms, which a decaying row keeps in proportion.
    np.testing.assert_allclose(got[finite], wanted[finite], rtol=3e-5, atol=3e-6)


def test_two_streams_at_once() -> None:
    from mgrec.backends.cuda.determine import determine

    rng = np.random.default_rng(8)
    shape = (1, 3_000_001, 1)
    chunks, entry = [], cupy.ones((1, 1))
    for _ in range(2):
        operands = tuple(cupy.asarray(draw(rng, shape, "float64")) for _ in range(2))
        chunks.append(Chunk(operands, shape, np.dtype("f8")))
    wanted = [determine(maps.affine, chunk, (entry,))[0] for chunk in chunks]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in chunks]
    cupy.cuda.Device().synchronize()
    got: list[Any] = []
    for turn in range(10):
        with streams[turn % 2]:
            got.append(determine(maps.affine, chunks[turn % 2], (entry,))[0])
    for stream in streams:
        stream.synchronize()
    for turn, result in enumerate(got):
        assert bool((result == wanted[turn % 2]).all())


@pytest.mark.slow
def test_more_elements_than_32_bits_count() -> None:
    from mgrec.backends.cuda.determine import determine

    shape = (1, 2**31 + 5, 1)
    s = cupy.full((1, 1, 1), 3, cupy.int8)
    t = (cupy.arange(shape[1], dtype=cupy.int32) % 101).astype(cupy.int8).reshape(shape)
    entry = cupy.full((1, 1), 5, cupy.int8)
    (w,) = determine(maps.affine, Chunk((s, t), shape, np.dtype("i1")), (entry,))
    w, t = w.ravel(), t.ravel()
    assert int(w[0]) == 15
    for first in range(1, shape[1], 2**28):
        part = slice(first, min(first + 2**28, shape[1]))
        before = w[first - 1 : part.stop - 1]
        assert bool((w[part] == before * cupy.int8(3) + t[part]).all())
