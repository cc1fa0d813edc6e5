"""CUDA kernels of scans, run on this machine, against a plain loop."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
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
from cuda_on_host import ROOMY, DeviceArray, HostCompiler, as_device, poisoned, use_device

import mgrec
from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import TransferMap, affine, segmented, signed_affine
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.engines.cuda.device import Device
from mgrec.scans import maps, recurrence
from mgrec.scans.cuda import p_scheme, speculation
from mgrec.scans.cuda.determine import prepare
from mgrec.scans.cuda.phases import kernels
from mgrec.scans.cuda.program import ScanLayout
from mgrec.scans.matrix.cuda import phases as matrix_phases
from mgrec.scans.policy import Configuration

pytestmark = pytest.mark.usefixtures("on_host")


# Tiles of 8 parts of 3 steps, and groups of 32 of them.
SMALL = ScanLayout(32, 3, 4, bulk=True, channels=1, ahead=2, distance=2)


def layout_of(channels: int, vector: int = 4, **options: Any) -> ScanLayout:
    parts = -(-8 // vector) * vector
    threads = -(-parts * channels // 32) * 32
    return replace(SMALL, threads=threads, channels=channels, **options)


def lines_of(team: int, **options: Any) -> ScanLayout:
    """Tiles of 32 bytes of each step, which teams of blocks share."""
    return replace(layout_of(8, team=team, lines=True, bulk=False), **options)


def solve(
    transfer_map: TransferMap, operands: Any, carry_in: Any, shape: Any, layout: ScanLayout,
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
@pytest.mark.parametrize(
    "steps", with_extended([1, 23, 24, 25, 24 * 33, 24 * 70 + 5], 1, 23, 24, 24 * 70 + 5)
)
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


@pytest.mark.parametrize("steps", with_extended([1, 792, 1685], 1, 1685))
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
        (layout, 1), (layout, 7), (replace(layout, ahead=3), 4), (replace(layout, bulk=False), 3),
        (replace(layout, stages=3), 5), (replace(layout, stages=2, distance=1), 3),
        (replace(layout, distance=1), 7),
    ):  # fmt: skip
        found = solve(maps.affine, operands, carry_in, shape, other, blocks)[0].view("i4")
        np.testing.assert_array_equal(found, first)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.extended)])
@pytest.mark.parametrize("kind", with_extended(HOSTILE, *HOSTILE[3:8]))
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
    layout = ScanLayout(32, 3 * vector, 2, reverse=reverse, bulk=True, segmented=shape[0] > 1)
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
    "name",
    with_extended(
        ["plain", "scaled", "poles", "nan", "fixed at 0", "fixed at infinity"],
        "scaled",
        "fixed at 0",
        "fixed at infinity",
    ),
)
def test_mobius_maps(name: str, shape: Any, reverse: bool) -> None:
    """The scan of a whole tile asks for no kinds of maps."""
    operands, start = mobius_case(name, shape)
    operands = [x.astype("f4") for x in operands]
    layout = replace(small_layout("bulk rows", shape, "f4", reverse), chains=2)
    (found,) = solve(maps.mobius, operands, [np.array(start, "f4")], shape, layout)
    wanted = loop_in_float64(maps.mobius, operands, start, shape, reverse)
    np.testing.assert_allclose(found, wanted, rtol=300 * 2.0**-23, atol=0)


# --- P-scheme/G ---------------------------------------------------------------------------------


@pytest.fixture
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, Device(90, 4, 10**5))
    use_configuration(monkeypatch, Configuration(3, 32))


def use_configuration(monkeypatch: pytest.MonkeyPatch, configuration: Configuration) -> None:
    monkeypatch.setattr(p_scheme, "default_configuration", lambda *given: configuration)


def by_p_scheme(s: Any, t: Any, initial: Any, reverse: bool) -> Any:
    s, t, initial = (x.view(DeviceArray) for x in (s, t, initial))
    given = {"axis": 1, "reverse": reverse, "method": "p-scheme"}
    return np.asarray(mgrec.linear_recurrence(s, t, initial, **given))


def check_p_scheme(shape: Any, dtype: str, reverse: bool = False) -> None:
    rng = np.random.default_rng(1)
    s, t, initial = (draw(rng, own, dtype) for own in (shape, shape, (shape[0], shape[2])))
    got = by_p_scheme(s, t, initial, reverse)
    wide = {"f": "f8", "c": "c16", "i": "i8"}[np.dtype(dtype).kind]
    operands = [x.astype(wide) for x in (s, t)]
    wanted = loop(maps.affine, operands, [initial.astype(wide)], shape, reverse)
    assert_close(maps.affine, [got], wanted)


@pytest.mark.extended
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i1"])
def test_parts_of_rows_and_columns(dtype: str, reverse: bool, four_processors: None) -> None:
    for shape in [
        (1, 1, 1), (1, 2, 1), (1, 95, 1), (1, 97, 1), (1, 10_007, 1), (3, 500, 1), (200, 7, 1),
        (70, 33, 1), (1, 100, 40), (2, 301, 3), (1, 9, 130),
    ]:  # fmt: skip
        check_p_scheme(shape, dtype, reverse)


@pytest.mark.extended
def test_any_configuration(
    on_host: HostCompiler, four_processors: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_p_scheme((1, 3001, 1), "f8")
    assert [name for name, _, _ in on_host.launches] == [
        "rearrange_kernel", "rearrange_kernel", "precompute_kernel", "propagate_kernel",
        "determine_kernel", "restore_kernel", "repair_kernel",
    ]  # fmt: skip
    assert on_host.launches[2][1:] == (3, 32)
    for configuration in [(1, 1), (2, 48), (1, 1024)]:
        use_configuration(monkeypatch, Configuration(*configuration))
        check_p_scheme((1, 3001, 1), "f8")


@pytest.mark.extended
@pytest.mark.parametrize("reverse", [False, True])
def test_natural_order_gives_the_same_bits(reverse: bool, four_processors: None) -> None:
    """Which benchmarks/papers compares."""
    shape, rng = (3, 3001, 1), np.random.default_rng(7)
    s, t, initial = (as_device(draw(rng, own, "f4")) for own in (shape, shape, (3, 1)))
    chunk, results = Chunk((s, t), shape, np.dtype("f4"), reverse), (poisoned(shape, "f4"),)
    p_scheme.Phases(maps.affine, chunk, (initial,), results, is_rearranged=False)()
    np.testing.assert_array_equal(results[0], by_p_scheme(s, t, initial, reverse))


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(1, 20_001, 1), (4, 5000, 1), (1, 3000, 33)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_special_values_of_parts(
    shape: Any, reverse: bool, four_processors: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheme of the papers alone has nan where a product of 0 and a part overflows."""
    for kind in [*HOSTILE[:3], "large entry decays", "growth to infinity"]:
        s, t, initial = hostile(np.random.default_rng(7), shape, kind)
        (wanted,) = loop(maps.affine, [s, t], [initial], shape, reverse)
        assert_near(by_p_scheme(s, t, initial, reverse), wanted, rtol=3e-5)
    if shape[1] < 20_000:
        return
    monkeypatch.setattr(p_scheme.Phases, "repair", lambda self: None)
    s, t, initial = hostile(np.random.default_rng(7), shape, HOSTILE[0])
    assert not np.isfinite(by_p_scheme(s, t, initial, False)).all()


@pytest.mark.extended
def test_a_wrong_part_is_noticed(four_processors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p_scheme.Phases, "propagate", lambda self: None)
    monkeypatch.setattr(p_scheme.Phases, "repair", lambda self: None)
    with pytest.raises(AssertionError):
        check_p_scheme((1, 3001, 1), "f8")


# --- chunks that are solved before their carry-ins are known ------------------------------------

STEPS = 30_007


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Begin chunks where it would not pay; the chunks that were begun."""
    use_device(monkeypatch, Device(90, 3, 227 * 1024))
    monkeypatch.setattr(recurrence, "LARGE_ON_GPU", 1)
    monkeypatch.setattr(speculation, "_PREFIX_FRACTION", 3)
    monkeypatch.setattr(speculation, "_CONSTANT_PREFIX_FRACTION", 2)
    found: list[Any] = []

    def debug(message: str, *arguments: Any) -> None:
        if "does not depend on its carry-in" in message:
            found.append(arguments[0])

    monkeypatch.setattr(logging.getLogger("mgrec"), "debug", debug)
    return found


def as_device_array(block: Any) -> Any:
    return np.ascontiguousarray(block).view(DeviceArray)


def in_chunks(s: Any, t: Any, initial: Any, reverse: bool = False) -> Any:
    """Solve in two chunks along the second axis."""

    sizes = (t.shape[0], (t.shape[1] // 2, t.shape[1] - t.shape[1] // 2), t.shape[2])
    s, t = (
        da.from_array(x, chunks=sizes).map_blocks(
            as_device_array, meta=as_device_array(x[:0, :0, :0])
        )
        if np.ndim(x)
        else x
        for x in (s, t)
    )
    w = mgrec.linear_recurrence(s, t, initial, axis=1, reverse=reverse)
    w = w.map_blocks(np.array, meta=np.empty((0, 0, 0), w.dtype))
    return w.compute(scheduler="sync")


def check_chunks(s: Any, t: Any, initial: Any, reverse: bool) -> None:
    w = in_chunks(s, t, initial, reverse)
    wide = [np.asarray(np.broadcast_to(x, t.shape), np.float64) for x in (s, t)]
    states = np.asarray(initial, np.float64)
    (wanted,) = loop(maps.affine, wide, [states], t.shape, reverse)
    (sizes,) = loop(maps.affine, [*map(np.abs, wide)], [np.abs(states)], t.shape, reverse)
    assert (np.abs(w - wanted) <= 40 * np.finfo(t.dtype).eps * sizes).all()


def contracting(dtype: str, shape: Any = (1, STEPS, 1), low: float = 0.1) -> Any:
    rng = np.random.default_rng(0)
    return rng.uniform(low, 0.8, shape).astype(dtype), rng.uniform(0.5, 1, shape).astype(dtype)


@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("initial", [0.0, -1e30])
def test_chunks_that_forget_are_begun(
    dtype: str, reverse: bool, initial: float, begun: list[Any]
) -> None:
    check_chunks(*contracting(dtype), np.full((1, 1), initial, dtype), reverse)
    assert len(begun) == 2


@pytest.mark.extended
@pytest.mark.parametrize("shape", [(1, STEPS, 1), (2, STEPS, 1), (1, STEPS, 3)])
@pytest.mark.parametrize("s", [0.5, -0.9])
@pytest.mark.parametrize("reverse", [False, True])
def test_chunks_of_a_constant_coefficient_are_begun(
    shape: Any, s: float, reverse: bool, begun: list[Any]
) -> None:
    t = contracting("f4", shape)[1]
    initial = np.random.default_rng(1).normal(size=(shape[0], shape[2])).astype("f4") * 1e10
    check_chunks(np.float32(s), t, initial.astype("f4"), reverse)
    assert len(begun) == 2


@pytest.mark.extended
@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize("reverse", [False, True])
def test_what_does_not_forget_waits_for_its_entry(reverse: bool) -> None:
    def is_begun(s: Any, t: Any) -> bool:
        s = s if np.ndim(s) == 0 else as_device_array(s)
        operands = np.reshape(s, np.shape(s) or (1, 1, 1)), as_device_array(t)
        chunk = Chunk(operands, t.shape, t.dtype, reverse)
        wait = kernels("auto").speculate(affine, chunk, (as_device_array(poisoned(t.shape, "f4")),))
        return bool(wait and wait())

    s, t = contracting("f4")
    first = slice(-6000, None) if reverse else slice(6000)
    slow, infinite = s.copy(), t.copy()
    slow[:, first] = 0.999
    infinite[:, 20_000] = np.inf
    assert is_begun(s, t)
    for own, terms in ((np.ones_like(s), t), (slow, t), (s, infinite)):
        assert not is_begun(own, terms)
    for constant in (1, 0.999):
        assert not is_begun(np.float32(constant), t)


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("initial", [np.inf, -np.inf, np.nan, 3e38, -3e38])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("sign", [-1, 1])
def test_states_that_are_not_finite(
    initial: float, last: float, sign: float, begun: list[Any]
) -> None:
    """Also one that overflows by the fourth coefficient."""
    s, t = contracting("f4", low=-0.7)
    s[0, 3], s[0, 12_000] = 1e3, sign * s[0, 12_000]
    s[0, 29_000] *= last
    state = np.full((1, 1), initial, "f4")
    w = in_chunks(s, t, state)
    (wanted,) = loop(maps.affine, [s, t], [state], t.shape, False)
    assert len(begun) == 2
    assert not np.isfinite(wanted[0, -1, 0])
    np.testing.assert_array_equal(w[:, 4:], wanted[:, 4:])


def as_gpu(array: Any) -> Any:
    return np.array(array).view(DeviceArray)


def test_maps_of_two_states_in_one_pass(on_host: HostCompiler) -> None:
    """Tiles that are whole, and the last one of each row, which is not."""
    generator = np.random.default_rng(0)
    matrix_map = mgrec.maps.matrix(2)
    for rows, steps, reverse in ((1, 10_011, False), (3, 2001, True)):
        matrices = generator.uniform(-0.7, 0.7, size=(rows, steps, 2, 2))
        operands = matrices, generator.normal(size=(rows, steps, 2))
        initial = generator.normal(size=(rows, 2))
        options = {"reverse": reverse, "axis": 1}
        wanted = mgrec.scan(matrix_map, *operands, initial=initial, **options)
        arrays = map(as_gpu, operands)
        states = mgrec.scan(matrix_map, *arrays, initial=as_gpu(initial), **options)
        assert [name for name, *_ in on_host.launches] == ["determine_kernel"]
        on_host.launches.clear()
        np.testing.assert_allclose(states, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("rows", "steps", "reverse", "algebra"),
    [
        (1, 1000, False, ("+", "*")),
        pytest.param(1, 9001, False, ("+", "*"), marks=pytest.mark.extended),
        pytest.param(3, 9000, True, ("+", "*"), marks=pytest.mark.extended),
        pytest.param(40, 33, False, ("max", "+"), marks=pytest.mark.extended),
        pytest.param(1, 9000, True, ("min", "+"), marks=pytest.mark.extended),
        pytest.param(2, 700, False, ("logsumexp", "+"), marks=pytest.mark.extended),
    ],
)
def test_maps_of_four_states_in_one_pass(
    on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch, rows: int, steps: int, reverse: bool,
    algebra: tuple[str, str],
) -> None:  # fmt: skip
    """Tiles of 32 steps, groups of 16 tiles, and groups of 16 groups.

    Products of all matrices vanish, and forwards that of some overflows.
    """
    monkeypatch.setattr(matrix_phases, "_LENGTH", 1)
    monkeypatch.setattr(matrix_phases, "_FEWEST", 1)
    use_device(monkeypatch, replace(ROOMY, multiprocessors=7))
    generator = np.random.default_rng(0)
    matrices = generator.uniform(-0.7, 0.7, size=(rows, steps, 4, 4))
    operands = matrices, generator.normal(size=(rows, steps, 4))
    initial = generator.normal(size=(rows, 4))
    overflows = algebra == ("+", "*") and not reverse
    if overflows:
        matrices[:, 10:24] = np.repeat([1e60, 1e-60], 7)[:, None, None] * np.eye(4)
        initial *= 1e-200
        operands[1][:, :24] = 0.0
    matrix_map, options = mgrec.maps.matrix(4, algebra), {"reverse": reverse, "axis": 1}
    wanted = mgrec.scan(matrix_map, *operands, initial=initial, **options)
    states = mgrec.scan(matrix_map, *map(as_gpu, operands), initial=as_gpu(initial), **options)
    assert [name for name, *_ in on_host.launches] == ["single_pass_kernel"]
    np.testing.assert_allclose(states, wanted, rtol=1e-11, atol=1e-13)
    if overflows:
        np.testing.assert_allclose(states[:, :24], wanted[:, :24], rtol=1e-11)
