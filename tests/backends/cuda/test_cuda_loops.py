"""Kernels of wavefront loops, run on this machine, against the loops of NumPy arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, numpy_as_cupy, poisoned

import mgrec
from mgrec import backends
from mgrec.algebra.operators import PLUS_TIMES
from mgrec.backends.cuda.device import launches
from mgrec.backends.cuda.device.compilation import Device
from mgrec.backends.cuda.wavefront import phases
from mgrec.backends.cuda.wavefront.loops import choice, operands, program
from mgrec.backends.cuda.wavefront.loops.layout import Along, Cut, Kind
from mgrec.families.kernels import Backend
from mgrec.placement.dask.tasks import limits

Array = np.ndarray[Any, Any]
PAIRS = [("+", "*"), ("max", "+"), ("min", "+"), ("+", "+")]
STRATEGIES = ["tiles", "compensation"]
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> HostCompiler:
    return HostCompiler(tmp_path_factory.mktemp("kernels"))


def on_device(array: Any) -> Any:
    return np.asarray(array).view(DeviceArray)


def empty(shape: Any, dtype: Any) -> Any:
    return on_device(poisoned(shape, dtype))


class Space:
    """Memory in which strips tell each other numbers: what earlier launches left stays there."""

    def __init__(self) -> None:
        self.epoch, self.words = 0, np.zeros(1 << 16, np.uint64)

    def __call__(self, units: int) -> tuple[Any, np.uint32]:
        assert 0 < units <= self.words.size
        self.epoch += 1
        return self.words, np.uint32(self.epoch)


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let public calls of arrays of a device run their launches here."""
    cupy = numpy_as_cupy()
    cupy.empty = empty  # type: ignore[attr-defined]
    cupy.ascontiguousarray = lambda x: on_device(np.array(x, order="C"))  # type: ignore
    cupy.broadcast_to = lambda *given: on_device(np.broadcast_to(*given))  # type: ignore
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        runtime=SimpleNamespace(getDevice=lambda: 0)
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(launches, "compile_kernel", compiler)
    monkeypatch.setattr(program, "descriptors", Space())
    monkeypatch.setattr(operands, "on_device", on_device)
    backend = Backend(lambda arrays: DeviceArray.device, empty, lambda family: phases.kernels(""))
    monkeypatch.setattr(backends, "_gpu", lambda method: backend)
    device = Device(90, 1000, 227 * 1024)  # room for all strips: they run one after the other
    monkeypatch.setattr(Device, "current", staticmethod(lambda: device))
    program.prepared_of.cache_clear()
    yield
    program.prepared_of.cache_clear()


def numbers(shape: Any, dtype: str = "f4", seed: int = 0) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) * 5).astype(dtype)


def weights_of(shape: tuple[int, ...], dtype: str = "f4") -> tuple[Array, ...]:
    """An array, a row and a column."""
    *_, rows, columns = shape
    shapes = shape, (columns,), (rows, 1)
    return tuple((numbers(own, "f8", k) / 9).astype(dtype) for k, own in enumerate(shapes, 1))


def on_gpu(value: Any) -> Any:
    return on_device(value) if isinstance(value, np.ndarray) and value.ndim else value


def run(local: Array, **options: Any) -> Array:
    given = {name: on_gpu(value) for name, value in options.items()}
    given["weights"] = tuple(map(on_gpu, options["weights"]))
    result = mgrec.wavefront(on_gpu(local), **given)
    assert isinstance(result, DeviceArray)
    return np.asarray(result)


def check(local: Array, strategy: str, **options: Any) -> None:
    """The bits of the loop, but for floats by compensation: these within the stated bound."""
    result = run(local, strategy=strategy, **options)
    wanted = mgrec.wavefront(local, strategy="tiles", **options)
    assert result.dtype == wanted.dtype
    if strategy == "tiles" or wanted.dtype.kind == "i":
        np.testing.assert_array_equal(result, wanted)
    else:
        assert_is_near(result, wanted, size_of(local, **options), options.get("axes", (-2, -1)))


def size_of(local: Array, weights: Any, operators: Any = ("+", "*"), **options: Any) -> Array:
    """W of the stated bound: the loop over what is finite, without signs."""
    pair = ("max" if operators[0] == "min" else operators[0], operators[1])
    borders = {name: options.pop(name, 0) for name in ("above", "left", "corner")}
    options = {name: sizes(value) for name, value in borders.items()} | options
    return mgrec.wavefront(
        sizes(local), weights=tuple(map(sizes, weights)), operators=pair, **options
    )


def sizes(values: Any) -> Array:
    return np.abs(np.nan_to_num(np.asarray(values, "f8"), posinf=0, neginf=0))


def assert_is_near(result: Array, wanted: Array, size: Array, axes: tuple[int, int]) -> None:
    for same in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(same(result), same(wanted))
    at = np.isfinite(wanted)
    steps = sum(wanted.shape[axis] for axis in axes)
    bound = 8 * steps * np.finfo(wanted.dtype).eps / 2 * size
    assert (abs(result[at].astype("f8") - wanted[at]) <= bound[at]).all()


SHAPES = [(1, 1), (1, 68), (70, 4), (3, 8), (33, 40), (2, 65, 132), (64, 256), (20, 600), (300, 8)]
ODD = [(1, 1), (1, 70), (70, 1), (3, 5), (33, 41), (2, 65, 130), (300, 9)]


@each_strategy
@pytest.mark.parametrize(
    "shapes", [SHAPES, pytest.param(ODD, marks=pytest.mark.extended)], ids=["even", "odd"]
)
def test_every_shape(strategy: str, shapes: list[tuple[int, ...]]) -> None:
    for number, shape in enumerate(shapes):
        check(numbers(shape, seed=number), strategy, weights=(0.5, 0.25, -0.125))


@each_strategy
@pytest.mark.parametrize(
    ("operators", "dtype"),
    [
        pytest.param(pair, dtype, marks=pytest.mark.extended)
        for pair in PAIRS for dtype in ("i4", "i8", "f4", "f8")
    ],
)  # fmt: skip
def test_every_pair_and_dtype(operators: Any, dtype: str, strategy: str) -> None:
    floor = -2 if operators[0] == "max" or strategy == "tiles" else None
    for shape in [(65, 132), (3, 40, 7)]:
        local, options = numbers(shape, dtype), {"operators": operators, "floor": floor}
        check(local, strategy, weights=weights_of(shape, dtype), **options)
        check(local, strategy, weights=(1, -2, 3), above=3, **options)


@pytest.mark.extended
@each_strategy
def test_borders_batches_and_axes(strategy: str) -> None:
    local = numbers((2, 3, 41, 37))
    weights = numbers((3, 1, 1), seed=1) / 9, 0.5, numbers((2, 1, 41, 37), seed=2) / 9
    borders = {
        "above": numbers((2, 1, 37), seed=3), "left": numbers(41, seed=4),
        "corner": numbers((2, 3), seed=5),
    }  # fmt: skip
    check(local, strategy, weights=weights, **borders)
    cube, own = numbers((7, 36, 9)), numbers((7, 36, 9), seed=1) / 9
    for axes in [(0, 1), (2, 0), (-1, 1)]:
        lacking = [n for k, n in enumerate(cube.shape) if k != axes[0] % 3]
        above = numbers(lacking, seed=2)
        check(cube, strategy, weights=(own, 0.5, -0.25), above=above, left=2.0, axes=axes)


@pytest.mark.extended
@each_strategy
def test_strides_and_alignment(strategy: str) -> None:
    wide = numbers((2, 3, 66, 150))
    weights = (numbers((66, 128), seed=1) / 9, 0.5, -0.25)
    for view in (
        wide[:, :, ::2, 3:131],
        wide[:, 1],
        wide[..., ::2],
        wide[0].T,
        wide[:, ::2, :, 1:],
    ):
        own = weights if view.shape[-2:] == (66, 128) else (0.5, 0.5, -0.25)
        check(view, strategy, weights=own)
    check(np.broadcast_to(np.float32(3), (40, 64)), strategy, weights=(0.5, 0.25, 0.125))


@pytest.mark.extended
@each_strategy
def test_one_block_or_one_for_every_strip(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cut, "blocks", lambda *given: 1)
    for shape in [(140, 70), (2, 40, 600)]:
        check(numbers(shape), strategy, weights=weights_of(shape))


@pytest.mark.extended
@pytest.mark.parametrize("warps", [2, 4])
def test_rows_of_several_warps(warps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_WARPS_OF_A_BLOCK", (warps,))
    for shape in [(9, 2100), (3, 700), (2, 4, 515)]:
        check(numbers(shape), "compensation", weights=weights_of(shape))
    local = numbers((5, 1030), "i4")
    check(local, "compensation", weights=(-2, -2, 3), operators=("max", "+"), floor=0)


@pytest.mark.extended
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_rows_of_a_lane(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_ROWS_OF_A_LANE", (rows,))
    for shape in [(300, 70), (33, 141)]:
        check(numbers(shape), "tiles", weights=weights_of(shape))


EXTREMES = [
    (("max", "+"), "i4"),
    *(
        pytest.param(pair, dtype, marks=pytest.mark.extended)
        for pair in PAIRS[:3] for dtype in ("i4", "i8")
    ),
]  # fmt: skip


@each_strategy
@pytest.mark.parametrize(("operators", "dtype"), EXTREMES)
def test_integers_wrap_around(operators: Any, dtype: str, strategy: str) -> None:
    info, generator = np.iinfo(dtype), np.random.default_rng(5)
    local = generator.integers(info.min, info.max, (40, 300), dtype)
    weights = tuple(generator.integers(info.min, info.max, n, dtype) for n in (300, (40, 1), 1))
    check(local, strategy, weights=weights, operators=operators)


@each_strategy
def test_nan_and_inf_stand_where_the_loop_has_them(strategy: str) -> None:
    local = numbers((40, 300))
    local[4, 7], local[10, 3], local[15, 200] = np.nan, np.inf, -np.inf
    for weights in ((0.5, -0.5, 1), (0.0, 1, 0), (2.5, 1, -np.inf)):
        with np.errstate(all="ignore"):
            check(local, strategy, weights=weights)


@pytest.mark.extended
@each_strategy
def test_products_of_weights_beyond_the_range(strategy: str) -> None:
    """0.5**300 and its like underflow, and overflow, where the loop has numbers."""
    for b0 in (0.5, 1e-30, 3.0, np.float32([1e-30, 1e30] * 150)):
        local = np.zeros((4, 300), "f4")
        local[:, 100] = 1e-3
        with np.errstate(all="ignore"):
            check(local, strategy, weights=(b0, 0, 0), left=numbers(4) * 1e30)


@pytest.mark.extended
@each_strategy
def test_own_operators(strategy: str) -> None:
    pairs = [
        ("i8", (lambda a, b: a ^ b, lambda a, b: a & b)),
        ("f4", (lambda a, b: np.maximum(a, b), "+")),
        ("f8", (lambda a, b: np.maximum(a, b), lambda a, b: np.minimum(a, b))),
        ("i4", (lambda a, b: a ^ b, lambda a, b: a ^ b)),
    ]
    for dtype, operators in pairs:
        local, weights = numbers((40, 270), dtype), weights_of((40, 270), dtype)
        options: dict[str, Any] = {"operators": operators, "weights": weights}
        result = run(local, strategy=strategy, above=0, left=1, corner=1, **options)
        wanted = mgrec.wavefront(local, above=0, left=1, corner=1, **options)
        np.testing.assert_allclose(result, wanted, rtol=1e-5 if dtype == "f4" else 0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 3)])
def test_nothing_to_do(shape: tuple[int, ...]) -> None:
    check(numbers(shape), "tiles", weights=(1, 1, 1))


@each_strategy
def test_out(strategy: str) -> None:
    local, out = numbers((40, 64)), empty((40, 64), "f4")
    given = {"weights": (0.5, 0.25, 0.125), "strategy": strategy}
    assert mgrec.wavefront(on_device(local), out=out, **given) is out
    np.testing.assert_array_equal(out, run(local, **given))


@pytest.mark.parametrize(
    "strategy", ["tiles", pytest.param("compensation", marks=pytest.mark.extended)]
)
def test_dask_arrays(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(limits._KNOWN, DeviceArray.device.id, 2**30)

    def move(x: Any) -> Any:
        return on_device(np.ascontiguousarray(x))

    local = numbers((90, 150), "i4")
    options = {"weights": (1, -2, 3), "operators": ("max", "+"), "above": np.arange(150)}
    options = {name: on_gpu(value) for name, value in options.items()}
    for chunks in [(40, 70), (7, 150)]:
        lazy = da.from_array(local, chunks=chunks).map_blocks(move, meta=move(local[:0, :0]))
        table = mgrec.wavefront(lazy, strategy=strategy, **options)
        assert table.chunks == lazy.chunks
        table = table.map_blocks(np.array, meta=np.empty((0, 0), table.dtype))
        wanted = run(local, **options)
        np.testing.assert_array_equal(table.compute(scheduler="sync"), wanted)


def test_the_hybrid_picks_by_shape() -> None:
    """More of what is side by side; by tiles where compensation would not be the loop's."""
    kind = Kind(PLUS_TIMES, np.dtype("f4"), (Along.ARRAY, *[Along.CONSTANT] * 3), False, True)
    device = Device(90, 132, 227 * 1024)
    for shape, picked in [((1, 2**8, 2**15), "compensation"), ((1, 2**15, 2**8), "tiles")]:
        assert choice.cut_of("hybrid", kind, shape, device, True).strategy == picked
        assert choice.cut_of("hybrid", kind, shape, device, False).strategy == "tiles"


def test_operators_that_cannot_be_traced_are_refused() -> None:
    local, pair = on_device(numbers((4, 5))), (lambda a, b: max(a, b), "+")
    with pytest.raises(TypeError, match=r"Operator '<lambda>' cannot run on a GPU.*np.maximum"):
        mgrec.wavefront(
            local, weights=(1, 1, 1), operators=pair, above=0.0, left=0.0, corner=0.0,
            strategy="tiles",
        )  # fmt: skip


def test_a_wrong_cell_is_found() -> None:
    local = numbers((20, 30))
    wanted = mgrec.wavefront(local, weights=(0.5, 0.25, -0.125), strategy="tiles")
    wrong, size = wanted.copy(), size_of(local, (0.5, 0.25, -0.125))
    wrong[10, 20] += 1e-3 * size[10, 20]
    with pytest.raises(AssertionError):
        assert_is_near(wrong, wanted, size, (-2, -1))
