"""Block tridiagonal systems alone: every size of blocks, constants, and wrong arguments."""

import dask.array as da
import numpy as np
import pytest
from banded_systems import TOLERANCE, block_system, dense_blocks, dense_solve, draw, error, seeded  # noqa: F401
from chunkings import with_extended
from internals import divide_bands

import mgrec


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("dtype", with_extended("fdFD", *"fD"))
@pytest.mark.parametrize("periodic", [False, True])
def test_every_size(dtype, periodic, is_split, monkeypatch):
    if is_split:
        divide_bands(monkeypatch)
    for k in range(1, 9):
        for n in (1, 2, 3, 41) if not is_split else (3, 65):
            *matrices, b = block_system(n, k, dtype=dtype)
            x = mgrec.solve_block_tridiagonal(*matrices, b, periodic=periodic)
            assert x.dtype == dtype
            wanted = dense_solve(dense_blocks(*matrices, periodic), b, 1)
            assert error(x, wanted) < TOLERANCE[dtype]


def test_blocks_of_one_number_are_a_tridiagonal_system():
    *matrices, b = block_system(300, 1, 2)
    wanted = mgrec.solve_tridiagonal(*(matrix[..., 0, 0] for matrix in matrices), b[..., 0])
    assert error(mgrec.solve_block_tridiagonal(*matrices, b)[..., 0], wanted) < 1e-13


@pytest.mark.parametrize("periodic", [False, True])
def test_blocks_of_all_steps_and_of_all_rows(periodic):
    side, b = draw(2, 2), draw(5, 12, 2)
    d = draw(2, 1, 12, 2, 2) + 8 * np.eye(2)
    found = mgrec.solve_block_tridiagonal(side, d, -side, b[0], periodic=periodic)
    assert found.shape == (2, 1, 12, 2)
    full = dense_blocks(side + np.zeros((12, 2, 2)), d[1, 0], -side + np.zeros((12, 2, 2)), periodic)
    assert error(found[1, 0], dense_solve(full, b[0], 1)) < TOLERANCE["d"]
    lazy = da.from_array(b, chunks=(5, 5, 2))
    found = mgrec.solve_block_tridiagonal(side, d[1, 0], -side, lazy, periodic=periodic, memory="two-pass")
    assert error(found.compute(), dense_solve(full, b, 1)) < TOLERANCE["d"]


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
