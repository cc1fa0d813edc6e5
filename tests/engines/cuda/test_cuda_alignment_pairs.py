"""Kernels of many pairs of sequences, run on this machine, against the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_alignments import (
    AFFINE,
    HALF_TABLE,
    HALVES,
    LARGE,
    LINEAR,
    MODES,
    TABLE,
    WIDE_TABLE,
    align_on_host,
    draw,
    pair_by_the_loop,
    with_mode,
)
from cuda_on_host import DeviceArray, HostCompiler

from mgrec.grids.alignment.cuda import pairs
from mgrec.grids.alignment.scoring import Scoring
from mgrec.grids.alignment.sequences import join

extended = pytest.mark.extended


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    align_on_host(compiler, monkeypatch)


def check_pairs(scoring: Scoring, sizes: Any, dtype: Any = np.int64, letter: str = "u1") -> None:
    """Sizes of the queries and of the targets; one on a side goes with all on the other."""
    sides = [
        join([np.asarray(draw(100 * k + number, size, letter)) for number, size in enumerate(side)])
        for k, side in enumerate(sizes)
    ]
    given = [type(side)(side.codes.view(DeviceArray), side.offsets) for side in sides]
    have = pairs.determine_pairs(scoring, *given, dtype)
    count = max(map(len, sides))
    wanted = [
        pair_by_the_loop(scoring, *(side[0 if len(side) == 1 else k] for side in sides), dtype)
        for k in range(count)
    ]
    assert type(have) is np.ndarray
    assert have.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(have, wanted)


# One strip of rows and several, characters that are none, and one sequence for all.
LENGTHS = [
    ([1, 40, 0, 70, 64, 130, 0, 33], [20, 50, 9, 1, 70, 35, 0, 100]),
    ([50], [30, 0, 64, 17, 3]),
    ([30, 0, 64, 170, 3], [45]),
]


@pytest.mark.parametrize(
    ("scoring", "mode"),
    [
        (TABLE, "local"),
        (replace(TABLE, table=((0,) * len(TABLE.table),) * len(TABLE.table)), "local"),
        (AFFINE, "semi-global"),
        *(pytest.param(TABLE, mode, marks=extended) for mode in MODES[1:]),
        *(pytest.param(LINEAR, mode, marks=extended) for mode in MODES),
        *(pytest.param(AFFINE, mode, marks=extended) for mode in MODES[:2]),
    ],
)
def test_pairs(scoring: Scoring, mode: str) -> None:
    for sizes in LENGTHS:
        check_pairs(with_mode(scoring, mode), sizes)


@extended
@pytest.mark.parametrize(
    ("scoring", "dtype", "letter"),
    [(HALVES, "f8", "i8"), (HALF_TABLE, "f8", "u1"), (LARGE, "i8", "u2"), (WIDE_TABLE, "i8", "u1")],
)
@pytest.mark.parametrize("mode", MODES)
def test_pairs_of_every_dtype(scoring: Scoring, dtype: str, letter: str, mode: str) -> None:
    check_pairs(with_mode(scoring, mode), LENGTHS[0], dtype, letter)


@pytest.mark.parametrize(
    ("launch", "kernels"), [(100, {"pairs_kernel", "tile_kernel"}), (0, {"tile_kernel"})]
)
@pytest.mark.parametrize("mode", ["local", *(pytest.param(m, marks=extended) for m in MODES[1:])])
def test_long_pairs_are_tiles(
    mode: str, launch: int, kernels: Any, compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "_SLOWER", 0)
    monkeypatch.setattr(pairs, "_LAUNCH", launch)
    compiler.launches.clear()
    check_pairs(with_mode(AFFINE, mode), ([40, 50, 5, 30], [20, 60, 90, 70]))
    assert {name for name, *_ in compiler.launches} == kernels


def test_no_pairs() -> None:
    none, one = join([]), join([np.zeros(4, np.uint8)])
    assert pairs.determine_pairs(LINEAR, none, none, np.int64).shape == (0, 3)
    assert pairs.determine_pairs(LINEAR, one, none, np.int64).shape == (0, 3)
