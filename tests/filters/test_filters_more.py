"""Zero phase, states to begin with, results in `out`: as in SciPy."""

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from graphs import fetched
from scipy import signal

from mgrec.signal import filtfilt, lfilter, lfilter_zi, lfiltic, sosfilt, sosfilt_zi, sosfiltfilt

pytestmark = pytest.mark.quick

FILTER = signal.butter(2, 0.4)


def draw(*shape):
    return np.random.default_rng(7).normal(size=shape)


def close(computed, wanted, xp=np):
    np.testing.assert_allclose(fetched(computed, xp), wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
@pytest.mark.parametrize("padlen", [None, 0, 7, -1])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        *[((200,), 0), ((80, 3), 0)],
        *(pytest.param(*case, marks=pytest.mark.extended) for case in [((3, 80), 1), ((2, 60, 3), 1)]),
    ],
)
def test_zero_phase_is_scipys(padtype, padlen, shape, axis, xp):
    x, sos = draw(*shape), signal.butter(6, 0.3, output="sos")
    wanted = signal.filtfilt(*FILTER, x, axis, padtype, padlen)
    of_sections = signal.sosfiltfilt(sos, x, axis, padtype, padlen)
    for data in (xp.asarray(x), da.from_array(xp.asarray(x), chunks=33, asarray=False)):
        close(filtfilt(*FILTER, data, axis, padtype, padlen), wanted, xp)
        close(sosfiltfilt(sos, data, axis, padtype, padlen), of_sections, xp)


def test_zero_phase_of_chunks_keeps_them():
    x = da.from_array(draw(500), chunks=(100, 250, 150))
    y = filtfilt(*FILTER, x)
    assert isinstance(y, da.Array)
    assert y.chunks == x.chunks


@pytest.mark.parametrize("padtype", ["odd", None])
@pytest.mark.parametrize("chunks", [((0, 1, 0), (0, 20, 10, 0)), ((1,), (0, 0, 30))])
def test_zero_phase_of_empty_chunks(padtype, chunks):
    x = draw(1, 30)
    lazy = da.from_array(x, chunks=chunks)
    sos = signal.butter(2, 0.3, output="sos")
    for y, wanted in (
        (filtfilt(*FILTER, lazy, padtype=padtype), signal.filtfilt(*FILTER, x, padtype=padtype)),
        (sosfiltfilt(sos, lazy, padtype=padtype), signal.sosfiltfilt(sos, x, padtype=padtype)),
    ):
        assert y.chunks == chunks
        close(y, wanted)


def test_zero_phase_of_unknown_chunks_says_what_to_do():
    x = da.from_array(draw(30), chunks=10)
    rows = da.from_array(draw(4, 30), chunks=(2, 10))
    rows = rows[rows[:, 0] > -9]
    for unknown in (x[x > 0], rows):
        with pytest.raises(ValueError, match="compute_chunk_sizes"):
            filtfilt(*FILTER, unknown)
    wanted = signal.filtfilt(*FILTER, draw(4, 30), padtype=None)
    close(filtfilt(*FILTER, rows, padtype=None), wanted)


@pytest.mark.parametrize("irlen", [None, 20])
def test_gustafssons_ends_are_scipys(irlen, xp):
    x = draw(3, 80)
    wanted, data = signal.filtfilt(*FILTER, x, method="gust", irlen=irlen), xp.asarray(x)
    close(filtfilt(*FILTER, data, method="gust", irlen=irlen), wanted, xp)
    close(filtfilt(*FILTER, data.T, 0, method="gust", irlen=irlen), wanted.T, xp)
    close(filtfilt([2.0], [4.0], data, method="gust"), x / 4, xp)


@pytest.mark.parametrize("dtype", with_extended(["f4", "f8", "c8", "c16", "i8"], "f4", "c8"))
def test_gustafssons_ends_of_nothing(dtype):
    b, a = np.ones(2, "f4"), np.array([1.0, 0.5], "f4")
    for shape in ((0,), (3, 0), (0, 3)):
        y = filtfilt(b, a, np.zeros(shape, dtype), method="gust")
        assert y.shape == shape
        assert y.dtype == np.result_type(b, np.dtype(dtype))
    assert signal.filtfilt(b, a, np.zeros(0, "f4"), method="gust").dtype == np.float32


@pytest.mark.parametrize(
    ("b", "a"), [FILTER, ([1.0, 2, 3], [2.0, 0.5]), ([1.0], [0.0, 2.0, 1.0]), ([1.0, 2], [1.0])]
)
def test_states_to_begin_with_are_scipys(b, a):
    np.testing.assert_allclose(lfilter_zi(b, a), signal.lfilter_zi(b, a), rtol=1e-12)
    if np.atleast_1d(a)[0] != 0:
        for y, x in (([1.0, 2.0], None), ([1.0], [3.0, 4.0, 5.0, 6.0, 7.0]), ([1, 2], [3])):
            wanted = signal.lfiltic(b, a, y, x)
            np.testing.assert_allclose(lfiltic(b, a, y, x), wanted, rtol=1e-12)
            assert lfiltic(b, a, y, x).dtype == wanted.dtype


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_states_of_sections_are_scipys(dtype):
    sos = np.array([[1, 2, 3, 1, 0, 1], [4, 0, 1, 1, 1, 0]], dtype)
    np.testing.assert_allclose(sosfilt_zi(sos), signal.sosfilt_zi(sos), rtol=1e-6)
    assert sosfilt_zi(sos).dtype == signal.sosfilt_zi(sos).dtype


def test_the_result_is_written_to_out(xp):
    x, zi = xp.asarray(draw(3, 50)), draw(3, 2)
    out = xp.full((3, 50), np.nan)
    assert lfilter(*FILTER, x, out=out) is out
    assert (out == lfilter(*FILTER, x)).all()
    y, zf = lfilter(*FILTER, x, zi=zi, out=out)
    assert y is out
    for have, want in zip((y, zf), lfilter(*FILTER, x, zi=zi), strict=True):
        assert (have == want).all()
    sos = signal.butter(6, 0.3, output="sos")
    assert sosfilt(sos, x, 0, out=out) is out
    assert (out == sosfilt(sos, x, 0)).all()


@pytest.mark.extended
def test_the_result_of_float32_is_written_to_out(xp):
    x, out = xp.asarray(draw(3, 50), "f4"), xp.full((3, 50), np.nan, "f4")
    sos = signal.butter(6, 0.3, output="sos").astype("f4")
    assert sosfilt(sos, x, 0, out=out) is out
    assert (out == sosfilt(sos, x, 0)).all()


def test_out_must_not_be_the_states():
    states = np.zeros(2)
    with pytest.raises(ValueError, match="share memory with an operand"):
        lfilter(*FILTER, np.ones(2), zi=states, out=states)


ONES, PAIR = np.ones(3), [1.0, 0.5]
REFUSED = [
    (lfilter, ([], [1.0], [1.0]), ValueError, "b is not a non-empty 1d array"),
    (lfilter, ([1.0], [[[[1.0, 0.5]]]], [1.0]), ValueError, "a must have shape"),
    (filtfilt, ([1.0], np.eye(2), [1.0]), ValueError, "a is not a non-empty 1d array"),
    (lfilter, ([1.0], [0.0, 1.0], [1.0]), ValueError, r"a\[0\] must not be 0"),
    (lfilter, ([1.0], PAIR, 3.0), ValueError, "at least 1-D"),
    (lfilter, ([1.0], PAIR, [1.0], 1), ValueError, "axis must be from -1 to 0"),
    (lfilter, ([1.0], PAIR, np.ones((2, 3)), -1, np.ones((3, 1))), ValueError, "zi"),
    (lfilter, ([1.0], PAIR, ONES, -1, np.ones((1, 1))), ValueError, "zi"),
    (lfilter, ([1], [1, 2], np.arange(3)), NotImplementedError, "int64"),
    (lfilter, ([1.0], [1.0], np.ones(3, "g")), TypeError, "x must be .* (longdouble|float128)"),
    (lfilter, ([1.0], [1.0], np.ma.ones(3)), TypeError, "masked"),
    (sosfilt, (np.ones((2, 5)), ONES), ValueError, r"shape \(n_sections, 6\); got \(2, 5\)"),
    (sosfilt, (2 * np.ones((1, 6)), ONES), ValueError, "should be all ones"),
    (sosfilt, (np.ones((1, 6)), ONES, -1, np.ones((1, 3))), ValueError, r"zi .* shape \(1, 2\)"),
    (lfilter_zi, (np.eye(2), [1.0]), ValueError, "b must be 1-D"),
    (lfilter_zi, ([1.0], [0.0, 0.0]), ValueError, "nonzero"),
    (sosfilt_zi, (np.ones((2, 4)),), ValueError, "n_sections, 6"),
    (lfiltic, ([1.0], [0.0, 1.0], [1.0]), ValueError, "must be non-zero"),
    (lfiltic, ([1.0], np.eye(2), [1.0]), ValueError, "a must be 1-D"),
    (filtfilt, (*FILTER, draw(80), -1, "wrap"), ValueError, "padtype"),
    (filtfilt, (*FILTER, draw(80), -1, "odd", 80), ValueError, "padlen, which is 80"),
    (filtfilt, (*FILTER, draw(80), -1, "odd", 2.0), TypeError, "padlen must be an integer"),
    (filtfilt, (*FILTER, draw(80), -1, None, None, "gust", 2.0), TypeError, "irlen must be an int"),
    (filtfilt, (*FILTER, draw(80), -1, None, None, "gust", 0), ValueError, "at least 1; got 0"),
    (filtfilt, (*FILTER, draw(80), -1, None, None, "fft"), ValueError, "'pad' or 'gust'"),
    (filtfilt, (*FILTER, da.ones(50), -1, None, None, "gust"), NotImplementedError, "='pad'"),
]


@pytest.mark.parametrize(("function", "arguments", "error", "words"), REFUSED)
def test_what_is_refused(function, arguments, error, words):
    with pytest.raises(error, match=words):
        function(*arguments)
