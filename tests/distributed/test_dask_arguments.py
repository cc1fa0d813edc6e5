"""What users of a cluster call, given what it does not take."""

import dask.array as da
import numpy as np
import pytest
from distributed import Client

import mgrec
import mgrec.dask

LAZY = da.ones(6, chunks=2)
REFUSED = {
    "colocate nothing": (lambda: mgrec.dask.colocate(), TypeError, "given arrays; got none"),
    "colocate NumPy": (
        lambda: mgrec.dask.colocate(LAZY, np.ones(6)),
        TypeError,
        "array 1 must be a Dask array; got ndarray",
    ),
    "colocate with no client": (
        lambda: mgrec.dask.colocate(LAZY, client="tcp://127.0.0.1:1"),
        TypeError,
        "client must be a distributed.Client; got str",
    ),
    "stages of NumPy": (
        lambda: mgrec.dask.persist_in_stages(np.ones(6)),
        TypeError,
        "array must be a Dask array; got ndarray",
    ),
    "stages along no axis": (
        lambda: mgrec.dask.persist_in_stages(LAZY, axis=1),
        ValueError,
        r"axis must be from -1 to 0 for shape \(6,\); got 1",
    ),
    "stages of nothing": (
        lambda: mgrec.dask.persist_in_stages(LAZY, chunks=0),
        ValueError,
        "chunks must be at least 1; got 0",
    ),
    "progress of a list": (lambda: mgrec.dask.progress([1.0]), TypeError, "got list"),
    "progress of tasks": (lambda: mgrec.dask.progress(LAZY), ValueError, "must be persisted"),
    "pins of an array": (lambda: mgrec.dask.pin_operands(LAZY), TypeError, "client .* got Array"),
    "warm-up of a name": (
        lambda: mgrec.dask.warm_up("linear", LAZY),
        TypeError,
        "recurrence must be a function of mgrec; got 'linear'",
    ),
    "solve of NumPy": (
        lambda: mgrec.dask.solve(mgrec.linear_recurrence, 0.5, np.ones(6)),
        TypeError,
        "needs a Dask array among its operands; got none",
    ),
    "solve of a name": (
        lambda: mgrec.dask.solve("linear", LAZY),
        TypeError,
        "recurrence must be a function of mgrec; got 'linear'",
    ),
    "solve of another function": (
        lambda: mgrec.dask.solve(np.negative, LAZY),
        TypeError,
        "must be a function that solves one recurrence along an axis, .*; got negative",
    ),
    "warm-up of NumPy": (
        lambda: mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, np.ones(6)),
        TypeError,
        "needs a Dask array among its operands; got none",
    ),
    "warm-up of no client": (
        lambda: mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, LAZY, client=LAZY),
        TypeError,
        "client must be a distributed.Client; got Array",
    ),
}


def test_without_a_client_there_is_nowhere_to_go():
    with pytest.raises(ValueError, match="No clients found"):
        mgrec.dask.persist_in_stages(LAZY)
    with pytest.raises(ValueError, match="No clients found"):
        mgrec.dask.solve(mgrec.linear_recurrence, 0.5, LAZY)


@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=1, dashboard_address=None) as client:
        yield client


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(client, name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()
