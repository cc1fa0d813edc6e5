"""Successive over-relaxation: the bits of the plain loop, wherever the grid is."""

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from grid_arrays import by_sweeps, numbers, on_cupy, places_of, same
from internals import FOUR_REGISTERS, divide_sweeps

import mgrec

# A strip has FOUR_REGISTERS // 8 rows in float64, and FOUR_REGISTERS // 4 in float32.
SHAPES = [
    (1, 1),
    (2, 9),
    (9, 2),
    (1, 70),
    (70, 1),
    (3, 3),
    (5, 80),
    (80, 5),
    (FOUR_REGISTERS // 8, 40),
    (FOUR_REGISTERS // 4 + 1, 41),
    (FOUR_REGISTERS // 2 + 3, FOUR_REGISTERS // 4 + 17),
    (2 * FOUR_REGISTERS // 4, 100),
    (2, 3, 30, 20),
]


each_place = pytest.mark.parametrize("place", places_of(mgrec.sor))
each_dtype = pytest.mark.parametrize("dtype", with_extended(["f4", "f8"], "f4"))


@pytest.mark.usefixtures("narrow_strips")
@each_place
@each_dtype
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(shape, dtype, place):
    x, rhs = numbers(shape, dtype), numbers(shape, dtype, 1)
    same(place(x, rhs, omega=1.3, sweeps=3), by_sweeps(x, rhs, omega=1.3, sweeps=3))
    same(place(x, omega=0.7), by_sweeps(x, omega=0.7))


# Several bands and strips; more strips than a GPU has room for; rows of any alignment.
LARGE = [
    (300, 65),
    (700, 1000),
    (1000, 37),
    (40, 5000),
    (500, 20, 30),
    (300, 130, 70),
    (3, 513, 511),
    (20_000, 40),
]


@pytest.mark.gpu
@pytest.mark.hardware
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_large_grids_on_a_gpu(shape, dtype):
    x, rhs = numbers(shape, dtype), numbers(shape, dtype, 1)
    same(on_cupy(mgrec.sor)(x, rhs, omega=1.3, sweeps=3), by_sweeps(x, rhs, omega=1.3, sweeps=3))
    same(on_cupy(mgrec.sor)(x, omega=1.3), by_sweeps(x, omega=1.3))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sweeps", [2, 4, 7, 8, 10, 16, 45])
def test_every_number_of_sweeps_on_a_gpu(sweeps, dtype):
    x, rhs = numbers((900, 300), dtype), numbers((900, 300), dtype, 1)
    given = (x, rhs) if sweeps % 4 else (x,)
    wanted = by_sweeps(*given, omega=1.8, sweeps=sweeps)
    same(on_cupy(mgrec.sor)(*given, omega=1.8, sweeps=sweeps), wanted)


@each_dtype
def test_many_sweeps(dtype):
    x, rhs = numbers((150, 70), dtype), numbers((150, 70), dtype, 1)
    same(mgrec.sor(x, rhs, omega=1.9, sweeps=45), by_sweeps(x, rhs, omega=1.9, sweeps=45))


@each_dtype
@pytest.mark.parametrize("shape", [(300, 200), (90, 900), (5, 40, 50)])
def test_threads_give_the_same_bits(shape, dtype, monkeypatch):
    divide_sweeps(monkeypatch)
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    x, rhs = numbers(shape, dtype), numbers(shape, dtype, 1)
    same(mgrec.sor(x, rhs, omega=1.5, sweeps=20), by_sweeps(x, rhs, omega=1.5, sweeps=20))


def test_the_order_shows():
    """Another order of points, and of sums, has other bits."""
    x = numbers((20, 20))
    wanted = by_sweeps(x, omega=1.3)
    assert (by_sweeps(x[::-1], omega=1.3)[::-1] != wanted).any()
    assert (wanted != by_sweeps(np.ascontiguousarray(x.T), omega=1.3).T).any()


@each_place
def test_nan_and_inf_stand_where_the_loop_has_them(place):
    x, rhs = numbers((400, 500)), numbers((400, 500), seed=1)
    x[20, 7], x[3, 30], rhs[300, 40], x[0, 0], x[399, 25] = np.nan, np.inf, -np.inf, np.nan, np.inf
    for sweeps in (1, 2, 3, 4):
        with np.errstate(all="ignore"):
            wanted = by_sweeps(x, rhs, omega=1.0, sweeps=sweeps)
        same(place(x, rhs, sweeps=sweeps), wanted)


@pytest.mark.usefixtures("narrow_strips")
@each_place
def test_tol_stops_each_grid_by_itself(place):
    x = numbers((4, 40, 100))
    x[1] *= 1e-3
    x[2, 5, 5], x[3, 0, 0] = np.nan, np.inf
    options = {"omega": 1.4, "sweeps": 33, "tol": 1e-4, "check_every": 5}
    wanted = by_sweeps(x, **options)
    assert (wanted[1] != by_sweeps(x, omega=1.4, sweeps=33)[1]).any()
    assert (wanted[0] != by_sweeps(x, omega=1.4, sweeps=10)[0]).any()
    same(place(x, **options), wanted)


def test_infinite_borders_do_not_keep_tol_from_stopping():
    x = numbers((9, 9))
    x[0, 0] = np.inf
    assert np.isfinite(mgrec.sor(x, sweeps=500, tol=1e-3)[1:-1, 1:-1]).all()
    same(mgrec.sor(x, sweeps=500, tol=1e-3), by_sweeps(x, sweeps=500, tol=1e-3))


def test_it_solves_the_poisson_equation():
    """Of u = x²·y, of which five points give the second differences exactly."""
    i, j = np.mgrid[:30, :40]
    wanted = (i**2 * j).astype(float)
    border = np.pad(np.zeros((28, 38)), 1, constant_values=1) * wanted
    found = mgrec.sor(border, 2.0 * j, omega=1.84, sweeps=2000, tol=1e-9)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_the_loop_of_the_paper():
    """x ← (x + its four neighbours) / 5, of Hou, Wang and Feng, is omega = 4/5."""
    x = numbers((9, 12))
    wanted = x.copy()
    for i in range(1, 8):
        for j in range(1, 11):
            sides = wanted[i, j - 1] + wanted[i - 1, j] + wanted[i + 1, j] + wanted[i, j + 1]
            wanted[i, j] = (wanted[i, j] + sides) / 5
    np.testing.assert_allclose(mgrec.sor(x, omega=0.8), wanted, rtol=1e-13)


@pytest.mark.emulated
@each_place
@pytest.mark.parametrize("shape", [(20, 30), (3, 1, 30), (2, 1, 20, 1), (1, 1, 20, 30), ()])
def test_right_hand_sides_broadcast(shape, place):
    x, rhs = numbers((2, 3, 20, 30)), numbers(shape, seed=1)
    same(place(x, rhs, omega=0.7, sweeps=2), by_sweeps(x, rhs, omega=0.7, sweeps=2))


@pytest.mark.gpu
def test_layouts_on_a_gpu():
    x = numbers((4, 130, 90), "f4")
    for part in (np.s_[:, ::2, 3:41], np.s_[1:, ::-1, ::2], np.s_[1:, 1:, 1:]):
        found = on_cupy(lambda x, part=part: mgrec.sor(x[part], x[part][0, :1], sweeps=2))(x)
        same(found, by_sweeps(np.array(x[part]), x[part][0, :1], sweeps=2))


@each_place
def test_integers_and_scalars(place):
    x = (numbers((30, 40)) * 9).astype("i4")
    wanted = by_sweeps(x.astype(float), 2.0, omega=1.1, sweeps=2)
    same(place(x, 2, omega=1.1, sweeps=2), wanted)


def test_rhs_of_other_chunks_and_dtype():
    x, rhs = numbers((30, 40), "f4"), numbers((1, 40), "f8")
    wanted = by_sweeps(x.astype("f8"), rhs)
    same(mgrec.sor(x, rhs), wanted)
    lazy = mgrec.sor(da.from_array(x, chunks=8), da.from_array(rhs, chunks=(1, 7)))
    assert lazy.chunks == da.from_array(x, chunks=8).chunks
    same(lazy.compute(scheduler="sync"), wanted)
    lazy = mgrec.sor(x, da.from_array(rhs, chunks=(1, 7)))
    same(lazy.compute(scheduler="sync"), wanted)


def behind(lazy, key):
    """All tasks that one needs."""
    graph, found, ahead = dict(lazy.__dask_graph__()), set(), [key]
    while ahead:
        key = ahead.pop()
        if key not in found:
            found.add(key)
            ahead += graph[key].dependencies
    return found


def test_sweeps_overlap():
    """The first tile's third sweep needs the first one of tiles at most two away."""
    lazy = mgrec.sor(da.ones((10, 10), chunks=2), sweeps=4)
    (tiles,) = {key[0] for key in lazy.__dask_graph__() if str(key[0]).startswith("determine")}
    needed = {key[1:] for key in behind(lazy, (tiles, 3, 0, 0)) if key[0] == tiles}
    assert max(i + j for sweep, i, j in needed if sweep == 1) == 2
    assert not any(i + j > 3 - sweep for sweep, i, j in needed)


def test_chunks_along_other_axes_are_one_task():
    lazy = mgrec.sor(da.ones((4, 10, 10), chunks=(1, 10, 10)), sweeps=50)
    assert len(dict(lazy.__dask_graph__())) < 20


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"x": np.ones(3)}, ValueError, "x must have two axes or more; got shape"),
        ({"x": 3.0}, ValueError, "x must have two axes or more; got shape"),
        ({"x": np.ones((3, 3), complex)}, TypeError, "x must be of integers, .* got complex128"),
        ({"x": np.ones((3, 3), "c8")}, TypeError, "x must be of integers, .* got complex64"),
        ({"x": [["a"]]}, TypeError, "x must be"),
        ({"rhs": np.ones(4)}, ValueError, r"rhs must broadcast to \(3, 3\), .* got \(4,\)"),
        ({"rhs": np.ones((1, 3, 3))}, ValueError, "rhs must broadcast"),
        ({"omega": 0}, ValueError, "omega must be a number between 0 and 2; got 0"),
        ({"omega": 2.0}, ValueError, "omega must be a number between 0 and 2; got 2.0"),
        ({"omega": np.nan}, ValueError, "omega must be a number between 0 and 2; got nan"),
        ({"omega": "1"}, TypeError, "omega must be a number between 0 and 2; got '1'"),
        ({"sweeps": 0}, ValueError, "sweeps must be 1 or more; got 0"),
        ({"sweeps": 1.5}, TypeError, "sweeps must be an integer; got 1.5"),
        ({"check_every": 0}, ValueError, "check_every must be 1 or more; got 0"),
        ({"tol": 0}, ValueError, "tol must be above 0, or None; got 0"),
        ({"tol": np.nan}, ValueError, "tol must be above 0, or None; got nan"),
        ({"callback": 1}, TypeError, "callback must be callable or None; got 1"),
        ({"x": da.zeros((3, 3)), "callback": print}, TypeError, "None where an operand is a Dask"),
        ({"x": np.zeros((2, 3, 3)), "callback": print}, ValueError, "where x is several grids"),
    ],
)
def test_what_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        mgrec.sor(**{"x": np.ones((3, 3)), **given})


def test_chunks_of_unknown_sizes_are_refused():
    x = da.ones((20, 20), chunks=5)
    with pytest.raises(ValueError, match=r"a sweep needs the index .*compute_chunk_sizes"):
        mgrec.sor(x[x[:, 0] > 0])


def test_a_plan_does_not_take_sweeps():
    with pytest.raises(TypeError, match="must go over its grid once here; got sor"):
        mgrec.plan(mgrec.sor, da.ones((9, 9), chunks=5))


def test_a_callback_follows_the_sweeps():
    x = np.random.default_rng(5).normal(size=(40, 30))
    told = []

    def follow(sweeps, update):
        told.append((sweeps, update))

    wanted = mgrec.sor(x, omega=1.5, sweeps=995, tol=1e-9)
    found = mgrec.sor(x, omega=1.5, sweeps=995, tol=1e-9, callback=follow)
    np.testing.assert_array_equal(found, wanted)
    assert [sweeps for sweeps, _ in told] == [*range(10, 10 * len(told), 10), told[-1][0]]
    updates = [update for _, update in told]
    assert updates == sorted(updates, reverse=True)
    assert updates[-1] < 1e-9 <= updates[-2]
    before = mgrec.sor(x, omega=1.5, sweeps=9)
    one = abs(mgrec.sor(x, omega=1.5, sweeps=10) - before).max()
    assert told[0] == (10, one)


def test_a_callback_without_tol_is_told_of_all_sweeps():
    x, told = np.random.default_rng(5).normal(size=(9, 9)), []
    found = mgrec.sor(x, sweeps=25, callback=lambda *step: told.append(step[0]))
    np.testing.assert_array_equal(found, mgrec.sor(x, sweeps=25))
    assert told == [10, 20, 25]
