"""CUDA kernels of tables, sweeps and loops over grids, run on this machine by public calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, empty, use_device
from grid_arrays import assert_is_near, assert_is_table, by_sweeps, loop_sizes, numbers, same, weights_of

import mgrec
from mgrec.engines.cuda.device import Device
from mgrec.grids.loops import cuda as loops
from mgrec.grids.loops import layout as choice
from mgrec.grids.sor import cuda as sweeps
from mgrec.grids.table import cuda as tables

extended = pytest.mark.extended
PAIRS = [("+", "*"), ("max", "+"), ("min", "+"), ("+", "+")]


@pytest.fixture(autouse=True)
def _on_host(on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    # One program of each kind of loop, since building takes longer than running; low grids have
    # several strips.
    monkeypatch.setattr(choice, "_ROWS_OF_A_LANE", (2,))
    monkeypatch.setattr(choice, "_WARPS_OF_A_BLOCK", (1,))
    monkeypatch.setattr(sweeps, "_MOST_WARPS", 4)


def on_device(value: Any) -> Any:
    return value.view(DeviceArray) if isinstance(value, np.ndarray) and value.ndim else value


def solve(function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """Solve arrays of a device; operands stay as they are."""
    given = {
        name: tuple(map(on_device, value)) if name == "weights" else on_device(value)
        for name, value in options.items()
    }
    before = [np.array(array) for array in arrays]
    result = function(*map(on_device, arrays), **given)
    assert isinstance(result, DeviceArray)
    for array, values in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, values)
    return np.asarray(result)


def check_table(x: Any, axes: tuple[int, int] = (-2, -1), dtype: Any = None) -> None:
    result = solve(mgrec.summed_area_table, x, axes=axes, dtype=dtype)
    assert_is_table(result, np.asarray(x), axes, dtype)


def check_sweeps(x: Any, rhs: Any = None, **options: Any) -> None:
    same(solve(mgrec.sor, x, rhs, **options), by_sweeps(x, rhs, **options))


def check_loop(local: Any, strategy: str, **options: Any) -> None:
    """The bits of the loop, or by compensation of floats results within the stated bound."""
    result = solve(mgrec.wavefront, local, strategy=strategy, **options)
    wanted = mgrec.wavefront(local, strategy="tiles", **options)
    assert result.dtype == wanted.dtype
    if strategy in ("tiles", "hyperplane") or wanted.dtype.kind == "i":
        np.testing.assert_array_equal(result, wanted)
    else:
        size = loop_sizes(local, **options)
        assert_is_near(result, wanted, size, options.get("axes", (-2, -1)))


# --- summed-area tables -------------------------------------------------------------------------


def use_blocks(monkeypatch: pytest.MonkeyPatch, blocks: int, shared_bytes: int = 227 << 10) -> None:
    """Pretend that a device has room for one block, or for all: they run one after the other."""
    if blocks == 1:
        for partition in (tables.TablePartition, sweeps.RelaxationPartition):
            monkeypatch.setattr(partition, "blocks", lambda *given: 1)
    use_device(monkeypatch, Device(90, blocks, shared_bytes))


@extended
def test_the_bits_do_not_depend_on_the_device_or_on_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in [(65, 384), (700, 128), (5, 40, 64), (3000, 3)]:
        x = numbers(shape, "f4", 0, 90)
        wanted = solve(mgrec.summed_area_table, x)
        with monkeypatch.context() as patch:
            use_blocks(patch, 1, 99 * 1024)
            same(solve(mgrec.summed_area_table, x), wanted)
        use_blocks(monkeypatch, 1000)
        moved = np.empty(x.size + 1, "f4")[1:].reshape(shape)
        apart = np.empty((*shape[:-1], shape[-1] + 1), "f4")[..., 1:]
        for copy in (moved, apart):
            copy[...] = x
            assert (copy.ctypes.data - x.ctypes.data) % 16
            same(solve(mgrec.summed_area_table, copy), wanted)


@extended
def test_groups_of_strips_and_long_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tables, "_GROUPS", (2,))
        for blocks in (1, 1000):
            use_blocks(patch, blocks)
            for shape in [(3, 2000), (2, 20, 1100), (2000, 200), (16000, 3), (1, 20, 640)]:
                check_table(numbers(shape, "i2", 0, 90), dtype="i4")
    use_blocks(monkeypatch, 1000)
    monkeypatch.setattr(tables, "_MOST_STRIPS", 7)
    check_table(numbers((20, 5, 6), "u1", 0, 90))
    check_table(numbers((5, 65, 385), "f4", 0, 90))


@extended
def test_strips_of_every_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow ones, and wide ones of high tiles."""
    monkeypatch.setattr(tables, "_MULTIPROCESSORS", 4)
    monkeypatch.setattr(tables, "_MANY", 1)
    device = Device(90, 4, 227 * 1024)
    use_device(monkeypatch, device)
    for dtype, summed, tile in [("f4", "f4", (128, 64)), ("u1", "i4", (96, 128))]:
        for rows, columns in [(300, 512), (300, 448)]:
            partition = tables.choose_partition(
                (1, rows, columns), np.dtype(dtype), np.dtype(summed), True, device
            )
            assert partition.layout.tile == tile
            check_table(numbers((rows, columns), dtype, 0, 90), dtype=summed)
            check_table(numbers((rows, columns - 1), dtype, 0, 90), dtype=summed)


# --- sweeps -------------------------------------------------------------------------------------


@extended
def test_sweeps_on_devices_of_other_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block takes all strips; strips have fewer bands, and results the same bits."""
    x = numbers((70, 75), "f4")
    use_blocks(monkeypatch, 1000, 64 * 1024)
    check_sweeps(x, x[::-1].copy(), omega=1.3, sweeps=3)
    use_blocks(monkeypatch, 1)
    for shape in [(130, 160), (2, 300, 9)]:
        check_sweeps(numbers(shape, "f4"), omega=1.3, sweeps=3)


@extended
@pytest.mark.parametrize("blocks", [1, 1000])
def test_strips_pass_on_edges_in_turns(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "MOST_WORDS", 100)
    monkeypatch.setattr(sweeps, "_WARPS", 1)
    use_blocks(monkeypatch, blocks)
    for _ in range(2):
        check_sweeps(numbers((390, 9), "f4"), omega=1.3, sweeps=2)


@extended
def test_low_grids_are_one_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_MOST_WARPS", 8)
    check_sweeps(numbers((200, 9), "f4"), omega=1.3)


@extended
def test_batches_of_sweeps_are_launched_in_pieces(
    on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = numbers((5, 130, 9), "f4")
    x[::2] *= 1e-3
    counts = []
    for most in (sweeps.MOST_WORDS, 900):
        monkeypatch.setattr(sweeps, "MOST_WORDS", most)
        on_host.launches.clear()
        check_sweeps(x, omega=1.3, sweeps=6, tol=3e-3, check_every=3)
        counts.append(len(on_host.launches))
    assert counts[1] > counts[0]


@extended
def test_too_many_columns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_MOST", 20)
    with pytest.raises(ValueError, match=r"x must have at most 20 rows .* got shape \(3, 21\)"):
        check_sweeps(numbers((3, 21)))


# --- loops --------------------------------------------------------------------------------------

EVEN = [(1, 1), (1, 68), (70, 4), (3, 8), (33, 40), (2, 65, 132), (64, 256), (20, 600), (300, 8)]
ODD = [(1, 1), (1, 70), (70, 1), (3, 5), (33, 41), (2, 65, 130), (300, 9)]
each_strategy = pytest.mark.parametrize(
    "strategy", ["tiles", "compensation", pytest.param("hyperplane", marks=extended)]
)


@each_strategy
@pytest.mark.parametrize("shapes", [EVEN, pytest.param(ODD, marks=extended)], ids=["even", "odd"])
def test_loops_of_every_shape(strategy: str, shapes: list[tuple[int, ...]]) -> None:
    for number, shape in enumerate(shapes):
        check_loop(numbers(shape, "f4", number, 5), strategy, weights=(0.5, 0.25, -0.125))


@extended
@each_strategy
def test_strides_and_alignment(strategy: str) -> None:
    wide = numbers((2, 3, 66, 150), "f4", 0, 5)
    weights = (numbers((66, 128), "f4", 1) / 2, 0.5, -0.25)
    for view in (wide[:, :, ::2, 3:131], wide[:, 1], wide[..., ::2], wide[0].T, wide[:, ::2, :, 1:]):
        own = weights if view.shape[-2:] == (66, 128) else (0.5, 0.5, -0.25)
        check_loop(view, strategy, weights=own)
    check_loop(np.broadcast_to(np.float32(3), (40, 64)), strategy, weights=(0.5, 0.25, 0.125))


@extended
@each_strategy
def test_one_block_for_all_strips(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgrec.grids.loops.layout.LoopPartition.blocks", lambda *given: 1)
    for shape in [(140, 70), (2, 40, 600)]:
        weights = weights_of(shape, "f4")
        check_loop(numbers(shape, "f4", 0, 5), strategy, weights=weights)


@extended
@pytest.mark.parametrize("warps", [2, 4])
def test_rows_of_several_warps(warps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_WARPS_OF_A_BLOCK", (warps,))
    for shape in [(9, 2100), (3, 700), (2, 4, 515)]:
        weights = weights_of(shape, "f4")
        check_loop(numbers(shape, "f4", 0, 5), "compensation", weights=weights)
    local, options = numbers((5, 1030), "i4", 0, 5), {"operators": ("max", "+"), "floor": 0}
    check_loop(local, "compensation", weights=(-2, -2, 3), **options)


@extended
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_rows_of_a_lane(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_ROWS_OF_A_LANE", (rows,))
    for shape in [(300, 70), (33, 141)]:
        check_loop(numbers(shape, "f4", 0, 5), "tiles", weights=weights_of(shape, "f4"))


@extended
@each_strategy
@np.errstate(all="ignore")
def test_special_values_stand_where_the_loop_has_them(strategy: str) -> None:
    local = numbers((40, 300), "f4", 0, 5)
    local[4, 7], local[10, 3], local[15, 200] = np.nan, np.inf, -np.inf
    for weights in ((0.5, -0.5, 1), (0.0, 1, 0), (2.5, 1, -np.inf)):
        check_loop(local, strategy, weights=weights)
    # 0.5**300 and its like underflow, and overflow, where the loop has numbers.
    for b0 in (0.5, 1e-30, 3.0, np.float32([1e-30, 1e30] * 150)):
        local = np.zeros((4, 300), "f4")
        local[:, 100] = 1e-3
        check_loop(local, strategy, weights=(b0, 0, 0), left=numbers(4, "f4") * 5e30)


@extended
@pytest.mark.parametrize(
    ("strategy", "dtype"), [("tiles", "f4"), ("compensation", "f4"), ("compensation", "i4")]
)
def test_the_hybrid_goes_along_columns(
    strategy: str, dtype: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "mgrec")
    monkeypatch.setattr(loops, "choose_traversal", lambda *given: choice.Traversal(strategy, True))
    local = numbers((2, 40, 68), dtype, 0, 5)
    borders = {"above": numbers((2, 68), dtype, 1, 5), "left": 2}
    for weights in ((3, -1, 2), weights_of((40, 68), dtype)):
        check_loop(local, "hybrid", weights=weights, **borders)
        if strategy == "tiles":
            check_loop(local, "tiles", weights=weights, **borders)
    picked = f"wavefront: {strategy} by columns, shape (2, 40, 68), {local.dtype}"
    assert caplog.messages.count(picked) == 2


@extended
def test_operators_that_cannot_be_traced_are_refused() -> None:
    borders = {"above": 0.0, "left": 0.0, "corner": 0.0}
    with pytest.raises(TypeError, match=r"Operator '<lambda>' cannot run on a GPU.*np.maximum"):
        mgrec.wavefront(
            on_device(numbers((4, 5))),
            weights=(1, 1, 1),
            strategy="tiles",
            operators=(lambda a, b: max(a, b), "+"),
            **borders,
        )


# --- calls of each of them ----------------------------------------------------------------------


def table(x: Any, **options: Any) -> Any:
    return mgrec.summed_area_table(x, **options)


def swept(x: Any, **options: Any) -> Any:
    return mgrec.sor(x, omega=1.3, sweeps=2, **options)


def looped(x: Any, strategy: str = "tiles", **options: Any) -> Any:
    like = on_device if isinstance(getattr(x, "_meta", x), DeviceArray) else np.asarray
    weights = tuple(map(like, weights_of(x.shape[-2:], "f4")[:2]))
    return mgrec.wavefront(x, weights=(*weights, -0.5), above=3.0, strategy=strategy, **options)


each_function = pytest.mark.parametrize("function", [table, swept, looped])


def check_call(function: Any, result: Any, x: Any) -> None:
    if function is table:
        assert_is_table(np.asarray(result), x)
    else:
        same(np.asarray(result), function(x))


@extended
@each_function
@pytest.mark.parametrize("shape", [(65, 385), (2, 40, 64), (66, 3)])
def test_prepared_calls_compute_with_their_own_arrays(shape: tuple[int, ...], function: Any) -> None:
    for seed in range(3):
        x = numbers(shape, "f4", seed)
        check_call(function, function(on_device(x)), x)
    out = empty(shape, "f4")
    for seed in range(2):
        x = numbers(shape, "f4", seed)
        assert function(on_device(x), out=out) is out
        check_call(function, out, x)
