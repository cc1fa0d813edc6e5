"""CUDA kernels of tables, sweeps and loops over grids, run on this machine by public calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, as_device, empty, use_device
from grid_arrays import (
    assert_is_near,
    assert_is_table,
    by_sweeps,
    cumsum_twice,
    loop_sizes,
    numbers,
    same,
    weights_of,
)

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

# One strip, several down, several to the right, of whole words or not; more rows than a tile.
TABLES = [
    (1, 1), (70, 1), (5, 3), (300, 7), (2, 40, 64), (3, 65, 127), (70, 128), (64, 129),
    (65, 385), (200, 260), (130, 1000), (1100, 9), (2100, 16), (700, 130), (1, 700), (129, 516),
    (7000, 3), (3, 3000, 5), (4100, 2),
]  # fmt: skip


def use_blocks(monkeypatch: pytest.MonkeyPatch, blocks: int, shared_bytes: int = 227 << 10) -> None:
    """Pretend that a device has room for one block, or for all: they run one after the other."""
    if blocks == 1:
        for partition in (tables.TablePartition, sweeps.RelaxationPartition):
            monkeypatch.setattr(partition, "blocks", lambda *given: 1)
    use_device(monkeypatch, Device(90, blocks, shared_bytes))


@extended
@pytest.mark.parametrize("blocks", [1, 1000])
@pytest.mark.parametrize(("dtype", "summed"), [("f4", None), ("u1", "i4")])
def test_tables_of_every_shape(
    dtype: str, summed: str | None, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_blocks(monkeypatch, blocks)
    for number, shape in enumerate(TABLES):
        check_table(numbers(shape, dtype, number, 90), dtype=summed)


@extended
@pytest.mark.parametrize(
    ("dtype", "summed"),
    [
        ("u1", None), ("f8", None), ("?", None), ("i2", None), ("i8", None), ("f4", "f8"),
        ("c8", None), ("c16", None), ("u1", "u1"), ("i8", "i1"), ("u1", "c16"), ("f8", "f4"),
        ("u4", "c8"),
    ],
)  # fmt: skip
def test_tables_of_every_dtype(dtype: str, summed: str | None) -> None:
    for number, shape in enumerate([(65, 385), (3, 65, 128), (700, 70)]):
        check_table(numbers(shape, dtype, number, 90), dtype=summed)


@extended
def test_the_bits_do_not_depend_on_the_device_or_on_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


@extended
def test_a_wrong_sum_is_found() -> None:
    x = numbers((65, 385), "f4", 0, 90)
    wrong = cumsum_twice(x)
    wrong[40, 300:] += 90
    with pytest.raises(AssertionError):
        assert_is_table(wrong, x)


# --- sweeps -------------------------------------------------------------------------------------

# One band, several, and several strips; no point, less and more columns than a tile or its skew.
GRIDS = [
    (1, 1), (2, 9), (9, 2), (1, 70), (3, 3), (5, 80), (31, 40), (32, 3), (33, 41), (64, 100),
    (100, 7), (128, 4), (2, 3, 30, 20), (3, 130, 9), (127, 170), (140, 200), (300, 65),
]  # fmt: skip


@extended
@pytest.mark.parametrize(
    ("dtype", "sweeps", "has_rhs"),
    [
        *(("f4", n, False) for n in (1, 3, 7, 8, 16)), *(("f8", n, False) for n in (1, 4, 9)),
        *(("f4", n, True) for n in (1, 7, 10)), *(("f8", n, True) for n in (2, 4, 16)),
    ],
)  # fmt: skip
def test_sweeps_of_every_shape(dtype: str, sweeps: int, has_rhs: bool) -> None:
    shapes = [(5, 3), (29, 75), (130, 160), (250, 9)] if sweeps in (2, 3) else GRIDS
    for number, shape in enumerate(shapes):
        rhs = numbers(shape, dtype, number + 1) if has_rhs else None
        check_sweeps(numbers(shape, dtype, number), rhs, omega=1.3, sweeps=sweeps)


@extended
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_more_sweeps_than_a_launch_does(dtype: str) -> None:
    x, rhs = numbers((2, 12, 40), dtype), numbers((12, 40), dtype, 1)
    check_sweeps(x, rhs, omega=1.9, sweeps=18)


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
def test_tol_over_several_strips() -> None:
    x, rhs = numbers((3, 200, 30)) * 1e-3, numbers((200, 30), seed=1) * 1e-3
    x[1] *= 1e-3
    for tol in (1e-3, 3e-4, 1e-9):
        check_sweeps(x, rhs, omega=1.4, sweeps=13, tol=tol, check_every=3)


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


@extended
def test_a_wrong_bit_is_found() -> None:
    x = numbers((29, 75), "f4")
    wrong = by_sweeps(x, sweeps=3)
    wrong[20, 30] = np.nextafter(wrong[20, 30], np.float32(9))
    with pytest.raises(AssertionError):
        same(solve(mgrec.sor, x, sweeps=3), wrong)


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
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("operators", PAIRS, ids="".join)
def test_loops_of_every_pair_and_dtype(operators: Any, dtype: str, strategy: str) -> None:
    floor = -2 if operators[0] == "max" or strategy == "tiles" else None
    for shape in [(65, 132), (3, 40, 7)]:
        local = numbers(shape, dtype, 0, 5)
        options: dict[str, Any] = {"operators": operators, "floor": floor}
        check_loop(local, strategy, weights=weights_of(shape, dtype), **options)
        check_loop(local, strategy, weights=(1, -2, 3), above=3, **options)


@extended
@each_strategy
def test_borders_batches_and_axes(strategy: str) -> None:
    local = numbers((2, 3, 41, 37), "f4", 0, 5)
    weights = numbers((3, 1, 1), "f4", 1), 0.5, numbers((2, 1, 41, 37), "f4", 2) / 2
    borders = {
        "above": numbers((2, 1, 37), "f4", 3), "left": numbers(41, "f4", 4),
        "corner": numbers((2, 3), "f4", 5),
    }  # fmt: skip
    check_loop(local, strategy, weights=weights, **borders)
    cube, own = numbers((7, 36, 9), "f4", 0, 5), numbers((7, 36, 9), "f4", 1) / 2
    for axes in [(0, 1), (2, 0), (-1, 1)]:
        lacking = [n for k, n in enumerate(cube.shape) if k != axes[0] % 3]
        above = numbers(lacking, "f4", 2)
        check_loop(cube, strategy, weights=(own, 0.5, -0.25), above=above, left=2.0, axes=axes)


@extended
@each_strategy
def test_strides_and_alignment(strategy: str) -> None:
    wide = numbers((2, 3, 66, 150), "f4", 0, 5)
    weights = (numbers((66, 128), "f4", 1) / 2, 0.5, -0.25)
    for view in (
        wide[:, :, ::2, 3:131],
        wide[:, 1],
        wide[..., ::2],
        wide[0].T,
        wide[:, ::2, :, 1:],
    ):
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
@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("operators", PAIRS[:3], ids="".join)
def test_integers_wrap_around(operators: Any, dtype: str, strategy: str) -> None:
    info, generator = np.iinfo(dtype), np.random.default_rng(5)
    local = generator.integers(info.min, info.max, (40, 300), dtype)
    weights = tuple(generator.integers(info.min, info.max, n, dtype) for n in (300, (40, 1), 1))
    check_loop(local, strategy, weights=weights, operators=operators)


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
@each_strategy
def test_own_operators(strategy: str) -> None:
    pairs: list[tuple[str, Any]] = [
        ("i8", (lambda a, b: a ^ b, lambda a, b: a & b)),
        ("f4", (lambda a, b: np.maximum(a, b), "+")),
        ("f8", (lambda a, b: np.maximum(a, b), lambda a, b: np.minimum(a, b))),
        ("i4", (lambda a, b: a ^ b, lambda a, b: a ^ b)),
    ]
    for dtype, operators in pairs:
        local, weights = numbers((40, 270), dtype, 0, 5), weights_of((40, 270), dtype)
        options: dict[str, Any] = {"operators": operators, "weights": weights}
        options |= {"above": 0, "left": 1, "corner": 1}
        result = solve(mgrec.wavefront, local, strategy=strategy, **options)
        wanted = mgrec.wavefront(local, **options)
        np.testing.assert_allclose(result, wanted, rtol=1e-5 if dtype == "f4" else 0)


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
            on_device(numbers((4, 5))), weights=(1, 1, 1), strategy="tiles",
            operators=(lambda a, b: max(a, b), "+"), **borders,
        )  # fmt: skip


@extended
def test_a_wrong_cell_is_found() -> None:
    local, weights = numbers((20, 30), "f4", 0, 5), (0.5, 0.25, -0.125)
    wanted = mgrec.wavefront(local, weights=weights, strategy="tiles")
    wrong, size = wanted.copy(), loop_sizes(local, weights)
    wrong[10, 20] += 1e-3 * size[10, 20]
    with pytest.raises(AssertionError):
        assert_is_near(wrong, wanted, size, (-2, -1))


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
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 3)])
def test_nothing_to_do(shape: tuple[int, ...], function: Any) -> None:
    x = numbers(shape, "f4")
    check_call(function, function(on_device(x)), x)


@extended
@each_function
@pytest.mark.parametrize("shape", [(65, 385), (2, 40, 64), (66, 3)])
def test_prepared_calls_compute_with_their_own_arrays(
    shape: tuple[int, ...], function: Any
) -> None:
    for seed in range(3):
        x = numbers(shape, "f4", seed)
        check_call(function, function(on_device(x)), x)
    out = empty(shape, "f4")
    for seed in range(2):
        x = numbers(shape, "f4", seed)
        assert function(on_device(x), out=out) is out
        check_call(function, out, x)


@extended
@each_function
@pytest.mark.parametrize("chunks", [(40, 70), (7, 150), (90, 37)])
def test_edges_of_chunks(chunks: tuple[int, int], function: Any) -> None:
    """Tiles with the edges of their neighbours are parts of the whole."""
    x = numbers((90, 150), "f4")
    meta = on_device(x[:0, :0])
    lazy = da.from_array(x, chunks=chunks).map_blocks(as_device_array, meta=meta)
    result = function(lazy)
    assert result.chunks == lazy.chunks
    assert isinstance(result._meta, DeviceArray)
    result = result.map_blocks(np.array, meta=np.empty((0, 0), "f4"))
    check_call(function, result.compute(scheduler="sync"), x)


def as_device_array(block: Any) -> Any:
    return np.asarray(as_device(block)).view(DeviceArray)
