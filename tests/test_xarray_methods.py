"""``.mgrec`` of DataArrays and Datasets: dimensions by name, in the order of the data."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from chunkings import with_extended

import mgrec
import mgrec.xarray
from mgrec.signal import ewm, lfilter

DAYS, LAT, LON = 30, 3, 4
B, A, SOS = [0.2, 0.1], [1.0, -0.7], [[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]]
BANDS = [[1.0] * DAYS, [4.0] * DAYS, [1.0] * DAYS]
BLOCKS = [(number * np.eye(LON)).tolist() for number in (1, 4, 1)]


@pytest.fixture
def weather():
    rng = np.random.default_rng(7)
    dims, shape = ("lat", "time", "lon"), (LAT, DAYS, LON)
    return xr.Dataset(
        {
            "rain": (dims, rng.gamma(0.3, 10.0, shape), {"units": "mm"}),
            "kept": (("lon", "lat"), rng.uniform(0.5, 0.9, (LON, LAT))),
            "start": (("lat", "lon"), rng.uniform(0, 5, (LAT, LON))),
        },
        coords={
            "time": np.datetime64("2026-01-01") + np.arange(DAYS),
            "lat": np.linspace(-60, 60, LAT),
            "lon": np.linspace(0, 300, LON),
            "rate": ("lon", rng.uniform(0.5, 0.9, LON)),
        },
        attrs={"source": "drawn"},
    )


def assert_like(found, data, values):
    """A result has the dimensions, coordinates, attributes and name of the data."""
    assert (found.dims, found.name, found.attrs) == (data.dims, data.name, data.attrs)
    xr.testing.assert_identical(found.coords.to_dataset(), data.coords.to_dataset())
    np.testing.assert_allclose(found.values, values, rtol=1e-12)


CHUNKS = {"time": 7, "lat": 2, "lon": 3}


@pytest.mark.parametrize("chunks", [None, pytest.param(CHUNKS, marks=pytest.mark.extended)])
def test_coefficients_of_places_by_name(weather, chunks):
    data = weather if chunks is None else weather.chunk(chunks)
    found = data.mgrec.linear_recurrence("kept", "rain", "start", dim="time")
    assert isinstance(found.data, np.ndarray if chunks is None else da.Array)
    assert found.chunks == data.rain.chunks
    expected = mgrec.linear_recurrence(
        weather.kept.values.T[:, None], weather.rain.values, weather.start.values, axis=1
    )
    assert_like(found, weather.rain, expected)


def test_coordinates_by_name_and_numbers(weather):
    expected = mgrec.linear_recurrence(weather.rate.values, weather.rain.values, 2.0, axis=1)
    assert_like(weather.rain.mgrec.linear_recurrence("rate", 2.0, dim="time"), weather.rain, expected)


@pytest.mark.extended
def test_a_dimension_that_the_data_lack_comes_last(weather):
    member = xr.DataArray([0.2, 0.4], dims="member", coords={"member": [1, 2]})
    found = weather.rain.mgrec.linear_recurrence(member, dim="time")
    assert found.dims == ("lat", "time", "lon", "member")
    expected = mgrec.linear_recurrence(member.values, weather.rain.values[..., None], axis=1)
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)


FILTERS = {
    "ewm": ((), {"dim": "time", "span": 5}),
    "lfilter": ((B, A), {"dim": "time"}),
    "sosfilt": ((SOS,), {"dim": "time"}),
    "filtfilt": ((B, A), {"dim": "time", "padtype": "even"}),
    "sosfiltfilt": ((SOS,), {"dim": "time"}),
    "spline_filter1d": ((), {"dim": "time", "mode": "reflect"}),
    "gaussian_filter1d": ((2.0,), {"dim": "time"}),
    "uniform_filter1d": ((3,), {"dim": "time"}),
}


def of_axis(name, x):
    """The filter of an array along axis 1."""
    given, options = FILTERS[name]
    options = {("axis" if key == "dim" else key): value for key, value in options.items()}
    options |= {"axis": 1}
    if hasattr(mgrec.ndimage, name):
        return getattr(mgrec.ndimage, name)(x, *given, **options)
    return getattr(mgrec.signal, name)(*given, x, **options)


RECURRENCES = {
    "rational_recurrence": (
        lambda x: x.mgrec.rational_recurrence("rate", 1.0, 2.0, 0.5, dim="time"),
        lambda x, rate: mgrec.rational_recurrence(rate, x, 1.0, 2.0, 0.5, axis=1),
    ),
    "scan": (
        lambda x: x.mgrec.scan(mgrec.maps.max_plus, "rate", initial=0.0, dim="time"),
        lambda x, rate: mgrec.scan(mgrec.maps.max_plus, x, rate, initial=0.0, axis=1),
    ),
    "weighted_scan": (
        lambda x: x.mgrec.weighted_scan("rate", dim="time", inclusive=True),
        lambda x, rate: mgrec.weighted_scan(x, rate, axis=1, inclusive=True),
    ),
    "solve_tridiagonal": (
        lambda x: x.mgrec.solve_tridiagonal("rate", 3.0, "rate", dim="time"),
        lambda x, rate: mgrec.solve_tridiagonal(rate[None], 3.0, rate[None], x, axis=1),
    ),
    "solve_banded": (
        lambda x: x.mgrec.solve_banded((1, 1), BANDS, dim="time"),
        lambda x, rate: mgrec.solve_banded((1, 1), BANDS, x, axis=1),
    ),
    "solve_block_tridiagonal": (
        lambda x: x.mgrec.solve_block_tridiagonal(*BLOCKS, dim="time"),
        lambda x, rate: mgrec.solve_block_tridiagonal(*BLOCKS, x),
    ),
    "summed_area_table": (
        lambda x: x.mgrec.summed_area_table(("lon", "time")),
        lambda x, rate: mgrec.summed_area_table(x, axes=(2, 1)),
    ),
    **{
        name: (
            lambda x, name=name: getattr(x.mgrec, name)(*FILTERS[name][0], **FILTERS[name][1]),
            lambda x, rate, name=name: of_axis(name, x),
        )
        for name in FILTERS
    },
}


@pytest.mark.extended
@pytest.mark.parametrize("name", RECURRENCES)
@pytest.mark.parametrize("chunks", [None, CHUNKS])
def test_every_method(weather, name, chunks):
    method, function = RECURRENCES[name]
    data = weather.rain if chunks is None else weather.rain.chunk(chunks)
    found = method(data)
    assert found.chunks == data.chunks
    assert_like(found, weather.rain, function(weather.rain.values, weather.rate.values))


CHUNKED = {
    "rational_recurrence": lambda x, k: x.mgrec.rational_recurrence(k, k, k, 0.5, dim="time"),
    "scan": lambda x, k: x.mgrec.scan(mgrec.maps.max_plus, k, initial=0.0, dim="time"),
    "weighted_scan": lambda x, k: x.mgrec.weighted_scan(k, operators=("+", "+"), dim="time"),
    "ewm": lambda x, k: x.mgrec.ewm(dim="time", other=k, span=3, statistic="cov"),
}


@pytest.mark.parametrize("name", CHUNKED)
def test_results_have_the_chunks_of_the_data(weather, name):
    data, other = weather.rain.chunk(CHUNKS), (weather.rain + 1).chunk(time=4, lat=1)
    found = CHUNKED[name](data, other)
    assert isinstance(found.data, da.Array)
    assert found.chunks == data.chunks


def test_times_and_marks_are_coordinates(weather):
    """By name, or as DataArrays."""
    wanted = ewm(weather.rain.values, axis=1, halflife="5D", times=weather.time.values)
    for data, times in (
        (weather.rain, "time"),
        (weather.rain, weather.time),
        (weather.rain, weather.time.values),
        (weather.rain.chunk(CHUNKS), weather.time),
    ):
        found = data.mgrec.ewm(dim="time", halflife="5D", times=times)
        assert_like(found, weather.rain, wanted)
    table = weather.mgrec.ewm(dim="time", halflife="5D", times="time")
    assert_like(table.rain, weather.rain, wanted)
    marks = weather.assign_coords(month=weather.time.dt.month)
    found = marks.rain.mgrec.linear_recurrence(1.0, dim="time", reset="month")
    wanted = mgrec.linear_recurrence(1.0, weather.rain.values, axis=1, reset=marks.month.values)
    np.testing.assert_allclose(found.values, wanted, rtol=1e-12)


@pytest.mark.extended
def test_states_of_a_filter(weather):
    y, zf = weather.rain.mgrec.lfilter(B, A, dim="time", zi=weather.start.expand_dims("order"))
    wanted, states = lfilter(B, A, weather.rain.values, 1, zi=weather.start.values[:, None])
    assert_like(y, weather.rain, wanted)
    assert zf.dims == ("lat", "order", "lon")
    np.testing.assert_allclose(zf.values, states, rtol=1e-12)


@pytest.mark.extended
def test_several_states(weather):
    states = weather.mgrec.scan(
        mgrec.maps.matrix2, "rain", 0.1, 0.1, 0.5, 0.0, 0.0, initial=("start", 1.0), dim="time"
    )
    expected = mgrec.scan(
        mgrec.maps.matrix2,
        weather.rain.values,
        0.1,
        0.1,
        0.5,
        0.0,
        0.0,
        initial=(weather.start.values, 1.0),
        axis=1,
    )
    for found, wanted in zip(states, expected, strict=True):
        assert_like(found, weather.rain, wanted)


DATASETS = {
    "rational_recurrence": ((1.0, "rain", "kept", 2.0, "start"), {}),
    "scan": ((mgrec.maps.max_plus, "rain", "kept"), {"initial": "start"}),
    "weighted_scan": (("rain", "kept"), {}),
    "solve_tridiagonal": (("kept", 3.0, "kept", "rain"), {}),
    "solve_banded": (((1, 1), BANDS, "rain"), {}),
    "solve_block_tridiagonal": ((*BLOCKS, "rain"), {}),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", DATASETS)
def test_variables_by_name(weather, name):
    given, options = DATASETS[name]
    found = getattr(weather.mgrec, name)(*given, dim="time", **options)
    others = [weather[x] if isinstance(x, str) else x for x in given if x != "rain"]
    options = {key: weather[value] for key, value in options.items()}
    xr.testing.assert_identical(found, getattr(weather.rain.mgrec, name)(*others, dim="time", **options))


OF_EVERY_VARIABLE = FILTERS | {"summed_area_table": ((("time", "lat"),), {})}


@pytest.mark.parametrize("method", with_extended(OF_EVERY_VARIABLE, *OF_EVERY_VARIABLE.keys() - {"ewm"}))
def test_a_filter_of_every_variable_that_has_the_dimension(weather, method):
    given, options = OF_EVERY_VARIABLE[method]
    found = getattr(weather.mgrec, method)(*given, **options)
    expected = getattr(weather.rain.mgrec, method)(*given, **options)
    xr.testing.assert_identical(found, weather.assign(rain=expected))


def test_filters_leave_out_variables_that_are_not_numbers(weather):
    names = np.array(["a"] * DAYS)
    table = weather[["rain", "kept"]].assign(
        name=("time", names), when=weather.time.variable, wet=weather.rain > 1, place=("lat", ["x"] * LAT)
    )
    found = table.mgrec.ewm(dim="time", span=3)
    assert set(found) == {"rain", "kept", "wet", "place"}
    assert found.rain.equals(weather.rain.mgrec.ewm(dim="time", span=3))
    assert found.place.equals(table.place)


SHORT = xr.DataArray([0.5, 0.6], dims="lon", coords={"lon": [0.0, 100.0]})
REFUSED = {
    "no dimension": (
        lambda w: w.rain.mgrec.linear_recurrence(0.5),
        ValueError,
        r"dim must be one of the dimensions \('lat', 'time', 'lon'\); got none",
    ),
    "an unknown one": (
        lambda w: w.rain.mgrec.ewm(dim="day", span=3),
        ValueError,
        r"\('lat', 'time'.*got 'day'",
    ),
    "the last one, of the numbers of a block": (
        lambda w: w.rain.mgrec.solve_block_tridiagonal(*BLOCKS, dim="lon"),
        ValueError,
        r"dim must be one of the dimensions \('lat', 'time'\); got 'lon'",
    ),
    "an unknown one of a Dataset": (
        lambda w: w.mgrec.ewm(dim="day", span=3),
        ValueError,
        r"dim must be one of .*; got 'day'",
    ),
    "one for two": (lambda w: w.rain.mgrec.summed_area_table("time"), ValueError, "dims must be two or more"),
    "axes for dimensions": (
        lambda w: w.rain.mgrec.summed_area_table(1),
        ValueError,
        "dims must be two or more .* got 1",
    ),
    "an unknown one of two": (
        lambda w: w.rain.mgrec.summed_area_table(("lat", "day")),
        ValueError,
        "each of dims must",
    ),
    "an array for a dimension": (
        lambda w: w.rain.mgrec.ewm(dim=SHORT, span=3),
        ValueError,
        "dim must be one of",
    ),
    "an unknown one of right-hand sides": (
        lambda w: w.rain.mgrec.solve_tridiagonal(1.0, 4.0, 1.0, dim="time", rhs_dim="day"),
        ValueError,
        "rhs_dim must be one of the dimensions",
    ),
    "a name in a tuple": (
        lambda w: w.rain.mgrec.linear_recurrence(("lat",), dim="time"),
        TypeError,
        "s must be a num",
    ),
    "no dimensions": (
        lambda w: w.mgrec.summed_area_table(),
        ValueError,
        r"dims must be two or more .*; got \(\)",
    ),
    "other labels": (lambda w: w.rain.mgrec.linear_recurrence(SHORT, dim="time"), ValueError, "exact"),
    "an array without dimensions": (
        lambda w: w.rain.mgrec.linear_recurrence(np.ones(LON), dim="time"),
        TypeError,
        r"s must be a number, a DataArray or a name.*got ndarray: pass xarray\.DataArray\(s",
    ),
    "a list": (lambda w: w.rain.mgrec.linear_recurrence([0.5], dim="time"), TypeError, "got list"),
    "an unknown name": (
        lambda w: w.rain.mgrec.linear_recurrence("kept", dim="time"),
        ValueError,
        r"s must be one of \['lat', 'lon', 'rate', 'time'\]; got 'kept'",
    ),
    "a state for every step": (
        lambda w: w.rain.mgrec.linear_recurrence(0.5, w.rain, dim="time"),
        ValueError,
        "initial must not have the dimension 'time'",
    ),
    "a number as the data": (
        lambda w: w.mgrec.linear_recurrence("kept", 1.0, dim="lat"),
        TypeError,
        "t must be the name of a variable or a DataArray; got 1.0",
    ),
    "out": (lambda w: w.rain.mgrec.linear_recurrence(0.5, dim="time", out=w.rain), TypeError, "out must"),
    "an unknown argument": (
        lambda w: w.rain.mgrec.ewm(dim="time", spam=3),
        TypeError,
        "unexpected .* 'spam'",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(weather, call, error, message):
    with pytest.raises(error, match=message):
        call(weather)
