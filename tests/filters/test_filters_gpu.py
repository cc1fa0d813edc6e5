"""Filters of CuPy arrays, and of Dask arrays of them, give SciPy's results."""

import dask.array as da
import numpy as np
import pytest
from scipy import signal
from test_filters import POLYNOMIALS, SHAPES, UNSTABLE, draw, sections

from mgrec.signal import ewm, filtfilt, lfilter, lfilter_zi, lfiltic, sosfilt, sosfilt_zi
from mgrec.signal import sosfiltfilt as zero_phase_sections

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = pytest.mark.gpu


def on_gpu(x):
    return cupy.asarray(x)


def in_chunks(x, parts=3):
    chunks = tuple(-(-n // parts) for n in x.shape)
    return da.from_array(cupy.asarray(x), chunks=chunks, asarray=False)


def fetched(array):
    array = array.compute(scheduler="sync") if isinstance(array, da.Array) else array
    assert isinstance(array, cupy.ndarray)
    return array.get()


def assert_same(computed, wanted):
    for have, want in zip(map(fetched, computed), wanted, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        size = np.abs(want).max(initial=1)
        atol = 1e5 * np.finfo(want.dtype).eps * size
        np.testing.assert_allclose(have, want, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_lfilter_is_scipys(name, dtype):
    single = dtype in ("f4", "c8")
    kind = np.complex64 if name == "complex" else np.float32
    b, a = (np.asarray(part, kind if single else None) for part in POLYNOMIALS[name])
    for shape, axis in [*SHAPES, ((5_000, 3), 0), ((3, 4_001), 1), ((2, 300, 50), 1)]:
        x, of_states = draw(shape, dtype), list(shape)
        of_states[axis] = max(len(a), len(b)) - 1
        zi = draw(of_states, dtype, seed=8)
        wanted = signal.lfilter(b, a, x, axis, zi)
        assert_same(lfilter(b, a, on_gpu(x), axis, on_gpu(zi)), wanted)
        assert_same(lfilter(b, a, on_gpu(x), axis, zi), wanted)
        assert_same([lfilter(b, a, on_gpu(x), axis)], [signal.lfilter(b, a, x, axis)])
        assert_same(lfilter(b, a, in_chunks(x), axis, zi), wanted)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("count", [1, 2, 8, 32])
def test_sosfilt_is_scipys(count, dtype):
    sos = sections(count).astype("f4" if dtype in ("f4", "c8") else "f8")
    for shape, axis in SHAPES:
        x, of_states = draw(shape, dtype), [count, *shape]
        of_states[1 + axis % len(shape)] = 2
        zi = draw(of_states, dtype, seed=8)
        wanted = signal.sosfilt(sos, x, axis, zi)
        assert_same(sosfilt(sos, on_gpu(x), axis, on_gpu(zi)), wanted)
        assert_same(sosfilt(sos, in_chunks(x), axis, in_chunks(zi)), wanted)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 63, 64, 65, 4095, 4097, 100_003])
@pytest.mark.parametrize("name", ["order 1", "order 5, high", "order 12", "long b", "FIR"])
def test_every_length(name, length):
    b, a = POLYNOMIALS[name]
    x, zi = draw(length, float), draw(max(len(a), len(b)) - 1, float, seed=8)
    wanted = signal.lfilter(b, a, x, zi=zi) if length else (x, zi)
    assert_same(lfilter(b, a, on_gpu(x), zi=zi), wanted)


@pytest.mark.parametrize(
    ("b", "a"), [([1.0], [1.0, -1.0]), signal.butter(2, 1e-3), signal.iirnotch(2e-4, 30)]
)
def test_a_filter_that_remembers_more_than_a_segment(b, a):
    x = draw(300_000, float)
    wanted = signal.lfilter(b, a, x)
    y = fetched(lfilter(b, a, on_gpu(x)))
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", UNSTABLE)
def test_an_unstable_filter_gives_what_scipy_gives(name, dtype):
    b, a = (np.array(part, dtype) for part in UNSTABLE[name])
    x = draw(4000, dtype)
    with np.errstate(all="ignore"):
        wanted = signal.lfilter(b, a, x)
    for data in (on_gpu(x), da.from_array(on_gpu(x), chunks=700, asarray=False)):
        y = fetched(lfilter(b, a, data))
        for find in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(find(y), find(wanted))
        finite = np.isfinite(wanted)
        np.testing.assert_allclose(y[finite], wanted[finite], rtol=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_stand_where_scipy_has_them(value):
    x = draw(30_000, float)
    x[15_000] = value
    for b, a in (POLYNOMIALS["order 2"], POLYNOMIALS["order 12"], POLYNOMIALS["FIR"]):
        with np.errstate(all="ignore"):
            wanted = signal.lfilter(b, a, x)
        np.testing.assert_allclose(fetched(lfilter(b, a, on_gpu(x))), wanted, rtol=1e-8)


@pytest.mark.parametrize("place", [900, 1000, 1023, 9_900, 19_990])
def test_a_lone_impulse_dies_out_as_in_scipy(place):
    x = np.zeros(20_000)
    x[place] = 1e30
    b, a = [1.0], [1.0, -0.9]
    wanted = signal.lfilter(b, a, x)
    np.testing.assert_allclose(fetched(lfilter(b, a, on_gpu(x))), wanted, rtol=1e-11, atol=1e-300)


def test_bits_are_the_same_in_every_run():
    x = on_gpu(draw(1_000_003, "f4"))
    sos = sections(4)
    first = sosfilt(sos, x)
    for _ in range(3):
        assert (sosfilt(sos, x) == first).all()


@pytest.mark.parametrize("name", ["order 2", "order 5, high"])
@pytest.mark.parametrize("place", [100_000, 123_457])
def test_the_tail_of_a_huge_pulse_hides_nothing(name, place):
    b, a = POLYNOMIALS[name]
    x = 1e-20 * draw(300_000, float)
    x[place] = 1e30
    y, wanted = fetched(lfilter(b, a, on_gpu(x))), signal.lfilter(b, a, x)
    sizes = np.abs(wanted[:-32]).reshape(-1, 32).max(1).repeat(32)
    assert (np.abs(y - wanted)[:-32] <= 1e-6 * sizes).all()


def test_silence_after_noise_is_no_different():
    x = draw(300_000, "f4")
    x[150_000:] = 0
    b, a = (np.asarray(part, "f4") for part in POLYNOMIALS["order 2"])
    assert_same([lfilter(b, a, on_gpu(x))], [signal.lfilter(b, a, x)])


def test_two_streams_at_once():
    b, a = POLYNOMIALS["order 2"]
    signals = [draw(2_000_000, float, seed=seed) for seed in (1, 2)]
    operands = [on_gpu(x) for x in signals]
    cupy.cuda.Device().synchronize()
    streams, results = [cupy.cuda.Stream(non_blocking=True) for _ in signals], []
    for _ in range(5):
        for stream, x in zip(streams, operands, strict=True):
            with stream:
                results.append(lfilter(b, a, x))
    for stream in streams:
        stream.synchronize()
    wanted = [signal.lfilter(b, a, x) for x in signals]
    for number, result in enumerate(results):
        assert_same([result], [wanted[number % 2]])


def test_every_device():
    b, a = POLYNOMIALS["order 2"]
    x = draw(100_003, float)
    wanted = signal.lfilter(b, a, x)
    for device in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(device):
            there, chunks = on_gpu(x), in_chunks(x)
            assert_same([lfilter(b, a, chunks)], [wanted])
        y = lfilter(b, a, there)
        assert y.device.id == device
        assert_same([y], [wanted])


def test_more_than_2_to_31_samples():
    free, _ = cupy.cuda.runtime.memGetInfo()
    size = 2**31 + 5
    if free < 24 * 2**30:
        pytest.skip("24 GiB of GPU memory are needed")
    x = cupy.zeros(size, np.float32)
    head = draw(1000, "f4")
    x[:1000], x[-505:] = on_gpu(head), on_gpu(head[:505])
    b, a = (np.asarray(part, "f4") for part in POLYNOMIALS["order 2"])
    y = lfilter(b, a, x)
    wanted = signal.lfilter(b, a, head)
    assert_same([y[:1000], y[-505:]], [wanted, wanted[:505]])


def test_results_are_written_to_out():
    x = on_gpu(draw(5000, float))
    out = cupy.full(5000, np.nan)
    b, a = POLYNOMIALS["order 2"]
    assert lfilter(b, a, x, out=out) is out
    np.testing.assert_allclose(out.get(), signal.lfilter(b, a, x.get()), rtol=1e-9, atol=1e-12)


def test_states_on_a_gpu_need_data_there():
    with pytest.raises(TypeError, match="all be on a GPU"):
        lfilter([1.0], [1.0, -0.5], np.ones(5), zi=cupy.ones(1))


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
def test_zero_phase_is_scipys(padtype):
    b, a = signal.butter(4, 0.3)
    sos = signal.butter(6, 0.3, output="sos")
    for shape, axis in (((200,), 0), ((3, 80), 1), ((2, 60, 3), 1)):
        x = draw(shape, float)
        wanted = signal.filtfilt(b, a, x, axis, padtype)
        of_sections = signal.sosfiltfilt(sos, x, axis, padtype)
        for data in (on_gpu(x), in_chunks(x)):
            assert_same([filtfilt(b, a, data, axis, padtype)], [wanted])
            assert_same([zero_phase_sections(sos, data, axis, padtype)], [of_sections])


def test_gustafssons_ends_are_scipys():
    b, a = signal.butter(4, 0.3)
    x = draw((3, 80), float)
    wanted = signal.filtfilt(b, a, x, method="gust")
    assert_same([filtfilt(b, a, on_gpu(x), method="gust")], [wanted])


@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize("gaps", [[], [0, 1, 7, 8, 9, 50, 199]])
def test_weighted_mean_is_pandas(adjust, gaps):
    pd = pytest.importorskip("pandas")
    x = draw((200, 3), float)
    x[gaps, 1] = np.nan
    wanted = pd.DataFrame(x).ewm(alpha=0.3, adjust=adjust).mean().to_numpy()
    for data in (on_gpu(x), da.from_array(on_gpu(x), chunks=(33, 2), asarray=False)):
        y = fetched(ewm(data, alpha=0.3, adjust=adjust, axis=0))
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-13)


def test_states_to_begin_with_take_arrays_of_a_gpu():
    b, a = signal.butter(4, 0.3)
    sos = signal.butter(4, 0.3, output="sos")
    np.testing.assert_array_equal(lfilter_zi(on_gpu(b), on_gpu(a)), lfilter_zi(b, a))
    np.testing.assert_array_equal(sosfilt_zi(on_gpu(sos)), sosfilt_zi(sos))
    np.testing.assert_array_equal(
        lfiltic(b, a, on_gpu(np.ones(2)), on_gpu(np.ones(3))), lfiltic(b, a, np.ones(2), np.ones(3))
    )
    x = draw(100, float)
    assert_same([lfilter(on_gpu(b), on_gpu(a), on_gpu(x))], [signal.lfilter(b, a, x)])


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("a", [[1, -1.2 + 1.6j], [1, 0.5]])
def test_complex_filters_overflow_where_scipys_do(a, dtype):
    b, a = (np.array(part, dtype) for part in ([1, 0.5j], a))
    x = draw(5000, dtype)
    x[3000] = np.finfo(dtype).max * 0.9
    with np.errstate(all="ignore"):
        wanted = signal.lfilter(b, a, x)
    y = fetched(lfilter(b, a, on_gpu(x)))
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(y[finite], wanted[finite], rtol=1e-3)


@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize("size", [1.0, 3e38])
def test_weighted_mean_of_float32_has_coefficients_of_float64(size, adjust):
    x = on_gpu(np.full(1_000_000, size, np.float32))
    gap = on_gpu(np.full(1, np.nan, np.float32))
    for data in (x, cupy.concatenate([gap, x])):
        y = fetched(ewm(data, alpha=1e-6, adjust=adjust))
        assert y.dtype == np.float32
        np.testing.assert_allclose(y[-1], size, rtol=3e-7)
