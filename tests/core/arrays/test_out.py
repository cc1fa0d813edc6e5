"""`out` of the public functions."""

from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest

import mgrec
from mgrec.signal import lfilter, sosfilt

T = np.linspace(-1, 1, 12).reshape(3, 4)


@pytest.mark.parametrize(("axis", "dtype"), [(0, "f8"), (1, "f8"), (1, "f2")])
def test_the_result_is_written_to_out(axis, dtype):
    t = T.astype(dtype)
    out = np.full_like(t, np.nan)
    assert mgrec.linear_recurrence(0.5, t, 1.0, axis=axis, out=out) is out
    np.testing.assert_array_equal(out, mgrec.linear_recurrence(0.5, t, 1.0, axis=axis))


def test_a_state_of_several_scalars_goes_to_a_tuple():
    ones = np.ones(6, dtype=np.int64)
    out = np.empty(6, np.int64), np.empty(6, np.int64)
    result = mgrec.scan(mgrec.maps.matrix2, ones, 1, 1, 0, 0, 0, initial=(1, 0), out=out)
    assert result is out
    assert out[0].tolist() == [1, 2, 3, 5, 8, 13]
    with pytest.raises(ValueError, match="share no memory; got two"):
        mgrec.scan(mgrec.maps.matrix2, ones, 1, 1, 0, 0, 0, initial=(1, 0), out=(out[0], out[0]))


READ_ONLY = np.empty_like(T)
READ_ONLY.flags.writeable = False
REFUSED = {
    "flags of its own": (T, SimpleNamespace(flags={}), TypeError, "must be a NumPy array.*types"),
    "shape": (T, np.empty((4, 3)), ValueError, r"shape \(3, 4\) and dtype float64; got \(4, 3\)"),
    "dtype": (T, np.empty((3, 4), "f4"), ValueError, "dtype float64; got .* float32"),
    "order": (T, np.empty((4, 3)).T, ValueError, "C-contiguous and writeable"),
    "read-only": (T, READ_ONLY, ValueError, "C-contiguous and writeable"),
    "an operand": (T, T, ValueError, "share memory with an operand"),
    "part of an operand": (T.reshape(-1)[:6], T.reshape(-1)[5:11], ValueError, "share memory"),
    "a list": (T, [0.0] * 12, TypeError, "out must be a NumPy array.*got builtins.list"),
    "a tuple": (T, (np.empty_like(T),), TypeError, "out must be one array.*got tuple"),
    "lazy": (da.from_array(T), np.empty_like(T), TypeError, "out must be None.*Dask"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    t, out, kind, message = REFUSED[name]
    for function, given in (
        (mgrec.linear_recurrence, (0.5,)),
        (lfilter, ([0.5], [1.0, -0.5])),
        (sosfilt, ([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]],)),
    ):
        with pytest.raises(kind, match=message):
            function(*given, t, out=out)


def test_neighbours_in_memory_are_not_refused():
    buffer = np.zeros(12)
    buffer[:6] = 1
    mgrec.linear_recurrence(1.0, buffer[:6], out=buffer[6:])
    assert buffer.tolist() == [1.0] * 6 + [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
