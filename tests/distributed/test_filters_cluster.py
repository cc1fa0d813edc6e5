"""Filters on a cluster of processes give SciPy's results, however the array is cut."""

import dask.array as da
import numpy as np
import pytest
from chunkings import chunkings
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import signal

from mgrec.signal import filtfilt, lfilter, sosfilt

SOS = signal.butter(8, 0.2, output="sos")
POLYNOMIALS = signal.butter(3, 0.3)
LENGTH = 600


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def draw(*shape):
    return np.random.default_rng(7).normal(size=shape)


def close(computed, wanted):
    np.testing.assert_allclose(computed, wanted, rtol=0, atol=1e-11)


@pytest.mark.extended
@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(along=chunkings(LENGTH, 10), across=chunkings(5, 10), axis=st.integers(0, 1))
def test_any_chunking_gives_scipys_result(client, along, across, axis):
    x = draw(LENGTH, 5) if axis == 0 else draw(5, LENGTH)
    chunked = da.from_array(x, chunks=(along, across) if axis == 0 else (across, along))
    states = np.ones((4, 2, 5) if axis == 0 else (4, 5, 2))
    (y, zf), (wanted, last) = (
        function(SOS, data, axis, states)
        for function, data in ((sosfilt, chunked), (signal.sosfilt, x))
    )
    zero = lfilter(*POLYNOMIALS, chunked, axis)
    assert zero.chunks == chunked.chunks
    for computed, expected in zip(
        client.gather(client.compute([y, zf, zero])),
        (wanted, last, signal.lfilter(*POLYNOMIALS, x, axis)),
        strict=True,
    ):
        close(computed, expected)


@pytest.mark.extended
def test_forward_and_backward(client):
    x = draw(LENGTH)
    y = filtfilt(*POLYNOMIALS, da.from_array(x, chunks=(100, 250, 50, 200)))
    close(client.compute(y).result(), signal.filtfilt(*POLYNOMIALS, x))


@pytest.mark.slow
@pytest.mark.extended
def test_this_finds_a_chunk_that_forgot_the_one_before(client):
    x = draw(LENGTH)
    apart = da.from_array(x, chunks=200).map_blocks(lambda part: lfilter(*POLYNOMIALS, part))
    with pytest.raises(AssertionError):
        close(client.compute(apart).result(), signal.lfilter(*POLYNOMIALS, x))
