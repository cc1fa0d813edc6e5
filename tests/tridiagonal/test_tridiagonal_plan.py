"""Plans of tridiagonal systems: the graph's bits with every option."""

import dask.array as da
import numpy as np
import pytest
from clusters import two_workers

import mgrec
import mgrec.dask

STEPS = 60


@pytest.fixture(scope="module")
def client():
    with two_workers(processes=False, protocol="tcp://") as client:
        yield client


def draw(*shapes):
    generator = np.random.default_rng(5)
    return [generator.normal(size=shape) for shape in shapes]


def lazy(array, *chunks):
    return da.from_array(array, chunks=chunks)


RING = {"periodic": True}
OPTIONS = [
    ((STEPS,), (STEPS,), (17,), {}),
    ((STEPS,), (STEPS,), (17,), RING),
    ((4, STEPS), (4, STEPS), (3, STEPS), {}),
    ((4, STEPS), (4, STEPS), (3, STEPS), RING),
    ((STEPS,), (STEPS, 3), (17, 2), {"axis": 0, "rhs_axis": 1, "check_finite": False, **RING}),
]


@pytest.mark.parametrize(("own", "shape", "chunks", "options"), OPTIONS)
def test_a_plan_has_the_bits_of_the_graph(client, own, shape, chunks, options):
    dl, d, du, b, other = draw(own, own, own, shape, shape)
    d += 4 * np.sign(d)
    diagonals = dl, lazy(d, *chunks[: d.ndim]), du
    with mgrec.plan(mgrec.solve_tridiagonal, *diagonals, lazy(b, *chunks), **options) as solve:
        for given in (b, other):
            x = solve(*diagonals, lazy(given, *chunks))
            graph = mgrec.solve_tridiagonal(*diagonals, lazy(given, *chunks), **options)
            assert x.chunks == graph.chunks
            np.testing.assert_array_equal(x.compute(), graph.compute())


def test_time_steps(client):
    """The result of a step is an operand of the next, in the memory of the workers."""
    (u,) = draw((STEPS,))
    x = lazy(u, 20)
    with mgrec.plan(mgrec.solve_tridiagonal, -1.0, 3.0, -1.0, x, periodic=True) as solve:
        for _ in range(3):
            x = solve(-1.0, 3.0, -1.0, x)
            u = mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, u, periodic=True)
        np.testing.assert_allclose(x.compute(), u, rtol=1e-13)


@pytest.mark.parametrize("chunk", [20, STEPS])
def test_errors_name_what_is_wrong_and_the_plan_goes_on(client, chunk):
    d, b = np.full((2, STEPS), 3.0), np.ones((2, STEPS))
    singular, wrong = d.copy(), b.copy()
    singular[1, 20:24], wrong[1, 50] = 0, np.inf
    with mgrec.plan(mgrec.solve_tridiagonal, 0.0, lazy(d, 2, chunk), 0.0, b) as solve:
        with pytest.raises(np.linalg.LinAlgError, match=r"^system \(1,\) is singular"):
            solve(0.0, lazy(singular, 2, chunk), 0.0, b)
        with pytest.raises(ValueError, match=r"b must hold no .* got inf at index \(1, 50\)"):
            solve(0.0, lazy(d, 2, chunk), 0.0, wrong)
        np.testing.assert_array_equal(solve().compute(), b / 3)


def test_one_solve_at_once(client):
    b = da.ones(STEPS, chunks=10)
    x = mgrec.dask.solve(mgrec.solve_tridiagonal, -1.0, 3.0, -1.0, b, periodic=True)
    np.testing.assert_allclose(x.compute(), 1.0, rtol=1e-14)
