"""nan and inf stand where the plain loop has them, on a GPU too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import (
    HOSTILE,
    KINDS,
    assert_near,
    hostile,
    loop,
    loop_in_float64,
    mobius_case,
    small_layout,
    solve,
)

import mgrec
from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda.device import reserve_descriptors
from mgrec.scans import maps

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cupy.is_available(), reason="no CUDA GPU"),
]


TILE_BITS = 40
"""Of a mark; its launch's epoch stands above them (guard.cuh)."""


@pytest.mark.parametrize("shape", [(1, 60_001, 1), (40, 1700, 1), (1, 3000, 33)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_stand_where_the_loop_has_them(shape: Any, reverse: bool, kind: str) -> None:
    s, t, carry_in = hostile(np.random.default_rng(7), shape, kind)
    (wanted,) = loop(maps.affine, [s, t], [carry_in], shape, reverse)
    chunk = Chunk((cupy.asarray(s), cupy.asarray(t)), shape, np.dtype("f4"), reverse)
    for layout in (None, small_layout(KINDS[1 if shape[2] == 1 else 4], shape, "f4", reverse)):
        (got,) = solve(maps.affine, chunk, [carry_in], layout)
        (again,) = solve(maps.affine, chunk, [carry_in], layout, 11)
        np.testing.assert_array_equal(again.view(np.uint8), got.view(np.uint8))
        # 36 steps of 2**-24 each in a thread's part, as many again in the tile: relative to
        # the terms. Of 40 rows that grow the one whose first terms cancel most loses 3e-5.
        assert_near(got, wanted, rtol=2e-4)


BIG, TINY = 2.3778052e7, 4.2055593e-8
I_BIG, I_TINY = 2.2479040e9j, 4.4485887e-10j
RARE = {
    # The loop underflows to 0 and stays there; products of the steps alone do not.
    "a state of 0 stays": (
        np.float32([-TINY, -BIG, BIG, -BIG, -BIG, 1 / BIG, -BIG, BIG, -BIG, -BIG, 1 / BIG, -BIG,
                    -BIG, -BIG, -BIG, -BIG, BIG, -BIG]), 0.0, np.float32(3e-45),
    ),
    # Rounding holds the loop at 1; any other error grows by half at every step.
    "an unstable fixed point": (
        np.full(10_007, 1.4885166, "f4"), np.float32(-0.48851654), np.float32(1.0),
    ),
    # A product of some steps underflows, the product of all does not.
    "a product that underflows in part": (
        np.complex64([-I_BIG, -I_BIG, I_TINY, I_BIG, I_TINY, I_BIG, -I_TINY.imag, I_TINY.imag,
                      I_TINY.imag, -I_TINY, I_TINY.imag, -I_TINY, -I_BIG]), 0.0,
        np.complex64(-0.060604606 + 0.4110333j),
    ),
    "a step of three products that underflow": (
        np.float64([1e150, 1e150, 1e-200, 1e-200, 1e-100, 1e-100, 1e200, 1e100, 1.0, 1.0]), 0.0,
        np.float64(1.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RARE)
@pytest.mark.parametrize("method", ["single-pass", "p-scheme"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rare_rows_are_the_loops(name: str, method: str) -> None:
    s, term, initial = RARE[name]
    t = np.full_like(s, term)
    (wanted,) = loop(
        maps.affine, [s[None, :, None], t[None, :, None]], [initial.reshape(1, 1)],
        (1, s.size, 1), False,
    )  # fmt: skip
    got = mgrec.linear_recurrence(cupy.asarray(s), cupy.asarray(t), initial, method=method).get()
    np.testing.assert_allclose(got, wanted[0, :, 0], rtol=1e-5, atol=1e-44)


@pytest.mark.parametrize(
    "shape", [(1, 50_000, 1), (130, 16, 1), (36, 512, 1), (1, 600, 70), (20_000, 12, 1)], ids=str
)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_near_overflow_a_row_is_the_loops(shape: Any, reverse: bool) -> None:
    rng = np.random.default_rng(17)
    s = np.exp2(rng.integers(-2, 3, shape)).astype("f4") * rng.choice(np.float32([-1, 1]), shape)
    t = (rng.uniform(-1, 1, shape) * 3.4e38).astype("f4") * (rng.random(shape) < 0.2)
    t[:, : shape[1] // 2 : -1 if reverse else 1] *= np.float32(1e-3)
    carry_in = np.zeros((shape[0], shape[2]), "f4")
    (wanted,) = loop(maps.affine, [s, t], [carry_in], shape, reverse)
    chunk = Chunk((cupy.asarray(s), cupy.asarray(t)), shape, np.dtype("f4"), reverse)
    (got,) = solve(maps.affine, chunk, [carry_in])
    grows = (~(np.abs(wanted) < 1e36)).any(axis=1, keepdims=True)
    assert grows.mean() > 0.2
    assert np.isinf(wanted).any()
    rows = np.broadcast_to(grows, shape)
    np.testing.assert_array_equal(got[rows], wanted[rows])


@pytest.mark.parametrize("size", [1e7, 1e30])
def test_large_numbers_are_not_repaired(size: float) -> None:
    # A product underflows in every tile, and what it has lost is nothing beside the terms.
    rng = np.random.default_rng(18)
    s = rng.uniform(0.4, 0.5, (1, 300_000, 1)).astype("f4")
    t = rng.uniform(size, 2 * size, s.shape).astype("f4")
    chunk = Chunk((cupy.asarray(s), cupy.asarray(t)), s.shape, np.dtype("f4"), False)
    solve(maps.affine, chunk, [np.full((1, 1), size, "f4")])
    space, epoch = reserve_descriptors(1)
    first_mark = int(space[0])
    assert first_mark >> TILE_BITS != epoch - 1


MOBIUS = ["plain", "from infinity", "fixed at 0", "fixed at infinity", "scaled", "poles", "nan"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("name", MOBIUS)
def test_chains_meet_every_odd_step(name: str, kind: str, dtype: str) -> None:
    """The quick side of a map, in chains, leaves every odd step to the exact one."""
    for rows, steps, reverse in ((1, 5003, False), (3, 1801, True), (1, 768, True)):
        shape = (rows, steps, 1)
        operands, start = mobius_case(name, shape)
        operands = [x.astype(dtype) for x in operands]
        carry_in = np.full((rows, 1), start)
        chunk = Chunk(tuple(map(cupy.asarray, operands)), shape, np.dtype(dtype), reverse)
        wanted = loop_in_float64(maps.mobius, operands, start, shape, reverse)
        for chains in (1, 3):
            layout = replace(small_layout(kind, shape, dtype, reverse), chains=chains)
            got = solve(maps.mobius, chunk, [carry_in.astype(dtype)], layout)[0]
            np.testing.assert_allclose(got, wanted, rtol=300 * np.finfo(dtype).eps, atol=0)
