"""Tridiagonal systems of CuPy arrays, against LAPACK's gtsv and against NumPy arrays."""

import itertools

import dask.array as da
import numpy as np
import pytest
from tridiagonal_matrices import NAMES, ORDER, RINGS, gtsv, in_chunks, matrix, ring, with_solutions
from tridiagonal_matrices import error as median_error

import mgrec

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = pytest.mark.gpu


def solve(*operands, **options):
    """The solution by the GPU, into memory that held nan; the operands stay as they are."""
    given = [cupy.asarray(operand) if np.ndim(operand) else operand for operand in operands]
    copies = [value.copy() if np.ndim(value) else value for value in given]
    shape = np.broadcast_shapes(*map(np.shape, operands))
    out = cupy.full(shape, np.nan, np.result_type(*operands))
    assert mgrec.solve_tridiagonal(*given, out=out, **options) is out
    for value, copy in zip(given, copies, strict=True):
        assert bool(cupy.all(cupy.equal(value, copy) | cupy.isnan(copy)))
    return out.get()


def system(shape, dtype, seed=0):
    generator = np.random.default_rng(seed)
    parts = generator.normal(size=(4, *shape))
    if np.dtype(dtype).kind == "c":
        parts = parts + 1j * generator.normal(size=(4, *shape))
    return [part.astype(dtype) for part in parts]


WITHOUT_PIVOTING = ("thomas", "cyclic-reduction", "pcr")


def error(x, wanted):
    return np.linalg.norm(x - wanted) / max(np.linalg.norm(wanted), 1e-30)


@pytest.mark.parametrize("chunks", [0, 1, 7, (1, 39, 1, ORDER - 41)])
@pytest.mark.parametrize("name", NAMES)
def test_forward_errors_are_those_of_gtsv(name, chunks):
    operands, wanted = with_solutions(*matrix(name))
    sizes = -(-ORDER // chunks) if isinstance(chunks, int) and chunks else chunks
    given = in_chunks(map(cupy.asarray, operands), chunks and (-1, sizes, -1))
    x = mgrec.solve_tridiagonal(*given, axis=1)
    x = x.compute(scheduler="sync") if chunks else x
    assert median_error(x.get(), wanted) <= 5 * median_error(gtsv(operands), wanted) + 1e-15


@pytest.mark.parametrize("method", ["auto", *WITHOUT_PIVOTING])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 1024, 4095, 100_003, 2**17 + 3])
def test_every_length(n, method):
    for dtype in ("f4", "f8", "c8", "c16") if method == "auto" else ("f8",):
        for shape, axis in [((n,), 0), ((n, 3), 0), ((5, n), 1)]:
            operands = system(shape, dtype)
            operands[1] += np.asarray(8, dtype)
            operands[0] = operands[0] if method == "auto" else 0.5
            wanted = mgrec.solve_tridiagonal(*operands, axis=axis)
            x = solve(*operands, axis=axis, method=method)
            assert error(x, wanted) <= 30 * np.finfo(dtype).eps


@pytest.mark.parametrize("shape", [(4, 1000), (4, 1024), (3, 20, 5)])
def test_diagonals_broadcast_and_views_are_read(shape):
    b = system(shape, "f4")[3]
    row = system(shape[-1:], "f4")[0]
    for dl, d, du in [(-1.0, 4.0, 0.5), (row, 5 + row, row[::-1]), (row, np.float32(9), row)]:
        wanted = mgrec.solve_tridiagonal(dl, d, du, b)
        x = solve(dl, d, du, b)
        assert x.dtype == wanted.dtype
        assert error(x, wanted) < 1e-6
    strided = cupy.asarray(np.repeat(b, 2, axis=-1))[..., ::2]
    x = mgrec.solve_tridiagonal(-1.0, 4.0, 0.5, strided).get()
    assert error(x, mgrec.solve_tridiagonal(-1.0, 4.0, 0.5, b)) < 1e-6
    x = mgrec.solve_tridiagonal(row[0], 5.0, row[1], cupy.asarray(b.ravel())[1:]).get()
    assert error(x, mgrec.solve_tridiagonal(row[0], 5.0, row[1], b.ravel()[1:])) < 1e-6


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"), [((500,), 0, "f8"), ((128,), 0, "c8"), ((27, 4), 0, "f8"), ((4, 67), 1, "f4")]
)
@pytest.mark.parametrize("kind", ["row", "column"])
def test_zeros_make_systems_singular(kind, shape, axis, dtype):
    """Wherever they lie in a partition, which is eliminated from both its ends."""
    n = shape[axis]
    for at in {0, 5, 17, 20, 26, n // 2, n - 1}:
        operands = system(shape, dtype)
        dl, d, du = (np.moveaxis(part, axis, -1) for part in operands[:3])
        below, above = (at, at) if kind == "row" else ((at + 1) % n, at - 1)
        dl[..., below] = d[..., at] = du[..., above] = 0
        given = [cupy.asarray(part) for part in operands]
        unchecked = {"check_finite": False, "method": "partition"}
        for options in ({}, unchecked, {"periodic": True}):
            with pytest.raises(np.linalg.LinAlgError, match="singular"):
                mgrec.solve_tridiagonal(*given, axis=axis, **options)
        if dtype == "f8":
            lazy = in_chunks(given, 170)
            with pytest.raises(np.linalg.LinAlgError, match="singular"):
                mgrec.solve_tridiagonal(*lazy, axis=axis).compute(scheduler="sync")


def test_arrays_on_a_gpu_are_not_factored():
    dl, d, du, b = system((2, 40), "f8")
    on_gpu = [cupy.asarray(part) for part in (dl, d, du)]
    for given in (on_gpu, (0.5, on_gpu[1], 0.5), in_chunks(on_gpu, (2, 40))):
        with pytest.raises(TypeError, match=r"dl, d and du must be in host memory.* call solve_tridiagonal"):
            mgrec.factor_tridiagonal(*given)
    for given, message in (
        ((dl, d, du), "b must be in host memory.* call solve_tridiagonal"),
        (in_chunks((dl, d, du), (1, 40)), "arrays must all be on a GPU or all in host memory"),
    ):
        with pytest.raises(TypeError, match=message):
            mgrec.factor_tridiagonal(*given).solve(cupy.asarray(b))
    # The type of these chunks is known to the tasks alone.
    hidden = da.from_array(d, chunks=(1, 40)).map_blocks(cupy.asarray, meta=d)
    with pytest.raises(TypeError, match=r"dl, d and du must be in host memory"):
        mgrec.factor_tridiagonal(0.5, hidden, 0.5).solve(b).compute(scheduler="sync")


def test_a_later_call_that_meets_a_column_of_zeros_raises():
    """Calls of CuPy arrays of one kind are prepared once."""
    for at in (None, None, 5, 20):
        given = [cupy.asarray(part) for part in system((500,), "f8")]
        if at is None:
            mgrec.solve_tridiagonal(*given)
            continue
        dl, d, du, b = given
        dl[at + 1] = d[at] = du[at - 1] = 0
        with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
            mgrec.solve_tridiagonal(dl, d, du, b)


@pytest.mark.parametrize("value", [np.nan, complex(np.nan, 0)])
def test_a_system_of_nan_is_not_called_singular(value):
    operands = list(np.zeros((4, 70), type(value)))
    operands[3][30] = value
    assert np.isnan(solve(*operands, check_finite=False)).all()
    with pytest.raises(ValueError, match="b must hold no nan"):
        solve(*operands)


@pytest.mark.parametrize("n", [1, 2, 3, 40, 5000])
def test_periodic_systems(n):
    operands = system((2, n), "f8")
    wanted = mgrec.solve_tridiagonal(*operands, periodic=True)
    assert error(solve(*operands, periodic=True), wanted) < 1e-9


@pytest.mark.parametrize("n", [2, 3, 9, 17, 33])
@pytest.mark.parametrize("kind", RINGS)
def test_periodic_systems_that_need_their_corners(kind, n):
    (dl, d, du, b), full = ring(kind, n)
    for dtype in "fdFD":
        operands = [np.stack([part, part]).astype(dtype) for part in (dl, d, du, b)]
        wanted = np.linalg.solve(full, b)
        for axis in (0, 1):
            given = [part if axis else np.ascontiguousarray(part.T) for part in operands]
            x = solve(*given, axis=axis, periodic=True)
            assert error(x if axis else x.T, wanted) < 1e3 * np.finfo(dtype).eps
            lazy = in_chunks(map(cupy.asarray, given), (n + 1) // 2)
            x = mgrec.solve_tridiagonal(*lazy, axis=axis, periodic=True)
            x = x.compute(scheduler="sync").get()
            assert error(x if axis else x.T, wanted) < 1e3 * np.finfo(dtype).eps


def test_several_right_hand_sides():
    *diagonals, b = *system((300,), "f8")[:3], system((300, 5), "f8")[3]
    given = [cupy.asarray(part) for part in (*diagonals, b)]
    x = mgrec.solve_tridiagonal(*given, axis=0, rhs_axis=1).get()
    wanted = mgrec.solve_tridiagonal(*diagonals, b, axis=0, rhs_axis=1)
    assert error(x, wanted) < 1e-10


# Lengths beside tiles, on chip and not; systems contiguous, interleaved and both.
AXES = [
    ((3, 500), 1),
    ((70, 129), 0),
    ((2, 65, 9), 1),
    ((2, 20_001), 1),
    ((7, 9, 1), 2),
    *((shape, axis) for shape in [(5, 40), (40, 5), (130, 129), (2, 4096)] for axis in (0, 1)),
    *((shape, axis) for shape in [(3, 300, 4), (7, 9, 1)] for axis in range(3)),
]


@pytest.mark.parametrize("method", ["auto", "partition", *WITHOUT_PIVOTING, "p-scheme"])
def test_every_axis_and_method(method):
    for dtype in ("f4", "f8") if method == "p-scheme" else ("f4", "f8", "c8", "c16"):
        for shape, axis in AXES:
            operands = system(shape, dtype)
            operands[1] += np.asarray(8, dtype)
            wanted = mgrec.solve_tridiagonal(*operands, axis=axis)
            x = solve(*operands, axis=axis, method=method)
            assert error(x, wanted) < 30 * np.finfo(dtype).eps, (dtype, shape)


@pytest.mark.parametrize("method", ["auto", *WITHOUT_PIVOTING])
@pytest.mark.parametrize("n", [70, 1000, 20_001])
def test_a_system_without_pivots_is_named(n, method):
    for axis, at in [(0, 0), (0, 33), (1, 0), (1, 33), (1, n - 1)]:
        parts = system((3, n), "f8")
        parts[1] += 8
        for part in parts[:3]:
            part[2, at] = 0
        operands = [np.ascontiguousarray(part if axis == 1 else part.T) for part in parts]
        with pytest.raises(np.linalg.LinAlgError, match="2"):
            solve(*operands, axis=axis, method=method)
    if method != "auto":
        with pytest.raises(np.linalg.LinAlgError):
            solve(1.0, 0.0, 1.0, np.ones((3, n - n % 2)), method=method)


@pytest.mark.parametrize("dominant", [0, 8])
@pytest.mark.parametrize("method", ["auto", "partition", *WITHOUT_PIVOTING])
@pytest.mark.parametrize("shape", [(3, 700), (3, 20_001)])
def test_nan_and_inf_stay_in_their_system(shape, method, dominant):
    operands = system(shape, "f8")
    operands[1] += dominant
    if method in WITHOUT_PIVOTING and not dominant:
        pytest.skip("needs pivoting")
    wanted = solve(*operands, method=method)
    for k, special in itertools.product(range(4), (np.nan, np.inf, -np.inf)):
        given = [part.copy() for part in operands]
        given[k][1, 300] = special
        with pytest.raises(ValueError, match=f"{('dl', 'd', 'du', 'b')[k]} must hold no nan"):
            solve(*given, method=method)
        x = solve(*given, method=method, check_finite=False)
        assert np.isnan(x[1]).all()
        assert error(x[[0, 2]], wanted[[0, 2]]) < 1e-10
    operands[0][:, 0], operands[2][:, -1] = np.nan, np.inf
    np.testing.assert_array_equal(solve(*operands, method=method), wanted)


def test_same_input_same_bits():
    operands = system((2**17 + 5,), "f4")
    np.testing.assert_array_equal(solve(*operands), solve(*operands))


@pytest.mark.parametrize(
    ("method", "chunks"),
    [*(("auto", c) for c in [(2, 250), (1, 1000), (3, 333)])]
    + [(method, (2, -1)) for method in WITHOUT_PIVOTING],
)
def test_dask_of_cupy(method, chunks):
    operands = system((3, 1000), "f8")
    operands[1] += 8
    x = mgrec.solve_tridiagonal(*in_chunks(map(cupy.asarray, operands), chunks), method=method)
    assert isinstance(x._meta, cupy.ndarray)
    wanted = mgrec.solve_tridiagonal(*operands)
    assert error(x.compute(scheduler="sync").get(), wanted) < 1e-13


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(("shape", "chunk"), [((9001,), 3000), ((20_000, 3), 4096), ((8192,), 2048)])
def test_chunks_of_one_long_dominant_system(shape, chunk, dtype):
    operands = system(shape, dtype)
    operands[1] += np.asarray(8, dtype)
    operands[0][0] = operands[2][-1] = np.nan  # not read
    given = in_chunks(map(cupy.asarray, operands), (chunk, *shape[1:]))
    x = mgrec.solve_tridiagonal(*given, axis=0)
    wanted = mgrec.solve_tridiagonal(*operands, axis=0)
    limit = 1e-5 if np.dtype(dtype).char in "fF" else 1e-13
    assert error(x.compute(scheduler="sync").get(), wanted) < limit
