"""Kernels of summed-area tables, run on this machine, against ``numpy.cumsum``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, empty, run_on_host, use_kernels

import mgrec
from mgrec.core.backends import backend_of
from mgrec.core.contract.recurrence import ChunkInputs
from mgrec.engines.cuda.device import Device
from mgrec.grids.cuda import transposition
from mgrec.grids.table.api import check_table
from mgrec.grids.table.cuda import layout, phases, program
from mgrec.grids.table.cuda.layout import Partition
from mgrec.grids.table.recurrence import Sums
from mgrec.solve import prepared

pytestmark = pytest.mark.extended


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let public calls of arrays of a device run their launches here."""
    run_on_host(monkeypatch, compiler, phases)
    # The solver launches by addresses.
    use_kernels(monkeypatch, replace(phases.kernels(""), prepare_solver=None))
    use(monkeypatch, 1000)
    yield
    program.prepare_launch.cache_clear()
    transposition._prepare_copy.cache_clear()
    prepared.cache_entry.cache_clear()


def use(monkeypatch: pytest.MonkeyPatch, blocks: int, shared_bytes: int = 227 * 1024) -> None:
    """Pretend that a device has room for one block or for all: they run one after the other."""
    device = Device(90, blocks, shared_bytes)
    if blocks == 1:
        monkeypatch.setattr(Partition, "blocks", lambda *given: 1)
    monkeypatch.setattr(Device, "current", staticmethod(lambda: device))
    program.prepare_launch.cache_clear()
    prepared.cache_entry.cache_clear()


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(seed).normal(size=shape) * 90
    return x.astype(dtype)


def check(x: np.ndarray[Any, Any], axes: tuple[int, int] = (-2, -1), **options: Any) -> None:
    given = x.view(DeviceArray)
    result = mgrec.summed_area_table(given, axes, **options)
    assert isinstance(result, DeviceArray)
    assert_is_table(np.asarray(result), np.asarray(x), axes, **options)


def assert_is_table(
    result: Any, x: Any, axes: tuple[int, int] = (-2, -1), dtype: Any = None
) -> None:
    """Integers to the bit; others within the bound that the docstring states."""
    wanted = x.cumsum(axes[1], dtype).cumsum(axes[0], dtype)
    assert result.dtype == wanted.dtype
    if wanted.dtype.kind in "iu":
        np.testing.assert_array_equal(result, wanted)
    elif result.size:
        wide = "c16" if wanted.dtype.kind == "c" else "f8"
        exact, size = (y.cumsum(axes[1]).cumsum(axes[0]) for y in (x.astype(wide), abs(x * 1.0)))
        steps = sum(x.shape[axis] for axis in axes)
        # The exact table is rounded too.
        bound = steps * np.finfo(wanted.dtype).eps / 2 * size * (2 if wanted.dtype == wide else 1)
        assert (abs(result - exact) <= bound).all()


# One strip, several down, several to the right, of whole words or not; more rows than a tile.
SHAPES = [
    (1, 1), (70, 1), (5, 3), (300, 7), (2, 40, 64), (3, 65, 127), (70, 128), (64, 129),
    (65, 385), (200, 260), (130, 1000), (1100, 9), (2100, 16), (700, 130), (1, 700), (129, 516),
    (7000, 3), (3, 3000, 5), (4100, 2),
]  # fmt: skip
FEW = [(65, 385), (3, 65, 128), (700, 70)]
DTYPES = [
    ("u1", None), ("f8", None), ("?", None), ("i2", None), ("i8", None), ("f4", "f8"),
    ("c8", None), ("c16", None), ("u1", "u1"), ("i8", "i1"), ("u1", "c16"), ("f8", "f4"),
    ("u4", "c8"),
]  # fmt: skip


@pytest.mark.parametrize("blocks", [1, 1000])
@pytest.mark.parametrize(("dtype", "summed"), [("f4", None), ("u1", "i4")])
def test_every_shape(
    dtype: str, summed: str | None, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, blocks)
    for number, shape in enumerate(SHAPES):
        check(draw(shape, dtype, number), dtype=summed)


@pytest.mark.parametrize(("dtype", "summed"), DTYPES)
def test_every_dtype(dtype: str, summed: str | None) -> None:
    for number, shape in enumerate(FEW):
        check(draw(shape, dtype, number), dtype=summed)


def test_the_bits_do_not_depend_on_the_device_or_on_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for shape in [(65, 384), (700, 128), (5, 40, 64), (3000, 3)]:
        x = draw(shape, "f4")
        wanted = np.asarray(mgrec.summed_area_table(x.view(DeviceArray)))
        use(monkeypatch, 1, 99 * 1024)
        np.testing.assert_array_equal(mgrec.summed_area_table(x.view(DeviceArray)), wanted)
        use(monkeypatch, 1000)
        moved = np.empty(x.size + 1, "f4")[1:].reshape(shape)
        moved[...] = x
        assert (moved.ctypes.data - x.ctypes.data) % 16
        np.testing.assert_array_equal(mgrec.summed_area_table(moved.view(DeviceArray)), wanted)
        apart = np.empty((*shape[:-1], shape[-1] + 1), "f4")[..., 1:]
        apart[...] = x
        np.testing.assert_array_equal(mgrec.summed_area_table(apart.view(DeviceArray)), wanted)


@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_edges_cross_tiles(dtype: str) -> None:
    """Tiles with the edges of their neighbours are parts of the whole table."""
    x = draw((2, 150, 400), dtype)
    for rows, columns in [((70,), (130,)), ((0, 65), (400,)), ((3,), (1, 20, 300))]:
        check_tiles(x, (0, *rows, 150), (0, *columns, 400))
    tall = draw((700, 140), dtype)
    check_tiles(tall, (0, 690, 700), (0, 138, 140))


def check_tiles(x: Any, rows: tuple[int, ...], columns: tuple[int, ...]) -> None:
    recurrence = check_table(x, (-2, -1), None, None)[0].recurrence
    backend = backend_of(x.view(DeviceArray))
    result, below = np.empty(x.shape, recurrence.dtype), {}
    for i, end in pairwise(rows):
        left = None
        for j, stop in pairwise(columns):
            part = np.ascontiguousarray(x[..., i:end, j:stop]).view(DeviceArray)
            inputs = ChunkInputs((part,), (0,) * x.ndim, (0,) * x.ndim)
            (tile,), edges = recurrence.determine(backend, inputs, part.shape, below.get(j), left)
            below[j] = left = recurrence.export_edges(edges)
            assert type(left.below) is type(left.right) is np.ndarray
            result[..., i:end, j:stop] = tile
    assert_is_table(result, x)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_parts_have_the_bits_of_the_whole(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(layout, "_MANY", 2)
    monkeypatch.setattr(phases, "_CELLS", 1 << 16)
    monkeypatch.setattr(layout, "_GROUP_BYTES", 1 << 16)
    x, left = draw((2, 700, 520), dtype), Sums(None, draw((2, 700), dtype, 1))
    recurrence = check_table(x, (-2, -1), None, None)[0].recurrence
    backend = backend_of(x.view(DeviceArray))
    part = recurrence.part(backend, x.shape, 1)
    assert part is not None
    assert 2 * part.least <= 700
    assert recurrence.part(backend, x.shape, 2) is None

    def solve(begin: int, end: int, above: Any) -> tuple[Any, Any]:
        own = x[:, begin:end].view(DeviceArray)
        inputs = ChunkInputs((own,), (0,) * 3, (0, begin, 0))
        beside = Sums(None, left.right[:, begin:end])
        (result,), edges = recurrence.determine(backend, inputs, own.shape, above, beside)
        return np.asarray(result), edges

    whole, last = solve(0, 700, None)
    first, edges = solve(0, part.least, None)
    second, end = solve(part.least, 700, edges)
    np.testing.assert_array_equal(np.concatenate([first, second], 1), whole)
    np.testing.assert_array_equal(end.below, last.below)
    np.testing.assert_array_equal(end.right, last.right[:, part.least :])


def test_long_batches_are_launched_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "_MOST_STRIPS", 7)
    check(draw((20, 5, 6), "u1"))
    check(draw((5, 65, 385), "f4"))


def test_a_wrong_sum_is_found() -> None:
    x = draw((65, 385), "f4")
    wrong = x.cumsum(1).cumsum(0)
    wrong[40, 300:] += 90
    with pytest.raises(AssertionError):
        assert_is_table(wrong, x)


def test_groups_of_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_GROUPS", (2,))
    for blocks in (1, 1000):
        use(monkeypatch, blocks)
        for shape in [(3, 2000), (2, 20, 1100), (2000, 200), (16000, 3), (1, 20, 640)]:
            check(draw(shape, "i2"), dtype="i4")


def test_strips_of_every_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow ones, and wide ones of high tiles."""
    monkeypatch.setattr(layout, "_MULTIPROCESSORS", 4)
    monkeypatch.setattr(layout, "_MANY", 1)
    device = Device(90, 4, 227 * 1024)
    for dtype, summed, tile in [("f4", "f4", (128, 64)), ("u1", "i4", (96, 128))]:
        for rows, columns in [(300, 512), (300, 448)]:
            partition = layout.choose_partition(
                (1, rows, columns), np.dtype(dtype), np.dtype(summed), True, device
            )
            assert partition.layout.tile == tile
            check(draw((rows, columns), dtype), dtype=summed)
            check(draw((rows, columns - 1), dtype), dtype=summed)


def test_calls_of_a_kind(compiler: HostCompiler) -> None:
    for shape, axes in [((65, 385), (-2, -1)), ((2, 40, 64), (1, 2)), ((66, 3), (0, 1))]:
        for seed in range(3):
            check(draw(shape, "u1", seed), axes, dtype=np.dtype("i4"))
        x, out = draw(shape, "u1", 9).view(DeviceArray), empty(shape, "u8")
        for _ in range(2):
            assert mgrec.summed_area_table(x, axes, out=out) is out
            assert_is_table(np.asarray(out), np.asarray(x))
            out[...] = 0
    kept = prepared.cache_entry.cache_info()
    assert kept.hits >= 6
