"""CUDA kernels of scans on a GPU, against a plain loop in wide precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import (
    HOSTILE,
    KINDS,
    KINDS_OF_CHANNELS,
    assert_close,
    assert_near,
    check,
    determine,
    draw,
    hostile,
    long_formula,
    loop,
    loop_in_float64,
    mobius_case,
    small_layout,
    solve,
)
from places import on_gpu

import mgrec
from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import affine
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.engines.cuda.device import reserve_descriptors
from mgrec.scans import maps
from mgrec.scans.cuda import coefficients
from mgrec.scans.cuda.phases import compose, kernels, prepare_precompute
from mgrec.scans.cuda.program import ScanLayout
from mgrec.scans.summaries import FINE, NAN, guarded_affine

pytestmark = pytest.mark.gpu
emulated = pytest.mark.emulated

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


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_precompute_agrees_with_determine(shape: Any, reverse: bool) -> None:
    rng = np.random.default_rng(6)
    operands = tuple(on_gpu(draw(rng, shape, "float64", 0.45)) for _ in range(6))
    chunk = Chunk(operands, shape, np.dtype("f8"), reverse)
    carry_in = tuple(draw(rng, (shape[0], shape[2]), "float64") for _ in range(2))
    composed = compose(maps.matrix2, chunk)()
    assert composed is not None
    wanted = determine(maps.matrix2, chunk, tuple(on_gpu(w) for w in carry_in))
    got = maps.matrix2.apply(composed, carry_in)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y[:, 0 if reverse else -1].get(), rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 2**31 + 5, 1), (1, 2**10 + 1, 2**21), (2**21, 2**10 + 1, 1)])
def test_more_elements_than_32_bits_count(shape: Any) -> None:
    cupy = pytest.importorskip("cupy")
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


# --- at every boundary of tiles, under other grids ------------------------------------------------

TILE = 64 * 12  # float32 and int32 elements of a tile of rows


STEPS = [
    1,
    2,
    TILE - 1,
    TILE,
    TILE + 1,
    2 * TILE + 1,
    32 * TILE - 1,
    32 * TILE,
    32 * TILE + 1,
    65 * TILE,
    300 * TILE + 7,
]


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


# One of a few channels, and of lines of 8 of many, of which the last may have fewer.
CHANNELS = {False: KINDS_OF_CHANNELS[:3], True: KINDS_OF_CHANNELS[3:]}


@pytest.mark.parametrize("steps", [1, 23, 24, 25, 24 * 33, 24 * 70 + 5])
@pytest.mark.parametrize("inners", [2, 3, 12, 13, 16, 20, 24])
def test_boundaries_of_tiles_of_channels(steps: int, inners: int) -> None:
    check_channels(steps, inners)


@emulated
@pytest.mark.parametrize("inners", [3, 13, 16])
def test_channels(inners: int) -> None:
    check_channels(24 * 70 + 5, inners)


def check_channels(steps: int, inners: int) -> None:
    """Bits depend neither on the grid nor on the way into shared memory."""
    rng = np.random.default_rng(steps)
    for reverse in (False, True):
        shape = (1 + (reverse and inners % 8 == 0), steps, inners)
        operands, carry_in = [draw(rng, shape, "f4") for _ in "st"], draw(rng, shape[::2], "f4")
        chunk = Chunk(tuple(map(on_gpu, operands)), shape, np.dtype("f4"), reverse)
        first, *others = (
            solve(maps.affine, chunk, [carry_in], small_layout(kind, shape, "f4", reverse), sms)
            for sms, kind in enumerate(CHANNELS[inners > 12], 3)
        )
        wide = [x.astype("f8") for x in operands]
        wanted = loop(maps.affine, wide, [carry_in.astype("f8")], shape, reverse)
        assert_close(maps.affine, first, wanted)
        for other in others:
            np.testing.assert_array_equal(other[0].view("i4"), first[0].view("i4"))


PACKS = [
    ScanLayout(96, 8, 2, lane_columns=2), ScanLayout(96, 8, 2, lane_columns=2, team=3),
    ScanLayout(96, 16, 2, lane_columns=4, team=40), ScanLayout(96, 16, 0, lane_columns=4),
    ScanLayout(96, 16, 1, lane_columns=4),
    ScanLayout(32, 8, 3, lane_columns=2, walking=True), ScanLayout(32, 16, 2, lane_columns=4, walking=True),
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
def test_packs_of_other_sizes(dtype: str, layout: ScanLayout) -> None:
    rng = np.random.default_rng(16)
    shape = (2, 75, 68)
    operands = [draw(rng, shape, dtype) for _ in range(2)]
    lane_columns = min(layout.lane_columns, 16 // np.dtype(dtype).itemsize)
    sizes = replace(layout, items=8, lane_columns=lane_columns)
    check(maps.affine, operands, shape, dtype, 1, False, sizes, 40)


def test_packed_columns_are_repaired() -> None:
    shape = (2, 300, 132)
    s, t = np.full(shape, 0.5, "f4"), np.ones(shape, "f4")
    t[1, 40, 67], t[0, 70, 128] = np.inf, np.nan
    chunk = Chunk((on_gpu(s), on_gpu(t)), shape, np.dtype("f4"))
    for layout in PACKS:
        carry_in = [np.ones((2, 132), "f4")]
        w = solve(maps.affine, chunk, carry_in, layout, 40)[0]
        np.testing.assert_array_equal(w, loop(maps.affine, (s, t), carry_in, shape, False)[0])


@pytest.mark.parametrize("shape", [(1, 13_001, 1), (7, 1003, 1), (1, 24 * 70 + 5, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("reverse", [False, True])
def test_arrays_that_begin_anywhere(shape: Any, dtype: str, reverse: bool) -> None:
    """Bit for bit as arrays that begin at a multiple of 16 bytes."""
    rng = np.random.default_rng(shape[1])
    operands, carry_in = [draw(rng, shape, dtype) for _ in "st"], [np.ones(shape[::2], dtype)]
    vector = 16 // np.dtype(dtype).itemsize
    # Tiles of 32 threads of 3 vectors each.
    layout = ScanLayout(32, 3 * vector, 2, reverse=reverse, bulk=True, segmented=shape[0] > 1)
    if shape[2] > 1:
        layout = small_layout("channels", shape, dtype, reverse)
    results = []
    for shifts in ((0, 0), (1, 0), (0, vector - 1), (1, 1)):
        moved = tuple(shifted(x, shift) for x, shift in zip(operands, shifts, strict=True))
        chunk = Chunk(moved, shape, np.dtype(dtype), reverse)
        results += solve(maps.affine, chunk, carry_in, layout, 3)
    for other in results[1:]:
        np.testing.assert_array_equal(other.view("u1"), results[0].view("u1"))


def shifted(array: Any, shift: int) -> Any:
    """A copy on a GPU that begins so many items behind a multiple of 16 bytes."""
    memory = on_gpu(np.zeros(array.size + 16, array.dtype))
    begin = -memory.data.ptr % 16 // array.itemsize + shift
    copy = memory[begin : begin + array.size].reshape(array.shape)
    copy[...] = on_gpu(array)
    return copy


@pytest.mark.parametrize(
    "shape", [(1, 1_000_003, 1), (5, 70_001, 1), (3000, 64, 1), (1, 5000, 70), (2, 3001, 33), (9000, 37, 1)]
)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_bits_do_not_depend_on_the_grid(shape: Any, dtype: str) -> None:
    rng = np.random.default_rng(12)
    operands = tuple(on_gpu(draw(rng, shape, dtype)) for _ in range(2))
    carry_in = [draw(rng, (shape[0], shape[2]), dtype)]
    chunk = Chunk(operands, shape, np.dtype(dtype))
    first, *others = (solve(maps.affine, chunk, carry_in, None, sms) for sms in (None, 1, 7, 33, 100))
    for other in others:
        np.testing.assert_array_equal(other[0].view(np.uint8), first[0].view(np.uint8))


@pytest.mark.parametrize("kind", KINDS[:3])
def test_bits_do_not_depend_on_the_way_into_shared_memory(kind: str) -> None:
    rng = np.random.default_rng(13)
    shape = (3, 40 * TILE + 5, 1)
    chunk = Chunk(tuple(on_gpu(draw(rng, shape, "f4")) for _ in range(2)), shape, np.dtype("f4"))
    first, other = (
        solve(maps.affine, chunk, [np.ones((3, 1), "f4")], small_layout(name, shape, "f4", False))[0]
        for name in (KINDS[0], kind)
    )
    np.testing.assert_array_equal(other.view(np.uint8), first.view(np.uint8))


# --- nan and inf stand where the loop has them ----------------------------------------------------

TILE_BITS = 40
"""Of a mark; its launch's epoch stands above them (guard.cuh)."""


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((1, 60_001, 1), "staged rows"), ((40, 1700, 1), "staged rows"), ((1, 3000, 33), "columns"),
        pytest.param((2, 960, 3), "channels", marks=emulated),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_stand_where_the_loop_has_them(
    shape: Any, layout: str, reverse: bool, kind: str
) -> None:
    s, t, carry_in = hostile(np.random.default_rng(7), shape, kind)
    (wanted,) = loop(maps.affine, [s, t], [carry_in], shape, reverse)
    chunk = Chunk((on_gpu(s), on_gpu(t)), shape, np.dtype("f4"), reverse)
    for own in (None, small_layout(layout, shape, "f4", reverse)):
        (got,) = solve(maps.affine, chunk, [carry_in], own)
        (again,) = solve(maps.affine, chunk, [carry_in], own, 11)
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
        maps.affine, [s[None, :, None], t[None, :, None]], [initial.reshape(1, 1)], (1, s.size, 1), False
    )
    got = mgrec.linear_recurrence(on_gpu(s), on_gpu(t), initial, method=method).get()
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
    chunk = Chunk((on_gpu(s), on_gpu(t)), shape, np.dtype("f4"), reverse)
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
    chunk = Chunk((on_gpu(s), on_gpu(t)), s.shape, np.dtype("f4"), False)
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
        chunk = Chunk(tuple(map(on_gpu, operands)), shape, np.dtype(dtype), reverse)
        wanted = loop_in_float64(maps.mobius, operands, start, shape, reverse)
        for chains in (1, 3):
            layout = replace(small_layout(kind, shape, dtype, reverse), chains=chains)
            got = solve(maps.mobius, chunk, [carry_in.astype(dtype)], layout)[0]
            np.testing.assert_allclose(got, wanted, rtol=300 * np.finfo(dtype).eps, atol=0)


# --- summaries by plain numbers, where they are safe, are the guarded ones -----------------------

SUMMARY_SHAPES = [((1, 3001, 1), False), ((2, 700, 1), True), ((1, 150, 40), False), ((1, 97, 33), True)]
SUMMARY_KINDS = ["calm", "tiny", "zeros", "safe", "mixed", "ones", "wild", "nan", "inf", "big", "faded"]


def draw_kind(kind: str, shape: Any, dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(SUMMARY_KINDS.index(kind))
    s, t = rng.uniform(-0.9, 0.9, shape), rng.normal(size=shape)
    some = rng.random(shape) < 0.02
    if kind == "tiny":
        s *= 1e-6
    if kind == "ones":
        s[:] = 1
    if kind in ("safe", "faded"):
        s = rng.uniform(-1.4, 1.4, shape)
    if kind in ("zeros", "faded"):
        s[some] = 0
    if kind == "mixed":
        s = np.exp(rng.normal(0, 3, shape)) * np.sign(s)
    if kind == "wild":
        s[some] = rng.choice([0, 1e30, 1e-30, -1e20])
    if kind == "nan":
        s[0, shape[1] // 2, 0] = np.nan
    if kind == "inf":
        t[0, shape[1] // 3, 0] = np.inf
    if kind == "big":
        t *= 1e30
    return s.astype(dtype), t.astype(dtype)


def compose_in_turn(s: Any, t: Any, reverse: bool) -> list[Any]:
    guarded = guarded_affine(s.dtype)
    maps: Any = None
    order = range(s.shape[1])
    with np.errstate(all="ignore"):
        for i in reversed(order) if reverse else order:
            step = guarded.lift(s[:, i], t[:, i])
            maps = step if maps is None else guarded.compose(maps, step)
            maps = [np.broadcast_to(np.asarray(x, s.dtype), s[:, i].shape) for x in maps]
    return maps


def reduce(s: Any, t: Any, reverse: bool, layout: ScanLayout) -> Any:
    chunk = Chunk((on_gpu(s), on_gpu(t)), s.shape, s.dtype, reverse)
    maps = on_gpu(np.full((8, s.shape[0], s.shape[2]), np.nan, s.dtype))
    prepare_precompute(guarded_affine(s.dtype), chunk, (), (maps,), layout)()
    return maps.get()


def logarithm(mantissa: Any, exponent: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log2(np.abs(mantissa), dtype=float) + exponent


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "reverse"), SUMMARY_SHAPES, ids=str)
@pytest.mark.parametrize("kind", SUMMARY_KINDS)
def test_summaries_are_those_of_guarded_maps(kind: str, shape: Any, reverse: bool, dtype: str) -> None:
    s, t = draw_kind(kind, shape, dtype)
    vector = 16 // s.dtype.itemsize
    layout = ScanLayout(64, 5, 2, reverse=reverse)
    if shape[2] == 1:
        layout = ScanLayout(64, 3 * vector, 1, reverse=reverse, bulk=shape[0] == 1)
    got, wanted = reduce(s, t, reverse, layout), compose_in_turn(s, t, reverse)
    if kind not in ("mixed", "wild"):  # the suspect steps depend on the order of composition
        np.testing.assert_array_equal(got[7], wanted[7])
    np.testing.assert_array_equal(got[7] == NAN, wanted[7] == NAN)
    fine = (got[7] == FINE) & (wanted[7] == FINE)
    eps, steps = np.finfo(dtype).eps, shape[1]
    np.testing.assert_array_equal(got[0][fine] == 0, wanted[0][fine] == 0)
    for k in (0, 3, 5):
        compared = fine & ((wanted[0] != 0) | (k > 0))
        exponents = logarithm(wanted[k], wanted[k + 1])[compared]
        error = np.abs(logarithm(got[k], got[k + 1])[compared] - exponents)
        assert (error <= 2 * steps * eps + eps * np.abs(exponents)).all()
    error = np.abs(got[2][fine] - wanted[2][fine])
    assert (error <= 2e3 * eps * np.maximum(np.abs(wanted[2][fine]), 1)).all()


# --- coefficients of many operations, which are evaluated ahead in pieces -----------------------

LONG_SHAPES = [(1, 1, 1), (1, 5000, 1), (3, 700, 1), (40, 10, 1), (1, 100, 37), (2, 300, 5)]


def long_formula_of(i: Any, y: Any) -> Any:
    return long_formula(i) * y


def operands_of(shape: Any, first: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(sum(shape))
    y = on_gpu(rng.uniform(0.5, 1.5, (1, shape[1], shape[2])))
    t = on_gpu(rng.normal(size=shape))
    return CoefficientOperand(StepFunction(long_formula_of), first, (y,)), t


def loop_of_pieces(operands: Any, chunk: Chunk, carry_in: Any) -> Any:
    index = np.arange(chunk.steps)[None, :, None] + operands[0].first
    s = np.broadcast_to(long_formula_of(index, operands[0].operands[0].get()), chunk.shape)
    t, w, state = operands[1].get(), np.empty(chunk.shape), carry_in
    order = range(chunk.steps)
    for i in reversed(order) if chunk.reverse else order:
        w[:, i] = state = s[:, i] * state + t[:, i]
    return w


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", LONG_SHAPES, ids=str)
def test_pieces_are_the_whole(shape: Any, reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coefficients, "PIECE", 256)
    operands = operands_of(shape, 11)
    chunk = Chunk(operands, shape, np.dtype("f8"), reverse)
    carry_in = np.random.default_rng(1).normal(size=chunk.row_shape)
    wanted = loop_of_pieces(operands, chunk, carry_in)
    result = on_gpu(np.full(shape, np.nan))
    kernels("auto").determine(affine, chunk, (on_gpu(carry_in),), (result,))
    np.testing.assert_allclose(result.get(), wanted, rtol=1e-12, atol=1e-12)
    last = wanted[:, 0 if reverse else -1]
    for transfer_map in (affine, guarded_affine(chunk.dtype)):
        maps = compose(transfer_map, chunk)()
        assert maps is not None
        after = transfer_map.apply(maps, carry_in)
        np.testing.assert_allclose(after, last, rtol=1e-12, atol=1e-12)
