"""Filters whose coefficients vary in time, against a loop over the samples."""

import dask.array as da
import numpy as np
import pytest
import scipy.signal
from cases import from_gpu, on_gpu

from mgrec.signal import lfilter

extended = pytest.mark.extended
STEPS = 60
MARKS = np.arange(STEPS) % 17 == 5


def loop(b, a, x, zi, reset=None):
    """Direct form II transposed, in the order of SciPy's sums; the outputs and the states."""
    y, z = np.empty(len(x)), np.append(zi, 0.0)
    for step, sample in enumerate(x):
        if reset is not None and reset[step]:
            z = np.append(zi, 0.0)
        taps, poles = b[step] / a[step, 0], a[step] / a[step, 0]
        y[step] = z[0] + taps[0] * sample
        for k in range(len(z) - 1):
            z[k] = z[k + 1] + taps[k + 1] * sample - poles[k + 1] * y[step]
    return y, z[:-1]


def drawn(order, shape=(STEPS,), gain=True):
    generator = np.random.default_rng(order)
    b = generator.normal(size=(*shape, order + 1))
    a = generator.uniform(-0.9, 0.9, (*shape, order + 1)) / order
    a[..., 0] = generator.uniform(0.5, 2.0, shape) if gain else 1.0
    return b, a, generator.normal(size=shape), generator.normal(size=order)


def as_numpy(array):
    return array


def in_chunks(array):
    return da.from_array(array, chunks=(7, *array.shape[1:]))


@pytest.mark.parametrize("order", [2, *(pytest.param(k, marks=extended) for k in (1, 5))])
@pytest.mark.parametrize("place", [as_numpy, in_chunks])
def test_outputs_and_states_are_those_of_the_loop(order, place):
    for gain in (False, True):
        b, a, x, zi = drawn(order, gain=gain)
        for reset in (None, MARKS):
            results = lfilter(place(b), a, place(x), zi=zi, reset=reset)
            for result, wanted in zip(results, loop(b, a, x, zi, reset), strict=True):
                assert isinstance(result, da.Array) == (place is in_chunks)
                np.testing.assert_allclose(result, wanted, rtol=1e-13, atol=1e-14)
        y = lfilter(b, place(a), x)
        np.testing.assert_allclose(y, loop(b, a, x, np.zeros(order))[0], rtol=1e-13, atol=1e-14)


@extended
def test_constant_coefficients_are_those_of_scipy():
    b, a, x, zi = drawn(3)
    wanted, zf = scipy.signal.lfilter(b[0, :2], a[0], x, zi=zi)
    for taps, poles in [(b[:1, :2], a[0]), (b[0, :2], np.broadcast_to(a[0], a.shape))]:
        y, states = lfilter(taps, poles, x, zi=zi)
        np.testing.assert_allclose(y, wanted, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(states, zf, rtol=1e-13, atol=1e-14)


def test_axes_and_rows():
    b, a, x, zi = drawn(2, (3, STEPS))
    y, zf = lfilter(b, a, x, zi=np.broadcast_to(zi, (3, 2)))
    for row in range(3):
        wanted, states = loop(b[row], a[row], x[row], zi)
        np.testing.assert_allclose(y[row], wanted, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(zf[row], states, rtol=1e-13, atol=1e-14)
    across, states = lfilter(b.swapaxes(0, 1), a.swapaxes(0, 1), x.T, axis=0, zi=zi[:, None])
    np.testing.assert_array_equal(across.T, y)
    np.testing.assert_array_equal(states.T, zf)
    lazy = da.from_array(x.T, chunks=(25, 2))
    shared, states = lfilter(b[0], a[0], lazy, axis=0, zi=np.broadcast_to(zi[:, None], (2, 3)))
    assert shared.chunks == lazy.chunks
    wanted = lfilter(b[0], a[0], x, zi=np.broadcast_to(zi, (3, 2)))
    np.testing.assert_allclose(shared.T, wanted[0], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(states.T, wanted[1], rtol=1e-13, atol=1e-14)


@extended
def test_dtypes_and_out():
    b, a, x, _ = drawn(2)
    narrow = [array.astype(np.float32) for array in (b, a, x)]
    result, out = lfilter(*narrow), np.empty(STEPS, np.float32)
    assert result.dtype == np.float32 and lfilter(*narrow, out=out) is out
    wanted = loop(*(array.astype(float) for array in narrow), np.zeros(2))[0]
    np.testing.assert_array_equal(result, wanted.astype(np.float32))
    np.testing.assert_array_equal(out, result)
    counts = np.arange(STEPS, dtype=np.int16)
    assert lfilter(b, 1.0, counts).dtype == np.float64


@extended
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_products_neither_vanish_nor_overflow(factor):
    """The product of the 20 coefficients of the middle chunk is 1e±600, the states are 1e±300."""
    poles = np.full(STEPS, -1.0)
    poles[20:40] = -factor
    a = np.stack([np.ones(STEPS), poles], axis=1)
    zi = np.array([1e-300 if factor > 1 else 1e300])
    wanted = lfilter([1.0, 0.0], a, np.zeros(STEPS), zi=zi)[0]
    lazy = lfilter([1.0, 0.0], a, da.zeros(STEPS, chunks=20), zi=zi)[0]
    assert np.isfinite(wanted).all() and wanted.all()
    np.testing.assert_allclose(lazy, wanted, rtol=1e-13)


@pytest.mark.gpu
@pytest.mark.parametrize("order", [2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cupy_arrays(order, dtype):
    b, a, x, zi = (array.astype(dtype) for array in drawn(order, (2, STEPS, 3)))
    zi = np.broadcast_to(zi[:, None], (2, order, 3))
    for reset in (None, MARKS):
        results = lfilter(
            *map(on_gpu, (b, a, x)), axis=1, zi=on_gpu(zi),
            reset=None if reset is None else on_gpu(reset),
        )  # fmt: skip
        for result, wanted in zip(results, lfilter(b, a, x, 1, zi, reset=reset), strict=True):
            assert result.dtype == dtype
            tolerance = 1e-5 if dtype == np.float32 else 1e-12
            np.testing.assert_allclose(from_gpu(result), wanted, rtol=tolerance, atol=tolerance)
    shared, out = on_gpu(a[0, :, 0]), on_gpu(np.empty_like(x))
    one = np.ones(1, dtype)
    assert lfilter(one, shared, on_gpu(x), axis=1, out=out) is out
    wanted = lfilter(one, a[0, :, 0], x, axis=1)
    np.testing.assert_allclose(from_gpu(out), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
def test_dask_arrays_of_cupy_arrays_are_refused():
    b, a, x, _ = drawn(2)
    lazy = in_chunks(x).map_blocks(on_gpu)
    with pytest.raises(NotImplementedError, match="Dask arrays of CuPy arrays"):
        lfilter(on_gpu(b), on_gpu(a), lazy)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((3, 2)), [1.0]), ValueError, r"b must have shape \(order \+ 1,\), \(5, order"),
        ((np.ones((2, 5, 2)), [1.0]), ValueError, "b must have shape"),
        ((np.ones((5, 1)), [1.0]), ValueError, "order .* must be from 1 to 16; got 0"),
        ((np.ones((5, 18)), [1.0]), ValueError, "order .* must be from 1 to 16; got 17"),
        ((np.ones((5, 2)) * 1j, [1.0]), NotImplementedError, "must be real"),
    ],
)
def test_wrong_coefficients_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        lfilter(*arguments, np.ones(5))


def test_other_wrong_arguments_are_refused():
    b = np.ones((5, 2))
    with pytest.raises(ValueError, match="Invalid zi shape"):
        lfilter(b, [1.0], np.ones(5), zi=np.ones(2))
    with pytest.raises(NotImplementedError, match="int64"):
        lfilter(b.astype(int), [1], np.ones(5, int))
    with pytest.raises(TypeError, match="out must be None"):
        lfilter(b, [1.0], da.ones(5), out=np.empty(5))


def test_the_loop_of_these_tests_can_fail():
    b, a, x, zi = drawn(2)
    wanted = loop(b, a, x, zi)[0]
    b[30, 2] *= 1 + 1e-9
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(lfilter(b, a, x, zi=zi)[0], wanted, rtol=1e-13, atol=1e-14)
