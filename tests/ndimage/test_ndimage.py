"""Filters of images against SciPy, and against kernels and splines computed by definition."""

import pickle
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from chunkings import with_extended
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from mgrec.ndimage import (
    gaussian_filter,
    gaussian_filter1d,
    gaussian_laplace,
    spline_filter,
    spline_filter1d,
    uniform_filter,
    uniform_filter1d,
)
from mgrec.ndimage.uniform import by_prefix_sums

MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]
SYNONYMS = {"grid-mirror": "reflect", "grid-constant": "constant", "grid-wrap": "wrap"}
SPLINE_MODES = ["mirror", "reflect", "grid-wrap", "nearest", "constant", "wrap"]
PLACES = [
    "numpy",
    "dask",
    pytest.param("cupy", marks=pytest.mark.gpu),
    pytest.param("dask of cupy", marks=pytest.mark.gpu),
]
DTYPES = with_extended(["?", "u1", "i2", "i8", "u8", "f4", "f8", "c8", "c16"], "u8")
B_SPLINES = {
    2: np.array([1, 6, 1]) / 8,
    3: np.array([1, 4, 1]) / 6,
    4: np.array([1, 76, 230, 76, 1]) / 384,
    5: np.array([1, 26, 66, 26, 1]) / 120,
}
"""B-splines of each order at the integers."""


@pytest.fixture(params=PLACES)
def feed(request):
    """How an array is passed to a function and its result is read."""

    def call(function, x, *arguments, **options):
        if "cupy" in request.param:
            x = pytest.importorskip("cupy").asarray(x)
        if "dask" in request.param:
            chunks = tuple(max(1, size // 3) for size in x.shape)
            x = da.from_array(x, chunks=chunks, asarray=False)
        result = function(x, *arguments, **options)
        if "dask" in request.param:
            assert result.chunks == x.chunks
            result = result.compute(scheduler="synchronous")
        return result.get() if "cupy" in request.param else result

    return call


def numbers(shape, dtype="f8"):
    values = np.random.default_rng(sum(shape)).uniform(-1, 1, (2, *shape))
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return (values[0] + 1j * values[1]).astype(dtype)
    if dtype.kind == "f":
        return values[0].astype(dtype)
    return (100 * abs(values[0])).astype(np.int64).astype(dtype)


def check_spline(result, x, order, axis, mode):
    """Four ulp of the largest coefficient from SciPy's; by its definition where SciPy is wrong."""
    wanted = ndimage.spline_filter1d(x, order, axis, mode=mode)
    assert result.dtype == wanted.dtype
    if mode in ("reflect", "nearest", "grid-mirror") and x.shape[axis] < 50:
        # SciPy is off by up to 1e-2 on short lines; it starts as if they were long.
        samples = ndimage.convolve1d(result, B_SPLINES[order], axis, mode="reflect")
        np.testing.assert_allclose(samples, x, rtol=0, atol=1e-14 * (1 + abs(x).max()))
        return
    assert abs(result - wanted).max(initial=0) <= 4 * np.spacing(abs(wanted).max(initial=0))


@pytest.mark.quick
@pytest.mark.parametrize("mode", SPLINE_MODES)
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_splines_are_those_of_scipy(feed, order, mode):
    for shape, axis in (((70,), 0), ((9, 4), 0), ((3, 60), -1), ((2, 51, 3), 1), ((5, 1), 1)):
        x = numbers(shape)
        check_spline(feed(spline_filter1d, x, order, axis, mode=mode), x, order, axis, mode)


@pytest.mark.parametrize(
    "dtype", [pytest.param("f4", marks=pytest.mark.emulated), *(k for k in DTYPES if k != "f4")]
)
def test_splines_of_every_dtype(feed, dtype):
    x = numbers((13, 60), dtype)
    real = np.float32 if dtype in ("f4", "c8") else np.float64
    output = np.result_type(real, np.complex64) if x.dtype.kind == "c" else real
    result = feed(spline_filter, x, output=output, mode="grid-wrap")
    wanted = ndimage.spline_filter(x, output=output, mode="grid-wrap")
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=0, atol=8 * np.spacing(real(abs(wanted).max())))


@pytest.mark.parametrize("order", [0, 1])
def test_splines_of_low_order_are_the_samples(feed, order):
    x = numbers((5, 6), "f4")
    np.testing.assert_array_equal(feed(spline_filter, x, order), x.astype(np.float64))


def gaussian(t, order):
    return (1, -t, t * t - 1)[order] * np.exp(-t * t / 2)


@pytest.mark.quick
@pytest.mark.parametrize("sigma", [0.7, 1, 3, 20, 200])
@pytest.mark.parametrize(("order", "bound"), [(0, 4e-7), (1, 5e-7), (2, 4e-6)])
def test_distance_to_the_gaussian(feed, sigma, order, bound):
    half = int(9 * sigma) + 2
    impulse = np.zeros(2 * half + 1)
    impulse[half] = 1
    t = np.arange(-half, half + 1) / sigma
    scale = 1 / gaussian(t, 0).sum()
    wanted = scale * gaussian(t, order)
    result = feed(gaussian_filter1d, impulse, sigma, order=order) * sigma**order
    assert abs(result - wanted).max() <= bound * scale
    if order == 0:
        assert abs(result.sum() - 1) < 1e-12


@pytest.mark.quick
@pytest.mark.parametrize(("order", "narrow", "wide"), [(0, 8e-7, 4e-7), (1, 4e-7, 4e-7), (2, 4.3e-6, 4.3e-6)])
def test_distance_to_the_gaussian_for_any_sigma(order, narrow, wide):
    for sigma in np.geomspace(0.02, 20, 400).tolist():
        half = int(9 * max(sigma, 1)) + 2
        impulse = np.zeros(2 * half + 1)
        impulse[half] = 1
        t = np.arange(-half, half + 1) / sigma
        scale = 1 / gaussian(t, 0).sum()
        result = gaussian_filter1d(impulse, sigma, order=order, mode="constant") * sigma**order
        error = abs(result - scale * gaussian(t, order)).max() / scale
        assert error <= (narrow if sigma < 0.5 else wide), sigma


@pytest.mark.quick
@pytest.mark.parametrize("cval", [np.nan, np.inf])
@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "wrap"])
def test_only_the_mode_constant_uses_cval(feed, mode, cval):
    x = numbers((7, 6))
    for function in (gaussian_filter, gaussian_laplace, uniform_filter):
        wanted = feed(function, x, 2, mode=mode)
        np.testing.assert_array_equal(feed(function, x, 2, mode=mode, cval=cval), wanted)
        assert not np.isfinite(feed(function, x, 2, mode="constant", cval=cval)[0]).any()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_inf_leaves_nothing_finite_in_its_line(feed, value):
    for place in (0, 1, 30, 58, 59):
        x = numbers((2, 60))
        x[0, place] = value
        for function, argument in ((gaussian_filter1d, 2.0), (spline_filter1d, 3)):
            result = feed(function, x, argument)
            assert not np.isfinite(result[0]).any()
            assert np.isfinite(result[1]).all()


@pytest.mark.quick
def test_axes_are_any_integers_as_in_scipy():
    x = numbers((6, 4, 5))
    functions = (uniform_filter, 3), (gaussian_filter, 1.0), (gaussian_laplace, 1.0)
    for function, argument in functions:
        wanted = function(x, argument, axes=(0, 2))
        for axes in (np.array([0, 2]), range(0, 3, 2), iter((0, 2)), [np.int8(0), -1]):
            np.testing.assert_array_equal(function(x, argument, axes=axes), wanted)
        wanted = function(x, argument, axes=(1,))
        for axis in (1, np.int64(1), np.array(1)):
            np.testing.assert_array_equal(function(x, argument, axes=axis), wanted)


@pytest.mark.quick
@pytest.mark.parametrize("size", [0, 1, -1, 3.0, (0, 3), (3.0, 0)])
def test_sizes_of_boxes_as_in_scipy(feed, size):
    x = numbers((7, 6))
    result = feed(uniform_filter, x, size)
    np.testing.assert_allclose(result, ndimage.uniform_filter(x, size), rtol=0, atol=1e-14)


def test_a_laplacian_has_the_mode_of_each_derivative_in_all_axes(feed):
    x = numbers((40, 50))
    for modes in (("reflect", "wrap"), ("nearest", "mirror")):
        wanted = ndimage.gaussian_laplace(x, 1.5, mode=modes, truncate=8)
        result = feed(gaussian_laplace, x, 1.5, mode=modes)
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", with_extended([*MODES, *SYNONYMS], *SYNONYMS))
def test_borders_of_gaussians(feed, mode):
    cases = ((30,), 0, 2), ((7, 40), 1, 1.5), ((3, 4), 0, 6), ((2, 9, 3), 1, 3), ((30,), 0, 0.001)
    for shape, axis, sigma in cases:
        x = numbers(shape)
        for order in (0, 1, 2):
            options = {"order": order, "mode": mode, "cval": 0.5}
            result = feed(gaussian_filter1d, x, sigma, axis, **options)
            wanted = ndimage.gaussian_filter1d(x, sigma, axis, truncate=8, **options)
            np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5 / sigma**order)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gaussians_of_every_dtype(feed, dtype):
    x = numbers((13, 60), dtype)
    result = feed(gaussian_filter, x, (2, 0), mode="nearest")
    wanted = ndimage.gaussian_filter(x, (2, 0), mode="nearest", truncate=8)
    assert result.dtype == wanted.dtype
    # An integer may be on the other side of a truncation.
    atol = 1 if x.dtype.kind in "iub" else 2e-6
    assert abs(result.astype(complex) - wanted.astype(complex)).max() <= atol
    constant = np.full((50, 3), 100 if x.dtype.kind != "b" else 1, dtype)
    np.testing.assert_allclose(feed(gaussian_filter, constant, 3.3), constant, rtol=1e-6)


def test_gaussians_along_several_axes(feed):
    x = numbers((12, 20, 9))
    for options in (
        {"sigma": (1, 2, 0), "order": (1, 0, 0), "mode": ("wrap", "mirror", "reflect")},
        {"sigma": (1, 2), "axes": (2, 0)},
        {"sigma": 1.5, "axes": 1},
    ):
        wanted = ndimage.gaussian_filter(x, truncate=8, **options)
        np.testing.assert_allclose(feed(gaussian_filter, x, **options), wanted, rtol=0, atol=1e-6)
    for axes in (None, (0, 2)):
        wanted = ndimage.gaussian_laplace(x, 1.5, truncate=8, axes=axes)
        np.testing.assert_allclose(feed(gaussian_laplace, x, 1.5, axes=axes), wanted, rtol=0, atol=1e-5)


@pytest.mark.quick
@pytest.mark.parametrize("mode", with_extended([*MODES, *SYNONYMS], *SYNONYMS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_averages_are_those_of_scipy(feed, dtype, mode):
    for shape, axis, size, origin in (((40,), 0, 7, 0), ((5, 9), 0, 4, -2), ((2, 6, 3), 1, 25, 3)):
        x = numbers(shape, dtype)
        options = {"size": size, "axis": axis, "mode": mode, "cval": 2.5, "origin": origin}
        result, wanted = (feed(uniform_filter1d, x, **options), ndimage.uniform_filter1d(x, **options))
        assert result.dtype == wanted.dtype
        if x.dtype.kind in "fc":
            atol = 4 * np.finfo(dtype).eps * 2.5
            np.testing.assert_allclose(result, wanted, rtol=0, atol=atol)
        else:
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.emulated
def test_averages_over_boxes(feed):
    x = numbers((12, 20, 9))
    for options in ({"size": (3, 1, 4), "origin": (1, 0, -1)}, {"size": 5, "axes": (0, 2)}):
        wanted = ndimage.uniform_filter(x, **options)
        np.testing.assert_allclose(feed(uniform_filter, x, **options), wanted, atol=1e-14)


def test_averages_do_not_drift(feed):
    """SciPy's running sum keeps the rounding error of 1e17, and the nan."""
    x = np.ones(1000)
    x[10], x[500] = 1e17, np.nan
    result = feed(uniform_filter1d, x, 5)
    assert (result[13:498] == 1).all()
    assert (result[503:] == 1).all()
    assert np.isnan(result[498:503]).all()
    assert ndimage.uniform_filter1d(x, 5)[20] != 1


@st.composite
def chunked_arrays(draw):
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    chunks = []
    for size in shape:
        cuts = sorted(draw(st.sets(st.integers(1, size - 1)))) if size > 1 else []
        chunks.append(tuple(np.diff([0, *cuts, size]).tolist()))
    return numbers(shape), tuple(chunks), draw(st.integers(0, len(shape) - 1))


FILTERS = {
    "spline": lambda x, axis, mode: spline_filter1d(x, 5, axis, mode=mode),
    "gaussian": lambda x, axis, mode: gaussian_filter1d(x, 2, axis, mode=mode, cval=0.5),
    "wide gaussian": lambda x, axis, mode: gaussian_filter1d(x, 90, axis, 1, mode=mode, cval=0.5),
    "average": lambda x, axis, mode: uniform_filter1d(x, 5, axis, mode=mode, cval=0.5),
}


@pytest.mark.parametrize("name", FILTERS)
@given(chunked_arrays(), st.sampled_from([*MODES, *SYNONYMS]))
def test_any_chunks(name, drawn, mode):
    x, chunks, axis = drawn
    function = FILTERS[name]
    wanted = function(x, axis, mode)
    lazy = function(da.from_array(x, chunks=chunks), axis, mode)
    assert lazy.chunks == chunks
    result = lazy.compute(scheduler="synchronous")
    # Of the weights that are added: the kernel of a spline of order 5 has 7.5 in all, and the
    # exponentials of a Gaussian with sigma 2 have 2.3.
    size = {"spline": 8.0, "gaussian": 2.3}.get(name, 1.0) * max(abs(x).max(), 0.5)
    assert abs(result - wanted).max() <= 4 * np.spacing(size)


def test_many_small_chunks_add_no_rounding_errors():
    """The states of a chunk are sums over all others: 6 ulp if each addition is rounded."""
    rng = np.random.default_rng(2275)
    x = rng.uniform(-1, 1, (5, int(rng.integers(6, 13))))
    wanted = gaussian_filter1d(x, 2, mode="reflect")
    result = gaussian_filter1d(da.from_array(x, chunks=(5, 1)), 2, mode="reflect")
    error = abs(result.compute(scheduler="synchronous") - wanted).max()
    assert error <= 4 * np.spacing(abs(x).max())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
def test_special_values_in_many_small_chunks(value):
    x = numbers((12, 3))
    x[5, 1] = value
    for function in (partial(gaussian_filter1d, sigma=2), spline_filter1d):
        wanted = function(x, axis=0)
        result = function(da.from_array(x, chunks=(1, 3)), axis=0).compute()
        np.testing.assert_allclose(result, wanted, rtol=1e-9)


def test_chunks_are_loaded_once_and_do_not_wait_for_distant_ones():
    loaded = []

    def load(block, block_info):
        loaded.append(block_info[0]["chunk-location"])
        return block

    x = da.ones((4000, 20), chunks=(500, 10)).map_blocks(load, dtype=float, meta=np.empty((0, 0)))
    lazy = uniform_filter(gaussian_filter(spline_filter(x), 2), 9)
    assert loaded == []
    lazy.compute(scheduler="synchronous")
    assert len(loaded) == len(set(loaded)) == 16
    loaded.clear()
    (part,) = dask.optimize(gaussian_filter1d(spline_filter1d(x, axis=0), 2, 0)[:500, :10])
    part.compute(scheduler="synchronous")
    assert set(loaded) == {(0, 0), (1, 0), (2, 0)}


@pytest.mark.parametrize("mode", MODES)
def test_graphs_of_wide_windows_are_as_small_as_those_of_narrow_ones(mode):
    x = da.ones(4000, chunks=500)
    narrow, wide = (len(pickle.dumps(dict(uniform_filter1d(x, size, mode=mode).dask))) for size in (5, 401))
    assert abs(wide - narrow) < 100


def test_sums_of_whole_arrays_on_this_machine():
    """They average over windows that are too wide for the kernel of a GPU."""
    x = numbers((4, 60, 3))
    for size in (1, 2, 7, 60):
        wanted = ndimage.uniform_filter1d(x, size, 1, origin=(size - 1) // 2 - size // 2)
        result = by_prefix_sums(x, size)
        inside = slice((size - 1) // 2, (size - 1) // 2 + result.shape[1])
        np.testing.assert_allclose(result, wanted[:, inside], rtol=0, atol=1e-13)


LONG = {
    "spline": (lambda x, axis: spline_filter1d(x, 3, axis, output=x.dtype), 8),
    "gaussian": (lambda x, axis: gaussian_filter1d(x, 50, axis), 12),
    "derivative": (lambda x, axis: gaussian_filter1d(x, 2, axis, 1, mode="wrap"), 12),
    "average": (lambda x, axis: uniform_filter1d(x, 51, axis, mode="mirror"), 51),
    "wide average": (lambda x, axis: uniform_filter1d(x, 3000, axis), 3000),
}
"""Filters, and the distance of results on a GPU in units in the last place of 1."""


@pytest.mark.gpu
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_long_lines_on_a_gpu(dtype, name):
    cupy, (function, ulps) = pytest.importorskip("cupy"), LONG[name]
    for shape, axis in (((3, 20_001), 1), ((20_001, 33), 0), ((2, 5000, 70), 1), ((10**6,), 0)):
        x = numbers(shape, dtype)
        wanted = function(x, axis)
        result = function(cupy.asarray(x), axis).get()
        assert result.dtype == dtype
        assert abs(result - wanted).max() <= ulps * np.finfo(dtype).eps
        chunks = tuple((size // 3, 1, size - size // 3 - 1) if size > 3 else size for size in shape)
        lazy = function(da.from_array(cupy.asarray(x), chunks=chunks, asarray=False), axis)
        result = lazy.compute(scheduler="synchronous").get()
        assert abs(result - wanted).max() <= ulps * np.finfo(dtype).eps


@pytest.mark.gpu
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_nan_makes_its_line_nan_on_a_gpu(value):
    cupy = pytest.importorskip("cupy")
    for shape, axis in (((3, 5000), 1), ((5000, 40), 0)):
        x = numbers(shape)
        np.moveaxis(x, axis, 0)[3000, 2] = value
        for result in (
            spline_filter1d(cupy.asarray(x), 3, axis),
            gaussian_filter1d(cupy.asarray(x), 2, axis),
        ):
            lines = np.isnan(np.moveaxis(result.get(), axis, 0))
            assert lines[:, 2].all()
            assert lines.sum() == 5000
        averages = np.moveaxis(uniform_filter1d(cupy.asarray(x), 5, axis).get(), axis, 0)
        assert not np.isfinite(averages[2998:3003, 2]).any()
        assert (~np.isfinite(averages)).sum() == 5


def test_lazy_results_have_the_right_dtype():
    x = da.from_array(numbers((6, 5), "c8"), chunks=3)
    for lazy in (spline_filter(x, output=np.complex64), gaussian_filter(x, 1), uniform_filter(x)):
        assert lazy.dtype == lazy.compute().dtype == np.complex64


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(shape):
    for function, options in (
        (spline_filter, {}),
        (gaussian_filter, {"sigma": 2}),
        (uniform_filter, {"size": 3}),
    ):
        assert function(np.zeros(shape), **options).shape == shape


def test_results_are_written_to_output():
    x = numbers((9, 8))
    for function, options in ((spline_filter, {}), (gaussian_filter, {"sigma": 2}), (uniform_filter, {})):
        out = np.empty(x.shape, np.float32)
        assert function(x, output=out, **options) is out
        np.testing.assert_array_equal(out, function(x, output=np.float32, **options))


def test_data_arrays_keep_their_labels():
    x = xr.DataArray(numbers((6, 7)), {"time": np.arange(6)}, ("time", "place"), name="rain")
    for function, options in (
        (spline_filter, {}),
        (spline_filter1d, {"axis": 0}),
        (gaussian_filter, {"sigma": 2, "axes": (0,)}),
        (gaussian_filter1d, {"sigma": 2, "axis": "place"}),
        (gaussian_laplace, {"sigma": 2}),
        (uniform_filter, {"size": 3}),
        (uniform_filter1d, {"size": 3, "axis": -2}),
    ):
        result = function(x, **options)
        options = {k: -1 if value == "place" else value for k, value in options.items()}
        xr.testing.assert_equal(result, x.copy(data=function(x.values, **options)))
        assert result.name == "rain"


X = numbers((4, 5))
REFUSED = [
    (lambda: spline_filter1d(X, 6), ValueError, "order must be from 0 to 5; got 6"),
    (lambda: spline_filter(X, 2.5), TypeError, "order must be an integer"),
    (lambda: spline_filter1d(X, axis=2), ValueError, "axis must be from -2 to 1"),
    (lambda: spline_filter1d(X, mode="edge"), ValueError, "mode must be one of .*; got 'edge'"),
    (lambda: spline_filter1d(1.0), ValueError, "input must have at least one axis"),
    (lambda: spline_filter(X.astype("M8[s]")), TypeError, "input must be .*; got datetime64"),
    (lambda: spline_filter(X, output="text"), TypeError, "output must be a dtype or an array"),
    (lambda: spline_filter(X, output="c16"), TypeError, "output must be real for an input of"),
    (lambda: spline_filter(X, output=np.empty(3)), ValueError, "output must be of the shape"),
    (lambda: spline_filter(X, output=np.ma.ones(X.shape)), TypeError, "output .* got a masked array"),
    (lambda: spline_filter(da.ones(3), output=np.empty(3)), TypeError, "output must be a dtype"),
    (lambda: gaussian_filter1d(X, -1), ValueError, "sigma must be from 0 to 1e.09; got -1"),
    (lambda: gaussian_filter1d(X, 0), ValueError, "sigma must be positive; got 0"),
    (lambda: gaussian_filter(X, (1, 2, 3)), ValueError, "sigma must be one value or 2"),
    (lambda: gaussian_filter(X, 1e20), ValueError, "sigma must be from 0 to 1e.09; got 1e.20"),
    (lambda: gaussian_filter(X, 1, order=3), ValueError, "order must be 0, 1 or 2; got 3"),
    (lambda: gaussian_filter(X, 1, axes=(0, 0)), ValueError, "axes must be different"),
    (lambda: gaussian_filter(X, 1, axes=(0, 0.5)), TypeError, "each of axes must be an integer"),
    (lambda: gaussian_filter(X, 1, cval="a"), TypeError, "cval must be a number; got 'a'"),
    (lambda: gaussian_laplace(X, 0), ValueError, "sigma must be positive; got 0"),
    (lambda: uniform_filter1d(X, 0), ValueError, "size must be at least 1 .*; got 0"),
    (lambda: uniform_filter(X, 10**40), ValueError, "size must be at least 1 and below"),
    (lambda: uniform_filter(X, 3, cval=10**400), TypeError, "cval must be a number"),
    (lambda: gaussian_filter(X, da.ones(2)), TypeError, "sigma must be numbers in memory"),
    (lambda: uniform_filter(X, 2.5), TypeError, "size must be an integer"),
    (lambda: gaussian_filter(X, 1, axes="0"), TypeError, "each of axes must be an integer"),
    (lambda: uniform_filter1d(X, 3, origin=2), ValueError, "origin must be from -1 to 1"),
    (lambda: uniform_filter(X, mode=("wrap",)), ValueError, "mode must be one value or 2"),
]


@pytest.mark.quick
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_chunks_of_unknown_sizes_are_refused():
    x = da.ones(6, chunks=3)
    with pytest.raises(ValueError, match="input must be in chunks of known sizes along axis 0"):
        spline_filter(x[x > 0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("mode", ["reflect", "mirror", "wrap", "nearest", "constant"])
def test_a_long_row_has_the_results_of_rows_that_are_filtered_together(mode, dtype):
    """A long row is filtered as many short ones, whose states are sums over their neighbours."""
    row = (100 * np.random.default_rng(3).normal(size=20_011)).astype(dtype)
    for sigma, order in ((3.0, 0), (12.0, 1)):
        options = {"sigma": sigma, "order": order, "mode": mode, "cval": 7.0, "axis": -1}
        together = gaussian_filter1d(np.stack([row] * 8), **options)[5]
        alone = gaussian_filter1d(row, **options)
        if dtype == np.int16:
            assert abs(alone - together).max() <= 1
        else:
            # A unit in the last place of the largest sample, and the rounding of float32.
            atol = 2**-52 * abs(row).max() if dtype == np.float64 else 1e-5
            np.testing.assert_allclose(alone, together, rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 40), np.float64),
        ((40, 130), np.float64),
        ((70, 3), np.float32),
        ((3, 12, 65), np.float32),
        ((33, 40), np.uint8),
        ((7, 9, 4), np.complex64),
        ((5, 21, 70), np.complex64),
    ],
)
def test_rows_side_by_side(shape, dtype):
    """Rows of any number and layout, some of whose groups are not full."""
    x = np.random.default_rng(5).integers(0, 200, shape).astype(dtype)
    if dtype == np.complex64:
        x += 1j * x[::-1]
    for axis in range(x.ndim):
        for mode in ("mirror", "constant"):
            options = {"axis": axis, "mode": mode, "cval": 3.0}
            for size in (2, 7, 25):
                expected = ndimage.uniform_filter1d(x, size, **options)
                result = uniform_filter1d(x, size, **options)
                if dtype == np.uint8:
                    # SciPy's running sums round averages to the integer below.
                    assert abs(result.astype(int) - expected).max() <= 1
                else:
                    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-4)
            expected = gaussian_filter1d(x.astype(np.complex128), 1.5, **options)
            for k in np.ndindex(*shape[:axis], *shape[axis + 1 :]):
                line = (*k[:axis], slice(None), *k[axis:])
                alone = gaussian_filter1d(x[line].astype(np.complex128), 1.5, mode=mode, cval=3.0)
                np.testing.assert_allclose(expected[line], alone, rtol=0, atol=1e-11)


@pytest.mark.parametrize("mode", ["reflect", "constant"])
@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f4", "f8"])
def test_small_images_have_the_bits_of_a_stack_of_them(dtype, mode):
    """Calls of small images are cached; intermediate results have the dtype of the results."""
    stack = numbers((90, 14, 15), dtype)
    stack.flags.writeable = False
    options = {"mode": mode, "cval": 3.0}
    for function in (
        partial(uniform_filter, size=(3, 6), axes=(-2, -1), **options),
        partial(gaussian_filter, sigma=(1.5, 0.7), axes=(-2, -1), **options),
    ):
        together = function(stack)
        for image, expected in zip(stack[:3], together, strict=False):
            np.testing.assert_array_equal(function(image), expected)
            np.testing.assert_array_equal(function(np.asfortranarray(image)), expected)
            result = np.empty(image.shape, dtype)
            assert function(image, output=result) is result
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize(("size", "mode"), [(2, "reflect"), (51, "constant"), (201, "wrap")])
def test_averages_of_a_long_row_have_the_bits_of_rows_that_are_filtered_together(size, mode, dtype):
    row = (100 * np.random.default_rng(3).normal(size=30_011)).astype(dtype)
    together = uniform_filter1d(np.stack([row] * 8), size, mode=mode, cval=7.0)
    np.testing.assert_array_equal(uniform_filter1d(row, size, mode=mode, cval=7.0), together[5])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e305])
def test_a_long_row_has_the_nan_of_rows_that_are_filtered_together(value):
    row = np.random.default_rng(4).normal(size=20_000)
    row[12_345] = value
    together = spline_filter1d(np.stack([row] * 8), axis=-1)[2]
    np.testing.assert_array_equal(spline_filter1d(row), together)
