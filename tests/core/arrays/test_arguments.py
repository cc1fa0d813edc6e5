"""Numbers and flags: a bool is no number, a number is no flag, and a mask is never dropped."""

import re

import dask.array as da
import numpy as np
import pytest

import mgrec
import mgrec.dask
from mgrec.signal import ewm, filtfilt, lfilter, lfilter_zi, lfiltic, sosfilt, sosfilt_zi, sosfiltfilt

X, LAZY = np.ones(40), da.ones(40, chunks=20)
B, A, SOS = [1.0, 0.5], [1.0, -0.5], [[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]]
HUGE = 10**400

ALONG_AN_AXIS = {
    "linear": lambda x, **about: mgrec.linear_recurrence(0.5, x, **about),
    "rational": lambda x, **about: mgrec.rational_recurrence(x, 1.0, 0.0, 2.0, 1.0, **about),
    "scan": lambda x, **about: mgrec.scan(mgrec.maps.max_plus, x, 0.0, initial=0.0, **about),
    "lfilter": lambda x, **about: lfilter(B, A, x, **about),
    "sosfilt": lambda x, **about: sosfilt(SOS, x, **about),
    "filtfilt": lambda x, **about: filtfilt(B, A, x, **about),
    "gust": lambda x, **about: filtfilt(B, A, np.asarray(x), method="gust", **about),
    "sosfiltfilt": lambda x, **about: sosfiltfilt(SOS, x, **about),
    "ewm": lambda x, **about: ewm(x, alpha=0.5, **about),
}


@pytest.mark.parametrize("x", [X, LAZY], ids=["numpy", "dask"])
@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_an_axis_is_an_integer(name, x):
    for axis in (False, np.True_, 0.0, "0", None):
        wanted = f"axis must be an integer; got {axis!r}"
        with pytest.raises(TypeError, match=re.escape(wanted)):
            ALONG_AN_AXIS[name](x, axis=axis)
    with pytest.raises(ValueError, match=r"axis must be from -1 to 0 for shape \(40,\); got 1"):
        ALONG_AN_AXIS[name](x, axis=1)


@pytest.mark.parametrize("name", ["linear", "rational", "scan"])
def test_a_direction_is_a_bool(name):
    for reverse in ("no", 0, 1, None, np.ones(1, bool)):
        with pytest.raises(TypeError, match="reverse must be True or False; got"):
            ALONG_AN_AXIS[name](X, reverse=reverse)
    for_python, for_numpy = (ALONG_AN_AXIS[name](X, reverse=r) for r in (True, np.True_))
    np.testing.assert_array_equal(for_python, for_numpy)


MASKED = np.ma.masked_array([1.0, 2.0], [False, True])
REFUSED = {
    "adjust": (lambda: ewm(X, alpha=0.5, adjust="no"), TypeError, "adjust must be True or False"),
    "alpha": (lambda: ewm(X, alpha=True), TypeError, "alpha must be .* got True"),
    "span of NumPy": (lambda: ewm(X, span=np.True_), TypeError, "span must be a finite number"),
    "a complex com": (lambda: ewm(X, com=np.complex128(1)), TypeError, "com must be a finite"),
    "digits": (lambda: ewm(X, alpha="0.5"), TypeError, "alpha must be .* got '0.5'"),
    "a huge com": (lambda: ewm(X, com=HUGE), ValueError, "com must be a finite .* float64"),
    "padlen": (lambda: filtfilt(B, A, X, padlen=True), TypeError, "padlen must be an integer"),
    "irlen": (lambda: filtfilt(B, A, X, method="gust", irlen=True), TypeError, "irlen must be an integer"),
    "n": (lambda: mgrec.tuning.report(True), TypeError, "n must be an integer; got True"),
    "axis of stages": (
        lambda: mgrec.dask.persist_in_stages(LAZY, axis=False),
        TypeError,
        "axis must be an integer",
    ),
    "chunks of stages": (
        lambda: mgrec.dask.persist_in_stages(LAZY, chunks=2.5),
        TypeError,
        "chunks must be an int",
    ),
    "samples": (lambda: mgrec.check_laws(mgrec.maps.affine, samples=True), TypeError, "samples must be an"),
    "huge y": (lambda: lfiltic(B, A, [HUGE]), TypeError, "y must be of an integer"),
    "huge x": (lambda: lfiltic(B, A, [1.0], [HUGE]), TypeError, "x must be of an integer"),
    "huge b": (lambda: lfiltic([HUGE], A, [1.0]), TypeError, "b must be of an integer"),
    "masked b": (lambda: lfilter(MASKED, A, X), TypeError, "b must be a plain array; got a masked"),
    "masked a": (lambda: filtfilt(B, MASKED, X), TypeError, "a must be a plain array"),
    "masked zi": (lambda: lfilter(B, A, X, zi=MASKED[:1]), TypeError, "zi must be a plain array"),
    "masked sos": (lambda: sosfilt(np.ma.array(SOS), X), TypeError, "sos must be a plain array"),
    "masked sos of states": (lambda: sosfilt_zi(np.ma.array(SOS)), TypeError, "sos must be a pl"),
    "masked b of states": (lambda: lfilter_zi(MASKED, A), TypeError, "b must be a plain array"),
    "masked y": (lambda: lfiltic(B, A, MASKED), TypeError, "y must be a plain array"),
    "masked out": (lambda: lfilter(B, A, X, out=np.ma.zeros(40)), TypeError, "out must be a plain array"),
    "masked out of linear": (
        lambda: ALONG_AN_AXIS["linear"](X, out=np.ma.zeros(40)),
        TypeError,
        "out must be a plain",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()


def test_what_is_taken():
    for axis in (-1, 0, np.int8(0), np.array(0), np.uint8(0)):
        np.testing.assert_array_equal(ALONG_AN_AXIS["linear"](X, axis=axis)[:2], [1.0, 1.5])
    assert ALONG_AN_AXIS["linear"](X, reverse=np.False_)[1] == 1.5
    wanted = ewm(X, alpha=0.5)
    for alpha in (np.float16(0.5), np.array(0.5), np.float64(0.5)):
        np.testing.assert_array_equal(ewm(X, alpha=alpha), wanted)
    np.testing.assert_array_equal(ewm(X, com=1), wanted)
