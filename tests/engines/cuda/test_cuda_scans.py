"""Kernels of scans, run on this machine, against a plain loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_blocks_on_host import BlockCompiler
from cuda_cases import (
    HOSTILE,
    assert_close,
    assert_near,
    draw,
    hostile,
    loop,
    loop_in_float64,
    mobius_case,
    small_layout,
)
from cuda_on_host import as_device, poisoned, run_on_host

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.segmented_map import segmented
from mgrec.core.algebra.transfer_map import TransferMap, affine, signed_affine
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.engines.cuda.device import Device
from mgrec.scans import maps
from mgrec.scans.cuda.determine import prepare
from mgrec.scans.cuda.program import Layout

COMPILER = BlockCompiler


@pytest.fixture(autouse=True)
def _on_host(compiler: BlockCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    run_on_host(monkeypatch, compiler, device=Device(90, 132, 227 * 1024))


# Tiles of 8 parts of 3 steps, and groups of 32 of them.
SMALL = Layout(32, 3, 4, bulk=True, channels=1, ahead=1, distance=2)


def layout_of(channels: int, vector: int = 4, **options: Any) -> Layout:
    parts = -(-8 // vector) * vector
    threads = -(-parts * channels // 32) * 32
    return replace(SMALL, threads=threads, channels=channels, **options)


def lines_of(team: int, **options: Any) -> Layout:
    """Tiles of 32 bytes of each step, which teams of blocks share."""
    return replace(layout_of(8, team=team, lines=True, bulk=False), **options)


def solve(
    transfer_map: TransferMap, operands: Any, carry_in: Any, shape: Any, layout: Layout,
    blocks: int = 3,
) -> list[Any]:  # fmt: skip
    dtype = np.dtype(carry_in[0].dtype)
    results = tuple(as_device(poisoned(shape, dtype)) for _ in carry_in)
    chunk = Chunk(tuple(map(on_device, operands)), shape, dtype, layout.reverse)
    states = tuple(state if state.ndim == 0 else as_device(state) for state in carry_in)
    prepare(transfer_map, chunk, states, results, layout, blocks)()
    return [np.array(w) for w in results]


def on_device(operand: Any) -> Any:
    if isinstance(operand, CoefficientOperand):
        return replace(operand, operands=tuple(map(as_device, operand.operands)))
    return operand if operand.ndim == 0 else as_device(operand)


@pytest.mark.parametrize("channels", [3, pytest.param(2, marks=pytest.mark.extended)])
@pytest.mark.parametrize("steps", [1, 23, 24, 25, 24 * 33, 24 * 70 + 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_arrays(channels: int, steps: int, reverse: bool) -> None:
    rng = np.random.default_rng(steps)
    shape = (1, steps, channels)
    operands = [draw(rng, shape, "f4") for _ in range(2)]
    carry_in = [draw(rng, (1, channels), "f4")]
    layout = layout_of(channels, reverse=reverse)
    wide = [x.astype("f8") for x in (*operands, *carry_in)]
    wanted = loop(maps.affine, wide[:2], wide[2:], shape, reverse)
    assert_close(maps.affine, solve(maps.affine, operands, carry_in, shape, layout), wanted)


@pytest.mark.parametrize("steps", [1, 792, pytest.param(1685, marks=pytest.mark.extended)])
@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.extended)])
@pytest.mark.parametrize("inners", [16, pytest.param(24, marks=pytest.mark.extended)])
def test_lines_of_columns(inners: int, steps: int, reverse: bool) -> None:
    rng = np.random.default_rng(steps)
    shape = (2, steps, inners)
    operands, carry_in = [draw(rng, shape, "f4") for _ in range(2)], [draw(rng, (2, inners), "f4")]
    wide = [x.astype("f8") for x in (*operands, *carry_in)]
    wanted = loop(maps.affine, wide[:2], wide[2:], shape, reverse)
    first = None
    for layout, blocks in (
        (lines_of(2, reverse=reverse), 5), (lines_of(1, reverse=reverse), 2),
        (lines_of(3, reverse=reverse, stages=3, distance=1), 3),
        (lines_of(2, reverse=reverse, stages=0), 8),
    ):  # fmt: skip
        found = solve(maps.affine, operands, carry_in, shape, layout, blocks)
        assert_close(maps.affine, found, wanted)
        first = found[0].view("i4") if first is None else first
        np.testing.assert_array_equal(found[0].view("i4"), first)


def mixed(i: Any, x: Any) -> Any:
    return np.where(i % 3 == 0, 0.5, -0.25) * x


@pytest.mark.extended
@pytest.mark.parametrize("reverse", [False, True])
def test_other_maps_and_operands(reverse: bool) -> None:
    rng = np.random.default_rng(3)
    shape = (2, 24 * 35 + 4, 2)
    cases: list[tuple[TransferMap, list[Any], int, str, int]] = [
        (maps.affine, [np.array(3, "i4"), draw(rng, shape, "i4")], 1, "i4", 4),
        (maps.affine, [draw(rng, (1, shape[1], 1), "c16"), draw(rng, shape, "c16")], 1, "c16", 1),
        (maps.matrix2, [draw(rng, shape, "f8", 0.45) for _ in range(6)], 2, "f8", 2),
        (maps.max_plus, [draw(rng, shape, "f4"), np.array(0, "f4")], 1, "f4", 4),
    ]
    for transfer_map, operands, states, dtype, vector in cases:
        carry_in = [draw(rng, (2, 2), dtype) for _ in range(states)]
        layout = layout_of(2, vector, reverse=reverse)
        found = solve(transfer_map, operands, carry_in, shape, layout)
        wide = {"i": "i8", "f": "f8", "c": "c16"}[np.dtype(dtype).kind]
        full = [np.broadcast_to(x, shape).astype(wide) for x in operands]
        wanted = loop(transfer_map, full, [w.astype(wide) for w in carry_in], shape, reverse)
        assert_close(transfer_map, found, wanted)


@pytest.mark.extended
def test_a_coefficient_on_the_fly() -> None:
    rng = np.random.default_rng(4)
    shape = (1, 24 * 40 + 7, 3)
    x, t, carry_in = draw(rng, (1, 1, 3), "f4"), draw(rng, shape, "f4"), np.array(0.5, "f4")
    computed = CoefficientOperand(StepFunction(mixed), 1000, (x,))
    found = solve(maps.affine, [computed, t], [carry_in], shape, layout_of(3))
    s = mixed(np.arange(1000, 1000 + shape[1])[None, :, None], x.astype("f8"))
    wanted = loop(maps.affine, [s, t.astype("f8")], [np.full((1, 3), 0.5)], shape, False)
    assert_close(maps.affine, found, wanted)


@pytest.mark.extended
@pytest.mark.parametrize("channels", [4, 12])
def test_bits_do_not_depend_on_the_grid_nor_on_the_way_into_shared_memory(channels: int) -> None:
    rng = np.random.default_rng(5)
    shape = (3, 24 * 75, channels)
    operands, carry_in = (
        [draw(rng, shape, "f4") for _ in range(2)],
        [draw(rng, (3, channels), "f4")],
    )
    layout = layout_of(channels)
    first = solve(maps.affine, operands, carry_in, shape, layout)[0].view("i4")
    for other, blocks in (
        (layout, 1), (layout, 7), (replace(layout, ahead=2), 4), (replace(layout, bulk=False), 3),
        (replace(layout, stages=3), 5), (replace(layout, stages=2, distance=1), 3),
        (replace(layout, distance=1), 7),
    ):  # fmt: skip
        found = solve(maps.affine, operands, carry_in, shape, other, blocks)[0].view("i4")
        np.testing.assert_array_equal(found, first)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
def test_special_values_stand_where_the_loop_has_them(kind: str, reverse: bool) -> None:
    shape = (2, 24 * 40, 3)
    s, t, carry_in = hostile(np.random.default_rng(6), shape, kind)
    wanted = loop(maps.affine, [s, t], [carry_in], shape, reverse)[0]
    got = solve(maps.affine, [s, t], [carry_in], shape, layout_of(3, reverse=reverse))[0]
    assert_near(got, wanted, rtol=2e-4)


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("reverse", [False, True])
def test_states_of_inf_and_0_in_segments(reverse: bool) -> None:
    rng = np.random.default_rng(7)
    shape = (2, 24 * 40, 3)
    s = rng.uniform(-1, 1, shape)
    s[1] = np.exp2(rng.integers(0, 9, shape[1:]))
    t = rng.choice([0, np.inf, -np.inf], size=shape, p=[0.996, 0.002, 0.002])
    marks = rng.random(shape) < 0.004
    operands = [x.astype("f4") for x in (marks, np.zeros((2, 1, 3)), s, t)]
    carry_in = [np.zeros((2, 3), "f4")]
    segments = segmented(signed_affine, states=1, operands=2)
    got = solve(segments, operands, carry_in, shape, layout_of(3, reverse=reverse))[0]
    wanted = loop(segmented(affine, states=1, operands=2), operands, carry_in, shape, reverse)[0]
    assert {0, np.inf, -np.inf} <= set(wanted.ravel().tolist())
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.extended
@pytest.mark.parametrize("shape", [(1, 13_001, 1), (7, 1003, 1), (1, 24 * 70 + 5, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("reverse", [False, True])
def test_arrays_that_begin_anywhere(shape: Any, dtype: str, reverse: bool) -> None:
    """Bit for bit as arrays that begin at a multiple of 16 bytes."""
    rng = np.random.default_rng(shape[1])
    operands, carry_in = [draw(rng, shape, dtype) for _ in range(2)], [np.ones(shape[::2], dtype)]
    vector = 16 // np.dtype(dtype).itemsize
    # Tiles of 32 threads of 3 vectors each.
    layout = Layout(32, 3 * vector, 2, reverse=reverse, bulk=True, segmented=shape[0] > 1)
    if shape[2] > 1:
        layout = layout_of(shape[2], vector, reverse=reverse)
    first = solve(maps.affine, operands, carry_in, shape, layout)[0].view("u1")
    for shifts in ((1, 0), (0, vector - 1), (1, 1)):
        moved = [shifted(x, shift) for x, shift in zip(operands, shifts, strict=True)]
        assert [x.ctypes.data % 16 // x.itemsize for x in moved] == list(shifts)
        found = solve(maps.affine, moved, carry_in, shape, layout)[0].view("u1")
        np.testing.assert_array_equal(found, first)


def shifted(array: Any, shift: int) -> Any:
    """A copy that begins so many items behind a multiple of 16 bytes."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 16 + shift * array.itemsize
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


TILE = 768
MOBIUS_SHAPES = [(1, 5 * TILE + 5, 1), (1, 3 * TILE, 1), (3, 2500, 1)]
"""A partial tile, the first in reverse; none; several rows."""


@pytest.mark.parametrize(
    "shape",
    [MOBIUS_SHAPES[0], *(pytest.param(s, marks=pytest.mark.extended) for s in MOBIUS_SHAPES[1:])],
    ids=str,
)
@pytest.mark.parametrize("reverse", [True, pytest.param(False, marks=pytest.mark.extended)])
@pytest.mark.parametrize(
    "name", ["plain", "scaled", "poles", "nan", "fixed at 0", "fixed at infinity"]
)
def test_mobius_maps(name: str, shape: Any, reverse: bool) -> None:
    """The scan of a whole tile asks for no kinds of maps."""
    operands, start = mobius_case(name, shape)
    operands = [x.astype("f4") for x in operands]
    layout = replace(small_layout("bulk rows", shape, "f4", reverse), chains=2)
    (found,) = solve(maps.mobius, operands, [np.array(start, "f4")], shape, layout)
    wanted = loop_in_float64(maps.mobius, operands, start, shape, reverse)
    np.testing.assert_allclose(found, wanted, rtol=300 * 2.0**-23, atol=0)
