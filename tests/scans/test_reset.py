"""States that are reset at marked steps: each segment is solved as by a separate call."""

import importlib

import dask
import dask.array as da
import numpy as np
import oracles
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mgrec
from mgrec.signal import ewm

STEPS = {
    mgrec.maps.affine: (oracles.linear, 2, 1),
    mgrec.maps.max_plus: (oracles.max_plus, 2, 1),
    mgrec.maps.matrix2: (oracles.matrix2, 6, 2),
}


def by_segments(step, operands, initial, marks, reverse):
    """The loop, in which `initial` is the state before every marked step."""
    states, rows = initial, []
    order = range(len(marks))
    for i in reversed(order) if reverse else order:
        states = initial if marks[i] else states
        with np.errstate(all="ignore"):
            states = step(states, *(x[i] for x in operands))
        rows.append(states if isinstance(states, tuple) else (states,))
    return np.array(rows[::-1] if reverse else rows).reshape(len(marks), len(rows[0]) if rows else 1)


def chunked(x, chunks):
    return da.from_array(np.asarray(x), chunks=(chunks,)) if np.ndim(x) else x


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.extended)])
def test_segments_are_loops_of_their_own(reverse):
    rng = np.random.default_rng(5)
    s, t = rng.normal(size=(2, 300))
    t[[40, 150]] = np.nan, np.inf
    for labels in (np.arange(300) // 20, np.arange(300) // 140):
        marks = np.diff(labels, prepend=labels[0]) != 0
        marks = np.append(marks[1:], False) if reverse else marks
        wanted = by_segments(oracles.linear, (s, t), 0.5, marks, reverse)[:, 0]
        for convert in (np.asarray, lambda x: da.from_array(x, chunks=70)):
            for reset in (marks, labels):
                result = mgrec.linear_recurrence(
                    *map(convert, (s, t)), 0.5, reverse=reverse, reset=convert(reset)
                )
                np.testing.assert_allclose(result, wanted, rtol=1e-11)


@pytest.mark.extended
@settings(max_examples=25, deadline=None)
@given(data=st.data(), length=st.integers(0, 60), reverse=st.booleans())
def test_segments_of_any_map_are_loops_of_their_own(data, length, reverse):
    transfer_map = data.draw(st.sampled_from(sorted(STEPS, key=lambda m: m.name)))
    step, count, states = STEPS[transfer_map]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    operands = [rng.normal(size=length) for _ in range(count)]
    # Composed maps of other kinds may have nan where the loop has none.
    for x in operands if transfer_map == mgrec.maps.affine else ():
        x[rng.random(length) < 0.05] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 0, 1e300]))
    marks = rng.random(length) < data.draw(st.sampled_from([0, 0.1, 0.5, 1]))
    initial = tuple(rng.normal(size=states)) if states > 1 else rng.normal()
    wanted = by_segments(step, operands, initial, marks, reverse)
    cut = data.draw(st.lists(st.integers(0, 20), max_size=4))
    chunks = (*cut, length - sum(cut)) if sum(cut) <= length else (length,)
    for convert in (np.asarray, lambda x: chunked(x, chunks)):
        options = {"initial": initial, "reverse": reverse, "reset": convert(marks)}
        result = mgrec.scan(transfer_map, *map(convert, operands), **options)
        result = np.stack(result if states > 1 else (result,), -1)
        np.testing.assert_allclose(result, wanted.reshape(length, states), rtol=1e-9, atol=1e-12)


@pytest.mark.extended
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", ["along", "rows", "full"])
def test_marks_broadcast_to_the_rows(axis, reverse, form):
    rng, shape = np.random.default_rng(axis), (4, 30, 5)
    s, t = rng.normal(size=(2, *shape))
    initial = rng.normal(size=np.delete(shape, axis))
    own = {"along": (shape[axis],), "full": shape, "rows": (*shape[:2], 1)}[form]
    marks = rng.random(own) < 0.2
    along = marks.reshape([-1 if k == axis else 1 for k in range(3)]) if form == "along" else marks
    moved = [np.moveaxis(np.broadcast_to(x, shape), axis, 0) for x in (s, t, along)]
    wanted = np.empty(moved[0].shape)
    for row in np.ndindex(initial.shape):
        x, y, m = (part[(slice(None), *row)] for part in moved)
        states = by_segments(oracles.linear, (x, y), initial[row], m, reverse)
        wanted[(slice(None), *row)] = states[:, 0]
    for convert in (np.asarray, lambda x: da.from_array(x, chunks=(2, 7, 3))):
        result = mgrec.linear_recurrence(
            convert(s), convert(t), initial, axis=axis, reverse=reverse, reset=marks
        )
        np.testing.assert_allclose(result, np.moveaxis(wanted, 0, axis), rtol=1e-11, atol=1e-12)


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore:reset has the label:UserWarning")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "U2", "M8[D]"])
def test_labels_start_anew_where_they_change(reverse, dtype):
    labels = np.array([7, 7, 7, 2, 2, 7, 7, 7, 1]).astype("i8" if dtype != "U2" else dtype)
    labels = labels.astype(dtype)
    wanted = np.array([1, 2, 3, 1, 2, 1, 2, 3, 1])
    wanted = np.array([3, 2, 1, 2, 1, 3, 2, 1, 1]) if reverse else wanted
    x = np.ones(9, np.int8)
    for chunks in (9, 3, (1, 4, 0, 4)):
        given_x, given = (da.from_array(each, chunks=(chunks,)) for each in (x, labels))
        for operand, reset in ((x, labels), (given_x, given), (given_x, labels)):
            result = mgrec.linear_recurrence(1, operand, reverse=reverse, reset=reset)
            assert result.dtype == np.int8
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_label_that_comes_again_is_warned_of(reverse):
    x, said = np.ones(7), "the label of step 0 again at step 4, after other labels"
    numbers = np.array([1, 1, 2, 2, 1, 1, 2], np.int8)
    for labels in (list("aabbaab"), numbers, pd.Series([3, 3, 5, 5, 3, 3, 5])):
        with pytest.warns(UserWarning, match=said) as warned:
            mgrec.linear_recurrence(1, x, reverse=reverse, reset=labels)
        assert [each.filename for each in warned] == [__file__]
    with pytest.warns(UserWarning, match=said):
        ewm(x, alpha=0.5, reset=list("aabbaab"))
    # Nothing is computed, nor warned of, for the labels of a Dask array; a mask says what it is.
    for reset in (da.from_array(numbers, chunks=3), numbers == 1, [5, 5, 3, 3, 3, 1, 1]):
        mgrec.linear_recurrence(1, x, reverse=reverse, reset=reset)
    mgrec.linear_recurrence(1, x[:0], reverse=reverse, reset=np.zeros(0, int))


def test_threads_solve_segments_as_one_does(eager_threads, monkeypatch):
    rng = np.random.default_rng(3)
    s, t = rng.uniform(-1, 1, (2, 70_000))
    t[rng.integers(0, t.size, 9)] = np.inf
    for share in (0.0001, 0.05):
        marks = rng.random(t.size) < share
        results = []
        for threads in ("1", "3", "9"):
            monkeypatch.setenv("MGREC_NUM_THREADS", threads)
            results.append(mgrec.linear_recurrence(s, t, 0.5, reset=marks))
        np.testing.assert_allclose(results[1], results[0], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(results[2], results[0], rtol=1e-12, atol=1e-15)


@pytest.mark.extended
def test_segments_of_coefficients_rational_maps_and_a_map_of_ones_own():
    s, marks = mgrec.Coefficient(lambda i: 1.0 * i), [False, False, True, False]
    for t in (np.ones(4), da.ones(4, chunks=3)):
        np.testing.assert_array_equal(mgrec.linear_recurrence(s, t, reset=marks), [1, 2, 1, 4])
    a = np.array([1.0, 1.0, 1.0, 2.0])
    result = mgrec.rational_recurrence(a, 1.0, 1.0, 0.0, initial=1.0, reset=marks)
    np.testing.assert_allclose(result, [2, 1.5, 2, 2.5])
    running_best = mgrec.TransferMap(
        lift=lambda x: (x,),
        compose=lambda earlier, later: (np.maximum(earlier[0], later[0]),),
        apply=lambda largest, state: np.maximum(largest[0], state),
        identity=(-np.inf,),
    )
    x = np.array([1.0, 5.0, 2.0, 3.0])
    np.testing.assert_array_equal(mgrec.scan(running_best, x, initial=0.0, reset=marks), [1, 5, 2, 3])


@pytest.mark.parametrize(
    ("reset", "error", "words"),
    [
        (np.ones(3, bool), ValueError, r"reset must have shape \(4,\), the steps along axis 0"),
        (np.ones((4, 1), bool), ValueError, "or one that broadcasts to"),
        (True, ValueError, "reset must have shape"),
        (np.ones(4), TypeError, "reset must be a mask of bool, or labels that are integers"),
        (np.array(["a", None, 1, 2], object), TypeError, "got object"),
        (np.ma.masked_array(np.ones(4, bool)), TypeError, "masked"),
    ],
)
def test_what_reset_refuses(reset, error, words):
    with pytest.raises(error, match=words):
        mgrec.linear_recurrence(1.0, np.ones(4), reset=reset)


@pytest.mark.extended
def test_labels_in_chunks_of_unknown_sizes_are_refused():
    x = da.ones(6, chunks=2)
    x = x[x > 0]
    with pytest.raises(ValueError, match="must be a mask where sizes of chunks are unknown"):
        mgrec.linear_recurrence(1.0, x, reset=x.astype(int))
    result = mgrec.linear_recurrence(1.0, x, reset=x > 0)
    np.testing.assert_array_equal(result, np.ones(6))


LENGTHS = [[3, 0, 2, 1], [0, 0], [], [5]]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("reverse", [False, True])
def test_starts_of_sequences(lengths, reverse):
    wanted = [k == (n - 1 if reverse else 0) for n in lengths for k in range(n)]
    for marks in (
        mgrec.starts(lengths, reverse=reverse),
        mgrec.starts(offsets=np.r_[0, np.cumsum(lengths, dtype=int)], reverse=reverse),
    ):
        assert marks.dtype == bool
        np.testing.assert_array_equal(marks, wanted)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({}, TypeError, "one of lengths and offsets must be given"),
        ({"lengths": [1, -1]}, ValueError, "lengths must be 0 or more; got -1"),
        ({"lengths": [1.5]}, TypeError, "lengths must be integers; got float64"),
        ({"lengths": [[1]]}, ValueError, "lengths must be 1-d; got 2 axes"),
        ({"offsets": [0, 3, 2]}, ValueError, "offsets must not fall; got -1"),
        ({"offsets": [1, 3]}, ValueError, "offsets must begin with 0"),
        ({"lengths": da.ones(3)}, TypeError, "lengths must be in memory"),
    ],
)
def test_what_starts_refuses(given, error, words):
    with pytest.raises(error, match=words):
        mgrec.starts(**given)


@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_of_sequences(reverse):
    t, lengths = np.arange(1.0, 8.0), [2, 0, 4, 1]
    reset = mgrec.starts(lengths, reverse=reverse)
    wanted = mgrec.linear_recurrence(0.5, t, 3.0, reverse=reverse, reset=reset)
    grads = mgrec.adjoint.linear_recurrence(t, wanted, 0.5, t, 3.0, reverse=reverse, reset=reset)
    for values in (t, da.from_array(t, chunks=3)):
        for given_lengths in (lengths, np.array(lengths, "u1")):
            options = {"reverse": reverse, "lengths": given_lengths}
            found = mgrec.linear_recurrence(0.5, values, 3.0, **options)
            np.testing.assert_allclose(found, wanted, rtol=1e-15)
            adjoint = mgrec.adjoint.linear_recurrence(t, wanted, 0.5, values, 3.0, **options)
            for grad, expected in zip(adjoint, grads, strict=True):
                np.testing.assert_allclose(grad, expected, rtol=1e-15)


def test_lengths_of_pandas_and_xarray():
    xr = pytest.importorskip("xarray")
    importlib.import_module("mgrec.xarray")
    table = pd.DataFrame({"station": list("aab"), "rain": [1.0, 2.0, 4.0]})
    sizes = table.groupby("station").size()
    found = mgrec.linear_recurrence(1.0, table.rain, lengths=sizes)
    np.testing.assert_array_equal(found, [1.0, 3.0, 4.0])
    rain = xr.DataArray(table.rain.to_numpy(), dims="day")
    for lengths in ([2, 1], xr.DataArray(sizes.to_numpy(), dims="station")):
        found = rain.mgrec.linear_recurrence(1.0, dim="day", lengths=lengths)
        np.testing.assert_array_equal(found, [1.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lengths": [2, 1]}, ValueError, r"reset must have shape \(4,\), .* the sum of lengths"),
        ({"lengths": [1]}, ValueError, r"the sum of lengths.*got \(1,\)"),
        ({"lengths": [5, -1]}, ValueError, "lengths must be 0 or more; got -1"),
        ({"lengths": [2.0, 2.0]}, TypeError, "lengths must be integers; got float64"),
        ({"lengths": [4], "reset": [1, 1, 1, 1]}, TypeError, "one of reset and lengths"),
    ],
)
def test_what_lengths_refuse(options, error, words):
    with pytest.raises(error, match=words):
        mgrec.linear_recurrence(1.0, np.ones(4), **options)


def solve_on_gpu(s, t, initial, marks, chunks, **options):
    """Yield the results of CuPy arrays and of Dask chunks of them."""
    import cupy

    given = [cupy.asarray(x) for x in (s, t, initial, marks)]
    yield mgrec.linear_recurrence(*given[:3], reset=given[3], **options).get()
    lazy = [da.from_array(x, chunks=chunks).map_blocks(cupy.asarray) for x in (s, t, marks)]
    result = mgrec.linear_recurrence(*lazy[:2], initial, reset=lazy[2], **options)
    yield result.compute().get()


@pytest.mark.gpu
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i4", "u1"])
@pytest.mark.parametrize(("shape", "axis"), [((50_001,), 0), ((300, 77), 1), ((500, 40), 0)])
def test_segments_on_a_gpu_are_those_of_numpy(shape, axis, dtype, reverse):
    rng = np.random.default_rng(len(shape))
    s, t = (rng.integers(0, 4, shape).astype(dtype) for _ in range(2))
    if np.dtype(dtype).kind in "fc":
        s *= np.dtype(dtype).type(0.3)
        t[..., 7] = np.nan
    initial = s.take(0, axis)
    marks = rng.random(shape) < 0.05
    options = {"axis": axis, "reverse": reverse}
    wanted = mgrec.linear_recurrence(s, t, initial, reset=marks, **options)
    rtol = 1e-4 if dtype == "f4" else 1e-11
    for result in solve_on_gpu(s, t, initial, marks, 37 if len(shape) > 1 else 9000, **options):
        np.testing.assert_allclose(result, wanted, rtol=rtol, atol=rtol)


@pytest.mark.gpu
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "axis"), [((50_001,), 0), ((30, 2077), 1), ((2000, 40), 0)])
def test_states_of_inf_and_0_on_a_gpu_are_those_of_numpy(shape, axis, dtype, reverse):
    """Where products of coefficients underflow, in the first half, or overflow."""
    rng = np.random.default_rng(len(shape))
    s = rng.uniform(-1, 1, shape)
    grows = np.arange(shape[axis]) >= shape[axis] // 2
    grows = grows if axis == len(shape) - 1 else grows[:, None]
    s = np.where(grows, np.exp2(rng.integers(0, 9, shape)), s).astype(dtype)
    p = [0.999, 0.0005, 0.0005]
    t = rng.choice(np.array([0, np.inf, -np.inf], dtype), size=shape, p=p)
    marks, initial = rng.random(shape) < 0.002, np.zeros((), dtype)
    options = {"axis": axis, "reverse": reverse}
    wanted = mgrec.linear_recurrence(s, t, reset=marks, **options)
    assert {0, np.inf, -np.inf} <= set(wanted.ravel().tolist())
    for result in solve_on_gpu(s, t, initial, marks, 997, **options):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_on_a_gpu_are_those_of_numpy(reverse):
    import cupy

    t, lengths = np.arange(1.0, 8.0), [2, 0, 4, 1]
    wanted = mgrec.linear_recurrence(0.5, t, 3.0, reverse=reverse, lengths=lengths)
    lazy = da.from_array(t, chunks=3).map_blocks(cupy.asarray)
    for given_lengths in (lengths, cupy.asarray(lengths)):
        for values in (cupy.asarray(t), lazy):
            options = {"reverse": reverse, "lengths": given_lengths}
            found = mgrec.linear_recurrence(0.5, values, 3.0, **options)
            np.testing.assert_allclose(dask.compute(found)[0].get(), wanted, rtol=1e-15)
