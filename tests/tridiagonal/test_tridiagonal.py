"""Tridiagonal systems through the public function, against LAPACK's gtsv."""

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import chunkings
from hypothesis import given
from hypothesis import strategies as st
from tridiagonal_matrices import NAMES, chunked, gtsv, matrix, places, product, with_solutions
from tridiagonal_matrices import error as median_error

import mgrec

pytestmark = pytest.mark.quick


def system(shape, dtype="f8", seed=0):
    """Diagonals and unknowns of random systems."""
    generator = np.random.default_rng(seed)
    dl, d, du, x = generator.normal(size=(4, *shape)).astype(np.dtype(dtype).char.lower())
    if np.dtype(dtype).kind == "c":
        dl, d, du, x = (part + 1j * part[::-1] for part in (dl, d, du, x))
    return tuple(part.astype(dtype) for part in (dl, d, du, x))


def right_hand_side(dl, d, du, x, axis=-1):
    moved = [np.moveaxis(part, axis, -1) for part in np.broadcast_arrays(dl, d, du, x)]
    b = np.stack([product(*rows) for rows in zip(*(m.reshape(-1, m.shape[-1]) for m in moved), strict=True)])
    return np.moveaxis(b.reshape(moved[0].shape), -1, axis).astype(x.dtype)


PLACES = places(chunked, 0, 1, 7, 64)


def error(x, wanted):
    return np.linalg.norm(x - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_forward_errors_are_those_of_gtsv(name, place):
    operands, wanted = with_solutions(*matrix(name))
    most = 10 * median_error(gtsv(operands), wanted) + 1e-15
    assert median_error(place(*operands, axis=1), wanted) <= most


def test_the_error_would_be_seen():
    """An error in the ninth digit; test_tridiagonal_methods.py has those without pivoting."""
    operands, wanted = with_solutions(*matrix("-1, 4, -1"))
    reference = gtsv(operands)
    found = median_error(reference * (1 + 1e-9), wanted)
    assert found > 1e6 * median_error(reference, wanted)


@pytest.mark.parametrize("place", [chunked(0), chunked(3)])
@pytest.mark.parametrize(("shape", "axis"), [((40,), 0), ((5, 40), 1), ((40, 5), 0), ((3, 40, 4), 1)])
def test_every_axis(shape, axis, place):
    dl, d, du, wanted = system(shape)
    x = place(dl, d, du, right_hand_side(dl, d, du, wanted, axis), axis=axis)
    assert x.flags.c_contiguous
    np.testing.assert_allclose(x, wanted, rtol=1e-6, atol=1e-6)


# Partitions have 192 rows at most.
@pytest.mark.parametrize("place", [chunked(0), chunked(2)])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 129, 191, 192, 193, 385])
def test_every_length(n, place):
    dl, d, du, wanted = system((n,))
    x = place(dl, d, du, right_hand_side(dl, d, du, wanted) if n else wanted)
    np.testing.assert_allclose(x, wanted, rtol=1e-6)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("values", [(-1, 1, 1), (1, 1, -1), (-1, 2, 2), (2, 1, -2)])
def test_rows_that_pivoting_alone_lets_grow_do_not(values, place):
    """With pivoting alone 300 unknowns had errors of 1e4; the condition numbers are 2 to 4."""
    operands, wanted = with_solutions(*(np.full(300, float(value)) for value in values))
    most = 5 * median_error(gtsv(operands), wanted) + 2 * np.finfo(float).eps
    assert median_error(place(*operands, axis=1), wanted) <= most


def test_columns_of_1e_280_are_solved():
    operands = list(system((300,)))
    wanted = mgrec.solve_tridiagonal(*operands)
    powers = 2.0 ** np.random.default_rng(1).integers(-930, -900, 302)
    for shift in range(3):
        operands[shift] = operands[shift] * powers[shift : shift + 300]
    x = mgrec.solve_tridiagonal(*operands) * powers[1:-1]
    np.testing.assert_allclose(x, wanted, rtol=1e-9)


def test_diagonals_broadcast():
    """Constant diagonals, one matrix for several right-hand sides, and several matrices."""
    wanted = system((4, 30))[3]
    for dl, d, du in (
        (-1, 4.0, 1),
        (-1.0, system((30,))[1] + 5, np.ones((1, 30))),
        (np.ones((4, 1)), 4 + np.arange(30.0), -1.0),
    ):
        b = right_hand_side(dl, np.asarray(d), du, wanted)
        np.testing.assert_allclose(mgrec.solve_tridiagonal(dl, d, du, b), wanted, rtol=1e-9)
        lazy = mgrec.solve_tridiagonal(dl, d, du, da.from_array(b, chunks=(2, 7)))
        assert lazy.chunks == ((2, 2), (7, 7, 7, 7, 2))
        np.testing.assert_allclose(lazy.compute(scheduler="sync"), wanted, rtol=1e-9)


@given(st.data())
def test_any_chunks_give_the_same(data):
    dl, d, du, wanted = system((2, 37), seed=data.draw(st.integers(0, 99)))
    d = d + 3 * np.sign(d)
    b = right_hand_side(dl, d, du, wanted)
    chunks = (data.draw(chunkings(2)), data.draw(chunkings(37, 8)))
    lazy = mgrec.solve_tridiagonal(dl, da.from_array(d, chunks=(1, 11)), du, da.from_array(b, chunks=chunks))
    assert lazy.chunks == chunks
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("place", [chunked(0), chunked(1), chunked(4)])
@pytest.mark.parametrize("n", [5, 61, 193, 501])
def test_singular_systems_raise(n, place):
    ones, odd, row = np.ones(n), np.arange(n) % 2.0, n // 2
    dl, d, du = (part.copy() for part in matrix("-1, 4, random", n))
    dl[row + 1] = d[row] = du[row - 1] = 0
    for diagonals in (
        (dl, d, du),  # a column of 0
        (0 * ones, np.where(np.arange(n) == row, 0, 1.0), 0 * ones),  # a row of 0
        (odd, ones, 1 - odd),  # equal rows
        (ones, 0 * ones, ones),
        (0 * ones, 0 * ones, 0 * ones),
    ):
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            place(*diagonals, 1e10 * ones)


def test_a_chunk_whose_inside_is_singular_does_no_harm():
    """An antidiagonal of 2 x 2 blocks: no row of a chunk can do without its neighbours."""
    n = 64
    odd = (np.arange(n) % 2).astype(float)
    b = np.arange(n, dtype=float)
    for place in (chunked(0), chunked(3), chunked(64)):
        x = place(odd, 0.0, 1 - odd, b)
        np.testing.assert_array_equal(x, b.reshape(-1, 2)[:, ::-1].ravel())


def test_out_strides_and_integers():
    dl, d, du, wanted = system((2, 50))
    b = right_hand_side(dl, d, du, wanted)
    out = np.full_like(b, np.nan)
    assert mgrec.solve_tridiagonal(dl, d, du, b, out=out) is out
    view = [np.repeat(part, 2, axis=1)[:, ::2] for part in (dl, d, du, b)]
    for part in view:
        part.flags.writeable = False
    np.testing.assert_array_equal(mgrec.solve_tridiagonal(*view), out)
    assert mgrec.solve_tridiagonal(0, 2, 0, np.arange(4)).tolist() == [0, 0.5, 1, 1.5]


def test_two_readings_are_two():
    """With memory="two-pass" no pack is there for both phases."""
    b = da.ones(40, chunks=10)
    once, twice = (
        mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, b, memory=memory) for memory in ("stream", "two-pass")
    )
    packs = [sum(str(k[0]).startswith("pack") for k in dict(w.dask)) for w in (once, twice)]
    assert packs == [4, 8]
    for array in dask.compute(once, twice, scheduler="sync"):
        np.testing.assert_array_equal(array, once.compute(scheduler="sync"))


ONES = da.ones(20, chunks=5)


@pytest.mark.parametrize(
    ("operands", "options", "wrong", "message"),
    [
        ((1, 2, 1, 3.0), {}, ValueError, "must be an array"),
        ((1, 2, np.ones(3), np.ones(4)), {}, ValueError, "put a 0"),
        ((1, 2, np.ones(5), np.ones(7)), {}, ValueError, "broadcast"),
        ((1, 2, 1, np.ones(4)), {"axis": 1}, ValueError, "axis must"),
        ((1, None, 1, np.ones(4)), {}, TypeError, "d must be of"),
        ((1, 2, 1, np.zeros(4, "M8[s]")), {}, TypeError, "datetime64"),
        ((1, 2, 1, np.ones(4)), {"method": "gauss"}, ValueError, "method must be one of"),
        ((1, 2, 1, np.ones(4)), {"periodic": 1}, TypeError, "periodic must be True or False"),
        ((1, 2, 1, np.ones(4)), {"check_finite": "no"}, TypeError, "check_finite must be True or"),
        ((1, 2, 1, ONES[ONES > 0]), {}, ValueError, "a tridiagonal system needs the index"),
    ],
)
def test_what_is_refused(operands, options, wrong, message):
    with pytest.raises(wrong, match=message):
        mgrec.solve_tridiagonal(*operands, **options)
