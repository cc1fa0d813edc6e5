"""Calls of one kind on a GPU: later ones are prepared, and pivot or fail where the first did not."""

import numpy as np
import pytest

import mgrec
from mgrec.solve import prepared

pytestmark = pytest.mark.gpu
cupy = pytest.importorskip("cupy")


@pytest.fixture
def solved(monkeypatch):
    """The problems that were solved, and not by a prepared call."""
    found, solve = [], prepared.solve

    def watched(problem, call=None):
        found.append(problem)
        return solve(problem, call)

    monkeypatch.setattr(prepared, "solve", watched)
    prepared._cached_call.cache_clear()
    return found


def bands(generator, n, dominance):
    ab = generator.uniform(-1, 1, (5, n))
    ab[2] += dominance
    return ab, generator.normal(size=n)


def blocks(generator, n, dominance):
    dl, d, du = generator.uniform(-1, 1, (3, n, 2, 2))
    return dl, d + dominance * np.eye(2), du, generator.normal(size=(n, 2))


CASES = {
    "bands": (lambda *x, **o: mgrec.solve_banded((2, 2), *x, **o), bands),
    "blocks": (mgrec.solve_block_tridiagonal, blocks),
}


@pytest.mark.parametrize("name", CASES)
def test_later_calls_are_prepared(name, solved):
    solve, draw = CASES[name]
    generator = np.random.default_rng(21)
    for dominance in (8, 6, 0, 0.1, 8):
        operands = draw(generator, 5000, dominance)
        on_gpu = [cupy.asarray(x) for x in operands]
        out = cupy.full(operands[-1].shape, np.nan)
        solve(*on_gpu, out=out)
        wanted = solve(*operands)
        for x in (out, solve(*on_gpu)):
            assert abs(x.get() - wanted).max() < 1e-9 * abs(wanted).max()
    periodic = solve(*on_gpu, periodic=True).get()
    assert abs(periodic - solve(*operands, periodic=True)).max() < 1e-9 * abs(wanted).max()
    problems = sum(problem.operands[0].__class__ is cupy.ndarray for problem in solved)
    assert problems == 3  # with `out`, without, and periodic


@pytest.mark.parametrize("name", CASES)
def test_prepared_calls_raise_errors(name, solved):
    solve, draw = CASES[name]
    operands = draw(np.random.default_rng(22), 100, 8)
    for entry, error in ((None, None), (np.nan, ValueError), (0.0, np.linalg.LinAlgError), (None, None)):
        given = [x.copy() for x in operands]
        if entry is not None:
            for matrix in given[:-1]:
                matrix[40 if name == "blocks" else (..., slice(38, 43))] = entry
        on_gpu = [cupy.asarray(x) for x in given]
        if error is None:
            np.testing.assert_allclose(solve(*on_gpu).get(), solve(*given), rtol=1e-10)
        else:
            with pytest.raises(error):
                solve(*on_gpu)
