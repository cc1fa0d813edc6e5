"""Filters on a GPU: long signals, streams, devices, and arguments in its memory."""

import numpy as np
import pytest
from scipy import signal
from test_filters import POLYNOMIALS, assert_places_are_scipys, assert_same, draw, in_chunks, sections

from mgrec.signal import lfilter, lfilter_zi, lfiltic, sosfilt, sosfilt_zi, sosfiltfilt

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("b", "a"), [([1.0], [1.0, -1.0]), signal.butter(2, 1e-3), signal.iirnotch(2e-4, 30)]
)
def test_a_filter_that_remembers_more_than_a_segment(b, a):
    x = draw(300_000, float)
    wanted = signal.lfilter(b, a, x)
    y = lfilter(b, a, cupy.asarray(x)).get()
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


def test_bits_are_the_same_in_every_run():
    x = cupy.asarray(draw(1_000_003, "f4"))
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
    y, wanted = lfilter(b, a, cupy.asarray(x)).get(), signal.lfilter(b, a, x)
    sizes = np.abs(wanted[:-32]).reshape(-1, 32).max(1).repeat(32)
    assert (np.abs(y - wanted)[:-32] <= 1e-6 * sizes).all()


def test_silence_after_noise_is_no_different():
    x = draw(300_000, "f4")
    x[150_000:] = 0
    b, a = (np.asarray(part, "f4") for part in POLYNOMIALS["order 2"])
    assert_same([lfilter(b, a, cupy.asarray(x))], [signal.lfilter(b, a, x)], cupy)


@pytest.mark.parametrize("dtype", ["i1", "i2", "u2", "i4"])
@pytest.mark.parametrize("columns", [20, 384])
def test_recordings_are_rounded_between_both_passes(dtype, columns):
    """The error is within the bound of the documentation, however the samples are stored."""
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    x = (100 * draw((27_000, columns), float)).clip(0, 127).astype(dtype)
    x[9000:12_000] = 0
    sos = signal.butter(5, [0.02, 0.4], "bandpass", output="sos")
    forward, wanted = (f(sos, x, axis=0) for f in (signal.sosfilt, signal.sosfiltfilt))
    impulse = np.abs(signal.sosfilt(sos, signal.unit_impulse(20_000)))
    error = 2.0**-24 * (impulse.sum() * abs(forward).max() + abs(wanted).max())
    on_device = cupy.asarray(x)
    # Rows of another array, which start at odd addresses.
    shifted = cupy.zeros((27_001, columns + 1), dtype).ravel()[1 : x.size + 1].reshape(x.shape)
    shifted[...] = on_device
    chunks = (1, 2999, 5000, 3000, 7, 3993, 4000, 1000, 7000), columns
    lazy = da.from_array(on_device, chunks, asarray=False)
    with dask.config.set(scheduler="synchronous"):
        for data in (on_device, shifted, lazy, lazy.persist()):
            y = sosfiltfilt(sos, data, 0, dtype="f4")
            y = y.compute() if hasattr(y, "dask") else y
            np.testing.assert_allclose(y.get(), wanted, rtol=0, atol=error)


@pytest.mark.hardware
def test_two_streams_at_once():
    b, a = POLYNOMIALS["order 2"]
    signals = [draw(2_000_000, float, seed=seed) for seed in (1, 2)]
    operands = [cupy.asarray(x) for x in signals]
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
        assert_same([result], [wanted[number % 2]], cupy)


def test_every_device():
    b, a = POLYNOMIALS["order 2"]
    x = draw(100_003, float)
    wanted = signal.lfilter(b, a, x)
    for device in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(device):
            there = cupy.asarray(x)
            chunks = in_chunks(there)
            assert_same([lfilter(b, a, chunks)], [wanted], cupy)
        y = lfilter(b, a, there)
        assert y.device.id == device
        assert_same([y], [wanted], cupy)


@pytest.mark.hardware
def test_more_than_2_to_31_samples():
    free, _ = cupy.cuda.runtime.memGetInfo()
    size = 2**31 + 5
    if free < 24 * 2**30:
        pytest.skip("24 GiB of GPU memory are needed")
    x = cupy.zeros(size, np.float32)
    head = draw(1000, "f4")
    x[:1000], x[-505:] = cupy.asarray(head), cupy.asarray(head[:505])
    b, a = (np.asarray(part, "f4") for part in POLYNOMIALS["order 2"])
    y = lfilter(b, a, x)
    wanted = signal.lfilter(b, a, head)
    assert_same([y[:1000], y[-505:]], [wanted, wanted[:505]], cupy)


def test_states_on_a_gpu_need_data_there():
    with pytest.raises(TypeError, match="all be on a GPU"):
        lfilter([1.0], [1.0, -0.5], np.ones(5), zi=cupy.ones(1))


def test_states_to_begin_with_take_arrays_of_a_gpu():
    b, a = signal.butter(4, 0.3)
    sos = signal.butter(4, 0.3, output="sos")
    np.testing.assert_array_equal(lfilter_zi(cupy.asarray(b), cupy.asarray(a)), lfilter_zi(b, a))
    np.testing.assert_array_equal(sosfilt_zi(cupy.asarray(sos)), sosfilt_zi(sos))
    states = lfiltic(b, a, cupy.ones(2), cupy.ones(3))
    np.testing.assert_array_equal(states, lfiltic(b, a, np.ones(2), np.ones(3)))
    x = draw(100, float)
    assert_same([lfilter(cupy.asarray(b), cupy.asarray(a), cupy.asarray(x))], [signal.lfilter(b, a, x)], cupy)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("a", [[1, -1.2 + 1.6j], [1, 0.5]])
def test_complex_filters_overflow_where_scipys_do(a, dtype):
    b, a = (np.array(part, dtype) for part in ([1, 0.5j], a))
    x = draw(5000, dtype)
    x[3000] = np.finfo(dtype).max * 0.9
    with np.errstate(all="ignore"):
        wanted = signal.lfilter(b, a, x)
    y = lfilter(b, a, cupy.asarray(x)).get()
    assert_places_are_scipys(y, wanted, kinds=())
