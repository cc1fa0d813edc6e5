"""Dask arrays: lazy in and lazy out, the same chunks, keys that every process finds again."""

import subprocess
import sys
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from cases import CASES, as_tuple, chunked, map_arrays
from chunkings import with_extended
from dask._task_spec import Alias
from graphs import check_graph
from internals import few_tasks_a_graph, phase_of
from oracles import linear, loop

import mgrec
import mgrec.dask
from mgrec.signal import lfilter

T = np.linspace(-1, 1, 50)
S = np.linspace(0.1, 0.9, 50)
W = loop(linear, (S, T), 2.0, float)


def lazy(array, *sizes):
    is_sizes_of_chunks = len(sizes) > np.ndim(array)
    return da.from_array(array, chunks=(sizes,) if is_sizes_of_chunks else sizes)


def unknown(array, *sizes):
    """The same values, in chunks whose sizes Dask does not know."""
    known = lazy(array, *sizes)
    return known[known > -np.inf]


def forbidden(*_, **__):
    raise AssertionError("something was computed")


def close(result, wanted=W):
    check_graph(result)
    computed = result.compute(scheduler="sync")
    assert computed.dtype == wanted.dtype == result.dtype
    np.testing.assert_allclose(computed, wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("memory", ["stream", "two-pass"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_is_computed_while_building(case, memory):
    operands, initial = case.draw(np.random.default_rng(0), (4, 60), 1, "float64")

    def raising(array):
        chunks = chunked(array, -1, 20)
        return chunks.map_blocks(forbidden, meta=chunks._meta) if np.ndim(array) else array

    arrays = [map_arrays(raising, operand) for operand in operands]
    with dask.config.set(scheduler=forbidden):
        results = case.solve(*arrays, initial=initial, memory=memory)
    for result in as_tuple(results):
        assert isinstance(result, da.Array)
        assert (result.shape, result.chunks) == ((4, 60), ((2, 2), (20, 20, 20)))
        assert type(result._meta) is np.ndarray
        assert (result._meta.ndim, result._meta.dtype, result.dtype) == (2, float, float)
        with pytest.raises(AssertionError, match="something was computed"):
            result.compute(scheduler="sync")


def test_chunks_are_those_of_t():
    s, t = lazy(S, 20, 30), lazy(T, 5, 44, 1)
    assert mgrec.linear_recurrence(s, t, 2.0).chunks == t.chunks
    close(mgrec.linear_recurrence(s, t, 2.0))
    assert mgrec.linear_recurrence(s, T, 2.0).chunks == s.chunks
    close(mgrec.linear_recurrence(s, T, 2.0))
    close(mgrec.linear_recurrence(S, t, 2.0))
    table = da.ones((6, 50), chunks=((1, 5), (50,)))
    assert mgrec.linear_recurrence(s, table).chunks == table.chunks
    assert mgrec.linear_recurrence(table, t).chunks == ((1, 5), (5, 44, 1))


def test_operands_of_no_step_are_cut_alike():
    s, t = lazy(np.ones(0), 0, 0, 0), lazy(np.ones(0), 0, 0)
    result = mgrec.linear_recurrence(s, t)
    assert result.chunks == t.chunks
    assert result.compute(scheduler="sync").shape == (0,)


@pytest.mark.parametrize(
    ("chunks", "axis"),
    [
        (((3,), (4, 4), (25,)), 0),
        (((0, 3, 0), (4, 4), (25,)), 1),
        pytest.param(((0, 2, 0, 1), (4, 4), (25,)), -1, marks=pytest.mark.extended),
    ],
)
def test_chunks_of_no_row(chunks, axis):
    x = np.ones((3, 8, 25))
    t = da.from_array(x, chunks=chunks)
    close(mgrec.linear_recurrence(0.5, t, axis=axis), mgrec.linear_recurrence(0.5, x, axis=axis))


@pytest.mark.parametrize("memory", ["stream", "two-pass"])
@pytest.mark.parametrize("reverse", [False, True])
def test_unknown_chunk_sizes(memory, reverse):
    wanted = mgrec.linear_recurrence(S, T, 2.0, reverse=reverse)
    sizes = (7, 20, 0, 23)
    for s in (unknown(S, *sizes), lazy(S, *sizes)):
        result = mgrec.linear_recurrence(s, unknown(T, *sizes), 2.0, reverse=reverse, memory=memory)
        assert np.isnan(result.shape[0])
        close(result, wanted)
    constant = mgrec.linear_recurrence(0.5, unknown(T, *sizes), reverse=reverse)
    close(constant, mgrec.linear_recurrence(0.5, T, reverse=reverse))


def test_a_mismatch_of_unknown_chunks_names_the_chunk():
    result = mgrec.linear_recurrence(unknown(S, 10, 20, 20), unknown(T, 10, 25, 15))
    with pytest.raises(ValueError, match=r"same sizes; chunk \(1,\) got \(20,\) and \(25,\)"):
        result.compute(scheduler="sync")


DERIVED = {
    "slice": lambda x: x[1:],
    "chunks dropped": lambda x: x[30:],
    "reshape": lambda x: x.reshape(2, 25).reshape(50),
    "rechunk": lambda x: x.rechunk(((20, 5, 25),)),
    "rechunk with empty chunks": lambda x: x.rechunk(((0, 25, 0, 25, 0),)),
    "transpose": lambda x: x.reshape(1, 50).T[:, 0],
    "stack": lambda x: da.stack([x, x])[1],
    "concatenate": lambda x: da.concatenate([x, x]),
    "filter": lambda x: x[x > 0],
    "persist": lambda x: x.persist(scheduler="sync")[2:],
    "overlap": lambda x: x.map_overlap(lambda b: b + 1, depth=1, boundary="none"),
}


@pytest.mark.parametrize("name", DERIVED)
def test_two_pass_reads_any_array_again(name):
    t = DERIVED[name](lazy(T, 25, 25))
    wanted = mgrec.linear_recurrence(0.5, t.compute(scheduler="sync"))
    result = mgrec.linear_recurrence(0.5, t, memory="two-pass")
    close(result, wanted)
    assert result.name == mgrec.linear_recurrence(0.5, t, memory="two-pass").name


def test_two_pass_reads_twice():
    reads = []

    def read(block):
        reads.append(1)
        return block

    t = lazy(T, 10, 10, 10, 20).map_blocks(read, meta=np.empty(0))
    for memory, most in (("stream", 4), ("two-pass", 8)):
        reads.clear()
        mgrec.linear_recurrence(0.5, t, memory=memory).compute(scheduler="sync")
        assert most - 1 <= len(reads) <= most


def test_initial_as_a_dask_array():
    table = np.arange(12.0).reshape(3, 4)
    start = np.array([1.0, 2.0, 3.0])
    wanted = mgrec.linear_recurrence(0.5, table, start)
    t = da.from_array(table, chunks=(2, 2))
    for initial in (start, lazy(start, 2, 1), lazy(start, 3), lazy(start, 1, 1, 1)):
        close(mgrec.linear_recurrence(0.5, t, initial), wanted)
    close(mgrec.linear_recurrence(0.5, table, lazy(start, 2, 1)), wanted)
    close(mgrec.linear_recurrence(S, lazy(T, 10, 40), da.asarray(2.0)))
    close(mgrec.linear_recurrence(S, T, lazy(T, 10, 40).sum()), mgrec.linear_recurrence(S, T, T.sum()))


SMALL = {
    "stream": lambda x: mgrec.linear_recurrence(x, x, 2.0),
    "two-pass": lambda x: mgrec.linear_recurrence(x, x, 2.0, memory="two-pass"),
    "from the end": lambda x: mgrec.linear_recurrence(0.5, x, reverse=True),
    "rational": lambda x: mgrec.rational_recurrence(x, 1.0, 1.0, 2.0, 1.0),
    "filter with states": lambda x: lfilter([1.0], [1.0, -0.5], x, zi=np.ones(1)),
}


@pytest.mark.parametrize("name", with_extended(SMALL, "two-pass", "rational"))
def test_very_many_small_chunks_take_two_tasks_each(name, monkeypatch):
    call = SMALL[name]
    x = da.linspace(0.1, 0.9, 600, chunks=2)
    with dask.config.set(scheduler="sync"):
        found = as_tuple(call(x))
        graph = dict(dask.optimize(found[0])[0].__dask_graph__())
        count = sum(not isinstance(task, Alias) for task in graph.values())
        is_read_again = call is SMALL["two-pass"]
        assert count <= 300 * (2 + is_read_again) + 11  # and groups, and states
        assert not any(str(layer).startswith("precompute") for layer in found[0].dask.layers)
        few_tasks_a_graph(monkeypatch, 301)
        wanted = as_tuple(call(x))
        assert any(str(layer).startswith("precompute") for layer in wanted[0].dask.layers)
        for result, other in zip(dask.compute(*found), dask.compute(*wanted), strict=True):
            np.testing.assert_array_equal(result, other)


@pytest.mark.parametrize(("rows", "count"), [(1, 2), (60, 40)])
def test_large_states_are_sent_to_few_chunks(rows, count):
    """A state of 16 means and their covariances has 2 KB a row; at most 64 KiB are sent."""
    one, start = np.ones((1, 1)), {"initial_state": np.zeros(16), "initial_state_cov": np.eye(16)}
    endog = da.zeros((rows, 40, 1), chunks=(rows, 1, 1))
    llf = mgrec.statespace.log_likelihood(endog, np.ones((1, 16)), one, np.eye(16), np.eye(16), **start)
    assert sum(phase_of(key) == "propagate" for key in dict(llf.dask)) == count


def test_operands_of_large_chunks_do_not_travel():
    for sizes, is_small in (((2048,), True), ((2049,), False)):
        x = da.ones(300 * sizes[0], chunks=sizes)
        result = mgrec.linear_recurrence(x, x)
        assert is_small != any(str(layer).startswith("precompute") for layer in result.dask.layers)


def test_the_same_bits_in_every_run():
    s, t = (lazy(np.tile(x, 40).reshape(4, 500), 1, 125) for x in (S, T))
    one = mgrec.linear_recurrence(s, t).compute(scheduler="sync")
    for _ in range(3):
        again = mgrec.linear_recurrence(s, t).compute(scheduler="threads", num_workers=4)
        np.testing.assert_array_equal(again, one)


def of(rate):
    return mgrec.Coefficient(lambda i, x: rate + np.sin(x + i), np.ones(50))


def calls():
    """Calls by name, each time of new arrays."""
    x, y, other = lazy(S, 25, 25), lazy(T, 25, 25), lazy(T, 20, 30)
    of_maps = partial(mgrec.scan, initial=2.0)
    linear = mgrec.linear_recurrence
    return {
        "plain": linear(x, y, 2.0),
        "other initial": linear(x, y, 3.0),
        "reverse": linear(x, y, 2.0, reverse=True),
        "two-pass": linear(x, y, 2.0, memory="two-pass"),
        "chunks": linear(x, other, 2.0),
        "scalar": linear(0.5, y, 2.0),
        "other scalar": linear(0.25, y, 2.0),
        "NumPy": linear(S, y, 2.0),
        "other NumPy": linear(S + 1, y, 2.0),
        "swapped": linear(y, x, 2.0),
        "coefficient": linear(of(0.5), y, 2.0),
        "other coefficient": linear(of(0.25), y, 2.0),
        "max_plus": of_maps(mgrec.maps.max_plus, x, y),
        "min_plus": of_maps(mgrec.maps.min_plus, x, y),
    }


def test_equal_calls_share_keys_and_others_do_not():
    one, two = calls(), calls()
    names = {name: call.name for name, call in one.items()}
    assert {name: call.name for name, call in two.items()} == names
    assert len(set(names.values())) == len(names)
    assert set(one["plain"].__dask_graph__()) == set(two["plain"].__dask_graph__())
    for phase in ("pack", "pack-again", "precompute", "propagate", "determine"):
        assert any(str(layer).startswith(phase) for layer in one["two-pass"].dask.layers)


def test_keys_are_those_of_another_process():
    code = "import test_dask; print(*(call.name for call in test_dask.calls().values()))"
    paths = [*sys.path, __file__.rsplit("/", 1)[0]]
    script = f"import sys; sys.path[:0] = {paths!r}; {code}"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.split() == [call.name for call in calls().values()]


def test_a_wrong_number_in_one_chunk_is_seen():
    with pytest.raises(AssertionError):
        close(mgrec.linear_recurrence(lazy(S, 25, 25), lazy(T + 1e-9, 25, 25), 2.0))


def test_one_step_may_stand_beside_an_empty_chunk():
    s = da.full((1, 1), 0.5, chunks=((1, 0), (0, 1)))
    t = da.ones((2, 6), chunks=(1, 3))
    close(mgrec.linear_recurrence(s, t), mgrec.linear_recurrence(0.5, np.ones((2, 6))))


LIARS = {
    "constant": lambda t: mgrec.linear_recurrence(0.5, t),
    "arrays": lambda t: mgrec.linear_recurrence(da.ones(30, chunks=10), t),
    "coefficient": lambda t: mgrec.linear_recurrence(mgrec.Coefficient(lambda i, x: x, t), 1.0),
    "scan": lambda t: mgrec.scan(mgrec.maps.max_plus, 0.5, t, initial=0.0),
    "lfilter": lambda t: lfilter([1.0], [1.0, -0.5], t),
}


@pytest.mark.parametrize(
    "dtype", ["f4", *(pytest.param(d, marks=pytest.mark.extended) for d in ("i8", "c16"))]
)
@pytest.mark.parametrize("name", with_extended(LIARS, "constant", "coefficient", "scan"))
def test_chunks_of_another_dtype_than_their_array_tells_are_refused(name, dtype):
    t = da.ones(30, chunks=10)
    liar = t.map_blocks(lambda block: block.astype(dtype), meta=np.empty(0))
    with pytest.raises(TypeError, match=r"that their array declares, float64; chunk \(\d+,\) is"):
        LIARS[name](liar).compute(scheduler="sync")
    # Who tells the truth is served; a coefficient does not make a recurrence complex.
    if (name, dtype) != ("coefficient", "c16"):
        assert LIARS[name](t.astype(dtype)).compute(scheduler="sync").shape == (30,)


def test_a_coefficient_without_axes():
    t = np.arange(1.0, 9.0)
    w = mgrec.linear_recurrence(da.from_array(np.array(0.5)), da.from_array(t, chunks=4))
    np.testing.assert_array_equal(w.compute(), mgrec.linear_recurrence(0.5, t))


def test_without_a_client_there_is_nowhere_to_go():
    with pytest.raises(ValueError, match="No clients found"):
        mgrec.dask.persist_in_stages(lazy(T, 10))
    with pytest.raises(ValueError, match="No clients found"):
        mgrec.dask.solve(mgrec.linear_recurrence, 0.5, lazy(T, 10))
    with pytest.raises(TypeError, match="needs a Dask array among its operands; got none"):
        mgrec.plan(mgrec.linear_recurrence, 0.5, T)
