"""Kernels of successive over-relaxation, run on this machine, against the plain loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, run_on_host, use_kernels
from grid_arrays import by_sweeps, numbers, same

import mgrec
from mgrec.engines.cuda.device import Device
from mgrec.grids.sor.cuda import layout, phases, program
from mgrec.grids.sor.cuda.layout import Partition

pytestmark = pytest.mark.extended


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let public calls of arrays of a device run their launches here."""
    run_on_host(monkeypatch, compiler, phases)
    # The solver launches by addresses.
    use_kernels(monkeypatch, replace(phases.kernels(""), prepare_solver=None))
    monkeypatch.setattr(layout, "_MOST_WARPS", 4)  # low grids have several strips
    use(monkeypatch, 1000)
    yield
    program.prepare_launch.cache_clear()


def use(monkeypatch: pytest.MonkeyPatch, blocks: int, shared_bytes: int = 227 * 1024) -> None:
    """Pretend that a device has room for one block or for all: they run one after the other."""
    device = Device(90, blocks, shared_bytes)
    if blocks == 1:
        monkeypatch.setattr(Partition, "blocks", lambda *given: 1)
    monkeypatch.setattr(Device, "current", staticmethod(lambda: device))
    program.prepare_launch.cache_clear()


def check(x: Any, rhs: Any = None, **options: Any) -> None:
    given, before = x.view(DeviceArray), x.copy()
    side = rhs.view(DeviceArray) if isinstance(rhs, np.ndarray) else rhs
    result = mgrec.sor(given, side, **options)
    assert isinstance(result, DeviceArray)
    same(result, by_sweeps(x, rhs, **options))
    same(x, before)


# One band, several, and several strips; no point, less and more columns than a tile or its skew.
SHAPES = [
    (1, 1), (2, 9), (9, 2), (1, 70), (3, 3), (5, 80), (31, 40), (32, 3), (33, 41), (64, 100),
    (100, 7), (128, 4), (2, 3, 30, 20), (3, 130, 9), (127, 170), (140, 200), (300, 65),
]  # fmt: skip
FEW = [(5, 3), (29, 75), (130, 160), (250, 9)]


@pytest.mark.parametrize(
    ("dtype", "sweeps"),
    [*(("f4", n) for n in (1, 3, 7, 8, 16)), *(("f8", n) for n in (1, 4, 9))],
)
def test_every_shape(dtype: str, sweeps: int) -> None:
    shapes = FEW if sweeps == 3 else SHAPES
    for number, shape in enumerate(shapes):
        check(numbers(shape, dtype, number), omega=1.3, sweeps=sweeps)


@pytest.mark.parametrize(
    ("dtype", "sweeps"), [("f4", 1), ("f4", 7), ("f4", 10), ("f8", 2), ("f8", 4), ("f8", 16)]
)
def test_right_hand_sides(dtype: str, sweeps: int) -> None:
    shapes = FEW[1:3] if sweeps == 2 else SHAPES
    for number, shape in enumerate(shapes):
        x, rhs = numbers(shape, dtype, number), numbers(shape, dtype, number + 1)
        check(x, rhs, omega=1.6, sweeps=sweeps)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_more_sweeps_than_a_launch_does(dtype: str) -> None:
    x, rhs = numbers((2, 12, 40), dtype), numbers((12, 40), dtype, 1)
    check(x, rhs, omega=1.9, sweeps=18)


def test_one_block_takes_all_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, 1)
    for shape in [(130, 160), (2, 300, 9)]:
        check(numbers(shape, "f4"), omega=1.3, sweeps=3)


@pytest.mark.parametrize("blocks", [1, 1000])
def test_strips_pass_on_edges_in_turns(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, blocks)
    monkeypatch.setattr(layout, "MOST_WORDS", 100)
    monkeypatch.setattr(layout, "_WARPS", 1)
    x = numbers((390, 9), "f4")
    for _ in range(2):
        check(x, omega=1.3, sweeps=2)


def test_low_grids_are_one_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_MOST_WARPS", 8)
    check(numbers((200, 9), "f4"), omega=1.3)


def test_less_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips have fewer bands there, and results the same bits."""
    use(monkeypatch, 1000, 64 * 1024)
    check(numbers((70, 75), "f4"), numbers((70, 75), "f4", 1), omega=1.3, sweeps=3)


def test_tol_over_several_strips() -> None:
    x, rhs = numbers((3, 200, 30)) * 1e-3, numbers((200, 30), seed=1) * 1e-3
    x[1] *= 1e-3
    for tol in (1e-3, 3e-4, 1e-9):
        check(x, rhs, omega=1.4, sweeps=13, tol=tol, check_every=3)


def test_batches_are_launched_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "MOST_WORDS", 900)
    x = numbers((5, 130, 9), "f4")
    x[::2] *= 1e-3
    assert list(phases._split_batch(5, 200, 2)) == [(0, 2), (2, 2), (4, 1)]
    check(x, omega=1.3, sweeps=6, tol=3e-3, check_every=3)


def test_too_many_columns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "_MOST", 20)
    with pytest.raises(ValueError, match=r"x must have at most 20 rows .* got shape \(3, 21\)"):
        check(numbers((3, 21)))


def test_sweeps_are_shared_among_launches() -> None:
    for dtype, room in (("f4", 227), ("f8", 227), ("f4", 64), ("f8", 64)):
        for has_rhs in (False, True):
            groups = layout.group_counts(np.dtype(dtype), has_rhs, room * 1024)
            assert all(sweeps % number == 0 for sweeps, number in groups.items())
            for sweeps in range(1, 100):
                parts = layout.split_sweeps(sweeps, groups)
                assert sum(parts) == sweeps
                assert set(parts) <= set(groups)
                assert len(parts) <= sweeps // max(groups) + 2


def test_a_wrong_bit_is_found() -> None:
    x = numbers((29, 75), "f4")
    wrong = by_sweeps(x, sweeps=3)
    wrong[20, 30] = np.nextafter(wrong[20, 30], np.float32(9))
    with pytest.raises(AssertionError):
        same(mgrec.sor(x.view(DeviceArray), sweeps=3), wrong)
