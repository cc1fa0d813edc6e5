"""Plans of filters along an axis, whose chunks take samples of other chunks."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.ndimage
import scipy.signal
from chunkings import with_extended
from clusters import two_workers
from faults import die_in
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import mgrec
import mgrec.dask
from mgrec.distributed.programs import assignment, halos
from mgrec.ndimage import gaussian_filter, spline_filter
from mgrec.signal import decimate, filtfilt, sosfilt, sosfiltfilt

SOS = scipy.signal.butter(2, 0.5, output="sos")
B, A = scipy.signal.butter(2, 0.5)
CHUNKS = (100, 70, 1, 99, 130, 100, 100)
FILTERS = {
    "sosfiltfilt": (
        lambda x: sosfiltfilt(SOS, x, axis=0),
        lambda x: scipy.signal.sosfiltfilt(SOS, x, axis=0),
    ),
    "filtfilt": (
        lambda x: filtfilt(B, A, x, axis=0, padtype="even"),
        lambda x: scipy.signal.filtfilt(B, A, x, axis=0, padtype="even"),
    ),
    "decimate": (lambda x: decimate(x, 3, 2, axis=0), lambda x: scipy.signal.decimate(x, 3, 2, axis=0)),
    "decimate by a finite response": (
        lambda x: decimate(x, 4, ftype="fir", axis=0),
        lambda x: scipy.signal.decimate(x, 4, ftype="fir", axis=0),
    ),
    "sosfilt": (lambda x: sosfilt(SOS, x, axis=0), lambda x: scipy.signal.sosfilt(SOS, x, axis=0)),
    "spline_filter": (
        lambda x: spline_filter(x, output="f8"),
        lambda x: scipy.ndimage.spline_filter(x, output="f8"),
    ),
    "gaussian_filter": (
        lambda x: gaussian_filter(x, 3.0, output="f8"),
        # Truncated where the Gaussian is 1e-14 of its largest value.
        lambda x: scipy.ndimage.gaussian_filter(x, 3.0, output="f8", truncate=8.0),
    ),
}


def recording(seed=1, steps=600):
    return np.random.default_rng(seed).normal(100, 30, (steps, 3)).astype("i2")


def on_workers(client, x, lengths=CHUNKS, first=4):
    """Return the chunks of x, of which one worker stores the first ones and another the rest."""
    addresses, chunks = sorted(client.nthreads()), (lengths, x.shape[1:])
    lazy = da.from_array(x, chunks=chunks)
    parts = [lazy.blocks[a:b] for a, b in ((0, first), (first, len(lengths))) if a < b]
    pairs = zip(parts, addresses, strict=False)
    return client.persist(da.concatenate([client.persist(p, workers=[at]) for p, at in pairs]))


@pytest.mark.parametrize("name", with_extended(FILTERS, *set(FILTERS) - {"sosfiltfilt", "spline_filter"}))
def test_plans_have_the_bits_of_graphs(client, name):
    function, of_scipy = FILTERS[name]
    recordings = [recording(seed) for seed in range(3)]
    arrays = [on_workers(client, x) for x in recordings]
    with mgrec.plan(function, arrays[0]) as plan:
        solved = [plan(), *plan.map(arrays)]
    graphs = [function(x) for x in arrays]
    wanted = dask.compute(*graphs)
    for found, k in zip(dask.compute(*solved), (0, 0, 1, 2), strict=True):
        assert_array_equal(found, wanted[k])
    tolerance = 2e-4 if name == "gaussian_filter" else 1e-11
    for result, x in zip(wanted, recordings, strict=True):
        assert_allclose(result, of_scipy(x), rtol=tolerance, atol=tolerance * 100)
    assert {result.chunks for result in solved} == {graph.chunks for graph in graphs}


def test_queued_recordings_may_be_used_before_they_are_computed(client):
    x = on_workers(client, recording())
    with mgrec.plan(sosfiltfilt, SOS, x, axis=0, in_flight=3) as plan:
        results = [plan.submit() for _ in range(7)]
        more = plan.submit(SOS, x)
        wanted = sosfiltfilt(SOS, x, axis=0).compute()
    for result in (*results, more):
        assert_array_equal(result.compute(), wanted)
        assert_array_equal(result[::7].compute(), wanted[::7])


def test_queued_images_wait_for_no_axis(client):
    """The results of one axis are operands of the next one before they are computed."""
    images = [on_workers(client, recording(seed)) for seed in range(4)]
    with mgrec.plan(spline_filter, images[0]) as plan:
        plan()
        results = [plan.submit(image) for image in images for _ in range(2)]
    wanted = dask.compute(*map(spline_filter, images))
    for k, result in enumerate(dask.compute(*results)):
        assert_array_equal(result, wanted[k // 2])


@pytest.mark.extended
def test_a_worker_that_dies_in_a_solve():
    with two_workers() as client:
        # Not on certain workers: Dask computes chunks again on any.
        x = client.persist(da.from_array(recording(), chunks=(50, 3)))
        wanted = sosfiltfilt(SOS, x, axis=0).compute()
        with mgrec.plan(sosfiltfilt, SOS, x, axis=0) as plan:
            assert_array_equal(plan().compute(), wanted)
            client.run(die_in, "solve_filter", assignment, workers=[sorted(client.nthreads())[0]])
            for _ in range(2):
                with pytest.raises(mgrec.dask.WorkerLostError, match="Build a new plan"):
                    plan()
        assert_array_equal(mgrec.dask.solve(sosfiltfilt, SOS, x, axis=0).compute(), wanted)


def test_chunks_that_are_filtered_together(client, monkeypatch):
    """Workers with GPUs do so, each with its own chunks."""
    function, of_scipy = FILTERS["sosfiltfilt"]
    x = on_workers(client, recording())
    monkeypatch.setattr(halos, "joins_chunks", lambda axis_filter, x: True)
    monkeypatch.setattr(halos, "TOGETHER", 31_000)  # bytes of three chunks
    found = mgrec.dask.solve(function, x).compute()
    assert_allclose(found, of_scipy(recording()), rtol=1e-11, atol=1e-9)


@pytest.mark.extended
@pytest.mark.parametrize("name", FILTERS)
@given(data=st.data())
def test_any_chunks(client, name, data):
    function, of_scipy = FILTERS[name]
    steps = data.draw(st.integers(240, 400))
    # On average chunks are longer than half the response of the filters, up to 65 samples.
    cuts = data.draw(st.sets(st.integers(1, steps - 1), max_size=4))
    lengths = tuple(np.diff([0, *sorted(cuts), steps]).tolist())
    first = data.draw(st.integers(0, len(lengths)))
    x = recording(steps, steps)
    lazy = on_workers(client, x, lengths, first)
    result = mgrec.dask.solve(function, lazy)
    assert_array_equal(result.compute(), function(lazy).compute())
    tolerance = 2e-4 if name == "gaussian_filter" else 1e-10
    assert_allclose(result.compute(), of_scipy(x), rtol=tolerance, atol=tolerance * 100)


def test_calls_like_and_unlike_that_of_the_plan(client):
    x = on_workers(client, recording())
    with mgrec.plan(sosfiltfilt, SOS, x, axis=0) as plan:
        plan()
        twice = SOS * [[2, 2, 2, 1, 1, 1]]
        assert_array_equal(plan(twice, x).compute(), sosfiltfilt(twice, x, axis=0).compute())
        slow = scipy.signal.butter(2, 0.45, output="sos")
        with pytest.raises(ValueError, match="as many samples of neighbouring chunks"):
            plan(slow, x)
        with pytest.raises(ValueError, match="chunks of a plan's solve must be"):
            plan(SOS, x[:500])
        assert_array_equal(plan().compute(), sosfiltfilt(SOS, x, axis=0).compute())


def test_the_filter_of_a_plan_is_sent_once(client, monkeypatch):
    x, sent = on_workers(client, recording()), []
    with mgrec.plan(sosfiltfilt, SOS, x, axis=0) as plan:
        plan()
        send = plan._plans[0]._session.send
        note = lambda *arguments: (sent.append(arguments[1:]), send(*arguments))  # noqa: E731
        monkeypatch.setattr(plan._plans[0]._session, "send", note)
        plan()
        plan(SOS, x)
    messages = [contents.values() for op, contents in sent if op == "solve"]
    assert [content[-1] for contents in messages for content in contents] == [None] * 4


def test_floating_numbers_that_may_be_nan(client):
    x = on_workers(client, recording().astype("f8"))
    options = {"axis": 0, "assume_finite": True}
    with (
        mgrec.plan(sosfiltfilt, SOS, x, axis=0) as plan,
        pytest.raises(TypeError, match="or assume_finite=True"),
    ):
        plan()
    wanted = sosfiltfilt(SOS, x, **options).compute()
    assert_array_equal(mgrec.dask.solve(sosfiltfilt, SOS, x, **options).compute(), wanted)


@pytest.mark.parametrize(
    "dtype, steps, error, message",
    [
        ("f8", 30, TypeError, "the dtype that their array declares, int16"),
        ("i2", 29, ValueError, r"the shapes that their array declares, \(30, 3\)"),
    ],
)
def test_chunks_that_are_not_what_their_array_declares(client, dtype, steps, error, message):
    def wrong(block):
        return block[:steps].astype(dtype)

    x = da.ones((600, 3), dtype="i2", chunks=(30, 3)).map_blocks(wrong, dtype="i2", name=f"w{steps}")
    with mgrec.plan(sosfiltfilt, SOS, x, axis=0) as plan, pytest.raises(error, match=message):
        plan()
