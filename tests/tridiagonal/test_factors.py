"""Factored tridiagonal matrices: solves with them are those of solve_tridiagonal."""

import pickle

import dask.array as da
import numpy as np
import pytest
from internals import phase_of
from tridiagonal_matrices import NAMES, error, gtsv, in_chunks, matrix, with_solutions

import mgrec


def draw(*shapes, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape) for shape in shapes]


@pytest.mark.extended
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_gtsv(name):
    """Of lines one by one, and side by side."""
    dl, d, du = matrix(name)
    operands, x = with_solutions(dl, d, du, 20)
    factor, b = mgrec.factor_tridiagonal(dl, d, du), operands[3][:, :, 0]
    allowed = 5 * error(gtsv(operands), x) + 2 * np.finfo(float).eps
    assert error(factor.solve(b)[:, :, None], x) <= allowed
    assert error(factor.solve(b.T, rhs_axis=1).T[:, :, None], x) <= allowed


def test_the_error_would_be_seen():
    dl, d, du = matrix("-1, 4, -1")
    operands, x = with_solutions(dl, d, du, 20)
    other = np.where(np.arange(len(d)) == 100, d * (1 + 1e-9), d)
    found = mgrec.factor_tridiagonal(dl, other, du).solve(operands[3][:, :, 0])
    assert error(found[:, :, None], x) > 1000 * error(gtsv(operands), x)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6, 7])
def test_every_length(n):
    for shape in ((n,), (3, n), (n, 20)):
        axis = -1 if shape[-1] == n else 0
        dl, d, du, b = draw(shape, shape, shape, shape)
        x = mgrec.factor_tridiagonal(dl, d, du, axis=axis).solve(b)
        wanted = mgrec.solve_tridiagonal(dl, d, du, b, axis=axis)
        np.testing.assert_allclose(x, wanted, rtol=1e-9)


SHAPES = [
    # Of dl, d, du; of b; axis of the diagonals; rhs_axis
    ((30,), (30,), -1, None),
    ((30,), (4, 30), -1, None),
    ((30,), (30, 4), -1, 1),
    ((30,), (30, 300), 0, -1),
    ((30,), (40, 30), 0, 0),
    ((4, 30), (4, 30), 1, None),
    ((30, 300), (30, 300), 0, None),
    ((4, 30), (4, 30, 20), -1, 2),
    ((4, 30), (2, 4, 30), -1, 0),
    ((4, 30), (4, 2, 30), -1, 1),
    ((4, 30), (30, 20), -1, -1),
    ((30, 3), (30, 3, 20), 0, 2),
    ((30, 3), (30, 20, 3), 0, 1),
    ((2, 30, 3), (2, 30, 3), 1, None),
    ((2, 30, 1), (5, 2, 30, 20), 1, None),
    ((2, 30), (5, 3, 2, 30), 1, 0),
]


@pytest.mark.parametrize(("own", "shape", "axis", "rhs_axis"), SHAPES)
@pytest.mark.parametrize(("larger", "periodic"), [(0.0, False), (9.0, False), (9.0, True)])
def test_every_shape(own, shape, axis, rhs_axis, larger, periodic):
    """No rows are exchanged if d is large."""
    dl, d, du, b = draw(own, own, own, shape)
    d += larger
    factor = mgrec.factor_tridiagonal(dl, d, du, axis=axis, periodic=periodic)
    assert (factor.shape, factor.dtype) == (own, d.dtype) and repr(factor).endswith(": factored")
    x = factor.solve(b, rhs_axis=rhs_axis)
    from_end = axis - len(own) if axis >= 0 else axis
    if rhs_axis is not None and rhs_axis % len(shape) > len(shape) - 1 + from_end:
        from_end -= 1
    options = {"rhs_axis": rhs_axis, "periodic": periodic}
    wanted = mgrec.solve_tridiagonal(dl, d, du, b, axis=from_end, **options)
    assert x.flags.c_contiguous
    np.testing.assert_allclose(x, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.extended
@pytest.mark.parametrize("rhs_axis", [1, None])
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_other_dtypes(dtype, rhs_axis):
    dl, d, du, b = (part.astype(dtype) for part in draw((60,), (60,), (60,), (60, 20)))
    d, b = d * (1 + 1j) if dtype == "c16" else d, b if rhs_axis else b[:, 0]
    x = mgrec.factor_tridiagonal(dl, d, du).solve(b, rhs_axis=rhs_axis)
    wanted = mgrec.solve_tridiagonal(dl, d, du, b, axis=0, rhs_axis=rhs_axis)
    assert x.dtype == dtype
    np.testing.assert_allclose(x, wanted, rtol=1e-3, atol=1e-3)


def test_constants_out_strides_and_later_changes():
    d, b = np.full(50, 4.0), draw((50, 20))[0]
    factor = mgrec.factor_tridiagonal(1, d, -1.0)
    wanted = mgrec.solve_tridiagonal(1, d, -1.0, b, axis=0, rhs_axis=1)
    d[:] = np.nan
    out = np.empty_like(b)
    assert factor.solve(b, rhs_axis=1, out=out) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-13)
    given = np.repeat(b, 2, 1)[:, ::2]
    given.flags.writeable = False
    np.testing.assert_array_equal(factor.solve(given, rhs_axis=1), out)
    np.testing.assert_array_equal(factor.solve(2), factor.solve(np.full(50, 2)))


@pytest.mark.usefixtures("eager_threads")
def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    dl, d, du, b = draw(*[(600, 120)] * 4)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("MGREC_NUM_THREADS", threads)
        solved = (mgrec.factor_tridiagonal(dl, d, du, axis=axis).solve(b) for axis in (0, 1))
        found.append(list(solved))
    np.testing.assert_array_equal(*found)


@pytest.mark.usefixtures("eager_threads")
def test_a_line_on_many_threads_is_solved_anew(monkeypatch):
    dl, d, du, b = draw(*[(1 << 16,)] * 4)
    monkeypatch.setenv("MGREC_NUM_THREADS", "5")
    x = mgrec.factor_tridiagonal(dl, d, du).solve(b)
    np.testing.assert_array_equal(x, mgrec.solve_tridiagonal(dl, d, du, b))


@pytest.mark.parametrize("options", [{}, {"periodic": True}])
def test_dask_arrays_and_rings(options):
    dl, d, du, b = draw((4, 60), (4, 60), (4, 60), (4, 60))
    lazy = in_chunks((dl, d, du, b), (2, 25))
    wanted = mgrec.solve_tridiagonal(dl, d, du, b, **options)
    x = mgrec.factor_tridiagonal(*lazy[:3], **options).solve(lazy[3])
    assert x.chunks == lazy[3].chunks
    np.testing.assert_allclose(x.compute(scheduler="sync"), wanted, rtol=1e-7)
    factor = mgrec.factor_tridiagonal(dl, d, du, **options)
    np.testing.assert_allclose(factor.solve(lazy[3]), wanted, rtol=1e-7)
    np.testing.assert_allclose(factor.solve(b), wanted, rtol=1e-7)


WHOLE = [
    ((4, 60), (2, 60), (4, 60), (2, 60), -1, None),
    ((60,), (60,), (5, 60), (2, 60), -1, None),
    ((60, 40), (60, 15), (60, 40), (60, 15), 0, None),
    ((60,), (60,), (5, 60), (2, 60), -1, 0),
    ((4, 60), (2, 60), (4, 60, 3), (2, 60, 2), -1, 2),
    ((4, 60), (2, 60), (4, 3, 60), (2, 2, 60), -1, 1),
]


@pytest.mark.parametrize(("own", "chunks", "shape", "of_b", "axis", "rhs_axis"), WHOLE)
@pytest.mark.parametrize("periodic", [False, True])
def test_whole_systems_in_chunks_are_factored(own, chunks, shape, of_b, axis, rhs_axis, periodic):
    dl, d, du, b = draw(own, own, own, shape)
    d += 5 * periodic
    lazy = in_chunks((dl, d, du), chunks)
    options = {"axis": axis, "periodic": periodic}
    factor = mgrec.factor_tridiagonal(*lazy, **options).persist(scheduler="sync")
    assert repr(factor).endswith(": factored")
    x = factor.solve(da.from_array(b, chunks=of_b), rhs_axis=rhs_axis)
    assert x.chunks == da.from_array(b, chunks=of_b).chunks
    assert {phase_of(key) for key in dict(x.dask)} == {"determine", None}
    wanted = mgrec.factor_tridiagonal(dl, d, du, **options).solve(b, rhs_axis=rhs_axis)
    np.testing.assert_array_equal(x.compute(scheduler="sync"), wanted)
    again = factor.solve(b, rhs_axis=rhs_axis)
    np.testing.assert_array_equal(again.compute(scheduler="sync"), wanted)


PARTS = [
    ((4, 60), (2, 25), (4, 60), (2, 25), -1),
    ((60,), (25,), (5, 60), (2, 25), -1),
    ((60, 40), ((25, 1, 34), 15), (60, 40), ((25, 1, 34), 15), 0),
]


@pytest.mark.parametrize(("own", "chunks", "shape", "of_b", "axis"), PARTS)
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("dominance", [0, 10])
def test_parts_of_dominant_systems_are_factored(own, chunks, shape, of_b, axis, periodic, dominance):
    dl, d, du, b = draw(own, own, own, shape)
    d += dominance * np.sign(d)
    if not periodic:  # entries outside of the matrices are ignored
        np.moveaxis(dl, axis, 0)[0] = np.moveaxis(du, axis, 0)[-1] = np.nan
    lazy = in_chunks((dl, d, du), chunks)
    options = {"axis": axis, "periodic": periodic}
    factor = mgrec.factor_tridiagonal(*lazy, **options).persist(scheduler="sync")
    x = factor.solve(da.from_array(b, chunks=of_b))
    assert x.chunks == da.from_array(b, chunks=of_b).chunks
    assert not {part.name for part in lazy} & set(x.dask.layers)
    wanted = mgrec.solve_tridiagonal(dl, d, du, b, **options)
    np.testing.assert_allclose(x.compute(scheduler="sync"), wanted, rtol=1e-9 if dominance else 1e-7)
    b[0, 7] = np.nan
    with pytest.raises(ValueError, match=r"b must hold no .* got nan at index \(0, 7\)"):
        factor.solve(da.from_array(b, chunks=of_b)).compute(scheduler="sync")


def test_other_chunks_are_solved_anew():
    dl, d, du, b = draw(*[(4, 60)] * 4)
    factor = mgrec.factor_tridiagonal(*in_chunks((dl, d, du), (2, 60)))
    wanted = mgrec.solve_tridiagonal(dl, d, du, b)
    for chunks in ((3, 60), (2, 20)):
        x = factor.solve(da.from_array(b, chunks=chunks))
        assert x.chunks == da.from_array(b, chunks=chunks).chunks
        np.testing.assert_allclose(x.compute(scheduler="sync"), wanted, rtol=1e-8)


def solve_in_chunks(operands, chunks, **options):
    *diagonals, b = in_chunks(operands, chunks)
    return np.asarray(mgrec.factor_tridiagonal(*diagonals, **options).solve(b))


@pytest.mark.parametrize("chunks", [None, (2, 30)])
@pytest.mark.parametrize("scale", [1, pytest.param(1 + 1j, marks=pytest.mark.extended)])
def test_singular_matrices_are_named(scale, chunks):
    *diagonals, b = draw(*[(4, 30)] * 4)
    for row in (0, 14, 15, 16, 29):
        singular = [part * scale for part in diagonals]
        for part in singular:
            part[2, row] = 0
        with pytest.raises(np.linalg.LinAlgError, match=r"^system \(2,\) is singular"):
            solve_in_chunks((*singular, b), chunks)


@pytest.mark.parametrize("chunks", [None, (2, 30)])
def test_nan_and_inf_are_named(chunks):
    dl, d, du, b = draw(*[(4, 30)] * 4)

    def solved(*operands, **options):
        return solve_in_chunks(operands, chunks, **options)

    b[1, 7] = np.inf
    with pytest.raises(ValueError, match=r"b must hold no .* got inf at index \(1, 7\)"):
        solved(dl, d, du, b)
    x = solved(dl, d, du, b, check_finite=False)
    assert np.isnan(x).tolist() == [[k == 1] * 30 for k in range(4)]
    du[3, 5] = np.nan
    with pytest.raises(ValueError, match=r"du must hold no .* got nan at index \(3, 5\)"):
        solved(dl, d, du, np.nan_to_num(b))  # Chunks of Dask arrays are solved in any order.
    x = solved(dl, d, du, b, check_finite=False)
    assert np.isnan(x).all(1).tolist() == [False, True, False, True]


def ring_of(n, kind, seed):
    dl, d, du = np.random.default_rng(seed).normal(size=(3, n))
    if kind == "nearly singular":
        dl[:], d[:], du[:] = -1.0, 2.0 + 1e-6, -1.0
    return dl, d + (abs(dl) + abs(du)) * (kind == "dominant") * np.sign(d), du


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 50])
@pytest.mark.parametrize("kind", ["dominant", "nearly singular", "random"])
def test_backward_errors_of_rings_are_rounding_errors(n, kind):
    found = set()
    for seed in range(20):
        dl, d, du = ring_of(n, kind, seed)
        b = np.random.default_rng(-1 - seed & 63).normal(size=n)
        factor = mgrec.factor_tridiagonal(dl, d, du, periodic=True)
        x = factor.solve(b)
        terms = dl * np.roll(x, 1), d * x, du * np.roll(x, -1)
        size = (abs(dl) + abs(d) + abs(du)).max() * abs(x).max() + abs(b).max()
        assert abs(sum(terms) - b).max() < 1e-14 * size
        found.add(repr(factor).split(": ")[1])
    assert found == ({"factored"} if n > 2 and kind != "random" else found)
    assert "factored" in found if n > 2 else found == {"not factored"}


@pytest.mark.parametrize("chunk", [50, 100])
def test_nearly_singular_parts_of_systems_have_small_backward_errors(chunk):
    """Factors of such a part gave other unknowns than its neighbours had taken: errors of 0.04."""
    dl, d, du = matrix("dorr", 300)
    b = np.random.default_rng(0).normal(3, 1, 300)
    x = mgrec.factor_tridiagonal(*in_chunks((dl, d, du), chunk)).solve(da.from_array(b, chunk)).compute()
    terms = dl[1:] * x[:-1], d * x, du[:-1] * x[1:]
    residual = terms[1] - b
    residual[1:] += terms[0]
    residual[:-1] += terms[2]
    assert abs(residual).max() <= 1e-14 * (abs(dl) + abs(d) + abs(du)).max() * abs(x).max()


@pytest.mark.parametrize("n", [3, 10, 11])
def test_singular_rings_are_solved_anew(n):
    factor = mgrec.factor_tridiagonal(-1.0, np.full(n, 2.0), -1.0, periodic=True)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        factor.solve(np.arange(n))


def test_a_singular_matrix_of_one_unknown_is_named():
    with pytest.raises(np.linalg.LinAlgError, match=r"^system \(1,\) is singular"):
        mgrec.factor_tridiagonal(0.0, np.array([[1.0], [0.0]]), 0.0)


def test_a_factor_has_a_repr_and_can_be_pickled():
    d = np.full((2, 4), 3.0)
    whole = mgrec.factor_tridiagonal(1, d, 1)
    assert repr(whole) == "TridiagonalFactor(shape=(2, 4), dtype=float64, axis=1): factored"
    ring = mgrec.factor_tridiagonal(1, d, 1, axis=0, periodic=True)
    assert repr(ring).endswith("axis=0, periodic=True): not factored")  # of two unknowns
    for factor in (whole, ring):
        again = pickle.loads(pickle.dumps(factor))
        np.testing.assert_array_equal(again.solve(d), factor.solve(d))


def test_factors_that_overflow_are_not_used():
    d = np.full(6, 1e-310)
    factor = mgrec.factor_tridiagonal(0.0, d, 0.0)
    np.testing.assert_allclose(factor.solve(np.full(6, 1e-310)), 1)


@pytest.mark.parametrize(
    ("call", "wrong", "message"),
    [
        (lambda d, solve: mgrec.factor_tridiagonal(1, 3, 1), ValueError, "must be an array"),
        (lambda d, solve: mgrec.factor_tridiagonal(d, d[1:], d), ValueError, "must broadcast"),
        (lambda d, solve: mgrec.factor_tridiagonal(d[1:], d, d[1:]), ValueError, r"dl: \(7,\), .* 0"),
        (lambda d, solve: mgrec.factor_tridiagonal(1, d.astype("M8[s]"), 1), TypeError, "datetime64"),
        (lambda d, solve: mgrec.factor_tridiagonal(1, d, 1, periodic=2), TypeError, "periodic must"),
        (lambda d, solve: solve(d[1:]), ValueError, "must broadcast"),
        (lambda d, solve: solve(1j * d), TypeError, "complex128: fac"),
        (lambda d, solve: solve(d, rhs_axis=0), ValueError, "rhs_axis"),
        (lambda d, solve: solve(d, out=np.ones(3)), ValueError, "out must have shape"),
    ],
)
def test_what_is_refused(call, wrong, message):
    d = np.full(8, 3.0)
    with pytest.raises(wrong, match=message):
        call(d, mgrec.factor_tridiagonal(1, d, 1).solve)
