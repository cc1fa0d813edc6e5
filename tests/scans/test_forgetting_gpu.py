"""Contractive chunks of CuPy arrays are solved before their carry-in is known."""

import logging

import dask.array as da
import numpy as np
import pytest
from distributed import Client
from test_forgetting import holds, speculation

import mgrec
import mgrec.dask
from mgrec.scans import recurrence as transfer
from mgrec.scans.cuda import speculation as cuda_speculation

pytestmark = pytest.mark.gpu

STEPS = 1 << 17


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Begin chunks where it would not pay."""
    monkeypatch.setattr(transfer, "LARGE_ON_GPU", 1)
    monkeypatch.setattr(cuda_speculation, "_PREFIX_FRACTION", 8)


def in_chunks(count, *arrays):
    import cupy

    size = -(-STEPS // count)
    return [da.from_array(array, chunks=size).map_blocks(cupy.asarray) for array in arrays]


def solved(lazy, caplog):
    with caplog.at_level(logging.DEBUG, "mgrec"):
        return lazy.compute(scheduler="sync").get()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("initial", [0.0, -1e30])
def test_arrays(dtype, reverse, initial, caplog):
    s, t = np.random.default_rng(0).uniform(-0.8, 0.8, (2, STEPS)).astype(dtype)
    w = solved(mgrec.linear_recurrence(*in_chunks(2, s, t), initial, reverse=reverse), caplog)
    assert set(speculation(caplog)) == {(0,), (1,)}
    turned = [array[::-1] if reverse else array for array in (w, s, t)]
    assert holds(*turned, initial)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_constant_of_many_rows(axis, reverse, caplog):
    shape = (3, STEPS) if axis else (STEPS, 3)
    t, initial = np.random.default_rng(0).normal(size=shape), np.array([1e8, -1.0, 0.0])
    chunks = (3, STEPS // 2) if axis else (STEPS // 2, 3)
    options = {"initial": initial, "axis": axis, "reverse": reverse}
    import cupy

    lazy = da.from_array(t, chunks=chunks).map_blocks(cupy.asarray)
    w = solved(mgrec.linear_recurrence(-0.5, lazy, **options), caplog)
    assert len(speculation(caplog)) == 2
    np.testing.assert_allclose(
        w, mgrec.linear_recurrence(-0.5, t, **options), rtol=1e-10, atol=1e-13
    )


@pytest.mark.parametrize("s", [1.0, np.ones(STEPS), np.full(STEPS, 0.9999), np.full(STEPS, 1.001)])
def test_what_does_not_forget_is_not_begun(s, caplog):
    t = np.ones(STEPS)
    lazy = in_chunks(2, s, t) if np.ndim(s) else [s, *in_chunks(2, t)]
    w = solved(mgrec.linear_recurrence(*lazy), caplog)
    assert speculation(caplog) == []
    assert holds(w, np.broadcast_to(s, t.shape).copy(), t, 0.0)


@pytest.mark.parametrize("initial", [np.inf, -np.inf, np.nan, 1.7e308])
@pytest.mark.parametrize("zero", [False, True])
def test_special_entries(initial, zero, caplog):
    s, t = np.random.default_rng(0).uniform(-0.8, 0.8, (2, STEPS))
    s[3] = 1e5
    s[STEPS // 2 + 100] *= not zero
    wanted, w = np.empty(STEPS), initial
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(STEPS):
            wanted[i] = w = s[i] * w + t[i]
    found = solved(mgrec.linear_recurrence(*in_chunks(2, s, t), initial), caplog)
    assert speculation(caplog)
    np.testing.assert_array_equal(found[3:], wanted[3:])


def test_graphs_plans_and_solves_have_the_same_bits():
    s, t = np.random.default_rng(0).uniform(-0.8, 0.8, (2, STEPS))
    s[: STEPS // 4] = 1.0
    lazy = in_chunks(4, s, t)
    wanted = mgrec.linear_recurrence(*lazy, 5.0).compute(scheduler="sync").get()
    two_pass = mgrec.linear_recurrence(*lazy, 5.0, memory="two-pass")
    np.testing.assert_array_equal(two_pass.compute(scheduler="sync").get(), wanted)
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        held = client.persist(lazy)
        solves = [
            mgrec.linear_recurrence(*held, 5.0),
            mgrec.dask.solve(mgrec.linear_recurrence, *held, 5.0),
        ]
        with mgrec.plan(mgrec.linear_recurrence, *held, initial=5.0) as solve:
            solves += [solve(), solve()]
            for each in solves:
                np.testing.assert_array_equal(each.compute().get(), wanted)
