"""Several right-hand sides of the same tridiagonal matrices, against dense systems."""

import dask.array as da
import numpy as np
import pytest

import mgrec


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
    dl, d, du, b = draw((40,), (40,), (40,), (40, 3))
    d += 3 * np.sign(d)
    lazy = [da.from_array(part, chunks=15) for part in (dl, d, du)]
    x = mgrec.solve_tridiagonal(*lazy, b, axis=0, rhs_axis=1)
    assert x.chunks == ((15, 15, 10), (3,))
    np.testing.assert_allclose(x, np.linalg.solve(dense(dl, d, du), b), rtol=1e-9, atol=1e-12)


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
    ],
)
def test_shapes_that_do_not_fit_are_refused(own, shape, options, message):
    with pytest.raises(ValueError, match=message):
        mgrec.solve_tridiagonal(np.ones(own), np.ones(own), np.ones(own), np.ones(shape), **options)


def test_rhs_axis_is_an_integer():
    with pytest.raises(TypeError, match="rhs_axis must be an integer"):
        mgrec.solve_tridiagonal(1, 3, 1, np.ones((4, 2)), axis=0, rhs_axis="sides")
