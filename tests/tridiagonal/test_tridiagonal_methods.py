"""Methods and right-hand sides of solve_tridiagonal, against LAPACK's gtsv and each other."""

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from test_tridiagonal import error as norm_error
from test_tridiagonal import right_hand_side, system
from tridiagonal_matrices import NAMES, chunked, dominant, error, gtsv, in_chunks, matrix, with_solutions

import mgrec

WITHOUT_PIVOTING = ("thomas", "cyclic-reduction", "pcr")
METHODS = ("auto", "partition", *WITHOUT_PIVOTING)
# Systems enough for registers of any dtype, the last of them not full.
MANY = 37


def reference(operands, axis=-1):
    """LAPACK's solutions."""
    moved = [np.moveaxis(part, axis, -1) for part in operands]
    rows = [part.reshape(-1, part.shape[-1], 1) for part in moved]
    return np.moveaxis(gtsv(rows).reshape(moved[3].shape), -1, axis)


def close(dtype):
    return {"rtol": 0, "atol": 30 * np.finfo(dtype).eps}


@pytest.mark.extended
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 63, 64, 65, 1000])
@pytest.mark.parametrize("method", METHODS)
def test_every_length_along_both_axes(method, n, axis):
    operands = dominant((MANY, n), axis)
    x = mgrec.solve_tridiagonal(*operands, axis=axis, method=method)
    np.testing.assert_allclose(x, reference(operands, axis), **close("d"))


@pytest.mark.extended
@pytest.mark.parametrize("dtype", "fDF")
@pytest.mark.parametrize("method", METHODS)
def test_every_dtype_along_both_axes(method, dtype):
    for axis in (0, 1):
        operands = dominant((MANY, 65), axis, dtype)
        x = mgrec.solve_tridiagonal(*operands, axis=axis, method=method)
        assert x.dtype == dtype
        np.testing.assert_allclose(x, reference(operands, axis), **close(dtype))


@pytest.mark.parametrize("method", METHODS)
def test_no_rows_and_no_systems(method):
    for shape in ((MANY, 0), (0, 9)):
        assert mgrec.solve_tridiagonal(*np.ones((4, *shape)), method=method).shape == shape


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(200,), (3, 200), (200, 3), (5, 200, 19), (4, 200, 3)])
def test_few_systems_and_every_place_of_the_axis(method, shape):
    axis = shape.index(200)
    operands = dominant((*shape[:axis], *shape[axis + 1 :], 200), axis)
    x = mgrec.solve_tridiagonal(*operands, axis=axis, method=method)
    np.testing.assert_allclose(x, reference(operands, axis), **close("d"))


BROADCAST = [
    ((1, 1, 1), (1, 150), (37, 1), (37, 150)),
    ((4, 1, 150), (1, 1, 1), (1, 3, 150), (4, 3, 150)),
    ((4, 3, 1), (3, 1), (4, 1, 1), (4, 3, 150)),
    ((4, 3, 150), (4, 1, 150), (3, 150), (1, 1)),
]


@pytest.mark.parametrize("shapes", BROADCAST)
@pytest.mark.parametrize("method", METHODS)
def test_diagonals_in_common(method, shapes):
    operands = [dominant(shape, seed=k)[0] for k, shape in enumerate(shapes)]
    operands[1] = operands[1] + 3
    x = mgrec.solve_tridiagonal(*operands, method=method)
    np.testing.assert_allclose(x, reference(np.broadcast_arrays(*operands)), **close("d"))


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_batches_are_those_of_lapack(name):
    operands, x = with_solutions(*matrix(name), sides=MANY)
    allowed = 5 * error(gtsv(operands), x) + 2 * np.finfo(float).eps
    found = mgrec.solve_tridiagonal(*(part[..., 0] for part in operands))
    assert error(found[..., None], x) <= allowed


def test_methods_without_pivoting_do_not_pivot():
    """Or the documentation would be wrong: gtsv's error is below a hundredth of theirs."""
    operands, x = with_solutions(*matrix("random, diagonal 1e-8"), sides=MANY)
    least = 100 * error(gtsv(operands), x)
    for method in WITHOUT_PIVOTING:
        found = mgrec.solve_tridiagonal(*(part[..., 0] for part in operands), method=method)
        assert error(found[..., None], x) > least


@pytest.mark.parametrize("method", METHODS)
def test_what_is_beside_a_system_changes_no_bit(method):
    operands = dominant((MANY, 130))
    whole = mgrec.solve_tridiagonal(*operands, method=method)
    part = mgrec.solve_tridiagonal(*(operand[5:28] for operand in operands), method=method)
    np.testing.assert_array_equal(part, whole[5:28])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("operand", range(4))
@pytest.mark.parametrize("method", METHODS)
def test_nan_and_inf_stay_in_their_system(method, operand, value):
    operands = dominant((MANY, 70))
    expected = mgrec.solve_tridiagonal(*operands, method=method)
    operands[operand][20, 33] = value
    x = mgrec.solve_tridiagonal(*operands, method=method, check_finite=False)
    assert np.isnan(x[20]).all()
    x[20] = expected[20]
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("method", METHODS)
def test_entries_outside_the_matrix_do_not_count(method):
    operands = dominant((MANY, 70))
    expected = mgrec.solve_tridiagonal(*operands, method=method)
    for garbage in (np.nan, np.inf, 1e300, 0.0):
        operands[0][:, 0] = operands[2][:, -1] = garbage
        x = mgrec.solve_tridiagonal(*operands, method=method)
        np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("systems", [1, MANY])
@pytest.mark.parametrize("row", [0, 33, 69])
@pytest.mark.parametrize("method", METHODS)
def test_a_singular_system_raises(method, row, systems):
    operands = dominant((systems, 70))
    for operand in operands[:3]:
        operand[systems // 2, row] = 0
    with pytest.raises(np.linalg.LinAlgError, match="pivot of 0"):
        mgrec.solve_tridiagonal(*operands, method=method)
    lazy = mgrec.solve_tridiagonal(*operands[:3], da.from_array(operands[3]), method=method)
    with pytest.raises(np.linalg.LinAlgError, match="pivot of 0"):
        lazy.compute(scheduler="sync")


@pytest.mark.parametrize("method", WITHOUT_PIVOTING)
def test_a_pivot_of_0_raises_where_pivoting_would_help(method):
    """tridiag(1, 0, 1) of even order is not singular."""
    b = np.ones((MANY, 8))
    assert np.isfinite(mgrec.solve_tridiagonal(1.0, 0.0, 1.0, b)).all()
    message = rf"has a pivot of 0: method '{method}' does not pivot, and the system may be regular"
    with pytest.raises(np.linalg.LinAlgError, match=message):
        mgrec.solve_tridiagonal(1.0, 0.0, 1.0, b, method=method)


@pytest.mark.parametrize("method", WITHOUT_PIVOTING)
def test_a_pivot_of_inf_raises(method):
    """Divided by it, the other unknowns would be finite."""
    b = np.array([1.0, 0.0])
    assert mgrec.solve_tridiagonal(1e200, 1.0, 1e200, b).tolist() == [0.0, 1e-200]
    with pytest.raises(np.linalg.LinAlgError, match=f"method '{method}' does not pivot"):
        mgrec.solve_tridiagonal(1e200, 1.0, 1e200, b, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_chunks_along_the_systems(method):
    operands = dominant((MANY, 130))
    expected = mgrec.solve_tridiagonal(*operands, method=method)
    x = mgrec.solve_tridiagonal(*in_chunks(operands, (11, -1)), method=method)
    assert x.chunks == ((11, 11, 11, 4), (130,))
    # Few systems go another way than many: not the same bits.
    np.testing.assert_allclose(x.compute(scheduler="sync"), expected, **close("d"))


@pytest.mark.parametrize("method", WITHOUT_PIVOTING)
def test_chunks_along_the_unknowns_are_refused(method):
    b = da.ones((4, 30), chunks=(2, 10))
    with pytest.raises(ValueError, match=r"got 3 chunks along axis 1: call rechunk\(\{1: -1\}\)"):
        mgrec.solve_tridiagonal(1.0, 4.0, 1.0, b, method=method)
    # Diagonals take the chunks of b.
    d, b = da.full(30, 4.0, chunks=10), b.rechunk({1: -1})
    x = mgrec.solve_tridiagonal(1.0, d, 1.0, b, method=method)
    wanted = mgrec.solve_tridiagonal(1.0, 4.0, 1.0, np.ones((4, 30)))
    np.testing.assert_allclose(x.compute(scheduler="sync"), wanted, **close("d"))


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("options", [*({"method": m} for m in METHODS), {"periodic": True}])
def test_threads_change_no_bit(options, monkeypatch):
    operands = dominant((2 * MANY, 1000))
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("MGREC_NUM_THREADS", threads)
        found.append(mgrec.solve_tridiagonal(*operands, **options))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("method", ["auto", "partition"])
def test_rows_of_1e300_and_1e_300_are_alike(method):
    operands = dominant((MANY, 100))
    factors = np.random.default_rng(1).choice([1e300, 1e-300], (MANY, 100))
    x = mgrec.solve_tridiagonal(*(operand * factors for operand in operands), method=method)
    wanted = mgrec.solve_tridiagonal(*operands, method=method)
    np.testing.assert_allclose(x, wanted, rtol=1e-12)


# Dtypes of the method that pivots, a system in one chunk or in three.


@pytest.mark.parametrize("place", [chunked(0), chunked(3)])
@pytest.mark.parametrize("dtype", with_extended(["f4", "f8", "c8", "c16"], "f4", "c8", "c16"))
def test_every_dtype_in_chunks(dtype, place):
    dl, d, du, wanted = system((3, 150), dtype)
    x = place(dl, d, du, right_hand_side(dl, d, du, wanted))
    assert x.dtype == dtype
    assert norm_error(x, wanted) < 1e5 * np.finfo(dtype).eps


@pytest.mark.parametrize("place", [chunked(0), chunked(3)])
@pytest.mark.parametrize("dtype", with_extended(["f8", "f4", "c16"], "f4", "c16"))
def test_powers_of_two_on_rows_change_no_bit(dtype, place):
    operands = system((300,), dtype)
    # Up to the largest numbers, whose rows are scaled as those of other sizes.
    least, most = -100 if dtype == "f4" else -900, np.finfo(dtype).maxexp - 2
    powers = 2.0 ** np.random.default_rng(19).integers(least, most, 300)
    scaled = [operand * powers.astype(operand.real.dtype) for operand in operands]
    np.testing.assert_array_equal(place(*scaled), place(*operands))


# Several right-hand sides of the same matrices.


def dense(dl, d, du):
    """Matrices (..., n, n) of diagonals (..., n)."""
    dl, d, du = np.broadcast_arrays(dl, d, du)
    n = d.shape[-1]
    full = np.zeros((*d.shape, n))
    k = np.arange(n)
    full[..., k, k] = d
    full[..., k[1:], k[:-1]] = dl[..., 1:]
    full[..., k[:-1], k[1:]] = du[..., :-1]
    return full


def draw(*shapes, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize(
    ("own", "shape", "axis", "rhs_axis"),
    [
        ((7,), (7, 3), 0, 1),
        ((7,), (7, 3), -2, -1),
        ((7,), (3, 7), 1, 0),
        ((7,), (7, 7), 0, 1),
        ((4, 7), (4, 7, 3), 1, 2),
        ((4, 7), (3, 4, 7), -1, 0),
        ((4, 7), (4, 3, 7), -1, 1),
        ((4, 7), (7, 3), -2, -1),
    ],
)
def test_every_side_is_solved_with_its_matrix(own, shape, axis, rhs_axis, is_lazy):
    dl, d, du, b = draw(own, own, own, shape)
    d += 3 * np.sign(d)
    given = da.from_array(b, chunks=tuple(max(1, n // 2) for n in shape)) if is_lazy else b
    x = mgrec.solve_tridiagonal(dl, d, du, given, axis=axis, rhs_axis=rhs_axis)
    whole = (*own[:-1], *shape) if len(shape) == len(own) else shape
    assert x.shape == whole
    # To (..., n, sides), as numpy.linalg.solve has them.
    moved = np.moveaxis(np.broadcast_to(b, whole), (axis, rhs_axis), (-2, -1))
    wanted = np.moveaxis(np.linalg.solve(dense(dl, d, du), moved), (-2, -1), (axis, rhs_axis))
    np.testing.assert_allclose(np.asarray(x), wanted, rtol=1e-9, atol=1e-12)


def test_lazy_diagonals():
    *diagonals, _ = dominant((40,))
    (b,) = draw((40, 3))
    x = mgrec.solve_tridiagonal(*in_chunks(diagonals, 15), b, axis=0, rhs_axis=1)
    assert x.chunks == ((15, 15, 10), (3,))
    np.testing.assert_allclose(x, np.linalg.solve(dense(*diagonals), b), rtol=1e-9, atol=1e-12)


def test_constant_diagonals_take_any_axis():
    (b,) = draw((6, 2))
    x = mgrec.solve_tridiagonal(-1, 3, -1, b, axis=0, rhs_axis=1)
    np.testing.assert_array_equal(x, mgrec.solve_tridiagonal(-1, 3, -1, b, axis=0))


@pytest.mark.parametrize(
    ("own", "shape", "options", "message"),
    [
        ((7,), (7, 3), {"axis": 0, "rhs_axis": 2}, "rhs_axis must be from -2 to 1"),
        ((7,), (7, 3), {"axis": 0, "rhs_axis": 0}, "another axis than axis=0"),
        ((7,), (7,), {"axis": -1, "rhs_axis": 0}, "must have the axis rhs_axis=0"),
        ((7,), (7, 3), {"axis": 0}, r"d: \(7,\), du: \(7,\), b: \(7, 3\). Give rhs_axis"),
        ((6,), (7, 3), {"axis": 0, "rhs_axis": 1}, r"without the rhs_axis.*d: \(6,\)"),
        ((), (4, 2), {"axis": 0, "rhs_axis": "sides"}, "rhs_axis must be an integer"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(own, shape, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mgrec.solve_tridiagonal(np.ones(own), np.ones(own), np.ones(own), np.ones(shape), **options)
