"""The kernels of one GPU against a plain loop in wide precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_cases import assert_close, check, determine, draw, loop

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import TransferMap
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.scans import maps

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cupy.is_available(), reason="no CUDA GPU"),
]

SHAPES = [
    (1, 1, 1), (1, 7167, 1), (1, 7168, 1), (1, 7169, 1), (1, 100_003, 1), (1, 300_001, 1),
    (3, 70_001, 1), (2048, 1, 1), (1000, 64, 1), (777, 33, 1), (300, 7168, 1), (131, 7169, 1),
    (1, 1, 5), (1, 64, 1000), (2, 129, 33), (1, 5000, 31), (5, 300, 3), (1, 40_000, 64),
    (7, 128, 32),
]  # fmt: skip


def test_the_check_notices_one_wrong_step() -> None:
    wanted = [np.ones((1, 50, 2))]
    wrong = [wanted[0].astype("f4")]
    wrong[0][0, 30, 1] += 1e-3
    with pytest.raises(AssertionError, match="61"):
        assert_close(maps.affine, wrong, wanted)


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
    def wave(i: Any, x: Any) -> Any:
        return x * np.sin(0.001 * i) + np.where(i % 3 == 0, 0.1, -0.1)

    rng = np.random.default_rng(4)
    x = draw(rng, (shape[0], 1, 1), "float64", 0.5)
    t, carry_in = draw(rng, shape, "float64"), draw(rng, (shape[0], shape[2]), "float64")
    index = np.arange(1000, 1000 + shape[1])[None, :, None]
    (wanted,) = loop(maps.affine, [wave(index, x), t], [carry_in], shape, reverse)
    computed = CoefficientOperand(StepFunction(wave), 1000, (cupy.asarray(x),))
    chunk = Chunk((computed, cupy.asarray(t)), shape, np.dtype("f8"), reverse)
    (got,) = determine(maps.affine, chunk, (cupy.asarray(carry_in),))
    np.testing.assert_allclose(got.get(), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_precompute_agrees_with_determine(shape: Any, reverse: bool) -> None:
    from mgrec.scans.cuda.precompute import compose

    rng = np.random.default_rng(6)
    operands = tuple(cupy.asarray(draw(rng, shape, "float64", 0.45)) for _ in range(6))
    chunk = Chunk(operands, shape, np.dtype("f8"), reverse)
    carry_in = tuple(draw(rng, (shape[0], shape[2]), "float64") for _ in range(2))
    composed = compose(maps.matrix2, chunk)()
    assert composed is not None
    wanted = determine(maps.matrix2, chunk, tuple(cupy.asarray(w) for w in carry_in))
    got = maps.matrix2.apply(composed, carry_in)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y[:, 0 if reverse else -1].get(), rtol=0, atol=1e-13)


def test_two_streams_at_once() -> None:
    rng = np.random.default_rng(8)
    shape = (1, 3_000_001, 1)
    chunks, carry_in = [], cupy.ones((1, 1))
    for _ in range(2):
        operands = tuple(cupy.asarray(draw(rng, shape, "float64")) for _ in range(2))
        chunks.append(Chunk(operands, shape, np.dtype("f8")))
    wanted = [determine(maps.affine, chunk, (carry_in,))[0] for chunk in chunks]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in chunks]
    cupy.cuda.Device().synchronize()
    got: list[Any] = []
    for turn in range(10):
        with streams[turn % 2]:
            got.append(determine(maps.affine, chunks[turn % 2], (carry_in,))[0])
    for stream in streams:
        stream.synchronize()
    for turn, result in enumerate(got):
        assert bool((result == wanted[turn % 2]).all())


@pytest.mark.parametrize("walks", [False, True])
def test_a_cuda_graph_runs_again_or_refuses(walks: bool) -> None:
    from mgrec.scans.cuda.determine import prepare

    shape = (20_000, 24, 1) if walks else (1, 100_000, 1)
    rng = np.random.default_rng(9)
    operands = tuple(cupy.asarray(draw(rng, shape, "f4")) for _ in range(2))
    chunk, carry_in = Chunk(operands, shape, np.dtype("f4")), cupy.ones((shape[0], 1), "f4")
    result = cupy.empty(shape, "f4")
    launch = prepare(maps.affine, chunk, (carry_in,), (result,))
    launch()
    wanted = result.copy()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        try:
            if not walks:
                with pytest.raises(RuntimeError, match="cannot be captured"):
                    launch()
            else:
                launch()
        finally:
            graph = stream.end_capture()
        if walks:
            for _ in range(2):
                result.view(cupy.uint8).fill(0xFF)
                graph.launch(stream)
                assert bool((result == wanted).all())
    stream.synchronize()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 2**31 + 5, 1), (1, 2**10 + 1, 2**21), (2**21, 2**10 + 1, 1)])
def test_more_elements_than_32_bits_count(shape: Any) -> None:
    s = cupy.full((1, 1, 1), 3, cupy.int8)
    t = cupy.empty(shape, cupy.int8)
    flat = t.reshape(-1)
    for first in range(0, flat.size, 2**28):
        part = flat[first : first + 2**28]
        part[:] = cupy.arange(first % 101, first % 101 + part.size, dtype=cupy.int32) % 101
    carry_in = cupy.full((shape[0], shape[2]), 5, cupy.int8)
    (w,) = determine(maps.affine, Chunk((s, t), shape, np.dtype("i1")), (carry_in,))
    assert bool((w[:, 0] == cupy.int8(15) + t[:, 0]).all())
    piece = 2**28 // (shape[0] * shape[2]) or 1
    for first in range(1, shape[1], piece):
        part = slice(first, min(first + piece, shape[1]))
        before = w[:, first - 1 : part.stop - 1]
        assert bool((w[:, part] == before * cupy.int8(3) + t[:, part]).all())
