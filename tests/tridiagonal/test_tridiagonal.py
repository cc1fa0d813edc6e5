"""Tridiagonal systems through the public function, against LAPACK's gtsv."""

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import chunkings
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import lapack
from tridiagonal_matrices import NAMES, ORDER, gtsv, matrix, product, with_solutions
from tridiagonal_matrices import error as median_error

import mgrec

pytestmark = pytest.mark.quick

DTYPES = ("f4", "f8", pytest.param("c8", marks=pytest.mark.extended), "c16")


def system(shape, dtype="f8", seed=0):
    """Diagonals and unknowns of random systems."""
    generator = np.random.default_rng(seed)
    dl, d, du, x = generator.normal(size=(4, *shape)).astype(np.dtype(dtype).char.lower())
    if np.dtype(dtype).kind == "c":
        dl, d, du, x = (part + 1j * part[::-1] for part in (dl, d, du, x))
    return tuple(part.astype(dtype) for part in (dl, d, du, x))


def right_hand_side(dl, d, du, x, axis=-1):
    moved = [np.moveaxis(part, axis, -1) for part in np.broadcast_arrays(dl, d, du, x)]
    b = np.stack(
        [product(*rows) for rows in zip(*(m.reshape(-1, m.shape[-1]) for m in moved), strict=True)]
    )
    return np.moveaxis(b.reshape(moved[0].shape), -1, axis).astype(x.dtype)


def chunked(count):
    """Solve in so many chunks along n; 0 stands for NumPy."""

    def solve(*operands, axis=-1, **options):
        if not count:
            return mgrec.solve_tridiagonal(*operands, axis=axis, **options)
        *diagonals, b = operands
        ends = np.linspace(0, b.shape[axis], count + 1).astype(int)
        chunks = list(b.shape)
        chunks[axis] = tuple(np.diff(ends))
        lazy = mgrec.solve_tridiagonal(
            *diagonals, da.from_array(b, chunks=tuple(chunks)), axis=axis, **options
        )
        assert lazy.chunks[axis] == tuple(np.diff(ends))
        return lazy.compute(scheduler="sync")

    return solve


PLACES = [pytest.param(chunked(count), id=f"{count} chunks") for count in (0, 1, 7, 64)]


def error(x, wanted):
    return np.linalg.norm(x - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_forward_errors_are_those_of_gtsv(name, place):
    operands, wanted = with_solutions(*matrix(name))
    most = 10 * median_error(gtsv(operands), wanted) + 1e-15
    assert median_error(place(*operands, axis=1), wanted) <= most


def test_the_error_would_be_seen():
    """Without pivoting the errors of such matrices are far beyond what is allowed."""
    dl, d, du = matrix("random, diagonal 1e-8")
    wanted = np.random.default_rng(5).normal(3, 1, ORDER)
    b = product(dl, d, du, wanted).astype(float)
    c, x = np.zeros(ORDER), np.zeros(ORDER)
    c[0], x[0] = du[0] / d[0], b[0] / d[0]
    for i in range(1, ORDER):
        pivot = d[i] - dl[i] * c[i - 1]
        c[i], x[i] = du[i] / pivot, (b[i] - dl[i] * x[i - 1]) / pivot
    for i in range(ORDER - 2, -1, -1):
        x[i] -= c[i] * x[i + 1]
    *_, reference, _ = lapack.dgtsv(dl[1:], d, du[:-1], b)
    assert error(x, wanted) > 1000 * error(reference, wanted)


@pytest.mark.parametrize("place", [chunked(0), chunked(3)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype, place):
    dl, d, du, wanted = system((3, 150), dtype)
    x = place(dl, d, du, right_hand_side(dl, d, du, wanted))
    assert x.dtype == dtype
    assert error(x, wanted) < 1e5 * np.finfo(dtype).eps


@pytest.mark.parametrize("place", [chunked(0), chunked(3)])
@pytest.mark.parametrize(
    ("shape", "axis"), [((40,), 0), ((5, 40), 1), ((40, 5), 0), ((3, 40, 4), 1)]
)
def test_every_axis(shape, axis, place):
    dl, d, du, wanted = system(shape)
    x = place(dl, d, du, right_hand_side(dl, d, du, wanted, axis), axis=axis)
    assert x.flags.c_contiguous
    np.testing.assert_allclose(x, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("place", [chunked(0), chunked(2)])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 129])
def test_every_length(n, place):
    dl, d, du, wanted = system((n,))
    x = place(dl, d, du, right_hand_side(dl, d, du, wanted) if n else wanted)
    np.testing.assert_allclose(x, wanted, rtol=1e-6)


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
    lazy = mgrec.solve_tridiagonal(
        dl, da.from_array(d, chunks=(1, 11)), du, da.from_array(b, chunks=chunks)
    )
    assert lazy.chunks == chunks
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("place", [chunked(0), chunked(1), chunked(4)])
def test_entries_outside_the_matrix_do_not_count(place):
    dl, d, du, wanted = system((2, 50))
    b = right_hand_side(dl, d, du, wanted)
    for garbage in (np.nan, np.inf, 1e300, 0.0):
        dl[:, 0] = du[:, -1] = garbage
        np.testing.assert_allclose(place(dl, d, du, b), wanted, rtol=1e-6)


@pytest.mark.parametrize("place", [chunked(0), chunked(1), chunked(4)])
def test_singular_systems_raise(place):
    ones = np.ones(60)
    for dl, d, du in (
        (0 * ones, np.r_[np.ones(30), 0, np.ones(29)], 0 * ones),
        (np.arange(60) % 2, ones, 1 - np.arange(60) % 2),
        (0 * ones, 0 * ones, 0 * ones),
    ):
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            place(dl, d, du, ones)


def test_a_chunk_whose_inside_is_singular_does_no_harm():
    """An antidiagonal of 2 x 2 blocks: no row of a chunk can do without its neighbours."""
    n = 64
    odd = (np.arange(n) % 2).astype(float)
    b = np.arange(n, dtype=float)
    for place in (chunked(0), chunked(3), chunked(64)):
        x = place(odd, 0.0, 1 - odd, b)
        np.testing.assert_array_equal(x, b.reshape(-1, 2)[:, ::-1].ravel())


@pytest.mark.parametrize("place", [chunked(0), chunked(3)])
def test_nan_stays_in_its_system(place):
    dl, d, du, wanted = system((3, 50))
    b = right_hand_side(dl, d, du, wanted)
    d[1, 20] = np.nan
    x = place(dl, d, du, b, check_finite=False)
    assert np.isnan(x[1]).all()
    np.testing.assert_allclose(x[[0, 2]], wanted[[0, 2]], rtol=1e-6)


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
        mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, b, memory=memory)
        for memory in ("stream", "two-pass")
    )
    packs = [sum(str(k[0]).startswith("pack") for k in dict(w.dask)) for w in (once, twice)]
    assert packs == [4, 8]
    for array in dask.compute(once, twice, scheduler="sync"):
        np.testing.assert_array_equal(array, once.compute(scheduler="sync"))


@pytest.mark.parametrize(
    ("call", "wrong", "message"),
    [
        (lambda: mgrec.solve_tridiagonal(1, 2, 1, 3.0), ValueError, "at least one array"),
        (lambda: mgrec.solve_tridiagonal(1, 2, np.ones(3), np.ones(4)), ValueError, "put a 0"),
        (lambda: mgrec.solve_tridiagonal(1, 2, np.ones(5), np.ones(7)), ValueError, "broadcast"),
        (lambda: mgrec.solve_tridiagonal(1, 2, 1, np.ones(4), axis=1), ValueError, "axis must"),
        (lambda: mgrec.solve_tridiagonal(1, None, 1, np.ones(4)), TypeError, "d must be of"),
        (lambda: mgrec.solve_tridiagonal(1, 2, 1, np.ones(4, "f2")), TypeError, "float16"),
        (
            lambda: mgrec.solve_tridiagonal(1, 2, 1, np.ones(4), method="gauss"),
            ValueError,
            "method must be one of",
        ),
    ],
)
def test_what_is_refused(call, wrong, message):
    with pytest.raises(wrong, match=message):
        call()


def test_chunks_of_unknown_sizes_are_refused():
    b = da.ones(20, chunks=5)
    with pytest.raises(ValueError, match="a tridiagonal system needs the index"):
        mgrec.solve_tridiagonal(1, 2, 1, b[b > 0])
