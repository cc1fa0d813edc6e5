"""Runs of steps that forget their entry are determined before it is known."""

import logging

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import Judge, begin_chunks, begin_scans_on_gpu, divide_among_threads
from oracles import linear, loop

import mgrec
import mgrec.dask
from mgrec.signal import lfilter
from mgrec.solve import prepared

STEPS = 1 << 14


def on_gpu(array):
    import cupy

    return cupy.asarray(array)


# Where chunks are, and their steps, all chunks together.
each_place = pytest.mark.parametrize(
    ("place", "steps"),
    [(np.asarray, STEPS), pytest.param(on_gpu, 1 << 17, marks=pytest.mark.gpu)],
    ids=["numpy", "cupy"],
)


@pytest.fixture(autouse=True, scope="module")
def eager():
    """Cut rows for threads, and begin chunks, where it would not pay."""
    with pytest.MonkeyPatch.context() as patch:
        divide_among_threads(patch, STEPS // 2)
        begin_chunks(patch)
        yield


@pytest.fixture(autouse=True)
def two_threads(monkeypatch, request):
    """Each test makes the first call of its kind: prepared ones say nothing."""
    prepared._cached_call.cache_clear()
    monkeypatch.setenv("MGREC_NUM_THREADS", "2")
    if request.node.get_closest_marker("gpu"):
        begin_scans_on_gpu(monkeypatch)


@st.composite
def recurrences(draw):
    """Coefficients, terms and an entry: (s, t, initial)."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Each dtype is compiled for itself.
    dtypes = [np.float32, np.float64] if settings().max_examples > 25 else [np.float64]
    dtype = draw(st.sampled_from(dtypes))
    # 1.01 to the power of all steps is beyond float32.
    top = draw(st.sampled_from([0.5, 0.9, 0.99, 0.999, 1.0, 1.01 if dtype is np.float64 else 1.003]))
    steps = STEPS - draw(st.integers(0, 100))
    s = generator.uniform(draw(st.sampled_from([-1.0, 0.0, 0.9, 1.0])), 1.0, steps) * top
    s[generator.random(steps) < draw(st.sampled_from([0.0, 0.0, 0.001]))] = 0
    t = generator.normal(size=steps)
    t[generator.random(steps) < draw(st.sampled_from([0.0, 0.0, 0.99]))] = 0
    t[int(draw(st.sampled_from([1.0, 1.0, 0.3, 0.0])) * steps) :] = 0
    carry_in = generator.choice([-1, 1]) * 10.0 ** draw(st.integers(-8, 8))
    return s.astype(dtype), t.astype(dtype), dtype(carry_in)


def holds(w, s, t, initial):
    judge = Judge(w.dtype, float(initial))
    judge.add(*map(np.ascontiguousarray, (s, t, w)))
    return judge.holds


def in_chunks(chunks, *arrays, place=np.asarray):
    """Return lazy arrays in chunks along the first axis: their sizes, or how many."""
    if isinstance(chunks, int):
        chunks = (len(arrays[0]) // chunks,) * chunks
    return [da.from_array(array, chunks=(chunks,)).map_blocks(place) for array in arrays]


def to_host(array):
    return array.get() if hasattr(array, "get") else array


def solved(lazy, caplog):
    with caplog.at_level(logging.DEBUG, "mgrec"):
        return to_host(lazy.compute(scheduler="sync"))


def looped(s, t, initial):
    return loop(linear, (s, t), initial, t.dtype)


def speculation(caplog):
    """Return the chunks that were solved before their carry-ins were known."""
    message = "does not depend on its carry-in"
    return [record.args[0] for record in caplog.records if message in record.msg]


def again(caplog):
    """Steps that were determined again, of each solve that guessed its entries."""
    return [record.args[-1] for record in caplog.records if "apart" in record.msg]


@given(recurrences(), st.integers(2, 5), st.booleans())
def test_any_recurrence_stays_within_the_bound(recurrence, count, reverse):
    s, t, initial = recurrence
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MGREC_NUM_THREADS", str(count))
        w = mgrec.linear_recurrence(s, t, initial, reverse=reverse)
    turned = [array[::-1] if reverse else array for array in (w, s, t)]
    assert holds(*turned, initial)


@pytest.mark.parametrize(
    "dtype", with_extended([np.float32, np.float64, np.complex128], np.float32, np.complex128)
)
def test_threads_guess_their_entries(dtype, caplog):
    s, t = np.random.default_rng(0).uniform(0, 0.9, (2, STEPS)).astype(dtype)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.linear_recurrence(s, t, 3)
    assert 0 < sum(again(caplog)) < 200
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(w[1:], s[1:] * w[:-1] + t[1:], rtol=tolerance)


def test_prefix_sums_do_not_guess(caplog):
    t = np.arange(STEPS, dtype=np.float64)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        np.testing.assert_array_equal(mgrec.linear_recurrence(1.0, t), np.cumsum(t))
        mgrec.linear_recurrence(np.full(STEPS, 1.001), t)
    assert not caplog.records


def test_a_wrong_guess_is_made_good_and_said(caplog):
    """The coefficients fall off at the start of the second half alone."""
    s, t = np.ones(STEPS), np.ones(STEPS)
    s[STEPS // 2 :][: STEPS // 64] = 0.9
    t[STEPS // 2 :] = 1e-30
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.linear_recurrence(s, t, 1e20)
    assert holds(w, s, t, 1e20)
    assert again(caplog) == [STEPS // 2]
    assert "depend on their carry-in" in caplog.text


def test_a_prefix_longer_than_expected_is_determined_in_blocks(caplog):
    """128 coefficients shrink a difference of 1 below rounding in 63 steps, but not one of 1e20."""
    s, t = np.ones((2, STEPS))
    s[STEPS // 2 :][:128] = 0.5
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.linear_recurrence(s, t, 1e20)
    assert holds(w, s, t, 1e20)
    assert again(caplog) == [256]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("at", [5, STEPS // 2 + 5, STEPS - 5])
def test_special_values_stand_where_the_loop_has_them(value, at):
    s, t = np.random.default_rng(0).uniform(-0.9, 0.9, (2, STEPS))
    t[at] = value
    s[STEPS - 3] = 0
    found, wanted = mgrec.linear_recurrence(s, t, 1.0), looped(s, t, 1.0)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(found[at:], wanted[at:])


@pytest.mark.extended
def test_integers_forget_at_a_zero_alone(caplog):
    t, threes = np.random.default_rng(0).integers(-9, 9, STEPS), np.full(STEPS, 3)
    s = np.where(np.arange(STEPS) % 100 == 50, 0, 3)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        found = [mgrec.linear_recurrence(each, t, 7) for each in (s, threes)]
    assert len(again(caplog)) == 1
    for each, own in zip((s, threes), found, strict=True):
        np.testing.assert_array_equal(own, looped(each, t, 7))


def test_maps_whose_states_coincide_have_the_bits_of_one_thread(caplog, monkeypatch):
    """Lindley's waiting times: every idle server forgets the customers before."""
    s = np.random.default_rng(0).normal(-0.5, 1.0, STEPS)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.scan(mgrec.maps.max_plus, s, 0.0, initial=25.0)
    (steps,) = again(caplog)
    assert 0 < steps < STEPS // 4
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    np.testing.assert_array_equal(w, mgrec.scan(mgrec.maps.max_plus, s, 0.0, initial=25.0))


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.extended)])
@pytest.mark.extended
def test_columns_that_forget_have_the_bits_of_one_thread(reverse, caplog, monkeypatch):
    """Also where a column never forgets, and where one holds nan from the first steps on."""
    s, t = np.random.default_rng(0).uniform(0, 0.9, (2, STEPS, 40))
    s[:, 7], t[5 if not reverse else -5, 9] = 1, np.nan
    options = {"axis": 0, "reverse": reverse}
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.linear_recurrence(s, t, 1e8, **options)
    (steps,) = again(caplog)
    assert 0 < steps < STEPS // 2
    assert "2 columns depend on their carry-in" in caplog.text
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    np.testing.assert_array_equal(w, mgrec.linear_recurrence(s, t, 1e8, **options))


@pytest.mark.extended
def test_columns_that_do_not_forget_go_to_threads_as_columns(caplog, monkeypatch):
    t = np.random.default_rng(0).normal(size=(STEPS, 40))
    s = np.ones((STEPS, 40))
    s[:, 0] = 0.5
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.linear_recurrence(s, t, axis=0)
    assert again(caplog) == []
    assert "39 columns depend on their carry-in" in caplog.text
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    np.testing.assert_array_equal(w, mgrec.linear_recurrence(s, t, axis=0))


@st.composite
def cuts(draw, steps):
    """Chunks of a row, some of which are long enough for speculation."""
    ends = sorted(draw(st.lists(st.integers(0, steps), max_size=3)))
    return tuple(int(n) for n in np.diff([0, *ends, steps]))


@given(st.data(), recurrences(), st.booleans())
def test_chunks_of_any_recurrence_stay_within_the_bound(data, recurrence, reverse):
    s, t, initial = recurrence
    chunks = data.draw(cuts(len(s)))
    w = mgrec.linear_recurrence(*in_chunks(chunks, s, t), initial, reverse=reverse)
    found = w.compute(scheduler="sync")
    turned = [array[::-1] if reverse else array for array in (found, s, t)]
    assert holds(*turned, initial)


@each_place
@pytest.mark.parametrize("dtype", with_extended([np.float32, np.float64], np.float32))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("initial", with_extended([0.0, -1e30], 0.0))
def test_chunks_that_forget_are_begun(place, steps, dtype, reverse, initial, caplog):
    s, t = np.random.default_rng(0).uniform(-0.8, 0.8, (2, steps)).astype(dtype)
    lazy = in_chunks(2, s, t, place=place)
    w = solved(mgrec.linear_recurrence(*lazy, initial, reverse=reverse), caplog)
    assert set(speculation(caplog)) == {(0,), (1,)}
    turned = [array[::-1] if reverse else array for array in (w, s, t)]
    assert holds(*turned, initial)


@pytest.mark.parametrize("reverse", [False, True])
def test_chunks_too_short_to_tell_whether_they_forget(reverse):
    s, t = np.full(STEPS, 0.5), np.ones(STEPS)
    lazy = in_chunks((STEPS - 10, 10), s, t)
    w = mgrec.linear_recurrence(*lazy, reverse=reverse).compute(scheduler="sync")
    np.testing.assert_allclose(w, mgrec.linear_recurrence(s, t, reverse=reverse))


@each_place
@pytest.mark.parametrize("s", [1.0, [1.0], [0.9999], [1.001]])
def test_what_does_not_forget_is_not_begun(place, steps, s, caplog):
    t, full = np.ones(steps), np.broadcast_to(s, steps).copy()
    lazy = in_chunks(2, t, full, place=place)
    w = solved(mgrec.linear_recurrence(lazy[1] if np.ndim(s) else s, lazy[0]), caplog)
    assert speculation(caplog) == []
    assert holds(w, full, t, 0.0)


@pytest.mark.extended
@pytest.mark.parametrize("shape", [(3, STEPS), (STEPS, 3), (2, STEPS, 2)])
def test_chunks_of_many_rows_are_begun(shape, caplog):
    axis = shape.index(STEPS)
    generator = np.random.default_rng(0)
    s, t = generator.uniform(-0.5, 0.5, STEPS), generator.normal(size=shape)
    s = s.reshape([STEPS if k == axis else 1 for k in range(len(shape))])
    initial = generator.normal(size=shape[:axis] + shape[axis + 1 :])
    chunks = tuple(STEPS // 2 if k == axis else -1 for k in range(len(shape)))
    for reverse in (False, True):
        options = {"axis": axis, "reverse": reverse}
        lazy = [da.from_array(s, chunks=tuple(map(min, s.shape, (STEPS // 2,) * len(shape))))]
        lazy.append(da.from_array(t, chunks=chunks))
        with caplog.at_level(logging.DEBUG, "mgrec"):
            w = mgrec.linear_recurrence(*lazy, initial, **options).compute(scheduler="sync")
        assert len(speculation(caplog)) > 0
        wanted = mgrec.linear_recurrence(s, t, initial, **options)
        np.testing.assert_allclose(w, wanted, rtol=1e-12, atol=1e-15)
        caplog.clear()


@each_place
@pytest.mark.parametrize("low", [0.1, -0.8])
@pytest.mark.parametrize("zero", with_extended([False, True], False))
@pytest.mark.parametrize("initial", [np.inf, -np.inf, np.nan, 1.7e308])
def test_special_entries_of_chunks_that_forget(place, steps, low, zero, initial, caplog):
    """Also where one step overflows: the recurrence never returns to a finite number."""
    generator = np.random.default_rng(0)
    s, t = generator.uniform(low, 0.5, steps), generator.uniform(-0.8, 0.8, steps)
    s[3] = 1e5
    if low < 0:  # the product of the first chunk is negative
        s[4] *= -np.prod(np.sign(s[: steps // 2]))
    s[steps // 2 + 100 :: 1000] *= not zero
    wanted = looped(s, t, initial)
    assert not np.isfinite(wanted[-1])
    lazy = in_chunks(2, s, t, place=place)
    found = solved(mgrec.linear_recurrence(*lazy, initial), caplog)
    assert speculation(caplog)
    np.testing.assert_array_equal(found[3:], wanted[3:])


@each_place
def test_solves_and_graphs_of_chunks_that_forget_have_the_same_bits(place, steps, caplog):
    s, t = np.random.default_rng(0).uniform(-0.5, 0.5, (2, steps))
    s[: steps // 4] = 1.0
    lazy = in_chunks(4, s, t, place=place)
    wanted = solved(mgrec.linear_recurrence(*lazy, 5.0), caplog)
    results = [solved(mgrec.linear_recurrence(*lazy, 5.0, memory="two-pass"), caplog)]
    workers = 2 if place is np.asarray else 1
    with Client(processes=False, n_workers=workers, dashboard_address=":0") as client:
        held = client.persist(lazy)
        solves = [mgrec.linear_recurrence(*held, 5.0), mgrec.dask.solve(mgrec.linear_recurrence, *held, 5.0)]
        with mgrec.plan(mgrec.linear_recurrence, *held, initial=5.0) as solve:
            solves += [solve(), solve()]
            results += [to_host(each.compute()) for each in solves]
    for result in results:
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_constant_of_many_rows_on_a_gpu(axis, reverse, caplog):
    steps = 1 << 17
    shape, chunks = (steps, 3), (steps // 2, 3)
    shape, chunks = (shape[::-1], chunks[::-1]) if axis else (shape, chunks)
    t = np.random.default_rng(0).normal(size=shape)
    options = {"initial": np.array([1e8, -1.0, 0.0]), "axis": axis, "reverse": reverse}
    lazy = da.from_array(t, chunks=chunks).map_blocks(on_gpu)
    w = solved(mgrec.linear_recurrence(-0.5, lazy, **options), caplog)
    assert len(speculation(caplog)) == 2
    wanted = mgrec.linear_recurrence(-0.5, t, **options)
    np.testing.assert_allclose(w, wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("rows", [(), pytest.param((2, 3), marks=pytest.mark.extended)])
def test_chunks_of_filters_are_begun(rows, caplog):
    """Also before silence, where the response to the states is all that there is."""
    b, a = [0.1, 0.2], [1.0, -1.6, 0.8]
    x, zi = np.random.default_rng(0).normal(size=(STEPS, *rows)), np.ones((2, *rows))
    x[STEPS // 2 : -4000] = 0
    lazy = da.from_array(x, chunks=(STEPS // 2, *rows))
    with caplog.at_level(logging.DEBUG, "mgrec"):
        found = [each.compute(scheduler="sync") for each in lfilter(b, a, lazy, axis=0, zi=zi)]
    assert len(speculation(caplog)) >= 2
    for own, wanted in zip(found, lfilter(b, a, x, axis=0, zi=zi), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("state", [np.inf, -np.inf, np.nan])
def test_states_of_filters_that_are_not_finite(state):
    x, (b, a) = np.random.default_rng(0).normal(size=STEPS), ([0.1, 0.2], [1.0, -1.6, 0.8])
    zi = np.array([state, 1.0])
    found, carry_out = lfilter(b, a, da.from_array(x, chunks=STEPS // 2), zi=zi)
    wanted, wanted_carry_out = lfilter(b, a, x, zi=zi)
    np.testing.assert_array_equal(found.compute(scheduler="sync"), wanted)
    np.testing.assert_array_equal(carry_out.compute(scheduler="sync"), wanted_carry_out)
