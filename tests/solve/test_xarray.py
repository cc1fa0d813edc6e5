"""A Dataset over time, chunked in space, in time and in both."""

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import mgrec
from mgrec.signal import lfilter

DAYS, LAT, LON = 60, 4, 6


@pytest.fixture
def weather():
    rng = np.random.default_rng(7)
    dims, shape = ("time", "lat", "lon"), (DAYS, LAT, LON)
    return xr.Dataset(
        {
            "rain": (dims, rng.gamma(0.3, 10.0, shape)),
            "kept": (dims, rng.uniform(0.8, 0.95, shape)),
        },
        coords={
            "time": np.datetime64("2026-01-01") + np.arange(DAYS),
            "lat": np.linspace(-60, 60, LAT),
            "lon": np.linspace(0, 300, LON),
        },
    )


def wetness(weather):
    """The antecedent precipitation index: what is kept of yesterday, and today's rain."""
    return xr.apply_ufunc(
        mgrec.linear_recurrence,
        weather.kept,
        weather.rain,
        input_core_dims=[["time"], ["time"]],
        output_core_dims=[["time"]],
        dask="allowed",
    ).transpose("time", ...)


def by_loop(weather):
    kept, rain = weather.kept.values, weather.rain.values
    result = np.zeros_like(rain)
    before = np.zeros(rain.shape[1:])
    for day in range(DAYS):
        before = result[day] = kept[day] * before + rain[day]
    return result


CHUNKS = {
    "in space": {"time": -1, "lat": 2, "lon": 3},
    "in time": {"time": 25, "lat": -1, "lon": -1},
    "in both": {"time": 7, "lat": 3, "lon": 2},
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_a_dataset_over_time(weather, chunks):
    lazy = wetness(weather.chunk(chunks))
    assert isinstance(lazy.data, da.Array)
    assert lazy.chunks == weather.chunk(chunks).rain.chunks
    assert lazy.dims == weather.rain.dims
    xr.testing.assert_equal(lazy.coords.to_dataset(), weather.coords.to_dataset())
    np.testing.assert_allclose(lazy.values, by_loop(weather), rtol=1e-13)


def test_without_chunks_it_is_numpy(weather):
    result = wetness(weather)
    assert isinstance(result.data, np.ndarray)
    np.testing.assert_allclose(result.values, by_loop(weather), rtol=1e-13)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_a_filter_of_every_variable(weather, chunks):
    smooth = xr.apply_ufunc(
        lambda x: lfilter([0.1], [1.0, -0.9], x, axis=-1),
        weather.chunk(chunks),
        input_core_dims=[["time"]],
        output_core_dims=[["time"]],
        dask="allowed",
    )
    for name in weather:
        expected = lfilter([0.1], [1.0, -0.9], weather[name].values, axis=0)
        found = smooth[name].transpose("time", ...).values
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_one_coefficient_a_place(weather):
    """`kept` that differs from place to place, but not in time, broadcasts."""
    mean = weather.kept.mean("time")
    chunked = weather.chunk(CHUNKS["in both"])
    lazy = xr.apply_ufunc(
        lambda s, t: mgrec.linear_recurrence(s[..., None], t),
        mean,
        chunked.rain,
        input_core_dims=[[], ["time"]],
        output_core_dims=[["time"]],
        dask="allowed",
    ).transpose("time", ...)
    constant = weather.assign(kept=mean.broadcast_like(weather.rain).transpose("time", ...))
    np.testing.assert_allclose(lazy.values, by_loop(constant), rtol=1e-12)


def test_places_do_not_wait_for_each_other(weather):
    """Chunked in space alone, a chunk of the result needs one chunk of the operands."""
    lazy = wetness(weather.chunk(CHUNKS["in space"])).data
    graph = dict(dask.optimize(lazy.blocks[0, 0, 0])[0].__dask_graph__())
    packs = {key[1:] for key in graph if str(key[0]).startswith("pack-")}
    assert len(packs) == 1


def test_a_forgotten_day_is_seen(weather):
    weather.rain[10] += 1
    wet = wetness(weather)
    weather.rain[10] -= 1
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(wet.values, by_loop(weather), rtol=1e-13)
