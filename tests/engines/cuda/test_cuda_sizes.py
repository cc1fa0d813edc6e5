"""The kernels of one GPU at every boundary of their tiles, under other grids, at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import KINDS, check, draw, loop, small_layout, solve

from mgrec.core.arrays.chunk import Chunk
from mgrec.scans import maps
from mgrec.scans.cuda.program import Layout

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cupy.is_available(), reason="no CUDA GPU"),
]

TILE = 64 * 12  # float32 and int32 elements of a tile of rows


STEPS = [1, 2, TILE - 1, TILE, TILE + 1, 2 * TILE + 1, 32 * TILE - 1, 32 * TILE, 32 * TILE + 1,
         65 * TILE, 300 * TILE + 7]  # fmt: skip


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kind", KINDS[:3])
def test_boundaries_of_tiles_of_rows(steps: int, kind: str) -> None:
    rng = np.random.default_rng(10)
    for rows, reverse in ((1, False), (1, True), (3, False), (3, True)):
        shape = (rows, steps, 1)
        operands = [draw(rng, shape, "int32") for _ in range(2)]
        layout = small_layout(kind, shape, "int32", reverse)
        check(maps.affine, operands, shape, "int32", 1, reverse, layout)


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 11, 12, 13, 35, 36, 37, 72, 500])
@pytest.mark.parametrize("inners", [2, 31, 32, 33, 65])
def test_boundaries_of_tiles_of_columns(steps: int, inners: int) -> None:
    rng = np.random.default_rng(11)
    for kind in (*KINDS[3:6], KINDS[7]):
        for outers, reverse in ((1, False), (2, True)):
            shape = (outers, steps, inners)
            operands = [draw(rng, shape, "int32") for _ in range(2)]
            layout = small_layout(kind, shape, "int32", reverse)
            check(maps.affine, operands, shape, "int32", 1, reverse, layout)


PACKS = [
    Layout(96, 8, 2, bulk=True), Layout(96, 8, 2, bulk=True, team=3),
    Layout(96, 16, 2, staged=True, team=40), Layout(96, 16, 0, staged=True),
    Layout(96, 16, 1, staged=True),
    Layout(32, 8, 3, bulk=True, walking=True), Layout(32, 16, 2, staged=True, walking=True),
]  # fmt: skip


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 11, 12, 13, 36, 37, 500])
@pytest.mark.parametrize("inners", [4, 60, 64, 68, 132, 260])
def test_boundaries_of_tiles_of_packed_columns(steps: int, inners: int) -> None:
    rng = np.random.default_rng(15)
    for layout in PACKS:
        for outers, reverse in ((1, False), (3, True)):
            shape = (outers, steps, inners)
            operands = [draw(rng, shape, "int32") for _ in range(2)]
            sizes = replace(layout, reverse=reverse)
            check(maps.affine, operands, shape, "int32", 1, reverse, sizes, 40)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float64", "complex64"])
@pytest.mark.parametrize("layout", PACKS, ids=str)
def test_packs_of_other_sizes(dtype: str, layout: Layout) -> None:
    rng = np.random.default_rng(16)
    shape = (2, 75, 68)
    operands = [draw(rng, shape, dtype) for _ in range(2)]
    check(maps.affine, operands, shape, dtype, 1, False, replace(layout, items=8), 40)


def test_packed_columns_are_repaired() -> None:
    shape = (2, 300, 132)
    s, t = np.full(shape, 0.5, "f4"), np.ones(shape, "f4")
    t[1, 40, 67], t[0, 70, 128] = np.inf, np.nan
    chunk = Chunk((cupy.asarray(s), cupy.asarray(t)), shape, np.dtype("f4"))
    for layout in PACKS:
        carry_in = [np.ones((2, 132), "f4")]
        w = solve(maps.affine, chunk, carry_in, layout, 40)[0]
        np.testing.assert_array_equal(w, loop(maps.affine, (s, t), carry_in, shape, False)[0])


@pytest.mark.parametrize("shape", [(1, 1_000_003, 1), (5, 70_001, 1), (3000, 64, 1),
                                   (1, 5000, 70), (2, 3001, 33), (9000, 37, 1)])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_bits_do_not_depend_on_the_grid(shape: Any, dtype: str) -> None:
    rng = np.random.default_rng(12)
    operands = tuple(cupy.asarray(draw(rng, shape, dtype)) for _ in range(2))
    carry_in = [draw(rng, (shape[0], shape[2]), dtype)]
    chunk = Chunk(operands, shape, np.dtype(dtype))
    first, *others = (
        solve(maps.affine, chunk, carry_in, None, sms) for sms in (None, 1, 7, 33, 100)
    )
    for other in others:
        np.testing.assert_array_equal(other[0].view(np.uint8), first[0].view(np.uint8))


@pytest.mark.parametrize("kind", KINDS[:3])
def test_bits_do_not_depend_on_the_way_into_shared_memory(kind: str) -> None:
    rng = np.random.default_rng(13)
    shape = (3, 40 * TILE + 5, 1)
    chunk = Chunk(
        tuple(cupy.asarray(draw(rng, shape, "f4")) for _ in range(2)), shape, np.dtype("f4")
    )
    first, other = (
        solve(maps.affine, chunk, [np.ones((3, 1), "f4")], small_layout(name, shape, "f4", False))[
            0
        ]
        for name in (KINDS[0], kind)
    )
    np.testing.assert_array_equal(other.view(np.uint8), first.view(np.uint8))


def test_a_thousand_random_shapes() -> None:
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        kind, dtype = rng.choice(KINDS), str(rng.choice(["float32", "int32"]))
        steps, rows = int(4000 ** rng.random()), int(200 ** rng.random())
        shape = (rows, steps, 1)
        if "columns" in kind:
            shape = (int(rng.integers(1, 4)), steps // 4 + 1, rows + 1)
        reverse, sms = bool(rng.integers(2)), int(rng.integers(1, 12))
        operands = [draw(rng, shape, dtype) for _ in range(2)]
        layout = small_layout(kind, shape, dtype, reverse)
        try:
            check(maps.affine, operands, shape, dtype, 1, reverse, layout, sms)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {kind}, {shape}, {dtype}, {reverse=}") from error
