"""Chunks of tridiagonal systems: whole systems, their ends alone, and how errors name them."""

import dask
import dask.array as da
import numpy as np
import pytest
from internals import phase_of
from tridiagonal_matrices import NAMES, dominant, error, gtsv, in_chunks, matrix, with_solutions

import mgrec


@pytest.mark.parametrize("memory", ["stream", "two-pass"])
def test_whole_systems_take_one_task_a_chunk(memory):
    operands = dominant((6, 20))
    x = mgrec.solve_tridiagonal(*in_chunks(operands, (2, 20)), memory=memory)
    assert x.chunks == ((2, 2, 2), (20,))
    phases = [phase_of(key) for key in dict(x.dask)]
    assert [phase for phase in phases if phase] == ["determine"] * 3
    wanted = mgrec.solve_tridiagonal(*operands)
    np.testing.assert_array_equal(x.compute(scheduler="sync"), wanted)


def test_loads_are_part_of_the_task_of_a_chunk():
    b = da.ones((6, 20), chunks=(2, 20))
    (x,) = dask.optimize(mgrec.solve_tridiagonal(-1.0, b + 2, -1.0, b))
    assert sum(isinstance(key, tuple) and len(key) == 3 for key in dict(x.dask)) == 3


def test_whole_systems_along_every_axis_with_constants():
    _, d, du, b = dominant((20, 3, 4))
    lazy = da.from_array(b, chunks=(20, 2, 3))
    x = mgrec.solve_tridiagonal(-1.0, d[:, :1], da.from_array(du, chunks=5), lazy, axis=0)
    assert x.chunks == lazy.chunks
    wanted = mgrec.solve_tridiagonal(-1.0, d[:, :1], du, b, axis=0)
    # A chunk of few systems is solved by partitions, all of them together side by side.
    np.testing.assert_allclose(x.compute(scheduler="sync"), wanted, rtol=1e-12)


def test_whole_systems_of_unknown_number():
    b = dominant((6, 20))[3]
    kept = np.array([True, False, True, True, False, True])
    some = da.from_array(b, chunks=(2, 20))[da.from_array(kept, chunks=2)]
    x = mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, some)
    wanted = mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, b[kept])
    np.testing.assert_array_equal(x.compute(scheduler="sync"), wanted)


@pytest.mark.parametrize("chunks", [None, (2, 20, 3), (2, 7, 3)])
def test_a_singular_system_is_named_by_its_index(chunks):
    dl, d, du, b = dominant((4, 20, 5))
    for part in (dl, d, du):
        part[3, 11, 4] = 0
    operands = in_chunks((dl, d, du, b), chunks)
    with pytest.raises(np.linalg.LinAlgError, match=r"^system \(3, 4\) is singular"):
        np.asarray(mgrec.solve_tridiagonal(*operands, axis=1))


@pytest.mark.parametrize("chunk", [None, 20, 6])
def test_right_hand_sides_are_no_part_of_the_index(chunk):
    dl, d, du, _ = dominant((4, 20))
    dl[2, 5] = d[2, 5] = du[2, 5] = 0
    b = np.ones((4, 3, 20))
    if chunk:
        b = da.from_array(b, chunks=(2, 1, chunk))
    with pytest.raises(np.linalg.LinAlgError, match=r"^system \(2,\) is singular"):
        np.asarray(mgrec.solve_tridiagonal(dl, d, du, b, rhs_axis=1))
    with pytest.raises(np.linalg.LinAlgError, match=r"^the system is singular"):
        np.asarray(mgrec.solve_tridiagonal(0.0, 0.0, 0.0, b[0, 0]))


# Ends of chunks that tell what far rows do not change.

CHUNK = 2500  # long enough that its ends are tried alone


def draw(shape=(2 * CHUNK,), diagonal=4.0, dtype="d"):
    dl, d, du, b = np.random.default_rng(0).normal(size=(4, *shape)).astype(dtype)
    return np.clip(dl, -2, 2), d / 8 + np.asarray(diagonal, dtype), np.clip(du, -2, 2), b


def solve_chunks(operands, chunks=CHUNK, **options):
    x = mgrec.solve_tridiagonal(*in_chunks(operands, chunks), **options)
    return x.compute(scheduler="sync")


def check_close(x, wanted):
    assert np.linalg.norm(x - wanted) <= 4 * np.finfo(float).eps * np.linalg.norm(wanted)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_what_is_not_finite_is_found_where_no_end_tells(number):
    operands = draw()
    operands[number][1200] = np.inf
    name = ("dl", "d", "du", "b")[number]
    with pytest.raises(ValueError, match=rf"{name} must hold no nan or inf; got inf at index \(1200,"):
        solve_chunks(operands)
    assert np.isnan(solve_chunks(operands, check_finite=False)).all()


def test_what_is_singular_is_found_where_no_end_tells():
    operands = draw((3, 2 * CHUNK))
    for part in operands[:3]:
        part[1, 3700] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"^system \(1,\) is singular"):
        solve_chunks(operands, (2, CHUNK))


@pytest.mark.parametrize("periodic", [False, True])
def test_chunks_and_batches_that_forget(periodic):
    operands = draw((2 * CHUNK, 3))
    wanted = mgrec.solve_tridiagonal(*operands, axis=0, method="partition", periodic=periodic)
    options = {"axis": 0, "periodic": periodic}
    for chunks in ((CHUNK, 2), (2100, 3), (2 * CHUNK, 1)):
        x = solve_chunks(operands, chunks, **options)
        check_close(x, wanted)
    check_close(mgrec.solve_tridiagonal(*operands, **options), wanted)


@pytest.mark.parametrize("name", [name for name in NAMES if "randsvd" not in name])
def test_errors_over_long_chunks_are_those_of_gtsv(name):
    operands, x = with_solutions(*matrix(name, 2 * CHUNK), sides=5)
    allowed = 10 * error(gtsv(operands), x) + 2 * np.finfo(float).eps
    assert error(solve_chunks(operands, (-1, CHUNK, 1), axis=1), x) <= allowed
