"""Kernels of filters, run on this machine, against SciPy's filters of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chunkings import with_extended
from cuda_on_host import DeviceArray, HostCompiler
from scipy import signal

from mgrec.filters.cuda import launch, phases
from mgrec.signal import decimate, lfilter, sosfilt, sosfiltfilt

pytestmark = pytest.mark.usefixtures("on_host")
extended = pytest.mark.extended


def band_pass(order: int, low: float = 1e-3) -> Any:
    return signal.butter(order, [low, 0.4], "bandpass", output="sos")


def samples(*shape: int) -> Any:
    return np.random.default_rng(1).integers(-500, 500, shape).astype("i2")


@pytest.mark.parametrize("columns", with_extended([1, 3, 40], 1, 3))
@pytest.mark.parametrize("order", with_extended([1, 5], 1))
def test_states_of_long_filters_are_propagated(columns: int, order: int) -> None:
    x = samples(5000, columns)
    result = sosfilt(band_pass(order), x.view(DeviceArray), axis=0)
    assert type(result) is DeviceArray
    wanted = signal.sosfilt(band_pass(order), x.astype("f8"), axis=0)
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "shape, sections, dtype",
    [
        ((20_004,), 1, "f4"),
        ((5003, 3), 1, "f8"),  # The last two lanes of each warp are idle.
        ((20_004,), 1, "f4 to f8"),
        *[
            pytest.param(*case, marks=extended)
            for case in [
                ((60_000,), 5, "i2 to f8"),
                ((60_008,), 1, "i2 to f4"),
                ((50, 1024), 1, "f4"),
                ((3, 5004), 5, "f4"),  # Some warps have segments of two rows, at other distances.
                ((60_000, 2), 5, "f8"),
                ((90_004,), 5, "f8"),
            ]
        ],
    ],
)
def test_the_copy_engine_copies_the_same(
    shape: Any, sections: int, dtype: str, on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, dtype = dtype.split()[0], dtype.split()[-1]
    x, sos = (100 * np.random.default_rng(3).standard_normal(shape)).astype(given), band_pass(sections, 0.1)
    axis, results = int(shape[0] < 100), []
    before = np.random.default_rng(4).standard_normal((sections, 2, *np.delete(shape, axis)))
    before = np.moveaxis(before, 1, axis + 1)
    for fewest in (0, 1 << 30):
        monkeypatch.setattr(phases, "_LONG", fewest)
        phases._launches.cache_clear()
        zi = before.astype(dtype).view(DeviceArray)
        results.append(sosfilt(sos.astype(dtype), x.view(DeviceArray), axis=axis, zi=zi))
    phases._launches.cache_clear()
    for by_engine, by_threads in zip(*results, strict=True):
        np.testing.assert_array_equal(np.asarray(by_engine), np.asarray(by_threads))
    wanted, _ = signal.sosfilt(sos.astype(dtype).astype("f8"), x, axis=axis, zi=before.astype(dtype))
    np.testing.assert_allclose(
        np.asarray(results[0][0]), wanted, rtol=0, atol=1e-2 if dtype == "f4" else 1e-7
    )


def test_samples_of_chunks_are_read_where_they_are(on_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 results of integers need no joined samples, and outputs of float32 between passes."""
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    monkeypatch.setattr(DeviceArray, "__array_priority__", 1.0)
    x, sos = samples(4000, 32), band_pass(5, 0.1)
    forward, wanted = (f(sos, x, axis=0) for f in (signal.sosfilt, signal.sosfiltfilt))
    impulse = np.abs(signal.sosfilt(sos, signal.unit_impulse(1000)))
    error = 2.0**-24 * (impulse.sum() * abs(forward).max() + abs(wanted).max())
    on_device = x.view(DeviceArray)
    chunks = (400, 600, 1, 399, 3, 597, 500, 700, 800), 32
    lazy = da.from_array(on_device, chunks, asarray=False, meta=on_device[:0])
    with dask.config.set(scheduler="synchronous"):
        for data in (on_device, lazy, lazy.persist()):
            result = sosfiltfilt(sos, data, 0, dtype="f4")
            if data is not on_device:
                graph = result.__dask_optimize__(result.dask, result.__dask_keys__())
                # Samples that exist take no keys of the graph.
                assert sum(key[0] == data.name for key in graph) == (9 if data is lazy else 0)
                result = result.compute()
            np.testing.assert_allclose(np.asarray(result), wanted, rtol=0, atol=error)
    kernels = [name for name, _, _ in on_host.launches]
    assert kernels == ["filter_kernel"] * 2 * (1 + 4 + 4)


@pytest.mark.parametrize("shape, axis", [((1003, 20), 0), ((3, 700), 1), ((2, 300, 3), 1), ((5,), 0)])
@pytest.mark.parametrize(
    "dtype, computed", [("i2", "f8"), ("f4", "f4"), pytest.param("f8", "f8", marks=extended)]
)
def test_a_decimated_response_has_the_bits_of_numpy(shape: Any, axis: int, dtype: str, computed: str) -> None:
    x = samples(*shape).astype(dtype)
    for options in ({}, {"zero_phase": False, "dtype": "f4", "n": 13}):
        wanted = decimate(x, 7, ftype="fir", axis=axis, **options)
        result = decimate(x.view(DeviceArray), 7, ftype="fir", axis=axis, **options)
        assert type(result) is DeviceArray
        assert result.dtype == options.get("dtype", computed)
        np.testing.assert_array_equal(np.asarray(result), wanted)


CROWDED = {
    "order 2": ([1.0], np.poly([0.9999, 0.9999])),
    "order 4": signal.butter(4, 0.001),
    "order 6": signal.butter(6, 0.01, "high"),
    "complex": ([1.0], np.poly(np.full(3, 0.999 * np.exp(0.3j)))),
}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double has the digits of float64")
@pytest.mark.parametrize(
    "name, shape",
    [
        ("order 2", (1, 20_000)),  # more than 160 segments
        *[
            pytest.param(name, shape, marks=extended)
            for name in CROWDED
            for shape in [(1, 20_000), (2, 6000), (6000, 3)]
        ],
    ],
)
@pytest.mark.usefixtures("in_one_pass")
def test_crowded_poles_lose_no_more_digits_than_the_loop(name: str, shape: Any) -> None:
    """Powers of A grow before they decay: by 4e3 to 4e8 here."""
    b, a = map(np.asarray, CROWDED[name])
    axis = int(shape[0] < 100)
    x, wide = np.random.default_rng(5).standard_normal(shape), np.promote_types(a.dtype, np.longdouble)
    wanted = signal.lfilter(b.astype(wide), a.astype(wide), x.astype(wide), axis=axis)
    result = np.asarray(lfilter(b, a, x.view(DeviceArray), axis=axis))
    error, of_loop = (np.abs(y - wanted).max() for y in (result, signal.lfilter(b, a, x, axis=axis)))
    assert error <= 8 * of_loop


@pytest.mark.parametrize("order", with_extended([2, 3, 6], 2))
@pytest.mark.usefixtures("on_host")
def test_crowded_poles_that_vary(order: int) -> None:
    """Powers grow by 4e3 to 1e10; a map of a segment by 32 and more."""
    a = np.poly(np.full(order, 0.9999 if order == 2 else 0.99))
    b, a = np.ones(1), np.repeat(a[None], 20_000, axis=0)
    x = np.random.default_rng(6).standard_normal(len(a))
    result = lfilter(b, a.view(DeviceArray), x.view(DeviceArray))
    loop, size = lfilter(b, a, x), signal.lfilter(b, a[0], x)
    # A low-pass of order 2 keeps maps of segments; others repeat the loop.
    assert abs(np.asarray(result) - loop).max() <= (1e-8 if order == 2 else 0) * abs(size).max()


@pytest.fixture
def in_one_pass(monkeypatch: pytest.MonkeyPatch, on_host: HostCompiler) -> HostCompiler:
    """Let rows of any length be filtered in one pass."""
    monkeypatch.setattr(launch, "LEAST_TILES", 1)
    monkeypatch.setattr(launch, "LEAST_FILLED", 0)
    return on_host


@pytest.mark.parametrize(
    "order, shape, dtype",
    [
        (2, (3, 100_000), "f8"),
        *[
            pytest.param(*case, marks=pytest.mark.extended)
            for case in [
                (1, (1, 300 * 8064 + 77), "f8"),
                (2, (1, 200_000), "f4"),
                (4, (2, 20_000), "f8"),
                (6, (2, 90_000), "f8"),
                (6, (1, 200_000), "f4"),
                (2, (64, 9_000), "f8"),  # Some blocks have first tiles of rows alone.
            ]
        ],
    ],
)
def test_long_rows_in_one_pass(in_one_pass: Any, order: int, shape: Any, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(dtype)
    poles = 0.99999 * np.exp(1j * np.linspace(0.3, 2.5, order // 2))
    a = np.poly([*poles, *poles.conj()] if order > 1 else [0.99999]).real
    b, a = np.array([0.5, 0.25], dtype), a.astype(dtype)
    state = rng.standard_normal((shape[0], order)) if dtype == "f8" else None
    carry_in = {} if state is None else {"zi": state.view(DeviceArray)}
    bound = 1e-11
    result = lfilter(b, a, x.view(DeviceArray), **carry_in)
    assert in_one_pass.launches[0][0] == "tiles_kernel"
    wanted = signal.lfilter(b.astype("f8"), a.astype("f8"), x, zi=state)
    if state is not None:
        (result, after), (wanted, wanted_after) = result, wanted
        size = abs(wanted_after).max()
        np.testing.assert_allclose(np.asarray(after), wanted_after, rtol=0, atol=10 * bound * size)
    tolerance = abs(wanted).max() * (1e-6 if dtype == "f4" else bound)
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "special", [np.inf, *(pytest.param(x, marks=pytest.mark.extended) for x in (np.nan, 1e300))]
)
def test_special_values_in_one_pass(in_one_pass: Any, special: float) -> None:
    x = np.random.default_rng(1).standard_normal(40_000)
    x[17_000] = special
    b, a = [1.0], [1.0, -1.99, 0.99001]
    result = lfilter(b, a, x.view(DeviceArray))
    assert in_one_pass.launches[0][0] == "tiles_kernel"
    with np.errstate(all="ignore"):
        wanted = signal.lfilter(b, a, x)
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "order, shape", [(2, (1, 100_004)), *(pytest.param(1, (k, 40_004), marks=extended) for k in (1, 3))]
)
def test_states_that_decay_in_one_pass(in_one_pass: Any, order: int, shape: Any) -> None:
    """Those before a tile come from the samples before it."""
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(shape) * np.where(np.arange(shape[-1]) < 20_000, 1e6, 1)).astype("f4")
    b, a = (c.astype("f4") for c in signal.butter(order, 0.2))
    zi = rng.standard_normal((shape[0], order)).astype("f4")
    result, after = lfilter(b, a, x.view(DeviceArray), zi=zi.view(DeviceArray))
    assert in_one_pass.launches[0][0] == "tiles_kernel"
    wanted, wanted_after = signal.lfilter(b.astype("f8"), a.astype("f8"), x, zi=zi)
    for part in (slice(20_000), slice(20_200, None)):
        error = abs(np.asarray(result)[:, part] - wanted[:, part]).max()
        assert error <= 1e-6 * abs(wanted[:, part]).max()
    np.testing.assert_allclose(np.asarray(after), wanted_after, rtol=0, atol=1e-5)
