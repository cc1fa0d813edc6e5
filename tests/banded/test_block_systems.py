"""Block tridiagonal systems: results and accuracy of SciPy, chunks, errors and gradients."""

import dask.array as da
import numpy as np
import pytest
from banded_systems import RANDOM, TOLERANCE, block_system, draw, error, seeded  # noqa: F401
from cases import from_gpu, on_gpu
from clusters import two_workers
from internals import divide_bands
from scipy.linalg import solve_banded
from thread_group import run_on_ranks

import mgrec
from mgrec import adjoint
from mgrec.dask import warm_up


def diagonals(dl, d, du):
    """The widths, and the diagonals of the matrix as SciPy has them."""
    n, k = d.shape[:2]
    width = 2 * k - 1
    ab, numbers = np.zeros((2 * width + 1, n * k), d.dtype), np.arange(n * k).reshape(n, k)
    for step, blocks in ((-1, dl), (0, d), (1, du)):
        kept = slice(max(-step, 0), n - max(step, 0))
        rows = numbers[kept, :, None] + np.zeros((k, k), int)
        columns = numbers[kept, None, :] + step * k + np.zeros((k, k), int)
        ab[width + rows - columns, columns] = blocks[kept]
    return (width, width), ab


def scipy_solve(dl, d, du, b):
    return solve_banded(*diagonals(dl, d, du), b.ravel()).reshape(b.shape)


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("dtype", "fdFD")
def test_blocks_of_each_size(dtype, is_split, monkeypatch):
    if is_split:
        divide_bands(monkeypatch)
    for k in range(1, 9):
        for n in (1, 2, 41) if not is_split else (3, 65):
            operands = block_system(n, k, dtype=dtype)
            x = mgrec.solve_block_tridiagonal(*operands)
            assert x.dtype == dtype
            assert error(x, scipy_solve(*operands)) < TOLERANCE[dtype]


def test_blocks_of_one_number_are_a_tridiagonal_system():
    *matrices, b = block_system(300, 1, 2)
    wanted = mgrec.solve_tridiagonal(*(matrix[..., 0, 0] for matrix in matrices), b[..., 0])
    assert error(mgrec.solve_block_tridiagonal(*matrices, b)[..., 0], wanted) < 1e-13


def graded(n, k):
    scale = np.logspace(0, -12, n)
    dl, d, du, _ = block_system(n, k, dominance=0.0)
    return [scale[:, None, None] * blocks for blocks in (dl, d, du)]


def of_plate(n, k):
    """Fourth differences on a strip: a condition number of 1e9."""
    second = 2 * np.eye(k) - np.eye(k, k=1) - np.eye(k, k=-1)
    side, main = -np.eye(k), 2 * np.eye(k) + second * 1e-7
    return [blocks * np.ones((n, 1, 1)) for blocks in (side, main, side)]


def of_singular_blocks(n, k):
    """Blocks of the diagonal are singular, and those of dl and du regular."""
    dl, d, du, _ = block_system(n, k)
    d[:, 0] = 0.0
    return dl, d, du


MATRICES = {
    "random": lambda n, k: block_system(n, k, dominance=0.0)[:3],
    "graded": graded,
    "ill-conditioned": of_plate,
    "singular blocks": of_singular_blocks,
}


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("k", [2, 5, 8])
@pytest.mark.parametrize("name", MATRICES)
def test_errors_are_close_to_those_of_lapack(name, k, is_split, monkeypatch):
    """Errors of random matrices scatter: the medians of 7 differ by less than a factor of 10."""
    errors, n = [], 512 // k
    if is_split:
        divide_bands(monkeypatch)
    for _ in range(7):
        (dl, d, du), x = MATRICES[name](n, k), RANDOM.normal(3, 1, (n, k))
        b = (d @ x[..., None])[..., 0]
        b[1:] += (dl[1:] @ x[:-1, :, None])[..., 0]
        b[:-1] += (du[:-1] @ x[1:, :, None])[..., 0]
        operands = dl, d, du, b
        errors.append([error(solve(*operands), x) for solve in (scipy_solve, mgrec.solve_block_tridiagonal)])
    lapack, found = np.median(errors, axis=0)
    assert found <= 10 * max(lapack, np.finfo(float).eps)


def test_axes_and_matrices():
    dl, d, du, b = block_system(40, 3, 2, 5)
    wanted = np.array(
        [[scipy_solve(*(part[i, j] for part in (dl, d, du, b))) for j in range(5)] for i in (0, 1)]
    )
    assert error(mgrec.solve_block_tridiagonal(dl, d, du, b), wanted) < 1e-13
    moved = [part.swapaxes(1, 2) for part in (dl, d, du, b)]
    found = mgrec.solve_block_tridiagonal(*moved, axis=1)
    assert error(found.swapaxes(1, 2), wanted) < 1e-13
    assert error(mgrec.solve_block_tridiagonal(*moved, axis=-2), found) == 0
    one = [part[0, 0] for part in (dl, d, du)]
    found = mgrec.solve_block_tridiagonal(*one, b)
    assert error(found[1, 3], scipy_solve(*one, b[1, 3])) < 1e-13
    found = mgrec.solve_block_tridiagonal(one[0][3], d[:, :1], one[2][3], b[0, 0])
    assert found.shape == (2, 1, 40, 3)
    full = one[0][3] + np.zeros((40, 3, 3)), d[1, 0], one[2][3] + np.zeros((40, 3, 3)), b[0, 0]
    assert error(found[1, 0], scipy_solve(*full)) < 1e-13


def test_integers_out_and_empty_arrays():
    out = np.empty((2, 2))
    x = mgrec.solve_block_tridiagonal(
        np.eye(2, dtype=int), [[2, 0], [0, 4]], 0 * np.eye(2), [[2, 4], [3, 9]], out=out
    )
    assert x is out
    assert x.tolist() == [[1, 1], [1, 2]]
    for shape in ((0, 2), (0, 4, 2), (3, 0, 2)):
        assert mgrec.solve_block_tridiagonal(np.eye(2), np.eye(2), np.eye(2), np.ones(shape)).shape == shape


@pytest.mark.parametrize("k", [2, 7])
@pytest.mark.parametrize("chunks", [(9, 13, 8), (1, 2, 3, 0, 1, 1, 22), (1,) * 30])
def test_chunks(k, chunks):
    *matrices, b = block_system(30, k, 2)
    wanted = mgrec.solve_block_tridiagonal(*matrices, b)
    lazy = [da.from_array(part, chunks=(1, chunks, 1, 1)) for part in matrices]
    x = mgrec.solve_block_tridiagonal(*lazy, da.from_array(b, chunks=(2, chunks, 1)))
    assert x.chunks[1] == chunks
    assert error(x.compute(), wanted) < 1e-13
    x = mgrec.solve_block_tridiagonal(matrices[0][0, 0], *lazy[1:], b, memory="two-pass")
    assert error(x.compute(), mgrec.solve_block_tridiagonal(matrices[0][0, 0], *matrices[1:], b)) < 1e-13


def test_chunks_of_several_partitions():
    operands = block_system(5000, 3)
    x = mgrec.solve_block_tridiagonal(*operands[:3], da.from_array(operands[3], chunks=(1800, 3)))
    assert error(x.compute(), scipy_solve(*operands)) < 1e-13


def test_singular_systems_are_named():
    for n in (40, 5000):
        dl, d, du, _ = block_system(n, 2, 3)
        for blocks in (dl, d, du):
            blocks[1, n // 2, 1] = 0
        with pytest.raises(np.linalg.LinAlgError, match=r"system \(1,\) is singular"):
            mgrec.solve_block_tridiagonal(dl, d, du, np.ones((n, 2)))
        lazy = mgrec.solve_block_tridiagonal(dl[1], d[1], du[1], da.ones((n, 2), chunks=(n // 2 + 1, 2)))
        with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
            lazy.compute()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_systems_with_nan(bad):
    for n in (40, 5000):
        dl, d, du, b = block_system(n, 2, 3)
        dl[:, 0], du[:, -1] = np.nan, np.nan  # ignored
        assert np.isfinite(mgrec.solve_block_tridiagonal(dl, d, du, b)).all()
        lazy = mgrec.solve_block_tridiagonal(dl, d, du, da.from_array(b, chunks=(3, n // 3, 2)))
        assert np.isfinite(lazy.compute()).all()
        du[1, 3, 1, 0] = bad
        with pytest.raises(ValueError, match=rf"du must .* got {bad} at index \(1, 3, 1, 0\)"):
            mgrec.solve_block_tridiagonal(dl, d, du, b)
        x = mgrec.solve_block_tridiagonal(dl, d, du, b, check_finite=False)
        assert np.isnan(x).all((1, 2)).tolist() == [False, True, False]
        assert np.isnan(x).any((1, 2)).tolist() == [False, True, False]
        b[2, n - 1, 1] = bad
        with pytest.raises(ValueError, match=rf"b must .* got {bad} at index \(2, {n - 1}, 1\)"):
            mgrec.solve_block_tridiagonal(
                dl[0], d, dl[0, 1], da.from_array(b, chunks=(3, n // 2, 2))
            ).compute()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 2, 2), (4, 2), (4, 2, 2), (4, 2)), r"d must have shape \(..., k, k\), .* got \(4, 2\)"),
        (((4, 9, 9), (4, 9, 9), (4, 9, 9), (4, 9)), r"k from 1 to 8; got \(4, 9, 9\)"),
        (((4, 0, 0), (4, 0, 0), (4, 0, 0), (4, 0)), r"k from 1 to 8; got \(4, 0, 0\)"),
        (((2,), (2, 2), (2, 2), (4, 2)), r"dl must have shape \(..., 2, 2\), as d has .* got \(2,\)"),
        (((2, 2), (2, 2), (3, 3), (4, 2)), r"du must have shape \(..., 2, 2\), as d has .* got \(3, 3\)"),
        (((2, 2), (2, 2), (2, 2), (4, 3)), r"b must have shape \(..., 2\), as d has .* got \(4, 3\)"),
        (((2, 2), (2, 2), (2, 2), (2,)), r"b must have an axis of blocks, \(..., n, 2\); got shape \(2,\)"),
        (
            ((4, 2, 2), (3, 2, 2), (2, 2), (4, 2)),
            r"axes before those of blocks must broadcast; got dl: \(4,\)",
        ),
    ],
)
def test_wrong_shapes(shapes, message):
    with pytest.raises(ValueError, match=message):
        mgrec.solve_block_tridiagonal(*map(np.ones, shapes))


def test_wrong_arguments():
    *matrices, b = block_system(4, 2)
    with pytest.raises(ValueError, match="axis must be from -1 to 0"):
        mgrec.solve_block_tridiagonal(*matrices, b, axis=1)
    with pytest.raises(TypeError, match="b must be of an integer, floating or complex dtype"):
        mgrec.solve_block_tridiagonal(*matrices, b.astype("g"))
    with pytest.raises(ValueError, match="needs the index of each step"):
        mgrec.solve_block_tridiagonal(*(part[0] for part in matrices), da.from_array(b)[da.ones(4) > 0])


@pytest.mark.gpu
@pytest.mark.parametrize(("k", "dtype"), [(1, "f"), (2, "f"), (2, "d"), (3, "F"), (4, "D"), (8, "d")])
@pytest.mark.parametrize("needs_pivots", [False, True])
def test_cupy_arrays(k, dtype, needs_pivots):
    for rows, n in (((), 9), ((2500,), 12), ((2,), 9000)):
        dl, d, du, b = block_system(n, k, *rows, dtype=dtype)
        operands = dl[..., :1, :, :], d[..., ::-1, :] if needs_pivots else d, du, b
        wanted = mgrec.solve_block_tridiagonal(*operands)
        found = from_gpu(mgrec.solve_block_tridiagonal(*map(on_gpu, operands)))
        assert found.dtype == dtype
        assert error(found, wanted) < TOLERANCE[dtype]
    chunks = [da.from_array(x, chunks=(1, 4000, *x.shape[2:])).map_blocks(on_gpu) for x in operands[1:]]
    lazy = mgrec.solve_block_tridiagonal(on_gpu(operands[0]), *chunks)
    assert error(from_gpu(lazy.compute(scheduler="sync")), wanted) < TOLERANCE[dtype]


@pytest.mark.gpu
def test_gradients_on_a_gpu():
    operands, grad = block_system(40, 3, 2), draw(2, 40, 3)
    x = mgrec.solve_block_tridiagonal(*operands)
    wanted = adjoint.solve_block_tridiagonal(grad, x, *operands)
    found = adjoint.solve_block_tridiagonal(*map(on_gpu, (grad, x, *operands)))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(from_gpu(one), other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("dtype", "dD")
def test_adjoint(is_constant, dtype):
    """<grad, dx> is the sum of <gradient, d argument>, for a finite difference of high order."""
    operands = [*block_system(12, 3, 2, dtype=dtype)]
    if is_constant:
        operands[0], operands[2] = operands[0][0, 0], operands[2][:, 4:5]
    operands = [part.swapaxes(0, 1) if part.ndim > 2 else part for part in operands]
    grad, steps = draw(12, 2, 3, dtype=dtype), [1e-4 * draw(*part.shape, dtype=dtype) for part in operands]
    x = mgrec.solve_block_tridiagonal(*operands, axis=0)
    gradients = adjoint.solve_block_tridiagonal(grad, x, *operands, axis=0)
    later, earlier = (
        mgrec.solve_block_tridiagonal(
            *(part + sign * step for part, step in zip(operands, steps, strict=True)), axis=0
        )
        for sign in (1, -1)
    )
    found = sum(np.vdot(part, step).real for part, step in zip(gradients, steps, strict=True))
    np.testing.assert_allclose(found, np.vdot(grad, later - earlier).real / 2, rtol=1e-5)
    lazy = adjoint.solve_block_tridiagonal(
        *(da.from_array(part, chunks=(5, 1, 3)) for part in (grad, x)), *operands, axis=0
    )
    for part, whole in zip(lazy, gradients, strict=True):
        np.testing.assert_allclose(np.asarray(part), whole, rtol=1e-8, atol=1e-12)


def test_gradients_of_torch():
    torch = pytest.importorskip("torch")
    operands = [torch.tensor(part, requires_grad=True) for part in block_system(5, 2)]
    assert torch.autograd.gradcheck(mgrec.solve_block_tridiagonal, operands)
    operands[0] = operands[0][0].detach().requires_grad_()
    assert torch.autograd.gradgradcheck(mgrec.solve_block_tridiagonal, operands)


def test_gradients_of_jax():
    jax = pytest.importorskip("jax")
    operands = [part.astype("f") for part in block_system(20, 2, 3)]
    loss = jax.jit(
        jax.grad(lambda *given: mgrec.solve_block_tridiagonal(*given, axis=1).sum(), argnums=(0, 1, 2, 3))
    )
    x = mgrec.solve_block_tridiagonal(*operands, axis=1)
    gradients = adjoint.solve_block_tridiagonal(np.ones_like(x), x, *operands, axis=1)
    for found, wanted in zip(loss(*operands), gradients, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_plans():
    *matrices, b = block_system(1000, 2)
    lazy = da.from_array(b, chunks=(300, 2))
    with two_workers(processes=False) as client:
        warm_up(mgrec.solve_block_tridiagonal, *matrices, lazy, client=client)
        with mgrec.plan(mgrec.solve_block_tridiagonal, *matrices, lazy) as solve:
            x = solve(*matrices, 2 * lazy)
            assert error(x.compute(), scipy_solve(*matrices, 2 * b)) < 1e-13


@pytest.mark.parametrize("bounds", [(0, 40, 100), (0, 1, 3, 3, 100)])
def test_parts_of_ranks(bounds):
    *matrices, b = block_system(100, 3, 2)

    def call(rank, group):
        part = slice(*bounds[rank : rank + 2])
        return mgrec.solve_block_tridiagonal(*(array[:, part] for array in (*matrices, b)), group=group)

    found = np.concatenate(run_on_ranks(len(bounds) - 1, call), 1)
    assert error(found, mgrec.solve_block_tridiagonal(*matrices, b)) < 1e-13
