"""What functions for clusters take and refuse."""

import dask.array as da
import numpy as np
import pytest
from clusters import two_workers

import mgrec
import mgrec.dask
from mgrec.signal import ewm, lfilter

LAZY, SQUARE = da.ones(6, chunks=2), da.ones((6, 6), chunks=3)
UNKNOWN = LAZY[LAZY > 0]
WRONG_TYPES = {
    "colocate nothing": (lambda: mgrec.dask.colocate(), "given arrays; got none"),
    "colocate NumPy": (
        lambda: mgrec.dask.colocate(LAZY, np.ones(6)),
        "array 1 must be a Dask array; got ndarray",
    ),
    "colocate with no client": (
        lambda: mgrec.dask.colocate(LAZY, client="tcp://127.0.0.1:1"),
        "client must be a distributed.Client; got str",
    ),
    "stages of NumPy": (
        lambda: mgrec.dask.persist_in_stages(np.ones(6)),
        "must be a Dask array; got ndarray",
    ),
    "progress of a list": (lambda: mgrec.dask.progress([1.0]), "got list"),
    "pins of an array": (lambda: mgrec.dask.pin_operands(LAZY), "client .* got Array"),
    "solve of another function": (
        lambda: mgrec.dask.solve(np.negative, LAZY),
        r"a function that solves recurrences over the chunks .*; negative solved none",
    ),
    "warm-up of another function": (
        lambda: mgrec.dask.warm_up(np.add, LAZY, 1.0),
        r"a function that solves recurrences along an axis, .*; got add",
    ),
    "warm-up of no client": (
        lambda: mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, LAZY, client=LAZY),
        "client must be a distributed.Client; got Array",
    ),
    "plan with a lazy state": (
        lambda: mgrec.plan(mgrec.linear_recurrence, 0.5, LAZY, initial=LAZY.sum()),
        "initial of a plan must be in host memory",
    ),
    "warm-up of a grid": (
        lambda: mgrec.dask.warm_up(mgrec.summed_area_table, SQUARE),
        "got summed_area_table",
    ),
    "queued solves of several recurrences": (
        lambda: mgrec.plan(lambda x: 2 * ewm(x, span=3.0), LAZY).submit(),
        "submit needs a function whose results are those of its recurrences",
    ),
    "plan with a lazy zi": (
        lambda: mgrec.plan(lfilter, [1.0], [1.0, -0.5], LAZY, zi=LAZY[:1]),
        "and so must zi; got a Dask array",
    ),
    "plan of half a solve": (
        lambda: mgrec.plan(mgrec.linear_recurrence, 0.5, LAZY, in_flight=1.5),
        "in_flight must be an integer; got 1.5",
    ),
}
WRONG_VALUES = {
    "colocate other shapes": (
        lambda: mgrec.dask.colocate(da.ones(3), da.ones(4)),
        r"same shape; got \[\(3,\), \(4,\)\]",
    ),
    "colocate unknown sizes": (lambda: mgrec.dask.colocate(UNKNOWN, LAZY), "compute_chunk_sizes"),
    "stages along no axis": (
        lambda: mgrec.dask.persist_in_stages(LAZY, axis=1),
        r"axis must be from -1 to 0 for shape \(6,\); got 1",
    ),
    "stages of nothing": (
        lambda: mgrec.dask.persist_in_stages(LAZY, chunks=0),
        "chunks must be at least 1; got 0",
    ),
    "progress of tasks": (lambda: mgrec.dask.progress(LAZY), "array must be persisted"),
    "progress of a persisted operand": (
        lambda: mgrec.dask.progress(mgrec.linear_recurrence(0.25, LAZY.persist())),
        "array must be persisted",
    ),
    "warm-up of unknown sizes": (
        lambda: mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, UNKNOWN),
        "compute_chunk_sizes",
    ),
    "plan without time": (
        lambda: mgrec.plan(mgrec.linear_recurrence, 0.5, LAZY, timeout=0),
        "timeout must be above 0",
    ),
    "map of no solves at once": (
        lambda: list(mgrec.plan(mgrec.linear_recurrence, 0.5, LAZY).map([], in_flight=0)),
        "in_flight must be at least 1, or None; got 0",
    ),
    "plan of unknown sizes": (
        lambda: mgrec.plan(mgrec.linear_recurrence, 0.5, UNKNOWN),
        "compute_chunk_sizes",
    ),
}
REFUSED = [
    *(pytest.param(TypeError, *case, id=name) for name, case in WRONG_TYPES.items()),
    *(pytest.param(ValueError, *case, id=name) for name, case in WRONG_VALUES.items()),
]


@pytest.fixture(scope="module")
def client():
    with two_workers(n_workers=1, processes=False) as client:
        yield client


@pytest.mark.parametrize("function", [mgrec.plan, mgrec.dask.solve, mgrec.dask.warm_up])
def test_a_recurrence_over_dask_arrays_is_wanted(client, function):
    with pytest.raises(TypeError, match="recurrence must be a function of mgrec; got 'linear'"):
        function("linear", 0.5, LAZY)
    with pytest.raises(TypeError, match="needs a Dask array among its operands; got none"):
        function(mgrec.linear_recurrence, 0.5, np.ones(6))


@pytest.mark.parametrize(("error", "call", "message"), REFUSED)
def test_what_is_refused(client, error, call, message):
    with pytest.raises(error, match=message):
        call()
