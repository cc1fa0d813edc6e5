"""Filters whose coefficients vary in time, against a loop over the samples."""

import dask.array as da
import numpy as np
import pytest
import scipy.signal
from chunkings import chunkings
from hypothesis import given
from hypothesis import strategies as st
from places import from_gpu, on_gpu, to_host

from mgrec.signal import lfilter

extended = pytest.mark.extended
STEPS = 60
MARKS = np.arange(STEPS) % 17 == 5


def loop(b, a, x, zi, reset=None, form="transposed"):
    """A filter in the order of the sums of the kernels; the outputs and the states."""
    dtype = np.result_type(b, a, x, zi)
    y, z = np.empty(len(x), dtype), np.array(zi, dtype)
    for step, sample in enumerate(x):
        if reset is not None and reset[step]:
            z[:] = zi
        taps, poles = b[step] / a[step, 0], a[step] / a[step, 0]
        if form == "direct":
            latest = sample
            for k in range(len(z), 0, -1):
                latest = latest - poles[k] * z[k - 1]
            y[step] = taps[0] * latest
            for k in range(len(z)):
                y[step] += taps[k + 1] * z[k]
            z = np.append(latest, z[:-1])
        else:  # in the order of SciPy's sums
            y[step] = z[0] + taps[0] * sample
            for k, following in enumerate(np.append(z[1:], 0.0)):
                z[k] = following + taps[k + 1] * sample - poles[k + 1] * y[step]
    return y, z


def drawn(order, shape=(STEPS,), gain=True, is_complex=False):
    generator = np.random.default_rng(order)

    def uniform(least, most, shape):
        values = generator.uniform(least, most, shape)
        return values + 1j * generator.uniform(least, most, shape) if is_complex else values

    b = uniform(-1, 1, (*shape, order + 1))
    a = uniform(-0.9, 0.9, (*shape, order + 1)) / order
    a[..., 0] = uniform(0.5, 2.0, shape) if gain else 1.0
    return b, a, uniform(-1, 1, shape), uniform(-1, 1, order)


def in_chunks(array):
    return da.from_array(array, chunks=(7, *array.shape[1:]))


@pytest.mark.parametrize(
    ("order", "form"),
    [
        (2, "transposed"),
        (2, "direct"),
        *(
            pytest.param(order, form, marks=extended)
            for order in (1, 5, 20)
            for form in ("transposed", "direct")
        ),
    ],
)
def test_outputs_and_states_are_those_of_the_loop(order, form):
    for gain in (False, True):
        b, a, x, zi = drawn(order, gain=gain)
        for reset in (None, MARKS):
            wanted = loop(b, a, x, zi, reset, form)
            for result, exact in zip(lfilter(b, a, x, zi=zi, form=form, reset=reset), wanted, strict=True):
                np.testing.assert_array_equal(result, exact)
            lazy = lfilter(in_chunks(b), a, in_chunks(x), zi=zi, form=form, reset=reset)
            for result, exact in zip(lazy, wanted, strict=True):
                assert isinstance(result, da.Array)
                np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-13)
        y = lfilter(b, in_chunks(a), x, form=form)
        exact, _ = loop(b, a, x, np.zeros(order), form=form)
        np.testing.assert_allclose(y, exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("order", "form"),
    [
        (2, "transposed"),
        *(
            pytest.param(order, form, marks=extended)
            for order in (1, 12)
            for form in ("transposed", "direct")
        ),
    ],
)
def test_complex_numbers(order, form):
    b, a, x, zi = drawn(order, is_complex=True)
    for reset in (None, MARKS):
        wanted = loop(b, a, x, zi, reset, form)
        results = lfilter(b, a, x, zi=zi, form=form, reset=reset)
        lazy = lfilter(in_chunks(b), a, in_chunks(x), zi=in_chunks(zi), form=form, reset=reset)
        for result, of_chunks, exact in zip(results, lazy, wanted, strict=True):
            assert result.dtype == of_chunks.dtype == np.complex128
            np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(of_chunks, exact, rtol=1e-12, atol=1e-13)


@extended
@pytest.mark.parametrize("form", ["transposed", "direct"])
@pytest.mark.parametrize("order", [1, 2, 12])
def test_complex_numbers_beside_real_ones_and_of_single_precision(order, form):
    b, a, x, _ = drawn(order, is_complex=True)
    parts = b.real, a.real, x.real
    mixed = lfilter(1j * b.real, *parts[1:], form=form)
    np.testing.assert_allclose(mixed, 1j * lfilter(*parts, form=form), rtol=1e-12, atol=1e-13)
    narrow = [array.astype(np.complex64) for array in (b, a, x)]
    result = lfilter(*narrow, form=form)
    assert result.dtype == np.complex64
    exact, _ = loop(*(array.astype(complex) for array in narrow), np.zeros(order), form=form)
    np.testing.assert_allclose(result, exact, rtol=1e-6, atol=1e-6)


@extended
@pytest.mark.parametrize("form", ["transposed", "direct"])
@given(data=st.data())
def test_any_chunks(data, form):
    """Outputs, states and gradients of chunks of any sizes, empty ones included."""
    order = 3
    b, a, x, zi = drawn(order)
    sizes = data.draw(chunkings(STEPS))
    lazy = da.from_array(x, chunks=(sizes,))
    reset = data.draw(st.sampled_from([None, MARKS]))
    for result, exact in zip(
        lfilter(b, a, lazy, zi=zi, form=form, reset=reset),
        lfilter(b, a, x, zi=zi, form=form, reset=reset),
        strict=True,
    ):
        np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("form", ["transposed", "direct"])
@pytest.mark.parametrize("order", [1, 2, 12])
def test_chunks_after_infinite_states_are_those_of_the_loop(order, form):
    for seed in range(20):
        generator = np.random.default_rng(seed)
        a = generator.uniform(-0.4, 0.4 * (seed % 2), (STEPS, order + 1))
        b, x, zi = np.ones((STEPS, order + 1)), generator.normal(size=STEPS), np.zeros(order)
        a[:, 0], x[19] = 1.0, np.inf
        lazy = [da.from_array(array, chunks=((20, 10, 30), *array.shape[1:])) for array in (b, a, x)]
        y, _ = lfilter(*lazy, zi=zi, form=form)
        np.testing.assert_allclose(y, loop(b, a, x, zi, form=form)[0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("chunks", [(1, 3), (2, 2)])
def test_real_states_of_complex_signals_in_several_chunks(chunks):
    b, a, x, zi = drawn(4)
    x = x + 1j * x[::-1]
    states = da.from_array(zi, chunks=[chunks])
    y, zf = lfilter(in_chunks(b), a, in_chunks(x), zi=states, reset=MARKS)
    wanted, states = loop(b, a, x, zi, MARKS)
    np.testing.assert_allclose(y.compute(), wanted, rtol=1e-11)
    np.testing.assert_allclose(zf.compute(), states, rtol=1e-11)


def test_steps_without_a_gain_are_refused():
    b, a, x, _ = drawn(2)
    a[STEPS // 2, 0] = 0.0
    for signal in (x, in_chunks(x)):
        with pytest.raises(ValueError, match=r"a\[\.\.\., 0\] must not be 0"):
            np.asarray(lfilter(b, a, signal))
    with pytest.raises(ValueError, match=r"a\[\.\.\., 0\] must not be 0"):
        lfilter(b * 1j, a, x)


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


@pytest.mark.parametrize("chunks", [300, 7000])
def test_crowded_poles_lose_no_digits_at_boundaries_of_chunks(chunks):
    """Products of matrices grow by 4e3 before they decay."""
    x = np.random.default_rng(3).normal(size=20_000)
    b, a = np.ones((20_000, 3)), np.tile(np.poly([0.9999, 0.9999]), (20_000, 1))
    lazy = [da.from_array(array, chunks=(chunks, *array.shape[1:])) for array in (b, a, x)]
    wide = [array.astype(np.longdouble) for array in (b[0], a[0], x)]
    wanted = scipy.signal.lfilter(*wide)
    of_loop = abs(lfilter(b, a, x) - wanted).max()
    assert abs(lfilter(*lazy) - wanted).max().compute() <= 8 * of_loop


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
@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("order", [2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cupy_arrays(order, dtype):
    b, a, x, zi = (array.astype(dtype) for array in drawn(order, (2, STEPS, 3)))
    zi = np.broadcast_to(zi[:, None], (2, order, 3))
    for reset in (None, MARKS):
        results = lfilter(
            *map(on_gpu, (b, a, x)), axis=1, zi=on_gpu(zi), reset=None if reset is None else on_gpu(reset)
        )
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
@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("reset", [None, MARKS])
@pytest.mark.parametrize(
    ("order", "is_complex", "form"),
    [
        pytest.param(3, False, "transposed", marks=pytest.mark.emulated),
        (3, False, "direct"),
        (3, True, "transposed"),
        (3, True, "direct"),
        (20, False, "transposed"),
        (20, False, "direct"),
    ],
)
def test_complex_cupy_arrays_and_chunks_of_them(order, is_complex, form, reset):
    b, a, x, zi = drawn(order, is_complex=is_complex)
    wanted = lfilter(b, a, x, zi=zi, form=form, reset=reset)
    b, a, zi, lazy = on_gpu(b), on_gpu(a), on_gpu(zi), in_chunks(x).map_blocks(on_gpu)
    for signal in (on_gpu(x), lazy):
        results = lfilter(b, a, signal, zi=zi, form=form, reset=reset)
        for result, exact in zip(results, wanted, strict=True):
            np.testing.assert_allclose(to_host(result), exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((3, 2)), [1.0]), ValueError, r"b must have shape \(order \+ 1,\), \(5, order"),
        ((np.ones((2, 5, 2)), [1.0]), ValueError, "b must have shape"),
        ((np.ones((5, 1)), [1.0]), ValueError, "order .* must be from 1 to 64; got 0"),
        ((np.ones((5, 66)), [1.0]), ValueError, "order .* must be from 1 to 64; got 65"),
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
    for coefficients in (b, [1.0, 0.5]):
        with pytest.raises(ValueError, match="form must be 'transposed' or 'direct'; got 'df1'"):
            lfilter(coefficients, [1.0], np.ones(5), form="df1")


def test_the_loop_of_these_tests_can_fail():
    b, a, x, zi = drawn(2)
    wanted = loop(b, a, x, zi)[0]
    b[30, 2] *= 1 + 1e-9
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(lfilter(b, a, x, zi=zi)[0], wanted, rtol=1e-13, atol=1e-14)
