"""Banded and block tridiagonal systems whose ends meet, against dense systems."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from banded_systems import TOLERANCE, WIDTHS, bands, block_system, draw, error, seeded  # noqa: F401
from cases import from_gpu, on_gpu
from clusters import two_workers
from internals import divide_bands
from thread_group import run_on_ranks

import mgrec
from mgrec import adjoint

solve_bands = partial(mgrec.solve_banded, periodic=True)
solve_blocks = partial(mgrec.solve_block_tridiagonal, periodic=True)
CHUNKS = [(9, 13, 8), (1, 2, 3, 0, 1, 1, 22), (1,) * 30]


def dense_bands(widths, ab):
    """The matrices (..., n, n); coefficients of one unknown add up."""
    n, full = ab.shape[-1], np.zeros((*ab.shape[:-2], ab.shape[-1], ab.shape[-1]), ab.dtype)
    for r in range(sum(widths) + 1):
        for j in range(n):
            full[..., (j + r - widths[1]) % n, j] += ab[..., r, j]
    return full


def dense_blocks(dl, d, du):
    n, k = d.shape[-3:-1]
    full = np.zeros((*d.shape[:-3], n, k, n, k), d.dtype)
    for i in range(n):
        for step, blocks in ((-1, dl), (0, d), (1, du)):
            full[..., i, :, (i + step) % n, :] += blocks[..., i, :, :]
    return full.reshape(*d.shape[:-3], n * k, n * k)


def dense_solve(full, b):
    """The unknowns for right-hand sides with one axis of unknowns, or with two for blocks."""
    flat = b.reshape(*full.shape[:-2], -1, 1)
    return np.linalg.solve(full, flat).reshape(b.shape)


def both(n, *rows, dtype="d"):
    """A function that solves systems, its operands, axes after that of n, and the solution."""
    ab, b = bands(2, 1, *rows, n, dtype=dtype), draw(*rows, n, dtype=dtype)
    yield partial(solve_bands, (2, 1)), [ab, b], [0, 0], dense_solve(dense_bands((2, 1), ab), b)
    *matrices, b = block_system(n, 3, *rows, dtype=dtype)
    yield solve_blocks, [*matrices, b], [2, 2, 2, 1], dense_solve(dense_blocks(*matrices), b)


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("widths", WIDTHS)
def test_bands(widths, dtype, is_split, monkeypatch):
    if is_split:
        divide_bands(monkeypatch)
    for n in (1, 2, 3, 5, 9, 40) if not is_split else (64, 65, 300):
        ab, b = bands(*widths, n, dtype=dtype), draw(n, dtype=dtype)
        x = solve_bands(widths, ab, b)
        assert x.dtype == dtype
        # Coefficients of one unknown add up to matrices that are not dominant.
        wanted = dense_solve(dense_bands(widths, ab), b)
        assert error(x, wanted) < TOLERANCE[dtype] * max(1, np.linalg.cond(dense_bands(widths, ab)) / 10)


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("dtype", "dF")
def test_blocks_of_each_size(dtype, is_split, monkeypatch):
    if is_split:
        divide_bands(monkeypatch)
    for k in range(1, 9):
        for n in (1, 2, 3, 41) if not is_split else (65,):
            *matrices, b = block_system(n, k, dtype=dtype)
            wanted = dense_solve(dense_blocks(*matrices), b)
            assert error(solve_blocks(*matrices, b), wanted) < TOLERANCE[dtype]


def graded(n, of_rows):
    ab, scale = draw(5, n), np.logspace(0, -12, n)
    for r in range(5):
        ab[r] *= scale[(np.arange(n) + r - 2) % n] if of_rows else scale
    return ab


def without_corners(n):
    """Tridiagonal (1, 0, 1) of odd order: singular without its corners."""
    ab = np.array([[0.0], [1], [0], [1], [0]]) * np.ones(n)
    ab[3, -1] = 2
    return ab


def with_strong_corners(n):
    ab = draw(5, n)
    ab[[0, 4], [1, -2]], ab[1, 0], ab[3, -1] = 1e8, -1e8, 1e7
    return ab


MATRICES = {
    "random": lambda n: draw(5, n),
    "dominant": lambda n: bands(2, 2, n),
    "graded rows": lambda n: graded(n, True),
    "graded columns": lambda n: graded(n, False),
    "fourth differences": lambda n: np.array([[1.0], [-4], [6 + 1e-7], [-4], [1]]) * np.ones(n),
    "without decay": lambda n: np.array([[0.0], [1], [1], [-1], [0]]) * np.ones(n),
    "singular without its corners": without_corners,
    "strong corners": with_strong_corners,
    "cyclic shift": lambda n: np.array([[0.0], [0], [1e-17], [0], [1]]) * np.ones(n),
}
PLACES = {"whole": (), "partitions": (), "chunks": (33, 100, 0, 1, 167), "one chunk": (301,)}


def backward_error(full, x, b):
    return abs(full @ x - b).max() / (abs(full).sum(1).max() * abs(x).max() + abs(b).max())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", MATRICES)
def test_errors_are_close_to_those_of_lapack(name, place, monkeypatch):
    """Errors scatter: the medians of 7 systems differ by less than a factor of 10."""
    if place == "partitions":
        divide_bands(monkeypatch)
    errors = []
    for _ in range(7):
        ab, wanted = MATRICES[name](301), draw(301) + 2
        full = dense_bands((2, 2), ab)
        b = full @ wanted
        lazy = da.from_array(b, chunks=(PLACES[place],)) if PLACES[place] else b
        found, of_lapack = np.asarray(solve_bands((2, 2), ab, lazy)), np.linalg.solve(full, b)
        errors.append([(error(x, wanted), backward_error(full, x, b)) for x in (of_lapack, found)])
    lapack, found = np.median(errors, axis=0)
    assert (found <= 10 * np.maximum(lapack, np.finfo(float).eps)).all()


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("name", ["random", "singular blocks", "strong corners"])
def test_errors_of_blocks_are_close_to_those_of_lapack(name, is_lazy, k):
    errors, n = [], 120
    for _ in range(7):
        dl, d, du, _ = block_system(n, k, dominance=3.0 * (name == "singular blocks"))
        if name == "singular blocks":
            d[:, 0] = 0.0
        elif name == "strong corners":
            dl[0] *= 1e8
        full, wanted = dense_blocks(dl, d, du), draw(n, k) + 2
        b = (full @ wanted.ravel()).reshape(n, k)
        lazy = da.from_array(b, chunks=(50, k)) if is_lazy else b
        found, of_lapack = np.asarray(solve_blocks(dl, d, du, lazy)), dense_solve(full, b)
        errors.append(
            [(error(x, wanted), backward_error(full, x.ravel(), b.ravel())) for x in (of_lapack, found)]
        )
    lapack, found = np.median(errors, axis=0)
    assert (found <= 10 * np.maximum(lapack, np.finfo(float).eps)).all()


def test_a_corner_that_is_left_out_would_be_seen():
    for corner in ((0, 0), (1, 0), (0, 1), (3, -1)):
        ab, b = bands(1, 2, 40), draw(40)
        wanted = dense_solve(dense_bands((1, 2), ab), b)
        assert error(solve_bands((1, 2), ab, b), wanted) < TOLERANCE["d"]
        ab[corner] = 0
        assert error(solve_bands((1, 2), ab, b), wanted) > 1e-4
    *matrices, b = block_system(40, 2)
    wanted = dense_solve(dense_blocks(*matrices), b)
    for number, position in ((0, 0), (2, -1)):
        changed = [blocks.copy() for blocks in matrices]
        changed[number][position] = 0
        assert error(solve_blocks(*changed, b), wanted) > 1e-4


def test_axes_matrices_and_constants():
    ab, b = bands(2, 1, 3, 1, 40), draw(3, 2, 40)
    wanted = dense_solve(dense_bands((2, 1), ab + np.zeros((3, 2, 4, 40))), b)
    assert error(solve_bands((2, 1), ab, b), wanted) < TOLERANCE["d"]
    moved = solve_bands((2, 1), ab, b.transpose(0, 2, 1), axis=1)
    assert error(moved.transpose(0, 2, 1), wanted) < TOLERANCE["d"]
    side, main = draw(2, 2), 8 * np.eye(2)
    *_, b = block_system(12, 2, 5)
    full = dense_blocks(*(part + np.zeros((12, 2, 2)) for part in (side, main, -side)))
    wanted = dense_solve(full + np.zeros((5, 24, 24)), b)
    assert error(solve_blocks(side, main, -side, b), wanted) < TOLERANCE["d"]
    moved = solve_blocks(side, main, -side, b.swapaxes(0, 1), axis=0)
    assert error(moved.swapaxes(0, 1), wanted) < TOLERANCE["d"]


def test_no_unknowns():
    assert solve_bands((1, 1), np.ones((3, 0)), np.ones((2, 0))).shape == (2, 0)
    assert solve_blocks(np.eye(2), np.eye(2), np.eye(2), np.ones((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("n", [1, 2, 30])
def test_chunks(chunks, n):
    chunks = chunks if n == 30 else (n,)
    for solve, operands, axes, wanted in both(n, 2):
        lazy = [
            da.from_array(part, chunks={part.ndim - 1 - after: chunks, 0: 1})
            for part, after in zip(operands, axes, strict=True)
        ]
        assert error(solve(*lazy).compute(), wanted) < TOLERANCE["d"]
        x = solve(*operands[:-1], lazy[-1], memory="two-pass")
        assert error(x.compute(), wanted) < TOLERANCE["d"]


def test_ends_of_dominant_chunks():
    ab, b = bands(2, 2, 16_000), draw(16_000)
    x = solve_bands((2, 2), *(da.from_array(x, chunks=(*x.shape[:-1], (7000, 9000))) for x in (ab, b)))
    assert error(x.compute(), solve_bands((2, 2), ab, b)) < TOLERANCE["d"]


@pytest.mark.parametrize("bounds", [(0, 10, 30), (0, 1, 3, 3, 30), (0, 0, 30)])
def test_parts_of_ranks(bounds):
    for solve, operands, axes, wanted in both(30, 2):

        def call(rank, group, solve=solve, operands=operands, axes=axes):
            part = slice(*bounds[rank : rank + 2])
            parts = [x[(..., part, *(slice(None),) * k)] for x, k in zip(operands, axes, strict=True)]
            return solve(*parts, group=group)

        found = np.concatenate(run_on_ranks(len(bounds) - 1, call), -1 - axes[-1])
        assert error(found, wanted) < TOLERANCE["d"]


def test_a_ring_of_few_unknowns_on_ranks():
    ab, b = bands(4, 3, 3), draw(3)
    wanted = dense_solve(dense_bands((4, 3), ab), b)

    def call(rank, group):
        part = slice(*((0, 1, 1, 3)[rank : rank + 2]))
        return solve_bands((4, 3), ab[:, part], b[part], group=group)

    assert error(np.concatenate(run_on_ranks(3, call)), wanted) < 1e-12


def test_plans():
    for solve, operands, _, wanted in both(500):
        lazy = da.from_array(operands[-1], chunks={0: 200})
        arguments = solve.func, *solve.args, *operands[:-1]
        with two_workers(processes=False), mgrec.plan(*arguments, lazy, periodic=True) as plan:
            x = plan(*solve.args, *operands[:-1], 2 * lazy)
            assert error(x.compute(), 2 * wanted) < TOLERANCE["d"]


@pytest.mark.parametrize("n", [40, 9000])
def test_singular_systems_and_corners_that_are_nan_are_named(n):
    ab, b = bands(2, 2, 3, n), draw(3, n)
    dl, d, du, of_blocks = block_system(n, 2, 3)
    for row in (0, 1, n - 1):
        singular = ab.copy()
        singular[1, :, row] = 0
        with pytest.raises(np.linalg.LinAlgError, match=r"system \(1,\) is singular"):
            solve_bands((2, 2), singular, b)
        lazy = solve_bands((2, 2), singular, da.from_array(b, chunks=(3, n // 2)))
        with pytest.raises(np.linalg.LinAlgError, match=r"system \(1,\) is singular"):
            lazy.compute()
        blocks = [part.copy() for part in (dl, d, du)]
        for part in blocks:
            part[1, row, 1] = 0
        with pytest.raises(np.linalg.LinAlgError, match=r"system \(1,\) is singular"):
            solve_blocks(*blocks, of_blocks)
    wanted = solve_bands((2, 2), ab, b), solve_blocks(dl, d, du, of_blocks)
    ab[1, 0, 0], du[1, -1, 0, 1] = np.nan, np.nan
    with pytest.raises(ValueError, match=rf"diagonal 2 of ab .* got nan at index \(1, {n - 2}\)"):
        solve_bands((2, 2), ab, b)
    with pytest.raises(ValueError, match=rf"du must .* got nan at index \(1, {n - 1}, 0, 1\)"):
        solve_blocks(dl, d, du, of_blocks)
    found = (
        solve_bands((2, 2), ab, b, check_finite=False),
        solve_blocks(dl, d, du, da.from_array(of_blocks, chunks=(3, n // 2, 2)), check_finite=False),
    )
    for x, full in zip(found, wanted, strict=True):
        x = np.asarray(x)
        assert np.isnan(x[1]).all()
        assert error(x[[0, 2]], full[[0, 2]]) < TOLERANCE["d"]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", "dF")
def test_cupy_arrays(dtype):
    for rows, n in (((), 2), ((), 5000), ((2100,), 9)):
        for solve, operands, _, _ in both(n, *rows, dtype=dtype):
            wanted = solve(*operands)
            assert error(from_gpu(solve(*map(on_gpu, operands))), wanted) < TOLERANCE[dtype]
            if not rows and n > 9:
                lazy = da.from_array(operands[-1], chunks={0: 2000}).map_blocks(on_gpu)
                x = solve(*map(on_gpu, operands[:-1]), lazy)
                assert error(from_gpu(x.compute(scheduler="sync")), wanted) < TOLERANCE[dtype]


@pytest.mark.parametrize("n", [2, 12])
@pytest.mark.parametrize("dtype", "dD")
def test_adjoint(dtype, n):
    """<grad, dx> is the sum of <gradient, d argument>, for a finite difference of high order."""
    for solve, operands, _, _ in both(n, 3, dtype=dtype):
        name, x = solve.func.__name__, solve(*operands)
        differentiate = partial(getattr(adjoint, name), periodic=True)
        grad, steps = (
            draw(*x.shape, dtype=dtype),
            [1e-4 * draw(*part.shape, dtype=dtype) for part in operands],
        )
        gradients = differentiate(grad, x, *solve.args, *operands)
        later, earlier = (
            solve(*(part + sign * step for part, step in zip(operands, steps, strict=True)))
            for sign in (1, -1)
        )
        found = sum(np.vdot(part, step).real for part, step in zip(gradients, steps, strict=True))
        np.testing.assert_allclose(found, np.vdot(grad, later - earlier).real / 2, rtol=1e-5)
        lazy = [da.from_array(part, chunks={1: 5}) for part in (grad, x)]
        for part, whole in zip(differentiate(*lazy, *solve.args, *operands), gradients, strict=True):
            np.testing.assert_allclose(np.asarray(part), whole, rtol=1e-8, atol=1e-12)


def test_gradients_of_torch():
    torch = pytest.importorskip("torch")
    for solve, operands, _, _ in both(5):
        leaves = [torch.tensor(part, requires_grad=True) for part in operands]
        assert torch.autograd.gradcheck(solve, leaves)
        assert torch.autograd.gradgradcheck(solve, leaves)


def test_gradients_of_jax():
    jax = pytest.importorskip("jax")
    for solve, operands, _, _ in both(20, dtype="f"):
        numbers = tuple(range(len(operands)))
        loss = jax.jit(jax.grad(lambda *given, solve=solve: solve(*given).sum(), argnums=numbers))
        x = solve(*operands)
        differentiate = partial(getattr(adjoint, solve.func.__name__), periodic=True)
        gradients = differentiate(np.ones_like(x), x, *solve.args, *operands)
        for found, wanted in zip(loss(*operands), gradients, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
