"""Systems of bands alone: numbers, singular systems, entries outside of the matrix."""

import dask.array as da
import numpy as np
import pytest
from banded_systems import RANDOM, TOLERANCE, WIDTHS, bands, dense_bands, dense_solve, draw, error, seeded  # noqa: F401
from chunkings import with_extended
from internals import divide_bands
from scipy.linalg import solve_banded

import mgrec
from mgrec.banded import recurrence


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("dtype", with_extended("fdFD", *"fD"))
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("periodic", [False, True])
def test_every_width(widths, dtype, periodic, is_split, monkeypatch):
    if is_split:
        divide_bands(monkeypatch)
    for n in (1, 2, 3, 5, 9, 40) if not is_split else (2, 64, 65, 72, 73, 700):
        ab, b = bands(*widths, n, dtype=dtype), draw(n, dtype=dtype)
        x = mgrec.solve_banded(widths, ab, b, periodic=periodic)
        assert x.dtype == dtype
        full = dense_bands(widths, ab, periodic)
        # Coefficients of one unknown of a small ring add up to matrices that are not dominant.
        condition = max(1, np.linalg.cond(full) / 10) if periodic and n < 10 else 1
        assert error(x, dense_solve(full, b, 0)) < TOLERANCE[dtype] * condition


def test_long_systems_on_threads():
    ab, b = bands(2, 2, 300_000), draw(300_000)
    assert error(mgrec.solve_banded((2, 2), ab, b), solve_banded((2, 2), ab, b)) < 1e-9


@pytest.mark.parametrize("chunks", [(9, 13, 8), (1, 2, 3, 0, 1, 1, 22), (1,) * 30])
@pytest.mark.parametrize("widths", [(0, 0), (1, 0), (4, 3)])
def test_chunks_of_other_widths(widths, chunks):
    ab, b = bands(*widths, 30), draw(30)
    lazy = da.from_array(ab, chunks=(-1, chunks)), da.from_array(b, chunks=(chunks,))
    assert error(mgrec.solve_banded(widths, *lazy).compute(), solve_banded(widths, ab, b)) < 1e-9


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("widths", [(1, 0), (0, 2), (2, 2), (4, 1)])
def test_ends_of_dominant_chunks_are_their_summary(widths, periodic, monkeypatch):
    outcomes, join_ends = [], recurrence.join_ends

    def joined(*arguments):
        rows = join_ends(*arguments)
        outcomes.append(rows is not None)
        return rows

    def check(ab, b, is_summary, bound):
        wanted = mgrec.solve_banded(widths, ab, b, periodic=periodic)
        lazy = (da.from_array(x, chunks=(*x.shape[:-1], (7000, 9000))) for x in (ab, b))
        outcomes.clear()
        x = mgrec.solve_banded(widths, *lazy, periodic=periodic).compute(scheduler="sync")
        assert outcomes == [is_summary] * 2
        assert error(x, wanted) < bound

    monkeypatch.setattr(recurrence, "join_ends", joined)
    ab, b = bands(*widths, 16_000), draw(16_000)
    check(ab, b, True, TOLERANCE["d"])
    # Unknowns far away have an effect on those at the ends.
    ab[:], ab[widths[1]] = -1.0, sum(widths) * 1.0001
    check(ab, b, False, 1e-10)


@pytest.mark.parametrize("dtype", with_extended("FD", "D"))
def test_complex_numbers_that_begin_at_half_of_one(dtype):
    """NumPy takes them as aligned: their distance from others is half a number."""
    ab, b = bands(1, 2, 20_000, dtype=dtype), draw(20_000, dtype=dtype)
    wanted, size = mgrec.solve_banded((1, 2), ab, b), ab.itemsize

    def moved(array):
        memory = np.empty(array.nbytes + size, np.uint8)
        start = (size // 2 - memory.ctypes.data) % size
        view = memory[start : start + array.nbytes].view(dtype).reshape(array.shape)
        view[...] = array
        return view

    for given in ((moved(ab), b), (ab, moved(b)), (moved(ab), moved(b))):
        assert {part.ctypes.data % size for part in given} >= {size // 2}
        assert all(part.flags.aligned for part in given)
        np.testing.assert_array_equal(mgrec.solve_banded((1, 2), *given), wanted)


@pytest.mark.parametrize("widths", [(0, 2), (0, 4), (1, 4), (3, 0)])
def test_residuals_of_solutions_that_grow(widths):
    """They are 1e10 to 1e40 times as large at one end of the system as at the other one."""
    ab, b = draw(sum(widths) + 1, 150), draw(150)
    x = mgrec.solve_banded(widths, ab, da.from_array(b, chunks=50)).compute()
    assert abs(dense_bands(widths, ab) @ x - b).max() < 1e-13 * abs(x).max()


def test_columns_of_other_sizes_are_not_singular():
    for _ in range(20):
        ab, b = draw(2, 144) * np.exp2(RANDOM.integers(-40, 40, 144)), draw(144)
        x = mgrec.solve_banded((1, 0), ab, da.from_array(b, chunks=((3, 56, 15, 15, 20, 34, 1),))).compute()
        assert error(x, solve_banded((1, 0), ab, b)) < 1e-9


def test_equal_rows_are_singular():
    with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
        mgrec.solve_banded((1, 1), np.ones((3, 2)), np.ones(2))


def test_entries_outside_of_the_matrix_are_ignored():
    ab, b = bands(2, 3, 60), draw(60)
    wanted = solve_banded((2, 3), ab, b)
    for row, columns in (
        (0, slice(3)),
        (1, slice(2)),
        (2, slice(1)),
        (4, slice(-1, None)),
        (5, slice(-2, None)),
    ):
        ab[row, columns] = np.nan
    np.testing.assert_allclose(mgrec.solve_banded((2, 3), ab, b), wanted, rtol=1e-9)
    lazy = mgrec.solve_banded((2, 3), ab, da.from_array(b, chunks=1))
    np.testing.assert_allclose(lazy.compute(), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, np.ones((3, 4)), np.ones(4)), "l_and_u must be two integers"),
        (((1, 5), np.ones((7, 4)), np.ones(4)), "from 0 to 4"),
        (((1, 1), np.ones((2, 4)), np.ones(4)), "must have the l . u . 1 = 3 diagonals"),
        (((1, 1), np.ones((3, 4)), np.ones(5)), "shapes must broadcast"),
        (((1, 1), np.ones((3, 1)), np.ones(5)), "b must have 1 entries"),
        (((1, 1), np.ones(4), np.ones(4)), "ab must have an axis of diagonals"),
        (((0, 0), np.ones((1, 4)), 1.0), "b one of unknowns"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        mgrec.solve_banded(*arguments)
