"""Exponentially weighted statistics under every option: pandas', however they are computed."""

import gc
import weakref
from fractions import Fraction
from itertools import product

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from chunkings import with_extended
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import Backend

from mgrec.ndimage import gaussian_filter1d
from mgrec.signal import ewm

RATES = [{"alpha": 0.3}, {"com": 1}, {"span": 9}, {"halflife": 2.5}, {"alpha": 1.0}, {"alpha": 1e-3}]
DAY = np.timedelta64(1, "D")


@st.composite
def options(draw):
    chosen = {
        "statistic": draw(st.sampled_from(["mean", "sum", "var", "std", "cov", "corr"])),
        "ignore_na": draw(st.booleans()),
        "min_periods": draw(st.sampled_from([0, 1, 2, 5])),
        "adjust": draw(st.booleans()),
        "bias": draw(st.booleans()),
        **draw(st.sampled_from(RATES)),
    }
    chosen["adjust"] |= chosen["statistic"] == "sum"
    if chosen["statistic"] == "mean" and draw(st.booleans()):
        for name in {"com", "span", "alpha"} if not chosen["adjust"] else {"halflife"}:
            chosen.pop(name, None)
        chosen["halflife"] = draw(st.sampled_from([DAY, np.timedelta64(36, "h"), "2 days"]))
        chosen["times"] = True
    return chosen


@st.composite
def series(draw, values=None):
    """Two series with gaps of all lengths, constants and infinities among them."""
    length = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    x, y = rng.normal(size=(2, length)) * draw(st.sampled_from([1.0, 1e-3, 1e6]))
    if draw(st.booleans()):
        x[length // 3 :] = x[0]
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]))
    for each in (x, y):
        each[rng.random(length) < share] = draw(st.sampled_from([np.nan, np.inf]))
    days = np.cumsum(rng.integers(0, 4, length)).astype("M8[D]").astype("M8[s]")
    return x, y, days


def by_pandas(x, y, times, chosen):
    own = dict(chosen)
    statistic, bias = own.pop("statistic"), own.pop("bias")
    if own.pop("times", None) is not None:
        own["times"] = pd.DatetimeIndex(times)
    weighted = pd.Series(x).ewm(**own)
    further = {"bias": bias} if statistic in ("var", "std", "cov") else {}
    given = (pd.Series(y),) if statistic in ("cov", "corr") else ()
    return getattr(weighted, statistic)(*given, **further).to_numpy()


def assert_close(result, wanted, x, statistic):
    """Within rounding; a variance cancels, and a quotient of vanishing variances is anything."""
    size = np.max(np.abs(x[np.isfinite(x)]), initial=0.0)
    power = {"var": 2, "cov": 2, "corr": 0}.get(statistic, 1)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-13 * size**power + 1e-300)


def arguments(y, times, chosen):
    own = dict(chosen)
    if own["statistic"] in ("cov", "corr"):
        own["other"] = y
    if "times" in own:
        own["times"] = times
    return own


@pytest.mark.extended
@settings(max_examples=150, deadline=None)
@given(chosen=options(), values=series(), data=st.data())
def test_every_option_is_pandas(chosen, values, data):
    x, y, times = values
    wanted, own = by_pandas(x, y, times, chosen), arguments(y, times, chosen)
    assert_close(ewm(x, **own), wanted, x, chosen["statistic"])
    cut = data.draw(st.integers(0, x.size))
    chunks = ((cut, x.size - cut),) if data.draw(st.booleans()) else 3
    for name in ("other", "times"):
        if name in own and data.draw(st.booleans()):
            own[name] = da.from_array(own[name], chunks=chunks)
    result = ewm(da.from_array(x, chunks=chunks), **own).compute(scheduler="sync")
    assert_close(result, wanted, x, chosen["statistic"])


@pytest.mark.extended
@settings(max_examples=60, deadline=None)
@given(chosen=options(), values=series())
def test_linear_recurrences_one_after_the_other_are_pandas(chosen, values):
    """What a GPU does, here on NumPy and Dask arrays."""
    x, y, times = values
    wanted, own = by_pandas(x, y, times, chosen), arguments(y, times, chosen)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(Backend, "has_kernels", lambda backend, family: False)
        for data in (x, da.from_array(x, chunks=7)):
            result = np.asarray(ewm(data, **own))
            if own["statistic"] == "corr":
                # Of variances that are rounding errors: 0 over 0 in pandas.
                is_sure = np.isfinite(wanted) & (np.abs(wanted) < 1)
                result, want = result[is_sure], wanted[is_sure]
                np.testing.assert_allclose(result, want, rtol=0, atol=1e-3)
            else:
                assert_close(result, wanted, x, own["statistic"])


@pytest.mark.parametrize("statistic", ["sum", "var", "corr"])
def test_each_statistic_is_pandas(statistic):
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(2, 200))
    x[rng.random(200) < 0.2] = np.nan
    chosen = {"statistic": statistic, "adjust": True, "bias": False, "span": 9, "min_periods": 3}
    other = {"other": y} if statistic == "corr" else {}
    wanted = by_pandas(x, y, None, chosen)
    assert_close(ewm(x, **chosen, **other), wanted, x, statistic)


@pytest.mark.parametrize("statistic", ["cov", "corr"])
def test_results_have_the_chunks_of_x(statistic):
    x, y = np.random.default_rng(8).normal(size=(2, 20))
    lazy, other = da.from_array(x, chunks=7), da.from_array(y, chunks=9)
    result = ewm(lazy, alpha=0.3, statistic=statistic, other=other)
    assert result.chunks == ((7, 7, 6),)


def test_a_statistic_without_its_factor_is_noticed():
    x = np.random.default_rng(9).normal(size=50)
    chosen = {"statistic": "var", "adjust": True, "bias": False, "span": 9}
    with pytest.raises(AssertionError):
        assert_close(ewm(x, **{**chosen, "bias": True}), by_pandas(x, x, None, chosen), x, "var")


GPU = pytest.param("gpu", marks=pytest.mark.gpu)


@pytest.fixture(params=["numpy", "dask", "as a GPU", GPU])
def move(request, monkeypatch):
    """Move an array to the library of this test; "as a GPU": let NumPy arrays take its way."""
    if request.param == "gpu":
        return pytest.importorskip("cupy").asarray
    if request.param == "as a GPU":
        monkeypatch.setattr(Backend, "has_kernels", lambda backend, family: False)
    is_lazy = request.param == "dask"
    return lambda x: da.from_array(x, chunks=min(5, len(x) - 1)) if is_lazy else np.array(x)


HAS_KERNELS = Backend.has_kernels
EVERY_WEIGHTING = [
    pytest.param(*case, marks=pytest.mark.gpu if case[0] == "gpu" else pytest.mark.extended)
    for case in product(["as a GPU", "gpu"], ["mean", "sum", "var", "std", "cov"], [True, False])
]


def to_numpy(array):
    return array.get() if hasattr(array, "get") else np.asarray(array)


@pytest.mark.parametrize("move", ["as a GPU", GPU], indirect=True)
@pytest.mark.parametrize(("statistic", "adjust"), [("mean", True), ("mean", False), ("corr", True)])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_values_without_gaps_on_a_gpu_are_pandas(statistic, adjust, move):
    x, y = np.random.default_rng(8).normal(size=(2, 200))
    chosen = {"statistic": statistic, "adjust": adjust, "bias": False, "span": 9}
    other = {"other": move(y)} if statistic == "corr" else {}
    result = to_numpy(ewm(move(x), **chosen, **other))
    wanted = by_pandas(x, y, None, chosen)
    np.testing.assert_allclose(result[1:], wanted[1:], rtol=1e-9)


@pytest.mark.parametrize(("move", "statistic", "adjust"), EVERY_WEIGHTING, indirect=["move"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_statistics_on_a_gpu_are_those_of_numpy(statistic, adjust, move, monkeypatch):
    rng = np.random.default_rng(10)
    x, y = rng.normal(size=(2, 400, 7))
    x[rng.random(x.shape) < 0.2] = np.nan
    days = np.cumsum(rng.integers(0, 3, 400)).astype("M8[D]")
    marks = rng.random(400) < 0.02
    chosen = {"statistic": statistic, "adjust": adjust or statistic == "sum", "axis": 0}
    further = [
        ({"alpha": 0.1}, {}),
        ({"com": 1, "ignore_na": True, "min_periods": 3}, {}),
        ({"times": days, "halflife": DAY}, {}),
        ({"span": 9}, {"reset": marks}),
    ]
    other = {"other": y} if statistic == "cov" else {}
    for options, arrays in further:
        arrays = {**arrays, **other}
        with monkeypatch.context() as patch:
            patch.setattr(Backend, "has_kernels", HAS_KERNELS)
            wanted = ewm(x, **chosen, **options, **arrays)
        moved = {name: move(array) for name, array in arrays.items()}
        result = ewm(move(x), **chosen, **options, **moved)
        assert type(result) is type(move(x))
        np.testing.assert_allclose(to_numpy(result), wanted, rtol=1e-8, atol=1e-7)


# The first of these times its reciprocal is not 1.
SHARES = [1 / 3.0934119885611606, 0.9, 1e-3]
LESS_OFTEN = [pytest.param(name, marks=pytest.mark.extended) for name in ("std", "cov")]


@pytest.mark.parametrize("adjust", with_extended([True, False], False))
@pytest.mark.parametrize("statistic", ["var", *LESS_OFTEN])
def test_variance_of_one_value(statistic, adjust, move):
    """Exactly 0, biased, and nan otherwise, also after gaps: pandas divides rounding errors."""
    x = np.full((12, 2), np.nan)
    x[0], x[4, 1], x[8, 1] = 3.0, 1e6, 1e-200
    reset = move(np.arange(12) % 4 == 0)
    other = {"other": move(x)} if statistic == "cov" else {}
    for share, bias in product(SHARES, (True, False)):
        wanted = np.full((12, 2), 0.0 if bias else np.nan)
        wanted[4:, 0] = np.nan
        options = {"alpha": share, "adjust": adjust, "statistic": statistic, "bias": bias}
        result = ewm(move(x), axis=0, reset=reset, **options, **other)
        np.testing.assert_array_equal(to_numpy(result), wanted)


@pytest.mark.parametrize("adjust", with_extended([True, False], False))
def test_variance_of_two_values(adjust, move):
    """Unbiased (x − y)²/2, whatever little the first one still weighs; pandas has nan there."""
    for gap, share in product((1, 40), SHARES):
        x = np.full(gap + 1, np.nan)
        x[[0, gap]] = 1000, 1000.125
        fallen = (1 - Fraction(share)) ** gap
        kept = fallen / (fallen + (1 if adjust else Fraction(share)))
        for bias, wanted in ((True, float(kept * (1 - kept)) / 64), (False, 1 / 128)):
            options = {"alpha": share, "adjust": adjust, "statistic": "var", "bias": bias}
            result = to_numpy(ewm(move(x), **options))[-1]
            np.testing.assert_allclose(result, wanted, rtol=1e-11)


@pytest.mark.parametrize(
    "call", [lambda x: ewm(x, span=3), lambda x: gaussian_filter1d(x, 2)], ids=["ewm", "gauss"]
)
def test_calls_leave_no_references_to_a_series(call):
    x = pd.Series(np.arange(5.0))
    gc.collect()
    gc.disable()
    try:
        call(x)
        released = weakref.ref(x)
        del x
        assert released() is None
    finally:
        gc.enable()
