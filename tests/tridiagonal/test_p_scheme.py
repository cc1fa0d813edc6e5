"""Tridiagonal systems by Wakatani's three recurrences, against elimination with pivoting."""

import dask.array as da
import numpy as np
import pytest
from tridiagonal_matrices import dominant, in_chunks

import mgrec


def p_scheme(*operands, **options):
    return np.asarray(mgrec.solve_tridiagonal(*operands, method="p-scheme", **options))


@pytest.mark.parametrize("chunks", [None, (2, 50), (2, 17), (3, 8)])
@pytest.mark.parametrize("dtype", [pytest.param("f", marks=pytest.mark.extended), "d"])
def test_dominant_systems(dtype, chunks):
    operands = dominant((3, 50), dtype=dtype)
    wanted = mgrec.solve_tridiagonal(*operands)
    for part in (operands[0][:, 0], operands[2][:, -1]):
        part[:] = np.nan
    x = mgrec.solve_tridiagonal(*in_chunks(operands, chunks), method="p-scheme")
    assert x.dtype == dtype
    if chunks:
        assert x.chunks == da.from_array(wanted, chunks=chunks).chunks
    np.testing.assert_allclose(np.asarray(x), wanted, rtol=0, atol=50 * np.finfo(dtype).eps)


def test_the_papers_system():
    """Equations 1 to 3 of Wakatani 2012, with a plain loop as in 4 to 6."""
    n, generator = 200, np.random.default_rng(1)
    a, b, c = generator.uniform(2, 3, n), generator.uniform(0.5, 1, n), generator.normal(size=n)
    p, q, x = np.zeros(n), np.zeros(n), np.zeros(n)
    q[0], x[-1] = c[0], c[-1]
    for i in range(1, n - 1):
        pivot = a[i] - b[i] * p[i - 1]
        p[i], q[i] = b[i] / pivot, (c[i] + b[i] * q[i - 1]) / pivot
    for i in range(n - 2, -1, -1):
        x[i] = x[i + 1] * p[i] + q[i]
    a[[0, -1]], b[[0, -1]] = 1, 0
    lazy = da.from_array(c, chunks=30)
    np.testing.assert_allclose(p_scheme(-b, a, -b, lazy), x, rtol=1e-12)


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize(
    ("own", "shape", "options"),
    [
        ((20, 3), (20, 3), {"axis": 0}),
        ((2, 20, 3), (2, 20, 3), {"axis": 1}),
        ((20,), (4, 20), {}),
        ((20,), (20, 4), {"axis": 0, "rhs_axis": 1}),
        ((3, 20), (3, 20, 4), {"axis": 1, "rhs_axis": 2}),
        ((3, 1), (3, 20), {}),
        ((20,), (3, 1), {}),
    ],
)
def test_every_shape(own, shape, options, is_lazy):
    *diagonals, _ = dominant(own)
    b = dominant(shape)[3]
    wanted = mgrec.solve_tridiagonal(*diagonals, b, **options)
    given = da.from_array(b, chunks=tuple(max(1, n // 2) for n in shape)) if is_lazy else b
    np.testing.assert_allclose(p_scheme(*diagonals, given, **options), wanted, atol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_short_systems_and_constants(n):
    b = np.arange(2.0 * n).reshape(2, n)
    for given in (b, da.from_array(b)):
        wanted = mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, b)
        np.testing.assert_allclose(p_scheme(-1.0, 3.0, -1.0, given), wanted, rtol=1e-14)
    if n:
        np.testing.assert_allclose(p_scheme(0, b + 1, 0, 2.0), 2 / (b + 1))


def test_out():
    operands = dominant((3, 50))
    out = np.empty((3, 50))
    assert mgrec.solve_tridiagonal(*operands, method="p-scheme", out=out) is out
    np.testing.assert_array_equal(out, p_scheme(*operands))
    with pytest.raises(ValueError, match="out must not share memory with an operand"):
        p_scheme(*operands, out=operands[3])


@pytest.mark.parametrize("chunks", [None, (2, 50), (2, 17)])
@pytest.mark.parametrize("row", [0, 30, 49])
def test_a_pivot_of_0_raises(row, chunks):
    """Of a system that pivoting solves, but for its last row."""
    operands = dominant((3, 50))
    operands[1][2, row] = 0
    operands[0][2, row] = 0
    message = rf"^system \(2,\) has a pivot of 0 in row {row}: method 'p-scheme' does not pivot"
    with pytest.raises(np.linalg.LinAlgError, match=message):
        p_scheme(*in_chunks(operands, chunks))


def test_a_pivot_that_is_infinite_leaves_nan():
    """Else rows after it had finite numbers that are wrong."""
    d = np.full(6, 3.0)
    d[0] = 1e-320
    assert np.isnan(p_scheme(1.0, d, 1.0, np.ones(6))).all()


@pytest.mark.parametrize("chunks", [None, (2, 17)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_operands_are_checked(value, chunks):
    for number, name in enumerate(("dl", "d", "du", "b")):
        operands = dominant((3, 50))
        wanted = p_scheme(*operands)
        operands[number][1, 20] = value
        lazy = in_chunks(operands, chunks)
        with pytest.raises(ValueError, match=rf"{name} must hold no .* at index \(1, 20\)"):
            p_scheme(*lazy)
        x = p_scheme(*lazy, check_finite=False)
        assert not np.isfinite(x[1]).all()
        np.testing.assert_allclose(x[[0, 2]], wanted[[0, 2]], rtol=1e-9, atol=1e-12)


def test_what_is_refused():
    b = da.ones(20, chunks=5)
    with pytest.raises(TypeError, match="must be real for method 'p-scheme'"):
        p_scheme(1.0, 3.0, 1.0, 1j * b)
    with pytest.raises(ValueError, match=r"for periodic systems; got 'p-scheme'"):
        p_scheme(1.0, 3.0, 1.0, b, periodic=True)
