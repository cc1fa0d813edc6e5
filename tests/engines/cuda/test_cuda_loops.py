"""Kernels of wavefront loops, run on this machine, against the loops of NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostCompiler
from wavefront_on_host import (
    PAIRS,
    check,
    each_strategy,
    launched_here,
    numbers,
    weights_of,
)

from mgrec.grids.loops.cuda import choice
from mgrec.grids.loops.cuda.layout import Partition


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from launched_here(compiler, monkeypatch)


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
    monkeypatch.setattr(Partition, "blocks", lambda *given: 1)
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
