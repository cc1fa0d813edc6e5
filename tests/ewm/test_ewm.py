"""The exponentially weighted mean is pandas'."""

from itertools import product

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from graphs import fetched

from mgrec.signal import ewm

pytestmark = pytest.mark.quick


def draw(*shape):
    return np.random.default_rng(7).normal(size=shape)


WEIGHTS = [{"alpha": 0.3}, {"span": 5}, {"halflife": 30.0}, {"com": 2}, {"alpha": 1.0}]


GAPS = [[], [5], [0, 1, 7, 8, 9, 50, 199], list(range(200))]
CASES = [("host", *case) for case in product(WEIGHTS, GAPS)]
CASES += [pytest.param("gpu", WEIGHTS[0], gaps, marks=pytest.mark.gpu) for gaps in GAPS[::2]]


@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize(("xp", "weights", "gaps"), CASES, indirect=["xp"])
def test_weighted_mean_is_pandas(adjust, weights, gaps, xp):
    x = draw(200, 3)
    x[gaps, 1] = np.nan
    wanted = pd.DataFrame(x).ewm(adjust=adjust, **weights).mean().to_numpy()
    data = xp.asarray(x)
    chunked = da.from_array(data, chunks=(33, 2), asarray=False)
    for signal, axis, want in ((data, 0, wanted), (data.T, 1, wanted.T), (chunked, 0, wanted)):
        y = ewm(signal, adjust=adjust, axis=axis, **weights)
        np.testing.assert_allclose(fetched(y, xp), want, rtol=0, atol=1e-13)


@pytest.mark.parametrize("adjust", [True, False])
def test_inf_counts_as_missing_as_in_pandas(adjust):
    x = np.array([1.0, np.inf, 2.0, -np.inf, np.nan, 3.0])
    wanted = pd.Series(x).ewm(alpha=0.3, adjust=adjust).mean().to_numpy()
    for data in (x, da.from_array(x, chunks=2)):
        np.testing.assert_allclose(np.asarray(ewm(data, alpha=0.3, adjust=adjust)), wanted)


EMPTY_CHUNKS = [
    ((0, 3, 0, 5), (0, 2, 0)),
    ((8,), (0, 1, 1, 0)),
    ((2, 6), (2,)),
    ((0, 1), (1,)),
    ((2, 6), (0, 1)),
]


@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize("chunks", EMPTY_CHUNKS)
def test_weighted_mean_of_empty_chunks(adjust, chunks):
    x = draw(*map(sum, chunks))
    x[:1, 0] = x[3:5, -1] = np.nan
    y = ewm(da.from_array(x, chunks=chunks), alpha=0.3, adjust=adjust, axis=0)
    assert y.chunks == chunks
    wanted = ewm(x, alpha=0.3, adjust=adjust, axis=0)
    np.testing.assert_allclose(y.compute(scheduler="sync"), wanted, rtol=1e-13)


@pytest.mark.parametrize("adjust", [True, False])
def test_weighted_mean_of_unknown_chunks(adjust):
    x = np.array([0.0, 0.0, 1.0, 2.0, np.inf, 0.0, 0.0, 3.0, 4.0])
    chunked = da.from_array(x, chunks=2)
    y = ewm(chunked[chunked != 0], alpha=0.3, adjust=adjust)
    wanted = ewm(x[x != 0], alpha=0.3, adjust=adjust)
    np.testing.assert_allclose(y.compute(scheduler="sync"), wanted, rtol=1e-13)


@pytest.mark.parametrize("chunks", [(0, 0, 0), (0,)])
def test_weighted_mean_of_nothing(chunks):
    y = ewm(da.zeros(0, chunks=(chunks,)), alpha=0.3)
    assert y.chunks == (chunks,)
    assert y.compute(scheduler="sync").shape == (0,)


@pytest.mark.extended
def test_weighted_mean_of_other_dtypes():
    assert ewm(np.arange(5), alpha=0.5).dtype == np.float64
    single = ewm(np.arange(5, dtype="f4"), alpha=0.5)
    assert single.dtype == np.float32
    assert ewm(np.arange(5, dtype=">f4"), alpha=0.5).dtype == np.float32
    np.testing.assert_allclose(single, ewm(np.arange(5), alpha=0.5), rtol=1e-6)
    assert ewm(np.empty((2, 0)), alpha=0.5, adjust=False).shape == (2, 0)
    with pytest.raises(TypeError, match="real"):
        ewm(np.ones(3, complex), alpha=0.5)


HALF, DAY, DAYS = {"alpha": 0.5}, np.timedelta64(1, "D"), np.arange(3).astype("M8[D]")
REFUSED = [
    ({}, ValueError, "none"),
    ({"alpha": 0.5, "com": 1}, ValueError, "alpha and com"),
    ({"alpha": 0}, ValueError, "alpha must be a finite number, 0 < alpha <= 1; got 0.0"),
    ({"span": 0.5}, ValueError, "span >= 1"),
    ({"span": np.inf}, ValueError, "span must be a finite number, span >= 1; got inf"),
    ({"halflife": 0}, ValueError, "halflife > 0"),
    ({"halflife": "4D"}, TypeError, "halflife must be a finite number, halflife > 0; got '4D'"),
    ({"com": -1}, ValueError, "com >= 0"),
    ({"com": [1, 2]}, TypeError, r"com must be a finite number, com >= 0; got \[1, 2\]"),
    (HALF | {"statistic": "median"}, ValueError, "must be one of mean, sum, var, std, cov, corr"),
    (HALF | {"statistic": "cov"}, ValueError, "other must be given for statistic 'cov'"),
    (HALF | {"other": np.ones(3)}, ValueError, "other must be None for statistic 'mean'"),
    (HALF | {"statistic": "corr", "other": np.ones(4)}, ValueError, "must have the shape of x"),
    (HALF | {"statistic": "sum", "adjust": False}, ValueError, "adjust must be True for a sum"),
    (HALF | {"min_periods": -1}, ValueError, "min_periods must be 0 or more; got -1"),
    (HALF | {"min_periods": 1.5}, TypeError, "min_periods must be an integer"),
    (HALF | {"reset": np.ones(4, bool)}, ValueError, r"reset must have shape \(3,\)"),
    ({"times": np.arange(3)}, ValueError, "halflife must be given with times"),
    ({"halflife": 1, "times": [0, np.nan, 2]}, ValueError, "missing or infinite; got nan"),
]
REFUSED += [
    ({"halflife": DAY, **options}, error, words)
    for options, error, words in [
        ({"times": DAYS[:2]}, ValueError, r"times must have shape \(3,\); got \(2,\)"),
        ({"times": DAYS, "halflife": 2.0}, TypeError, "halflife must be a timedelta where times"),
        ({"times": DAYS, "halflife": 0 * DAY}, ValueError, "halflife must be above 0"),
        ({"times": np.array(["NaT"] * 3, "M8[D]")}, ValueError, "missing or infinite; got NaT"),
        ({"times": DAYS, "halflife": "4 dogs"}, ValueError, "halflife must be a duration; got '4 "),
        ({"times": DAYS, "halflife": "NaT"}, TypeError, "halflife must be a timedelta where times"),
        ({"times": DAYS, "alpha": 0.5, "adjust": False}, ValueError, "adjust must be True where"),
        ({"times": np.array(["a", "b", "c"])}, TypeError, "times must be datetime64, or numbers"),
    ]
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_what_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        ewm(np.ones(3), **options)


def test_times_may_be_a_coordinate():
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-05"], "M8[ns]")
    time = pytest.importorskip("xarray").DataArray(days, dims="time", coords={"time": days})
    x, options = np.array([1.0, 2.0, 4.0]), {"halflife": "1D"}
    np.testing.assert_array_equal(ewm(x, times=time, **options), ewm(x, times=days, **options))


@pytest.mark.parametrize("dtype", ["i1", "u8", "f2", "f4"])
def test_differences_of_times_are_neither_rounded_nor_wrapped(dtype):
    times = np.array([-100, 100, 90], "i1") if dtype == "i1" else np.array([0.1, 60000, 0.3], dtype)
    wanted = ewm(np.arange(3.0), halflife=1e5, times=times.astype(np.float64))
    np.testing.assert_array_equal(ewm(np.arange(3.0), halflife=1e5, times=times), wanted)


def test_times_of_a_dask_array():
    x, times = draw(20), np.cumsum(np.random.default_rng(1).integers(0, 3, 20))
    result = ewm(da.from_array(x, chunks=7), halflife=3, times=da.from_array(times, chunks=7))
    np.testing.assert_allclose(result, ewm(x, halflife=3, times=times), rtol=1e-12)


@pytest.mark.extended
def test_a_missing_time_of_a_dask_array_is_found_in_its_chunk():
    x, times = (da.from_array(array, chunks=2) for array in (np.ones(3), np.array([0, 1, np.nan])))
    lazy = ewm(x, halflife=1.0, times=times)
    with pytest.raises(ValueError, match="times must not be missing or infinite; got nan"):
        lazy.compute(scheduler="sync")


def by_definition(x, alpha, times):
    """Biased variances with weights (1 − α)**Δt, straight from the definition."""
    found = []
    for i in range(x.size):
        weights = (1 - alpha) ** (times[i] - times[: i + 1]) * np.isfinite(x[: i + 1])
        values = np.where(np.isfinite(x[: i + 1]), x[: i + 1], 0)
        if not weights.any():
            found.append(np.nan)
            continue
        mean = np.average(values, weights=weights)
        found.append(np.average((values - mean) ** 2, weights=weights))
    return np.array(found)


def test_variances_after_an_outlier():
    """Its weight is 1e-60 when the chunk ends that starts with it."""
    x = 1.0 + 1e-6 * draw(200)
    x[100] = 1e9
    wanted = np.asarray(ewm(x, alpha=0.999, statistic="var"))
    found = ewm(da.from_array(x, chunks=20), alpha=0.999, statistic="var").compute()
    np.testing.assert_allclose(found[110:], wanted[110:], rtol=1e-7)


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore:reset has the label:UserWarning")
def test_variances_by_time_and_by_group():
    x = draw(90)
    x[[3, 4, 30]] = np.nan
    times = np.cumsum(np.random.default_rng(1).uniform(0, 2, 90))
    groups = np.repeat([1, 2, 1], 30)
    wanted = np.concatenate([by_definition(x[a : a + 30], 0.5, times[a : a + 30] / 3) for a in (0, 30, 60)])
    options = {"halflife": 3, "statistic": "var", "bias": True}
    for data in (x, da.from_array(x, chunks=17)):
        result = ewm(data, times=times, reset=groups, **options)
        np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    ("statistic", "adjust"), [("mean", True), ("mean", False), ("sum", True), ("var", True)]
)
def test_statistics_start_again_at_marks(statistic, adjust):
    x, marks = draw(40), np.zeros(40, bool)
    x[[3, 9, 10, 25]], marks[[9, 10, 24]] = np.nan, True
    options = {"alpha": 0.3, "statistic": statistic, "adjust": adjust, "min_periods": 2}
    parts = np.split(x, np.flatnonzero(marks))
    wanted = np.concatenate([ewm(part, **options) for part in parts])
    for data in (x, da.from_array(x, chunks=7)):
        np.testing.assert_allclose(ewm(data, reset=marks, **options), wanted, rtol=1e-12)


def in_wide_precision(x, alpha, adjust):
    """pandas' loop in extended precision."""
    alpha, mean, weight = np.longdouble(alpha), np.longdouble(np.nan), np.longdouble(0)
    means = []
    for value in x.astype(np.longdouble):
        weight *= 1 - alpha
        if np.isfinite(value):
            new = alpha if weight and not adjust else 1
            mean = value if np.isnan(mean) else mean + (value - mean) * (new / (weight + new))
            weight = weight + new if adjust else np.longdouble(1)
        means.append(mean)
    return np.array(means)


def assert_as_accurate_as_told(computed, x, alpha, adjust):
    unit = 2.0**-53
    sizes = np.maximum.accumulate(np.where(np.isfinite(x), np.abs(x), 0).astype(float))
    bound = 4 * (np.minimum(np.arange(x.size), 1 / alpha) + 1) * unit * sizes
    if computed.dtype == np.float32:
        bound += 2.0**-23 * sizes
    differences = np.abs(computed - in_wide_precision(x, alpha, adjust))
    assert np.isfinite(differences).sum() == np.logical_or.accumulate(np.isfinite(x)).sum()
    assert not (differences > bound).any()


ALPHAS = [1e-9, 3e-7, 1e-5, 7e-4, 0.02, 0.3, 0.99, 1.0]


@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize(
    "dtype", ["f8", *(pytest.param(each, marks=pytest.mark.extended) for each in ("f2", "f4", "i2", "i8"))]
)
def test_errors_are_those_of_float64(dtype, adjust):
    for seed, alpha in enumerate(ALPHAS):
        rng = np.random.default_rng(seed)
        x = (20 * rng.normal(size=3000) + 50 * (seed % 3)).astype(dtype)
        assert_as_accurate_as_told(ewm(x, alpha=alpha, adjust=adjust), x, alpha, adjust)
        if x.dtype.kind == "f":
            x[rng.random(x.size) < 0.3] = np.nan
        for data in (x, da.from_array(x, chunks=700)):
            y = np.asarray(ewm(data, alpha=alpha, adjust=adjust))
            assert_as_accurate_as_told(y, x, alpha, adjust)


def test_a_mean_that_is_too_coarse_is_noticed():
    x = np.ones(3000)
    with pytest.raises(AssertionError):
        assert_as_accurate_as_told(np.full(3000, 1 - 1e-11), x, 0.5, True)


@pytest.mark.parametrize(
    "xp",
    [pytest.param("host", marks=pytest.mark.extended), pytest.param("gpu", marks=pytest.mark.gpu)],
    indirect=True,
)
@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize("size", [1.0, 3e38, 1e-38])
def test_a_long_memory_in_float32(size, adjust, xp):
    """Coefficients of float32 took the mean of ones to 0.989, and overflow is decided by them."""
    x = np.full(1_000_000, size, np.float32)
    for data in (x, np.r_[np.float32(np.nan), x]):
        y = fetched(ewm(xp.asarray(data), alpha=1e-6, adjust=adjust), xp)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y[-1], size, rtol=3e-7)


def test_weights_too_small_to_fall():
    x = draw(100)
    for alpha in (1e-17, 1e-300):
        np.testing.assert_allclose(ewm(x, alpha=alpha)[-1], x.mean(), rtol=1e-12)
        np.testing.assert_allclose(ewm(x, alpha=alpha, adjust=False)[-1], x[0], rtol=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 1 - 2.0**-40, 0.9])
@pytest.mark.parametrize(
    ("statistic", "adjust"),
    [("mean", True), ("mean", False), ("var", True), pytest.param("var", False, marks=pytest.mark.extended)],
)
def test_weights_that_vanish_before_a_chunk_ends(statistic, adjust, alpha):
    """Observations keep the ratio of their weights where missing values decay all to 0."""
    x = np.r_[1.0, 2.0, np.full(400, np.nan), np.nan, 5.0]
    options = {"alpha": alpha, "adjust": adjust, "statistic": statistic}
    wanted = ewm(x, **options)
    for chunks in [(402, 2), (2, 400, 2), (1, 401, 2), (402, 1, 1)]:
        result = ewm(da.from_array(x, chunks=(chunks,)), **options)
        np.testing.assert_allclose(result.compute(scheduler="sync"), wanted, rtol=1e-12)
