"""Successive over-relaxation of CuPy arrays: the bits of the plain loop."""

import dask.array as da
import numpy as np
import pytest
from grid_arrays import by_sweeps, numbers

import mgrec

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = pytest.mark.gpu

# One band and strip, and several; more strips than a GPU has room for; rows of any alignment.
SHAPES = [
    (1, 1), (1, 70), (70, 1), (2, 9), (3, 3), (5, 80), (33, 41), (127, 33), (300, 65), (700, 1000),
    (1000, 37), (40, 5000), (2, 3, 30, 20), (500, 20, 30), (300, 130, 70), (3, 513, 511),
    (20_000, 40),
]  # fmt: skip


def check(x, rhs=None, **options):
    given = cupy.asarray(x)
    side = rhs if rhs is None or np.ndim(rhs) == 0 else cupy.asarray(rhs)
    result = mgrec.sor(given, side, **options)
    with np.errstate(all="ignore"):
        same(result, by_sweeps(x, rhs, **options))
    same(given, x)


def same(result, wanted):
    assert isinstance(result, cupy.ndarray)
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result.get(), wanted)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(shape, dtype):
    x, rhs = numbers(shape, dtype), numbers(shape, dtype, 1)
    check(x, omega=1.3)
    check(x, rhs, omega=1.3, sweeps=3)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sweeps", [2, 4, 7, 8, 10, 16, 45])
def test_every_number_of_sweeps(sweeps, dtype):
    x, rhs = numbers((900, 300), dtype), numbers((900, 300), dtype, 1)
    check(x, rhs if sweeps % 4 else None, omega=1.8, sweeps=sweeps)


def test_right_hand_sides_broadcast():
    x = numbers((2, 3, 20, 30), "f4")
    for shape in [(20, 30), (3, 1, 30), (2, 1, 20, 1), (1, 1, 20, 30), ()]:
        check(x, numbers(shape, "f4", 1), omega=0.7, sweeps=2)


def test_layouts_and_integers():
    x = numbers((4, 130, 90), "f4")
    for part in (np.s_[:, ::2, 3:41], np.s_[1:, ::-1, ::2], np.s_[1:, 1:, 1:]):
        result = mgrec.sor(cupy.asarray(x)[part], cupy.asarray(x)[part][0, :1], sweeps=2)
        same(result, by_sweeps(np.array(x[part]), x[part][0, :1], sweeps=2))
    whole = (x[0] * 9).astype("i4")
    same(mgrec.sor(cupy.asarray(whole), 2, sweeps=2), by_sweeps(whole.astype(float), 2.0, sweeps=2))


def test_nan_and_inf_stand_where_the_loop_has_them():
    x, rhs = numbers((400, 500), "f4"), numbers((400, 500), "f4", 1)
    x[20, 7], x[3, 30], rhs[300, 40], x[0, 0], x[399, 25] = np.nan, np.inf, -np.inf, np.nan, np.inf
    for sweeps in (1, 2, 4):
        check(x, rhs, sweeps=sweeps)


def test_tol_stops_each_grid_by_itself():
    x = numbers((5, 150, 90), "f4")
    x[1] *= 1e-3
    x[2, 5, 5] = np.nan
    x[3, 0, 0] = np.inf
    for tol in (1e-1, 1e-3):
        check(x, omega=1.4, sweeps=60, tol=tol, check_every=7)


@pytest.mark.parametrize("tol", [None, 0.2])
@pytest.mark.parametrize("chunks", [(1, 130, 70), (2, 200, 300), (2, 77, 300)])
def test_dask_arrays_of_cupy(chunks, tol):
    x, rhs = numbers((2, 300, 200), "f4"), numbers((300, 200), "f4", 1)
    x[1] *= 1e-3
    options = {"omega": 1.2, "sweeps": 7, "tol": tol, "check_every": 2}
    side = da.from_array(cupy.asarray(rhs), chunks=chunks[1:])
    lazy = mgrec.sor(da.from_array(cupy.asarray(x), chunks=chunks), side, **options)
    assert lazy.chunks == da.from_array(x, chunks=chunks).chunks
    same(lazy.compute(scheduler="sync"), by_sweeps(x, rhs, **options))
