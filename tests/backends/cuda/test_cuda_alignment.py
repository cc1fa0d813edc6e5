"""Kernels of alignments, run on this machine, against the definition cell by cell."""

from __future__ import annotations

import sys
from functools import partial, reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, numpy_as_cupy, poisoned

import mgrec
from mgrec import backends
from mgrec.backends.cuda.device import launches
from mgrec.backends.cuda.device.compilation import Device
from mgrec.backends.cuda.wavefront import phases
from mgrec.backends.cuda.wavefront.alignment import choice, pairs, program, scores, tile
from mgrec.families.kernels import Backend
from mgrec.families.wavefront.alignment.borders import enter
from mgrec.families.wavefront.alignment.scoring import Scoring
from mgrec.families.wavefront.alignment.sequences import join
from mgrec.families.wavefront.alignment.tiles import Best, Entry, better

LINEAR = Scoring(-2, -2, 3, -1)
AFFINE = Scoring(-5, -1, 3, -2)
MATRIX = np.random.default_rng(8).integers(-4, 9, (7, 7))
TABLE = Scoring(-6, -1, table=tuple(map(tuple, (MATRIX + MATRIX.T).tolist())))
HALVES = Scoring(-2.25, -0.5, 1.75, -0.75)
HALF_TABLE = Scoring(-2.5, -0.5, table=tuple(map(tuple, (MATRIX / 4).tolist())))
# Beyond int32, beyond bytes, more letters than a profile has, and letters that need not be equal.
LARGE = Scoring(-3 * 2**40, -(2**40), 2**41, -(2**40))
LARGE_TABLE = Scoring(-(2**40), -(2**40), table=tuple(map(tuple, (MATRIX * 2**40).tolist())))
WIDE_TABLE = Scoring(-500, -300, table=tuple(map(tuple, (MATRIX * 100).tolist())))
GOOD_MISMATCH = Scoring(-4, -4, 1, 3)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> HostCompiler:
    return HostCompiler(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def device(x: Any) -> Any:
        return np.ascontiguousarray(x).view(DeviceArray)

    cupy: Any = numpy_as_cupy()
    cupy.empty = lambda *given: poisoned(*given).view(DeviceArray)
    cupy.zeros = lambda *given: np.zeros(*given).view(DeviceArray)
    cupy.ascontiguousarray = cupy.asarray = device
    cupy.cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDevice=lambda: 0),
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(launches, "compile_kernel", compiler)
    monkeypatch.setattr(tile, "on_device", device)
    monkeypatch.setattr(Device, "current", staticmethod(lambda: Device(90, 4, 227 * 1024)))
    program.prepared_of.cache_clear()
    scores._on_device.cache_clear()
    use(monkeypatch, 2)


def use(monkeypatch: pytest.MonkeyPatch, rows: int, strips: int = 4) -> None:
    """Let lanes have so many rows: little grids have several strips and bands then."""
    monkeypatch.setattr(choice, "_ROWS", (rows,))
    monkeypatch.setattr(choice, "_STRIPS", (strips,))
    monkeypatch.setattr(pairs, "_rows", lambda *given: rows)
    choice._cut_of.cache_clear()


def draw(seed: int, size: int, dtype: str = "u1", kinds: int = 4) -> Any:
    letters = np.random.default_rng(seed).integers(0, kinds, size)
    return letters.astype(dtype).view(DeviceArray)


def entry_of(scoring: Scoring, n: int, m: int, dtype: Any, seed: int = 0) -> Entry:
    """Edges that any neighbours may have."""
    rng = np.random.default_rng(seed)
    low = 0 if scoring.is_local else -30
    row, column = rng.integers(low, 20, m + 1), rng.integers(low, 20, n)
    gaps = (None, None)
    if scoring.is_affine:
        gaps = rng.integers(-40, 10, m).astype(dtype), rng.integers(-40, 10, n).astype(dtype)
    return Entry(row.astype(dtype), column.astype(dtype), *gaps)


def border_of(scoring: Scoring, n: int, m: int, dtype: Any) -> Entry:
    return enter(scoring, None, None, (0, 0), (n, m), np.dtype(dtype))


def by_the_loop(scoring: Scoring, query: Any, target: Any, entry: Entry, dtype: Any) -> Any:
    """H, F of the rows after and E of the columns after every cell."""
    n, m = query.size, target.size
    h = np.empty((n + 1, m + 1), dtype)
    h[0], h[1:, 0] = entry.above, entry.left
    f, e = h + scoring.gap, h + scoring.gap
    if scoring.is_affine:
        f[0, 1:], e[1:, 0] = entry.above_gaps, entry.left_gaps
    if scoring.table is None:
        scores = np.where(query[:, None] == target, scoring.match, scoring.mismatch)
    else:
        scores = np.array(scoring.table)[query][:, target]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            vertical, horizontal = f[i - 1, j], e[i, j - 1]
            h[i, j] = max(h[i - 1, j - 1] + scores[i - 1, j - 1], horizontal, vertical)
            if scoring.is_local:
                h[i, j] = max(h[i, j], 0)
            f[i, j] = max(h[i, j] + scoring.gap, vertical + scoring.extend)
            e[i, j] = max(h[i, j] + scoring.gap, horizontal + scoring.extend)
    return h, f, e


def best_of(h: Any, rows: Any, columns: Any) -> Best:
    """The best cell among some, by the rule of the contract."""
    cells = zip(rows.tolist(), columns.tolist(), strict=True)
    return reduce(better, (Best(h[i + 1, j + 1].item(), i, j) for i, j in cells))


def check_tile(
    scoring: Scoring, n: int, m: int, dtype: Any, letter: str, is_border: bool, written: Any
) -> None:
    """Edges, the best cell and, where it is written, H."""
    kinds, dtype = len(scoring.table or "ACGT"), np.dtype(dtype)
    query, target = draw(n, n, letter, kinds), draw(m + 7, m, letter, kinds)
    entry = (border_of if is_border else entry_of)(scoring, n, m, dtype)
    h, f, e = by_the_loop(scoring, np.asarray(query), np.asarray(target), entry, dtype)
    table = None if written is None else poisoned((n, m), written).view(DeviceArray)
    edges = tile.determine_alignment(scoring, (query, target), entry, (50, 900), dtype, table)
    if table is not None:
        np.testing.assert_array_equal(table, h[1:, 1:])
    assert_are_edges(edges, h, f, e, scoring)
    if scoring.is_local:
        best = best_of(h, *np.unravel_index(np.arange(n * m), (n, m)))
        wanted = Best(best.score, best.query_end + 50, best.target_end + 900)
        assert edges.best == (wanted if best.score > 0 else Best())
    else:
        assert edges.best is None


def assert_are_edges(edges: Any, h: Any, f: Any, e: Any, scoring: Scoring) -> None:
    pairs = [(edges.below, h[-1]), (edges.right, h[1:, -1])]
    if scoring.is_affine:
        pairs += [(edges.below_gaps, f[-1, 1:]), (edges.right_gaps, e[1:, -1])]
    for have, want in pairs:
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(have, want)


# Rows of one lane and more, of one strip (64) and more, of one band (256) and more.
SHAPES = [(1, 1), (2, 40), (64, 16), (70, 33), (255, 20), (300, 50), (600, 7)]
extended = pytest.mark.extended


@pytest.mark.parametrize(
    ("scoring", "mode"),
    [
        (LINEAR, "local"),
        (TABLE, "local"),
        pytest.param(AFFINE, "local", marks=extended),
        pytest.param(LINEAR, "global", marks=extended),
        pytest.param(AFFINE, "semi-global", marks=extended),
        pytest.param(TABLE, "global", marks=extended),
    ],
)
def test_every_shape(scoring: Scoring, mode: str) -> None:
    scoring = with_mode(scoring, mode)
    for number, (n, m) in enumerate(SHAPES):
        check_tile(scoring, n, m, np.int64, "u1", number % 2 == 0, None)


@pytest.mark.parametrize(
    ("scoring", "mode", "dtype", "letter", "written"),
    [
        (AFFINE, "global", "i8", "i8", "i4"),
        pytest.param(LINEAR, "local", "i8", "u4", "i8", marks=extended),
        pytest.param(HALVES, "local", "f8", "u1", "f8", marks=extended),
        pytest.param(HALVES, "global", "f8", "i2", None, marks=extended),
        pytest.param(HALF_TABLE, "semi-global", "f8", "u1", None, marks=extended),
        pytest.param(LARGE, "local", "i8", "u1", "i8", marks=extended),
        pytest.param(LARGE_TABLE, "local", "i8", "u1", None, marks=extended),
        pytest.param(WIDE_TABLE, "local", "i8", "u1", None, marks=extended),
        pytest.param(GOOD_MISMATCH, "local", "i8", "u1", None, marks=extended),
    ],
)
def test_every_dtype(
    scoring: Scoring, mode: str, dtype: str, letter: str, written: str | None
) -> None:
    """int32 where all fits, int64 and float64; scores of letters from bytes or wider tables."""
    scoring = with_mode(scoring, mode)
    for is_border in (True, False):
        check_tile(scoring, 71, 45, dtype, letter, is_border, written)
        check_tile(scoring, 256, 33, dtype, letter, is_border, written)


@extended
@pytest.mark.parametrize(
    ("rows", "strips", "wide"),
    [(4, 4, 1), (6, 4, 2), (8, 4, 4), (12, 4, 1), (16, 4, 2), (2, 1, 1), (2, 1, 2)],
)
def test_how_a_tile_is_cut_does_not_matter(
    rows: int, strips: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "_WIDE", wide)
    use(monkeypatch, rows, strips)
    for scoring in (LINEAR, TABLE):
        check_tile(scoring, 150, 61, np.int64, "u1", True, np.int32 if rows < 12 else None)
        check_tile(scoring, 32 * strips * rows + 5, 20, np.int64, "u1", False, None)


def test_tiles_without_rows_or_columns_hand_edges_on() -> None:
    for n, m in [(0, 5), (5, 0), (0, 0)]:
        entry = entry_of(AFFINE, n, m, np.int64)
        edges = tile.determine_alignment(AFFINE, (draw(0, n), draw(1, m)), entry, (0, 0), np.int64)
        np.testing.assert_array_equal(edges.below, entry.left[-1:] if n else entry.above)
        np.testing.assert_array_equal(edges.right, entry.left)
        np.testing.assert_array_equal(edges.below_gaps, entry.above_gaps)
        np.testing.assert_array_equal(edges.right_gaps, entry.left_gaps)
        assert edges.best == Best()


def test_a_wrong_letter_is_found() -> None:
    """The oracle of these tests can fail."""
    query = draw(1, 70)
    h, *_ = by_the_loop(LINEAR, query, query, border_of(LINEAR, 70, 70, np.int64), np.int64)
    other = query.copy()
    other[30] = 9
    entry = border_of(LINEAR, 70, 70, np.int64)
    edges = tile.determine_alignment(LINEAR, (query, other), entry, (0, 0), np.int64)
    assert edges.best.score < h.max() == 210


def test_strided_tables_are_written() -> None:
    query, target = draw(1, 40), draw(2, 30)
    entry = border_of(LINEAR, 40, 30, np.int64)
    h, *_ = by_the_loop(LINEAR, query, target, entry, np.int64)
    whole = np.full((80, 70), -7, np.int64).view(DeviceArray)
    for part in (whole[::2, 5:35], whole[40:, ::2][:, :30], whole[:60, :40].T[:, 10:40]):
        whole[...] = -7
        tile.determine_alignment(LINEAR, (query, target), entry, (0, 0), np.int64, part)
        np.testing.assert_array_equal(part, h[1:, 1:])
        assert (whole == -7).sum() == whole.size - part.size


MODES = ["local", "global", "semi-global"]


def with_mode(scoring: Scoring, mode: str) -> Scoring:
    return Scoring(**(vars(scoring) | {"mode": mode}))


def pair_by_the_loop(scoring: Scoring, query: Any, target: Any, dtype: Any) -> tuple[Any, ...]:
    n, m = query.size, target.size
    if 0 in (n, m):
        gap = scoring.gap + (n + m - 1) * scoring.extend if n + m else 0
        score = gap if scoring.mode == "global" else 0
        return (score, -1, -1) if scoring.is_local else (score, n - 1, m - 1)
    h, *_ = by_the_loop(scoring, query, target, border_of(scoring, n, m, dtype), dtype)
    if scoring.mode == "global":
        return h[-1, -1], n - 1, m - 1
    rows, columns = np.unravel_index(np.arange(n * m), (n, m))
    if not scoring.is_local:
        is_end = (rows == n - 1) | (columns == m - 1)
        rows, columns = rows[is_end], columns[is_end]
    best = best_of(h, rows, columns)
    best = Best() if scoring.is_local and best.score <= 0 else best
    return best.score, best.query_end, best.target_end


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


@pytest.fixture
def _public(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Backend(
        lambda arrays: DeviceArray.device,
        lambda *given: poisoned(*given).view(DeviceArray),
        lambda family: phases.kernels(""),
    )
    monkeypatch.setattr(backends, "_gpu", lambda method: backend)


@pytest.mark.usefixtures("_public")
def test_public_calls() -> None:
    scores = {"match": 3, "mismatch": -2, "gap": -5, "extend": -1, "mode": "global"}
    scoring = Scoring(-5, -1, 3, -2, mode="global")
    query, target = draw(1, 70), draw(2, 90)
    assert mgrec.smith_waterman(query, target, **scores) == pair_by_the_loop(
        scoring, query, target, np.int64
    )
    matrix = mgrec.smith_waterman(query, target, output="matrix", **scores)
    h, *_ = by_the_loop(scoring, query, target, border_of(scoring, 70, 90, np.int64), np.int64)
    assert isinstance(matrix, DeviceArray)
    np.testing.assert_array_equal(matrix, h[1:, 1:])
    words = mgrec.Sequences(target, np.array([0, 60, 60, 90]))
    have = mgrec.smith_waterman(query, words, **scores)
    wanted = [pair_by_the_loop(scoring, query, word, np.int64) for word in words]
    np.testing.assert_array_equal(np.transpose(have), wanted)


@extended
@pytest.mark.usefixtures("_public")
@pytest.mark.parametrize("mode", MODES)
def test_alignments_themselves(mode: str) -> None:
    call = partial(mgrec.smith_waterman, mode=mode, output="alignment", match=3, mismatch=-2)
    query, target = draw(1, 70), draw(2, 150)
    host = np.asarray(query), np.asarray(target)
    for gaps in ({"gap": -2}, {"gap": -5, "extend": -1}):
        assert call(query, target, **gaps) == call(*host, **gaps)
