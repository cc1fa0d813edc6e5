"""Filters of chunks that depend on their neighbours only, and decimation: as of the whole array."""

import sys
import weakref
from itertools import product

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from chunkings import with_extended
from graphs import fetched
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

import mgrec.xarray  # noqa: F401
from mgrec.distributed.graph import along_axis
from mgrec.signal import decimate, filtfilt, lfilter, sosfilt, sosfiltfilt

SOS = signal.butter(3, [0.1, 0.4], "bandpass", output="sos")
B, A = signal.butter(2, 0.4)
FILTERS = {
    "sosfiltfilt": lambda x, axis: sosfiltfilt(SOS, x, axis),
    "sosfiltfilt even": lambda x, axis: sosfiltfilt(SOS, x, axis, "even", 7),
    "filtfilt": lambda x, axis: filtfilt(B, A, x, axis),
    "filtfilt constant": lambda x, axis: filtfilt(B, A, x, axis, "constant", 90),
    "filtfilt alone": lambda x, axis: filtfilt(B, A, x, axis, None),
    "sosfilt": lambda x, axis: sosfilt(SOS, x, axis),
    "lfilter": lambda x, axis: lfilter(B, A, x, axis),
    "moving average": lambda x, axis: lfilter([0.25] * 4, [1.0], x, axis),
    "decimate": lambda x, axis: decimate(x, 3, 4, axis=axis),
    "decimate forward": lambda x, axis: decimate(x, 3, 2, axis=axis, zero_phase=False),
    "decimate fir": lambda x, axis: decimate(x, 4, ftype="fir", axis=axis),
    "decimate fir forward": lambda x, axis: decimate(x, 5, 8, "fir", axis, False),
}


def recording(*shape, dtype="i2"):
    values = np.random.default_rng(sum(shape)).normal(1000, 300, shape)
    return values.astype(dtype)


def close(result, wanted, xp=np, tolerance=1e-12):
    atol = tolerance * max(1, abs(wanted).max(initial=0))
    np.testing.assert_allclose(fetched(result, xp), wanted, rtol=0, atol=atol)


@st.composite
def chunked_recordings(draw):
    steps = draw(st.integers(100, 900))
    axis = draw(st.integers(0, 1))
    shape = (steps, 3) if axis == 0 else (3, steps)
    count = draw(st.integers(0, 6))
    cuts = draw(st.sets(st.integers(1, steps - 1), min_size=count, max_size=count))
    if draw(st.booleans()):  # Chunks of one sample, too.
        cuts |= {cut + 1 for cut in cuts if cut + 1 < steps}
    lengths = tuple(np.diff([0, *sorted(cuts), steps]).tolist())
    rows = draw(st.sampled_from([(3,), (1, 2)]))
    return recording(*shape), (lengths, rows) if axis == 0 else (rows, lengths), axis


@pytest.mark.parametrize("name", ["sosfiltfilt", "lfilter", "decimate", "decimate fir"])
@pytest.mark.parametrize("axis", [0, 1])
def test_chunks_that_a_task_filters_together(monkeypatch, name, axis):
    """Tasks of a GPU do so with small chunks."""
    count = lambda x, axis: -(-x.numblocks[axis] // 3)  # noqa: E731
    monkeypatch.setattr(along_axis, "count_of_groups", count)
    monkeypatch.setattr(along_axis, "joins_chunks", lambda axis_filter, x: True)
    x = recording(600, 3) if axis == 0 else recording(3, 600)
    lengths = (50, 1, 1, 48, 100, 130, 70, 100, 1, 99)
    lazy = da.from_array(x, chunks=(lengths, (1, 2)) if axis == 0 else ((1, 2), lengths))
    result, wanted = FILTERS[name](lazy, axis), FILTERS[name](x, axis)
    assert result.shape == wanted.shape
    close(result.compute(scheduler="synchronous"), wanted)
    some = result.blocks[4:7] if axis == 0 else result.blocks[:, 4:7]
    if wanted.shape == x.shape:
        close(some.compute(scheduler="synchronous"), wanted.take(range(100, 400), axis))


@pytest.mark.quick
@pytest.mark.parametrize("name", FILTERS)
# An example builds and runs a graph of up to 12 chunks.
@settings(max_examples=max(8, settings().max_examples // 3))
@given(chunked_recordings())
def test_integers_in_any_chunks(name, drawn):
    x, chunks, axis = drawn
    function = FILTERS[name]
    wanted = function(x, axis)
    lazy = function(da.from_array(x, chunks=chunks), axis)
    assert lazy.dtype == wanted.dtype
    assert lazy.shape == wanted.shape
    if wanted.shape == x.shape:
        assert lazy.chunks == chunks
    close(lazy.compute(scheduler="synchronous"), wanted)


@pytest.mark.parametrize("name", FILTERS)
def test_integers_on_each_backend(name, xp):
    for shape, axis in (((1200, 40), 0), ((2, 1200), 1)):
        x, function = recording(*shape), FILTERS[name]
        wanted = function(x, axis)
        data = xp.asarray(x)
        lazy = da.from_array(data, chunks=(500, 20), asarray=False)
        for result in (function(data, axis), function(lazy, axis)):
            close(result, wanted, xp)


# Kernels of other counts of sections take seconds to compile.
@given(
    st.integers(1, 8) if settings().max_examples > 25 else st.just(3),
    st.booleans(),
    st.floats(0.01, 0.9),
    st.floats(0.01, 0.08),
    st.booleans(),
)
def test_neighbours_of_any_filter(count, is_odd, low, width, is_band):
    """The samples that are left out are below the rounding errors."""
    if is_band:
        sos = signal.butter(count, [low, low + width], "bandpass", output="sos")
    else:
        sos = signal.cheby1(2 * min(count, 4) - is_odd, 0.05, low, output="sos")
    x = recording(4000)
    x[1000:1100] = 30_000
    wanted = signal.sosfiltfilt(sos, x)
    result = sosfiltfilt(sos, da.from_array(x, chunks=800)).compute(scheduler="synchronous")
    # SciPy's own rounding errors grow with the length of the response.
    size = abs(signal.sosfilt(sos, np.eye(1, 4000)[0])).sum() ** 2 * 30_000
    assert abs(result - wanted).max() <= 1e-11 * size


@pytest.mark.quick
@pytest.mark.parametrize("name", FILTERS)
def test_results_do_not_wait_for_distant_chunks(name):
    loaded = []

    def load(block, block_info):
        loaded.append(block_info[0]["chunk-location"])
        return block

    x = da.ones((4000, 6), chunks=(500, 3), dtype="i2")
    x = x.map_blocks(load, dtype="i2", meta=np.empty((0, 0), "i2"))
    lazy = FILTERS[name](x, 0)
    assert loaded == []
    lazy.compute(scheduler="synchronous")
    assert len(loaded) == len(set(loaded)) == 16
    loaded.clear()
    (part,) = dask.optimize(lazy.blocks[0, 0])
    part.compute(scheduler="synchronous")
    assert set(loaded) <= {(0, 0), (1, 0)}
    loaded.clear()
    lazy.blocks[7, 1].compute(scheduler="synchronous")
    assert set(loaded) <= {(6, 1), (7, 1)}


@pytest.mark.quick
@pytest.mark.parametrize("name", ["sosfiltfilt", "sosfilt", "decimate", "decimate fir"])
def test_few_chunks_are_in_memory_at_a_time(name):
    in_memory, most = 0, 0

    def release():
        nonlocal in_memory
        in_memory -= 1

    def load(block):
        nonlocal in_memory, most
        loaded = block + np.int16(1)
        weakref.finalize(loaded, release)
        in_memory += 1
        most = max(most, in_memory)
        return loaded

    x = da.zeros((40_000, 3), chunks=(1000, 3), dtype="i2")
    lazy = FILTERS[name](x.map_blocks(load, dtype="i2", meta=np.empty((0, 0), "i2")), 0)
    target = np.empty(lazy.shape)
    da.store(lazy, target, lock=False, scheduler="synchronous")
    assert in_memory == 0
    assert most <= 6


@pytest.mark.parametrize("function", [sosfiltfilt, lambda sos, x, **options: filtfilt(B, A, x)])
def test_nan_of_floating_numbers_reaches_all_samples(function):
    x = recording(3000, dtype="f8")
    x[1700] = np.nan
    assert np.isnan(function(SOS, da.from_array(x, chunks=1000)).compute()).all()


@pytest.mark.parametrize("dtype", with_extended(["f4", "f8", "c16"], "f4", "c16"))
def test_floating_numbers_that_are_finite(dtype):
    x = recording(3000, 2, dtype=dtype)
    lazy = da.from_array(x, chunks=(1000, 2))
    sos = SOS.astype("f4") if dtype == "f4" else SOS
    tolerance = 1e-5 if dtype == "f4" else 1e-12
    for result, wanted in (
        (sosfiltfilt(sos, lazy, 0, assume_finite=True), signal.sosfiltfilt(sos, x, 0)),
        (filtfilt(B, A, lazy, 0, assume_finite=True), signal.filtfilt(B, A, x, 0)),
        (decimate(lazy, 5, axis=0, assume_finite=True), signal.decimate(x, 5, axis=0)),
    ):
        assert result.dtype == wanted.dtype
        assert not any("propagate" in name for name in result.dask.layers)
        close(result, wanted, tolerance=tolerance)
    x[1700] = np.nan
    lazy = da.from_array(x, chunks=(500, 2))
    result = sosfiltfilt(SOS, lazy, 0, assume_finite=True).compute()
    assert np.isnan(result[1700]).all()
    assert np.isfinite(result[:1000]).all()


def test_filters_of_long_memory_are_exact():
    """Their chunks need the summaries of all chunks before them."""
    sos = signal.butter(4, 1e-4, output="sos")
    x = recording(3000)
    lazy = sosfiltfilt(sos, da.from_array(x, chunks=300))
    assert any("propagate" in name for name in lazy.dask.layers)
    close(lazy, signal.sosfiltfilt(sos, x), tolerance=1e-9)


@pytest.mark.quick
@pytest.mark.parametrize("dtype", [np.float32, "f8", None])
def test_results_of_a_dtype(dtype, xp):
    x = recording(3000, 40)
    for data in (xp.asarray(x), da.from_array(xp.asarray(x), chunks=(900, 40), asarray=False)):
        for result, wanted in (
            (sosfiltfilt(SOS, data, 0, dtype=dtype), sosfiltfilt(SOS, x, 0)),
            (filtfilt(B, A, data, 0, dtype=dtype), filtfilt(B, A, x, 0)),
            (decimate(data, 3, axis=0, dtype=dtype), decimate(x, 3, axis=0)),
            (decimate(data, 3, ftype="fir", axis=0, dtype=dtype), decimate(x, 3, None, "fir", 0)),
        ):
            assert result.dtype == np.dtype(dtype or "f8")
            close(result, wanted.astype(result.dtype), xp, 2e-7)
    assert filtfilt(B, A, x, 0, method="gust", irlen=50, dtype="f4").dtype == np.float32


DLTI = {
    "polynomials": signal.dlti(B, A),
    "zeros": signal.dlti(*signal.butter(2, 0.4, output="zpk")),
    "finite": signal.dlti([1, 2, 1], [4.0]),
    "states": signal.dlti(B, A).to_ss(),
}


@pytest.mark.quick
@pytest.mark.parametrize("zero_phase", [True, False])
@pytest.mark.parametrize(
    ("ftype", "dtype"),
    [
        pytest.param(ftype, dtype, marks=() if is_short else pytest.mark.extended)
        for ftype, dtype in product(["iir", "fir", *DLTI], ["i2", "f4", "f8", "c16"])
        for is_short in [dtype == "i2" or (ftype in ("iir", "fir") and dtype == "f8")]
    ],
)
def test_decimation_is_scipys(ftype, dtype, zero_phase, xp):
    for shape, axis, q in (((700, 5), 0, 7), ((3, 501), 1, 2), ((2, 400, 3), -2, 10), ((999,), 0, 3)):
        x = recording(*shape, dtype=dtype)
        options = {"ftype": DLTI.get(ftype, ftype), "axis": axis, "zero_phase": zero_phase}
        wanted = signal.decimate(x, q, **options)
        chunks = tuple(max(1, size // 3) for size in shape)
        for data in (xp.asarray(x), da.from_array(xp.asarray(x), chunks=chunks, asarray=False)):
            result = decimate(data, q, **options)
            assert result.dtype == wanted.dtype
            assert result.shape == wanted.shape
            # In float32 SciPy rounds the coefficients, too.
            close(result, wanted, xp, 2e-4 if dtype == "f4" else 1e-10)


@pytest.mark.parametrize("n", [3, 8])
def test_chebyshev_filters_have_the_bits_of_scipys_without_scipy(n, monkeypatch):
    x, wanted = recording(500), {}
    for q in (1, 2, 5, 13):
        wanted[q] = sosfiltfilt(signal.cheby1(n, 0.05, 0.8 / q, output="sos"), x)[::q]
    monkeypatch.setitem(sys.modules, "scipy", None)
    for q, samples in wanted.items():
        np.testing.assert_array_equal(decimate(x, q, n), samples)
    with pytest.raises(ImportError, match=r"install mgrec\[scipy\]"):
        decimate(x, 2, ftype="fir")


@pytest.mark.parametrize("dtype", ["f2", "f4", "c8"])
def test_finite_responses_are_computed_in_the_dtype_of_the_result(dtype, xp):
    x = recording(200, dtype=dtype)
    response = signal.dlti(np.arange(1, 22) / 231, 1)
    wanted = signal.decimate(x, 2, ftype=response)
    for data in (xp.asarray(x), da.from_array(xp.asarray(x), chunks=70, asarray=False)):
        result = decimate(data, 2, ftype=response)
        assert result.dtype == wanted.dtype
        close(result, wanted, xp, 1e-13)
    large = xp.asarray(np.full(8, 60_000, "f2"))  # twice as much is inf in float16
    close(decimate(large, 2, ftype=signal.dlti([2.0], [1.0])), np.full(4, 120_000.0), xp)


def test_complex_coefficients_without_an_imaginary_part_are_no_real_ones(xp):
    x, b, a = recording(90, dtype="f8"), np.array([0.5, 0.25]), [1.0, -0.99]
    for dtype in ("c16", "f8", "c16"):
        wanted = signal.lfilter(b.astype(dtype), a, x)
        for data in (xp.asarray(x), da.from_array(xp.asarray(x), chunks=40, asarray=False)):
            result = lfilter(b.astype(dtype), a, data)
            assert result.dtype == dtype
            close(result, wanted, xp)


def test_a_finite_response_is_applied_without_decimation(xp):
    x = recording(50, dtype="f8")
    result = decimate(xp.asarray(x), 1, ftype=signal.dlti([1.0, 2.0, 1.0], [4.0]))
    close(result, np.convolve(x, [0.25, 0.5, 0.25], "same"), xp)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_decimated_tables_keep_every_qth_label(axis):
    days = pd.date_range("2026-01-01", periods=50)
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 60)), days)
    axis = {} if axis is None else {"axis": axis}
    kept = table.iloc[:, ::4] if axis == {"axis": 1} else table.iloc[::4]
    wanted = decimate(table.to_numpy(), 4, **{"axis": 0, **axis})
    expected = pd.DataFrame(wanted, kept.index, kept.columns)
    pd.testing.assert_frame_equal(decimate(table, 4, **axis), expected)
    if axis != {"axis": 1}:
        series = table[3].rename("rain")
        expected = pd.Series(decimate(series.to_numpy(), 4), kept.index, name="rain")
        pd.testing.assert_series_equal(decimate(series, 4, **axis), expected)


def test_lazy_tables_are_not_decimated():
    frames = pytest.importorskip("dask.dataframe")
    series = frames.from_pandas(pd.Series(np.ones(100)), npartitions=2)
    with pytest.raises(ValueError, match="chunks of known sizes"):
        decimate(series, 4)


def test_decimated_chunks_are_not_empty():
    x = da.from_array(recording(40), chunks=((9, 1, 20, 2, 8),))
    assert decimate(x, 10, 2).chunks == ((1, 2, 1),)
    assert decimate(x, 10, 8, "fir").chunks == ((1, 2, 1),)


def test_data_arrays_keep_the_labels_of_their_samples():
    labels = {"time": np.arange(90) / 10, "channel": list("abc")}
    x = xr.DataArray(recording(90, 3), labels, ("time", "channel"), "voltage", {"unit": "µV"})
    wanted = x[::4].copy(data=signal.decimate(x.values, 4, 3, axis=0))
    for data in (x, x.chunk(time=30)):
        for result in (decimate(data, 4, 3, axis=0), data.mgrec.decimate(4, 3, dim="time")):
            xr.testing.assert_allclose(result, wanted)
            assert result.name == "voltage"
            assert result.attrs == x.attrs
    others = xr.Dataset({"voltage": x, "depth": x[0].drop_vars("time")})
    result = others.mgrec.decimate(4, 3, dim="time")
    xr.testing.assert_allclose(result.voltage, wanted)
    xr.testing.assert_identical(result.depth, others.depth)
    with pytest.raises(ValueError, match="dim must be one of the dimensions"):
        x.mgrec.decimate(4, dim="place")


X = recording(100)
REFUSED = [
    (lambda: decimate(X, 0), ValueError, r"q must be at least 1 and below 2\*\*31; got 0"),
    (lambda: decimate(X, 2.5), TypeError, "q must be an integer"),
    (lambda: decimate(X, 2, 0), ValueError, r"n must be at least 1 and below 2\*\*31; got 0"),
    (lambda: decimate(X, 2, ftype="fft"), ValueError, "ftype must be 'iir', 'fir' or a .*; got 'fft"),
    (lambda: decimate(X[:20], 2), ValueError, "greater than padlen, which is 27"),
    (lambda: decimate(X, 2, axis=1), ValueError, "axis must be from -1 to 0"),
    (lambda: decimate(X, 2, zero_phase=1), TypeError, "zero_phase must be True or False"),
    (lambda: sosfiltfilt(SOS, X, dtype="i2"), TypeError, "dtype must be float32 or float64 for a"),
    (lambda: filtfilt(B, A, X, dtype="c8"), TypeError, "dtype must be float32 or float64 for a"),
    (lambda: filtfilt(B, A, X * 1j, dtype="f8"), TypeError, "must be complex64 or complex128"),
    (lambda: filtfilt(B, A, X, dtype="text"), TypeError, "dtype must be a dtype; got 'text'"),
    (lambda: filtfilt(B, A, X, assume_finite=1), TypeError, "assume_finite must be True or False"),
    (
        lambda: filtfilt(B, A, X, method="gust", assume_finite="yes"),
        TypeError,
        "assume_finite must be True or False",
    ),
    (lambda: sosfiltfilt(SOS, X, assume_finite="yes"), TypeError, "assume_finite must be True or"),
    (lambda: decimate(X, 2, assume_finite="yes"), TypeError, "assume_finite must be True or False"),
]


@pytest.mark.quick
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_chunks_of_unknown_sizes_are_refused():
    x = da.from_array(X, chunks=30)
    for ftype in ("iir", "fir"):
        with pytest.raises(ValueError, match="compute_chunk_sizes"):
            decimate(x[x > 0], 2, ftype=ftype)
    with pytest.raises(ValueError, match="known sizes to be decimated"):
        decimate(x[x > 0], 2, zero_phase=False)


def test_an_overflow_by_the_states_before_a_chunk_reaches_later_chunks():
    """The second chunk alone has finite outputs, near the largest float64."""
    x = np.zeros(28)
    x[6:8] = 1.7e308, 1.2e308
    with np.errstate(all="ignore"):
        wanted = signal.lfilter([1.0], [1.0, -0.5], x)
    assert np.isinf(wanted[7:]).all()
    np.testing.assert_array_equal(lfilter([1.0], [1.0, -0.5], da.from_array(x, chunks=7)), wanted)
