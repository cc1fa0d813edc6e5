"""Banded systems: results of SciPy, accuracy of LAPACK, chunks, errors and gradients."""

import dask.array as da
import numpy as np
import pytest
from banded_systems import RANDOM, TOLERANCE, WIDTHS, bands, draw, error, seeded  # noqa: F401
from cases import from_gpu, on_gpu
from clusters import two_workers
from internals import divide_bands
from scipy.linalg import solve_banded
from thread_group import run_on_ranks
from tridiagonal_matrices import matrix

import mgrec
from mgrec import adjoint
from mgrec.banded import recurrence


def dense(ab, lower, upper):
    """The matrices (..., n, n), without what lies outside of them."""
    n = ab.shape[-1]
    found = np.zeros((*ab.shape[:-2], n, n), ab.dtype)
    for k in range(-lower, upper + 1):
        rows = np.arange(max(-k, 0), n - max(k, 0))
        if rows.size:
            found[..., rows, rows + k] = ab[..., upper - k, rows + k]
    return found


@pytest.fixture
def short_partitions(monkeypatch):
    divide_bands(monkeypatch)


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("widths", WIDTHS)
def test_short_systems(widths, dtype):
    for n in (1, 2, 3, 5, 9, 40):
        ab, b = bands(*widths, n, dtype=dtype), draw(n, dtype=dtype)
        x = mgrec.solve_banded(widths, ab, b)
        assert x.dtype == dtype
        assert error(x, np.linalg.solve(dense(ab, *widths), b)) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.usefixtures("short_partitions")
def test_partitions(widths, dtype):
    for n in (2, 64, 65, 72, 73, 700, 1153):
        ab, b = bands(*widths, n, dtype=dtype), draw(n, dtype=dtype)
        x = mgrec.solve_banded(widths, ab, b)
        assert error(x, np.linalg.solve(dense(ab, *widths), b)) < TOLERANCE[dtype]


def test_long_systems_on_threads():
    ab, b = bands(2, 2, 300_000), draw(300_000)
    assert error(mgrec.solve_banded((2, 2), ab, b), solve_banded((2, 2), ab, b)) < 1e-9


def test_axes_and_matrices():
    ab, b = bands(2, 1, 3, 1, 40), draw(3, 2, 40)
    wanted = np.linalg.solve(dense(ab, 2, 1), b[..., None])[..., 0]
    np.testing.assert_allclose(mgrec.solve_banded((2, 1), ab, b), wanted, rtol=1e-9)
    moved = mgrec.solve_banded((2, 1), ab, b.transpose(0, 2, 1), axis=1)
    np.testing.assert_allclose(moved, wanted.transpose(0, 2, 1), rtol=1e-9)
    one = mgrec.solve_banded((2, 1), ab[0, 0], b[0].T, axis=0)
    np.testing.assert_allclose(one, solve_banded((2, 1), ab[0, 0], b[0].T), rtol=1e-9)
    of_one_side = mgrec.solve_banded((2, 1), ab, b[0, 0])
    assert of_one_side.shape == (3, 1, 40)
    np.testing.assert_allclose(of_one_side[0, 0], wanted[0, 0], rtol=1e-9)


@pytest.mark.parametrize("widths", [(1, 0), (0, 2), (2, 2), (4, 1)])
def test_ends_of_dominant_chunks_are_their_summary(widths, monkeypatch):
    outcomes, join_ends = [], recurrence.join_ends

    def joined(*arguments):
        rows = join_ends(*arguments)
        outcomes.append(rows is not None)
        return rows

    monkeypatch.setattr(recurrence, "join_ends", joined)
    ab, b = bands(*widths, 16_000), draw(16_000)
    lazy = [da.from_array(x, chunks=(*x.shape[:-1], (7000, 9000))) for x in (ab, b)]
    x = mgrec.solve_banded(widths, *lazy).compute(scheduler="sync")
    assert outcomes == [True, True]
    assert error(x, solve_banded(widths, ab, b)) < TOLERANCE["d"]
    # Unknowns far away have an effect on those at the ends.
    remembering = np.full_like(ab, -1.0)
    remembering[widths[1]] = sum(widths) * 1.0001
    x = mgrec.solve_banded(widths, da.from_array(remembering, chunks=lazy[0].chunks), lazy[1])
    assert error(x.compute(scheduler="sync"), solve_banded(widths, remembering, b)) < 1e-10
    assert outcomes[2:] == [False, False]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("widths", [(1, 1), (2, 2), (4, 1)])
def test_cupy_arrays(widths, dtype):
    for shape in ((40,), (5000,), (300, 64), (2, 100_000)):
        ab, b = bands(*widths, *shape, dtype=dtype), draw(*shape, dtype=dtype)
        wanted = mgrec.solve_banded(widths, ab, b)
        found = from_gpu(mgrec.solve_banded(widths, on_gpu(ab), on_gpu(b)))
        assert found.dtype == dtype
        assert error(found, wanted) < TOLERANCE[dtype]
    chunks = [da.from_array(x, chunks=(*x.shape[:-1], 30_000)).map_blocks(on_gpu) for x in (ab, b)]
    lazy = mgrec.solve_banded(widths, *chunks)
    assert error(from_gpu(lazy.compute(scheduler="sync")), wanted) < TOLERANCE[dtype]


def test_integers_and_out():
    out = np.empty(4)
    x = mgrec.solve_banded((0, 0), [[2, 2, 4, 4]], [2, 4, 4, 8], out=out)
    assert x is out
    assert x.tolist() == [1, 2, 1, 2]
    assert mgrec.solve_banded((1, 1), np.ones((3, 0)), []).shape == (0,)


def test_complex_numbers_that_begin_at_8_bytes():
    """NumPy takes them as aligned: their distance from others is half a number."""
    ab, b = bands(1, 2, 20_000, dtype="D"), draw(20_000, dtype="D")
    wanted = mgrec.solve_banded((1, 2), ab, b)

    def moved(array):
        memory = np.empty(array.nbytes + 16, np.uint8)
        view = memory[(8 - memory.ctypes.data) % 16 :][: array.nbytes].view("D").reshape(array.shape)
        view[...] = array
        return view

    for given in ((moved(ab), b), (ab, moved(b)), (moved(ab), moved(b))):
        assert {part.ctypes.data % 16 for part in given} >= {8}
        assert all(part.flags.aligned for part in given)
        np.testing.assert_array_equal(mgrec.solve_banded((1, 2), *given), wanted)


def extended(name, n):
    """Five diagonals: a tridiagonal matrix of the table times its transpose."""
    dl, d, du = matrix(name, n)
    factor = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    product, ab = factor @ factor.T, np.zeros((5, n))
    for k in range(-2, 3):
        ab[2 - k, max(k, 0) : n + min(k, 0)] = np.diag(product, k)
    return ab


def graded(n, of_rows):
    ab, scale = draw(5, n), np.logspace(0, -12, n)
    for k in range(5):
        ab[k] *= scale[np.clip(np.arange(n) + k - 2, 0, n - 1)] if of_rows else scale
    return ab


MATRICES = {
    "random": lambda n: draw(5, n),
    "dominant": lambda n: draw(5, n) + 4.5 * np.eye(5)[:, 2:3],
    "graded rows": lambda n: graded(n, True),
    "graded columns": lambda n: graded(n, False),
    "fourth differences": lambda n: np.array([[1.0], [-4], [6], [-4], [1]]) * np.ones(n),
    "without decay": lambda n: np.array([[0.0], [1], [1], [-1], [0]]) * np.ones(n),
    **{
        name: lambda n, name=name: extended(name, n)
        for name in ("diagonal 64", "lesp", "inverse kms", "-1, 4, 1", "random, half of dl and du 0")
    },
}


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_errors_are_close_to_those_of_lapack(name, is_split, monkeypatch):
    """Errors of random matrices scatter: the medians of 9 differ by less than a factor of 10."""
    errors = []
    if is_split:
        divide_bands(monkeypatch)
    for _ in range(9):
        ab, x = MATRICES[name](512), RANDOM.normal(3, 1, 512)
        b = dense(ab, 2, 2) @ x
        errors.append([error(solve((2, 2), ab, b), x) for solve in (solve_banded, mgrec.solve_banded)])
    lapack, found = np.median(errors, axis=0)
    assert found <= 10 * max(lapack, np.finfo(float).eps)


@pytest.mark.parametrize("widths", [(0, 0), (1, 0), (2, 2), (4, 3)])
@pytest.mark.parametrize("chunks", [((30, 30, 40),), ((1, 2, 3, 0, 1, 1, 92),), ((1,) * 100,)])
def test_chunks(widths, chunks):
    ab, b = bands(*widths, 2, 100), draw(2, 100)
    lazy = da.from_array(ab, chunks=(1, -1, *chunks))
    wanted = mgrec.solve_banded(widths, ab, b)
    x = mgrec.solve_banded(widths, lazy, da.from_array(b, chunks=(2, *chunks)))
    assert error(x.compute(), wanted) < 1e-9
    assert error(mgrec.solve_banded(widths, lazy, b).compute(), wanted) < 1e-9


@pytest.mark.parametrize("widths", [(0, 2), (0, 4), (1, 4), (3, 0)])
def test_residuals_of_solutions_that_grow(widths):
    """They are 1e10 to 1e40 times as large at one end of the system as at the other one."""
    ab, b = draw(sum(widths) + 1, 150), draw(150)
    x = mgrec.solve_banded(widths, ab, da.from_array(b, chunks=50)).compute()
    assert abs(dense(ab, *widths) @ x - b).max() < 1e-13 * abs(x).max()


def test_columns_of_other_sizes_are_not_singular():
    for _ in range(20):
        ab, b = draw(2, 144) * np.exp2(RANDOM.integers(-40, 40, 144)), draw(144)
        x = mgrec.solve_banded((1, 0), ab, da.from_array(b, chunks=((3, 56, 15, 15, 20, 34, 1),))).compute()
        assert error(x, solve_banded((1, 0), ab, b)) < 1e-9


def test_chunks_of_several_partitions():
    ab, b = bands(2, 2, 5000), draw(5000)
    x = mgrec.solve_banded((2, 2), ab, da.from_array(b, chunks=2600))
    assert error(x.compute(), solve_banded((2, 2), ab, b)) < 1e-9


@pytest.mark.parametrize("dtype", "dD")
@pytest.mark.parametrize("n", [40, 20_000])
def test_singular_systems_are_named(n, dtype):
    ab = bands(2, 2, 3, n, dtype=dtype)
    ab[1, :, n // 2] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"system \(1,\) is singular"):
        mgrec.solve_banded((2, 2), ab, np.ones(n))
    lazy = mgrec.solve_banded((2, 2), ab[1], da.ones(n, chunks=n // 2 + 1))
    with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
        lazy.compute()


def test_equal_rows_are_singular():
    with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
        mgrec.solve_banded((1, 1), np.ones((3, 2)), np.ones(2))


@pytest.mark.parametrize("n", [40, 20_000])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_systems_with_nan(n, bad):
    ab, b = bands(2, 2, 3, n), draw(3, n)
    ab[1, 3, n // 2] = bad
    with pytest.raises(ValueError, match=rf"diagonal -1 of ab .* got {bad} at index \(1, {n // 2 + 1}\)"):
        mgrec.solve_banded((2, 2), ab, b)
    x = mgrec.solve_banded((2, 2), ab, b, check_finite=False)
    assert np.isnan(x).all(-1).tolist() == [False, True, False]
    assert np.isnan(x).any(-1).tolist() == [False, True, False]
    b[2, 5] = bad
    with pytest.raises(ValueError, match=rf"b must .* got {bad} at index \(2, 5\)"):
        mgrec.solve_banded((2, 2), bands(2, 2, n), da.from_array(b, chunks=(3, n // 2))).compute()


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


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", "dD")
def test_adjoint(axis, dtype):
    """<grad, dx> is the sum of <gradient, d argument>, for a finite difference of high order."""
    shape = (12, 3) if axis == 0 else (3, 12)
    ab, b, grad = bands(2, 1, 12, dtype=dtype), draw(*shape, dtype=dtype), draw(*shape, dtype=dtype)
    x = mgrec.solve_banded((2, 1), ab, b, axis=axis)
    of_ab, of_b = adjoint.solve_banded(grad, x, (2, 1), ab, b, axis=axis)
    step_ab, step_b = 1e-4 * draw(*ab.shape, dtype=dtype), 1e-4 * draw(*shape, dtype=dtype)
    later, earlier = (
        mgrec.solve_banded((2, 1), ab + sign * step_ab, b + sign * step_b, axis=axis) for sign in (1, -1)
    )
    wanted = np.vdot(grad, later - earlier).real / 2
    found = np.vdot(of_ab, step_ab).real + np.vdot(of_b, step_b).real
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    outside = of_ab[0, 0], of_ab[2, -1], of_ab[3, -2:]
    assert not any(map(np.any, outside))
    lazy = adjoint.solve_banded(
        *(da.from_array(part, chunks=5) for part in (grad, x)),
        (2, 1),
        ab,
        da.from_array(b, chunks=5),
        axis=axis,
    )
    for part, whole in zip(lazy, (of_ab, of_b), strict=True):
        np.testing.assert_allclose(np.asarray(part), whole, rtol=1e-8, atol=1e-12)


def test_gradients_of_torch():
    torch = pytest.importorskip("torch")
    ab, b = (torch.tensor(part, requires_grad=True) for part in (bands(1, 2, 2, 1, 9), draw(2, 3, 9)))
    assert torch.autograd.gradcheck(lambda *given: mgrec.solve_banded((1, 2), *given), (ab, b))
    assert torch.autograd.gradgradcheck(lambda *given: mgrec.solve_banded((1, 2), *given), (ab, b))
    one = ab[0, 0].detach().requires_grad_()
    side = b[0].T.detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda *given: mgrec.solve_banded((1, 2), *given, axis=0), (one, side))


def test_gradients_of_jax():
    jax = pytest.importorskip("jax")
    ab, b = bands(2, 2, 20).astype("f"), draw(20, dtype="f")
    loss = jax.jit(jax.grad(lambda *given: mgrec.solve_banded((2, 2), *given).sum(), argnums=(0, 1)))
    x = mgrec.solve_banded((2, 2), ab, b)
    for found, wanted in zip(
        loss(ab, b), adjoint.solve_banded(np.ones_like(b), x, (2, 2), ab, b), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_plans():
    ab, b = bands(2, 2, 1000), draw(1000)
    lazy = da.from_array(ab, chunks=(-1, 300)), da.from_array(b, chunks=300)
    with two_workers(processes=False), mgrec.plan(mgrec.solve_banded, (2, 2), *lazy) as solve:
        x = solve((2, 2), lazy[0], 2 * lazy[1])
        assert error(x.compute(), solve_banded((2, 2), ab, 2 * b)) < 1e-9


@pytest.mark.parametrize("bounds", [(0, 40, 100), (0, 1, 3, 3, 100)])
@pytest.mark.parametrize("widths", [(2, 2), (0, 4)])
def test_parts_of_ranks(bounds, widths):
    ab, b = bands(*widths, 2, 100), draw(2, 100)

    def call(rank, group):
        part = slice(*bounds[rank : rank + 2])
        return mgrec.solve_banded(widths, ab[..., part], b[:, part], group=group)

    found = np.concatenate(run_on_ranks(len(bounds) - 1, call), -1)
    assert error(found, mgrec.solve_banded(widths, ab, b)) < 1e-12
