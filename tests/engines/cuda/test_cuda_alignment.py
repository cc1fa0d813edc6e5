"""CUDA kernels of alignments, run on this machine by public calls, against the definition."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from alignments import assert_right, by_the_loop
from cuda_on_host import DeviceArray, HostCompiler, forget_launches, use_device

import mgrec
from mgrec.core.contract.grid import Bands
from mgrec.engines.cuda.device import Device
from mgrec.grids.alignment import cuda, layout
from mgrec.grids.alignment.recurrence import best_cell, carry_in_from
from mgrec.grids.alignment.scoring import Scoring

extended = pytest.mark.extended
LINEAR = {"match": 3, "mismatch": -1, "gap": -2}
AFFINE = {"match": 3, "mismatch": -2, "gap": -5, "extend": -1}
MATRIX = np.random.default_rng(8).integers(-4, 9, (7, 7))
MATRIX = MATRIX + MATRIX.T
TABLE = {"matrix": MATRIX, "gap": -6, "extend": -1}
HALVES = {"match": 1.75, "mismatch": -0.75, "gap": -2.25, "extend": -0.5}
HALF_TABLE = {"matrix": MATRIX / 8, "gap": -2.5, "extend": -0.5}
# Beyond int32, beyond bytes, more letters than a profile has, and letters that need not be equal.
LARGE = {"match": 2**41, "mismatch": -(2**40), "gap": -3 * 2**40, "extend": -(2**40)}
LARGE_TABLE = {"matrix": MATRIX << 40, "gap": -(2**40)}
WIDE_TABLE = {"matrix": MATRIX * 50, "gap": -500, "extend": -300}
GOOD_MISMATCH = {"match": 1, "mismatch": 3, "gap": -4}
MODES = ["local", "global", "semi-global"]


@pytest.fixture(autouse=True)
def _on_host(on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, Device(90, 4, 227 * 1024))
    use_rows(monkeypatch, 2)


def use_rows(monkeypatch: pytest.MonkeyPatch, rows: int, strips: int = 4) -> None:
    """Let lanes have so many rows: little grids have several strips and bands then."""
    monkeypatch.setattr(layout, "_ROWS", (rows,))
    monkeypatch.setattr(layout, "_STRIPS", (strips,))
    monkeypatch.setattr(cuda, "_rows", lambda *given: rows)
    forget_launches()


def draw(seed: int, size: int, dtype: str = "u1", kinds: int = 4) -> Any:
    return np.random.default_rng(seed).integers(0, kinds, size).astype(dtype)


def on_device(block: Any) -> Any:
    return np.ascontiguousarray(block).view(DeviceArray)


def in_chunks(array: Any, size: int) -> Any:
    meta = on_device(array[:0])
    return da.from_array(array, chunks=max(1, size)).map_blocks(on_device, meta=meta)


def check(scores: Any, n: int, m: int, letter: str = "u1") -> None:
    """Scores, ends and H of two sequences, and of the tiles of their chunks."""
    kinds = len(MATRIX) if "matrix" in scores else 4
    pair = draw(n, n, letter, kinds), draw(m + 7, m, letter, kinds)
    wanted = by_the_loop(pair, scores)
    assert_right(tuple(map(on_device, pair)), wanted, scores)
    lazy = in_chunks(pair[0], n // 2 + 1), in_chunks(pair[1], m // 2 + 1)
    assert_right(lazy, wanted, scores)


# Rows of one lane and more, of one strip (64) and more, of one band (256) and more.
SHAPES = [(1, 1), (2, 40), (64, 16), (70, 33), (255, 20), (300, 50), (600, 7)]


@pytest.mark.parametrize(
    ("scores", "mode"),
    [
        (TABLE, "local"),
        pytest.param(LINEAR, "local", marks=extended),
        pytest.param(AFFINE, "local", marks=extended),
        pytest.param(LINEAR, "global", marks=extended),
        pytest.param(AFFINE, "semi-global", marks=extended),
        pytest.param(TABLE, "global", marks=extended),
    ],
)
def test_every_shape(scores: Any, mode: str) -> None:
    for n, m in SHAPES:
        check(scores | {"mode": mode}, n, m)


@pytest.mark.parametrize(
    ("scores", "mode", "letter"),
    [
        (AFFINE, "global", "i8"),
        *(
            pytest.param(*case, marks=extended)
            for case in [
                (LINEAR, "local", "u4"), (HALVES, "local", "u1"), (HALVES, "global", "i2"),
                (HALF_TABLE, "semi-global", "u1"), (LARGE, "local", "u1"),
                (LARGE_TABLE, "local", "u1"), (WIDE_TABLE, "local", "u1"),
                (GOOD_MISMATCH, "local", "u1"),
            ]
        ),
    ],
)  # fmt: skip
def test_every_dtype(scores: Any, mode: str, letter: str) -> None:
    """int32 where all fits, int64 and float64; scores of letters from bytes or wider tables."""
    for shape in ((71, 45), (256, 33)):
        check(scores | {"mode": mode}, *shape, letter)


@extended
@pytest.mark.parametrize(
    ("rows", "strips", "wide"),
    [(4, 4, 1), (6, 4, 2), (8, 4, 4), (12, 4, 1), (16, 4, 2), (2, 1, 1), (2, 1, 2)],
)
def test_how_a_tile_is_cut_does_not_matter(
    rows: int, strips: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_LATENCIES", {wide: (150, 8, 1.0)})
    monkeypatch.setattr(layout, "_LATENCIES_WRITTEN", {wide: (150, 8, 1.0)})
    use_rows(monkeypatch, rows, strips)
    for scores in (LINEAR, TABLE):
        if rows < 12:
            check(scores, 150, 61)
        pair = draw(9, 32 * strips * rows + 5), draw(20, 20)
        found = mgrec.smith_waterman(*map(on_device, pair), **scores)
        assert found == by_the_loop(pair, scores)[1]


def test_a_wrong_letter_is_found() -> None:
    """The oracle of these tests can fail."""
    query = draw(1, 70)
    _, (best, *_) = by_the_loop((query, query), LINEAR)
    other = query.copy()
    other[30] = 9
    found = mgrec.smith_waterman(on_device(query), on_device(other), **LINEAR)
    assert found.score < best == 210


# --- many pairs ---------------------------------------------------------------------------------

# One strip of rows and several, characters that are none, and one sequence for all.
LENGTHS = [
    ([1, 40, 0, 70, 64, 130, 0, 33], [20, 50, 9, 1, 70, 35, 0, 100]),
    ([50], [30, 0, 64, 17, 3]),
    ([30, 0, 64, 170, 3], [45]),
]


def joined(sequences: Any) -> Any:
    offsets = np.cumsum([0, *map(len, sequences)])
    return mgrec.Sequences(on_device(np.concatenate(sequences)), offsets)


def check_pairs(scores: Any, sizes: Any, letter: str = "u1") -> None:
    """Sizes of the queries and of the targets; one on a side goes with all on the other."""
    kinds = len(MATRIX) if "matrix" in scores else 4
    sides = [
        [draw(100 * k + number, size, letter, kinds) for number, size in enumerate(side)]
        for k, side in enumerate(sizes)
    ]
    given = [joined(side) if len(side) > 1 else on_device(side[0]) for side in sides]
    have = mgrec.smith_waterman(*given, **scores)
    count = max(map(len, sides))
    wanted = [
        by_the_loop([side[0 if len(side) == 1 else k] for side in sides], scores)[1]
        for k in range(count)
    ]
    for part, values in zip(have, zip(*wanted, strict=True), strict=True):
        assert type(part) is np.ndarray
        np.testing.assert_array_equal(part, values)


@pytest.mark.parametrize(
    ("scores", "mode"),
    [
        (TABLE, "local"),
        (TABLE | {"matrix": 0 * MATRIX}, "local"),
        (AFFINE, "semi-global"),
        *(pytest.param(TABLE, mode, marks=extended) for mode in MODES[1:]),
        *(pytest.param(LINEAR, mode, marks=extended) for mode in MODES),
        *(pytest.param(AFFINE, mode, marks=extended) for mode in MODES[:2]),
    ],
)
def test_pairs(scores: Any, mode: str) -> None:
    for sizes in LENGTHS:
        check_pairs(scores | {"mode": mode}, sizes)


@extended
@pytest.mark.parametrize(
    ("scores", "letter"), [(HALVES, "i8"), (HALF_TABLE, "u1"), (LARGE, "u2"), (WIDE_TABLE, "u1")]
)
@pytest.mark.parametrize("mode", MODES)
def test_pairs_of_every_dtype(scores: Any, letter: str, mode: str) -> None:
    check_pairs(scores | {"mode": mode}, LENGTHS[0], letter)


@pytest.mark.parametrize(
    ("launch", "kernels"), [(100, {"pairs_kernel", "tile_kernel"}), (0, {"tile_kernel"})]
)
@pytest.mark.parametrize("mode", ["local", *(pytest.param(m, marks=extended) for m in MODES[1:])])
def test_long_pairs_are_tiles(
    mode: str, launch: int, kernels: Any, on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_SLOWER", 0)
    monkeypatch.setattr(cuda, "_LAUNCH", launch)
    check_pairs(AFFINE | {"mode": mode}, ([40, 50, 5, 30], [20, 60, 90, 70]))
    assert {name for name, *_ in on_host.launches} == kernels


def test_no_pairs() -> None:
    none = mgrec.Sequences(on_device(np.zeros(0, np.uint8)), np.zeros(1, np.int64))
    for query in (none, on_device(np.zeros(4, np.uint8))):
        assert [part.size for part in mgrec.smith_waterman(query, none, **LINEAR)] == [0, 0, 0]


def run_of_bands(scoring: Scoring, pair: Any, dtype: str, bands: Bands) -> Any:
    sizes = tuple(len(sequence) for sequence in pair)
    carry_in = carry_in_from(scoring, None, None, (0, 0), sizes, np.dtype(dtype))
    parts = [np.array_split(on_device(sequence), 3) for sequence in pair]
    return cuda.launch_bands(scoring, parts, carry_in, dtype, bands)


@pytest.mark.parametrize(
    ("scoring", "dtype"),
    [
        (Scoring(-2, -2, 3, -1), "i8"),
        (Scoring(-5, -1, 3, -2, mode="semi-global"), "i8"),
        pytest.param(Scoring(-5, -1, 3, -2, mode="global"), "i8", marks=extended),
        pytest.param(Scoring(-2.25, -0.5, 1.75, -0.75), "f8", marks=extended),
    ],
)
@pytest.mark.parametrize("count", [2, 3])
def test_gpus_share_a_grid(scoring: Scoring, dtype: str, count: int) -> None:
    """Each run of bands takes the row of the run before from memory that both can reach."""
    pair = draw(1, 900), draw(2, 70)  # four bands of rows
    (whole, _), columns, best = (
        run_of_bands(scoring, pair, dtype, Bands(0, 1))(lambda: False),
        [],
        [],
    )
    # Earlier launches have left tags up to 3.
    words = [np.full(4 * 70, 3 << 32 | 5, np.uint64) for _ in range(count)]
    addresses = [own.ctypes.data for own in words] + [0]
    for k in range(count):
        bands = Bands(k, count, addresses[k] if k else 0, addresses[k + 1], 3, 3)
        edges, row = run_of_bands(scoring, pair, dtype, bands)(lambda: False)
        assert row == sum(map(len, columns))
        columns.append(edges.column)
        best.append(edges.best)
    np.testing.assert_array_equal(np.concatenate(columns), whole.column)
    np.testing.assert_array_equal(edges.row, whole.row)
    assert best_cell(*best) == whole.best


def test_a_gpu_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "PATIENCE", 1000)
    words = np.zeros(4 * 20, np.uint64)
    bands = Bands(1, 2, words.ctypes.data)
    wait = run_of_bands(Scoring(-2, -2, 3, -1), (draw(1, 900), draw(2, 20)), "i8", bands)
    with pytest.raises(RuntimeError, match="has not passed on its last row"):
        wait(lambda: False)
