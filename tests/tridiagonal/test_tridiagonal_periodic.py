"""Tridiagonal systems whose ends meet, against dense systems."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from chunkings import chunkings, with_extended
from hypothesis import given
from hypothesis import strategies as st
from tridiagonal_matrices import chunked, dense_ring, places

import mgrec


def in_chunks(count):
    return partial(chunked(count), periodic=True)


PLACES = places(in_chunks, 0, 1, 3, 7)


def drawn(kind, n, dtype="d"):
    generator = np.random.default_rng(n)
    dl, d, du = generator.uniform(-1, 1, (3, n))
    if np.dtype(dtype).kind == "c":
        dl, d, du = (part + 1j * generator.uniform(-1, 1, n) for part in (dl, d, du))
    if kind == "dominant":
        d = d + 4
    elif kind == "singular without its corners":
        # tridiag(1, 0, 1) of odd order.
        dl, d, du = np.ones(n), np.zeros(n), np.ones(n)
        dl[0] = 2
    elif kind == "singular inside":
        # So is what remains without the first and the last row and column.
        dl, d, du = np.ones(n), np.full(n, 1e-17), np.ones(n)
        dl[0], d[0], d[-1], du[-1] = 3, 1, -2, 5
    elif kind == "growing":
        # With pivoting alone, held rows grow as Fibonacci numbers do.
        dl, d, du = np.full(n, -1.0), np.ones(n), np.ones(n)
    elif kind == "strong corners":
        dl[0], du[-1] = 1e8, -1e8
    return tuple(part.astype(dtype) for part in (dl, d, du))


KINDS = ("random", "dominant", "singular without its corners", "singular inside", "growing", "strong corners")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("n", [9, 301])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_those_of_a_dense_solver(kind, n, place):
    dl, d, du = drawn(kind, n)
    full, wanted = dense_ring(dl, d, du), np.random.default_rng(1).normal(3, 1, n)
    x = place(dl, d, du, full @ wanted)
    error = np.linalg.norm(x - wanted) / np.linalg.norm(wanted)
    dense = np.linalg.norm(np.linalg.solve(full, full @ wanted) - wanted) / np.linalg.norm(wanted)
    # The dense solver scales no rows: with strong corners it has errors of 1e-8.
    assert error <= min(10 * dense, 1e-13) + 4 * np.finfo(float).eps


def test_a_corner_that_is_left_out_would_be_seen():
    dl, d, du = drawn("dominant", 301)
    b = dense_ring(dl, d, du) @ np.ones(301)
    dl[0] = 0
    assert abs(in_chunks(3)(dl, d, du, b) - 1).max() > 1e-3


@pytest.mark.parametrize("place", [in_chunks(0), in_chunks(1)])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_coefficients_of_one_unknown_add_up(n, place):
    dl, d, du, b = np.random.default_rng(n).normal(size=(4, n))
    wanted = np.linalg.solve(dense_ring(dl, d, du), b)
    np.testing.assert_allclose(place(dl, d, du, b), wanted, rtol=1e-11)


@pytest.mark.parametrize("place", [in_chunks(0), in_chunks(2)])
@pytest.mark.parametrize("dtype", with_extended("fDF", "f", "F"))
def test_other_dtypes(dtype, place):
    dl, d, du = drawn("dominant", 50, dtype)
    b = np.arange(50).astype(dtype)
    x = place(dl, d, du, b)
    assert x.dtype == dtype
    np.testing.assert_allclose(x, np.linalg.solve(dense_ring(dl, d, du), b), rtol=2e-4)


def test_no_unknowns():
    assert mgrec.solve_tridiagonal(1.0, 3.0, 1.0, np.ones((2, 0)), periodic=True).shape == (2, 0)


@given(st.data())
def test_any_chunks_of_many_systems_with_constants(data):
    wanted = np.random.default_rng(2).normal(size=(3, 23))
    b = 4 * wanted - np.roll(wanted, 1, -1) + 2 * np.roll(wanted, -1, -1)
    lazy = da.from_array(b, chunks=(data.draw(chunkings(3)), data.draw(chunkings(23, 6))))
    x = mgrec.solve_tridiagonal(-1.0, 4.0, 2.0, lazy, periodic=True)
    np.testing.assert_allclose(x.compute(scheduler="sync"), wanted, rtol=1e-12)


@pytest.mark.parametrize("place", [in_chunks(0), in_chunks(1), in_chunks(3)])
def test_singular_rings_and_corners_that_are_nan_are_named(place):
    dl, d, du = (np.repeat([part], 3, 0) for part in drawn("dominant", 30))
    b = np.ones((3, 30))
    for row in (0, 14, 29):
        singular = [part.copy() for part in (dl, d, du)]
        for part in singular:
            part[2, row] = 0
        with pytest.raises(np.linalg.LinAlgError, match=r"^system \(2,\) is singular"):
            place(*singular, b)
    wanted = place(dl, d, du, b)
    dl[1, 0] = np.nan
    with pytest.raises(ValueError, match=r"dl must hold no .*\(1, 0\)"):
        place(dl, d, du, b)
    x = place(dl, d, du, b, check_finite=False)
    assert np.isnan(x[1]).all()
    np.testing.assert_array_equal(x[[0, 2]], wanted[[0, 2]])
