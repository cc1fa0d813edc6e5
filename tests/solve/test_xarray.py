"""A Dataset over time by xarray.apply_ufunc, chunked in space, in time and in both."""

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import mgrec

DAYS, LAT, LON = 60, 4, 6


@pytest.fixture
def weather():
    rng = np.random.default_rng(7)
    dims, shape = ("time", "lat", "lon"), (DAYS, LAT, LON)
    variables = {
        "rain": (dims, rng.gamma(0.3, 10.0, shape)),
        "kept": (dims, rng.uniform(0.8, 0.95, shape)),
    }
    days = np.datetime64("2026-01-01") + np.arange(DAYS)
    lat, lon = np.linspace(-60, 60, LAT), np.linspace(0, 300, LON)
    return xr.Dataset(variables, {"time": days, "lat": lat, "lon": lon})


def wetness(kept, rain):
    """Return the antecedent precipitation index, by a factor for each day or one for all."""
    is_constant = "time" not in kept.dims
    return xr.apply_ufunc(
        lambda s, t: mgrec.linear_recurrence(s[..., None] if is_constant else s, t),
        kept,
        rain,
        input_core_dims=[[] if is_constant else ["time"], ["time"]],
        output_core_dims=[["time"]],
        dask="allowed",
    ).transpose("time", ...)


def by_loop(kept, rain):
    result = np.zeros(rain.shape)
    before = np.zeros(rain.shape[1:])
    for day in range(DAYS):
        before = result[day] = kept.values[day] * before + rain.values[day]
    return result


CHUNKS = {
    "in space": {"time": -1, "lat": 2, "lon": 3},
    "in time": {"time": 25, "lat": -1, "lon": -1},
    "in both": {"time": 7, "lat": 3, "lon": 2},
}


@pytest.mark.parametrize("chunks", [None, *CHUNKS.values()], ids=["in memory", *CHUNKS])
def test_a_dataset_over_time(weather, chunks):
    data = weather.chunk(chunks) if chunks else weather
    result = wetness(data.kept, data.rain)
    assert isinstance(result.data, da.Array if chunks else np.ndarray)
    assert (result.chunks, result.dims) == (data.rain.chunks, weather.rain.dims)
    xr.testing.assert_equal(result.coords.to_dataset(), weather.coords.to_dataset())
    np.testing.assert_allclose(result.values, by_loop(weather.kept, weather.rain), rtol=1e-13)
    changed = by_loop(weather.kept, weather.rain + (weather.time == weather.time[10]))
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(result.values, changed, rtol=1e-13)


def test_one_coefficient_a_place(weather):
    mean = weather.kept.mean("time")
    lazy = wetness(mean, weather.chunk(CHUNKS["in both"]).rain)
    constant = mean.broadcast_like(weather.rain).transpose("time", ...)
    np.testing.assert_allclose(lazy.values, by_loop(constant, weather.rain), rtol=1e-12)


def test_places_do_not_wait_for_each_other(weather):
    """Chunked in space alone, a chunk of the result needs one chunk of the operands."""
    data = weather.chunk(CHUNKS["in space"])
    lazy = wetness(data.kept, data.rain).data
    graph = dict(dask.optimize(lazy.blocks[0, 0, 0])[0].__dask_graph__())
    packs = {key[1:] for key in graph if str(key[0]).startswith("pack-")}
    assert len(packs) == 1
