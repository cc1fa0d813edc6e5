"""Tridiagonal systems in Dask arrays: whole in their chunks or not, and how errors name them."""

import dask
import dask.array as da
import numpy as np
import pytest

import mgrec
from mgrec.distributed.observability import phase_of


def draw(shape, seed=0):
    dl, d, du, b = np.random.default_rng(seed).normal(size=(4, *shape))
    return dl, d + 4 * np.sign(d), du, b


def in_chunks(operands, chunks):
    return [da.from_array(array, chunks=chunks) for array in operands]


@pytest.mark.parametrize("memory", ["stream", "two-pass"])
def test_whole_systems_take_one_task_a_chunk(memory):
    operands = draw((6, 20))
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
    _, d, du, b = draw((20, 3, 4))
    lazy = da.from_array(b, chunks=(20, 2, 3))
    x = mgrec.solve_tridiagonal(-1.0, d[:, :1], da.from_array(du, chunks=5), lazy, axis=0)
    assert x.chunks == lazy.chunks
    wanted = mgrec.solve_tridiagonal(-1.0, d[:, :1], du, b, axis=0)
    # A chunk of few systems is solved by partitions, all of them together side by side.
    np.testing.assert_allclose(x.compute(scheduler="sync"), wanted, rtol=1e-12)


def test_whole_systems_of_unknown_number():
    b = draw((6, 20))[3]
    kept = np.array([True, False, True, True, False, True])
    some = da.from_array(b, chunks=(2, 20))[da.from_array(kept, chunks=2)]
    x = mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, some)
    wanted = mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, b[kept])
    np.testing.assert_array_equal(x.compute(scheduler="sync"), wanted)


@pytest.mark.parametrize("chunks", [None, (2, 20, 3), (2, 7, 3)])
def test_a_singular_system_is_named_by_its_index(chunks):
    dl, d, du, b = draw((4, 20, 5))
    for part in (dl, d, du):
        part[3, 11, 4] = 0
    operands = (dl, d, du, b)
    if chunks:
        operands = in_chunks(operands, chunks)
    with pytest.raises(np.linalg.LinAlgError, match=r"^system \(3, 4\) is singular"):
        np.asarray(mgrec.solve_tridiagonal(*operands, axis=1))


@pytest.mark.parametrize("chunk", [None, 20, 6])
def test_right_hand_sides_are_no_part_of_the_index(chunk):
    dl, d, du, _ = draw((4, 20))
    dl[2, 5] = d[2, 5] = du[2, 5] = 0
    b = np.ones((4, 3, 20))
    if chunk:
        b = da.from_array(b, chunks=(2, 1, chunk))
    with pytest.raises(np.linalg.LinAlgError, match=r"^system \(2,\) is singular"):
        np.asarray(mgrec.solve_tridiagonal(dl, d, du, b, rhs_axis=1))
    with pytest.raises(np.linalg.LinAlgError, match=r"^the system is singular"):
        np.asarray(mgrec.solve_tridiagonal(0.0, 0.0, 0.0, b[0, 0]))
