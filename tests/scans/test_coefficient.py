"""Coefficients computed on the fly."""

import cloudpickle
import dask.array as da
import numpy as np
import pytest

import mgrec


def decay(i, x):
    return np.exp(-0.01 * (i % 70)) * x


X = np.linspace(0.2, 0.9, 300)
T = np.linspace(-1, 1, 300)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("chunk", [None, 90])
def test_the_index_is_the_place_in_the_array(reverse, axis, chunk):
    def table(values):
        return np.stack([values, values + 1], 1 - axis)

    x, t = table(X), table(T)
    index = np.arange(300).reshape([-1 if k == axis else 1 for k in range(2)])
    wanted = mgrec.linear_recurrence(decay(index, x), t, axis=axis, reverse=reverse)
    if chunk:
        sizes = tuple(chunk if k == axis else 1 for k in range(2))
        x, t = da.from_array(x, chunks=sizes), da.from_array(t, chunks=sizes)
    s = mgrec.Coefficient(decay, x)
    w = mgrec.linear_recurrence(s, t, axis=axis, reverse=reverse)
    np.testing.assert_allclose(np.asarray(w), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("eager_threads")
def test_threads_see_their_own_indices(monkeypatch):
    x, t = np.full(80_000, 0.9), np.ones(80_000)
    s = mgrec.Coefficient(decay, x)
    wanted = mgrec.linear_recurrence(decay(np.arange(80_000), x), t)
    for threads in "1", "3":
        monkeypatch.setenv("MGREC_NUM_THREADS", threads)
        np.testing.assert_allclose(mgrec.linear_recurrence(s, t), wanted, rtol=1e-13)


def test_both_operands_may_be_coefficients():
    s = mgrec.Coefficient(lambda i, x: x + 0 * i, X)
    t = mgrec.Coefficient(lambda i: 1.0 * i)
    wanted = mgrec.linear_recurrence(X, np.arange(300.0), 3.0)
    np.testing.assert_allclose(mgrec.linear_recurrence(s, t, 3.0), wanted, rtol=1e-13)


def test_it_does_not_change_the_dtype():
    s = mgrec.Coefficient(decay, np.ones(3))
    assert mgrec.linear_recurrence(s, np.ones(3, np.float32)).dtype == np.float32
    assert mgrec.linear_recurrence(s, np.ones(3, np.int32)).dtype == np.float64
    assert mgrec.linear_recurrence(s, np.ones(3, np.complex64)).dtype == np.complex64


@pytest.mark.extended
def test_the_papers_cases():
    # Wakatani: a light coefficient, and one of 200 multiplications and 200 divisions.
    def middle(i, x):
        y = x
        for _ in range(200):
            y = y * 1.01 / 1.0099
        return y

    wanted = mgrec.linear_recurrence(middle(0, X), T)
    w = mgrec.linear_recurrence(mgrec.Coefficient(middle, X), T)
    np.testing.assert_allclose(w, wanted, rtol=1e-12)


def test_pickled_coefficients_stay_equal():
    s = mgrec.Coefficient(lambda i, x: x * 0.5, X)
    again = cloudpickle.loads(cloudpickle.dumps(s))
    assert again.function == s.function
    np.testing.assert_array_equal(mgrec.linear_recurrence(again, T), mgrec.linear_recurrence(s, T))


def test_what_is_no_plain_function_is_refused():
    with pytest.raises(TypeError, match=r"must be a plain Python function.*got <ufunc 'sin'>"):
        mgrec.Coefficient(np.sin)


def test_a_complex_coefficient_of_a_real_recurrence_is_refused():
    with pytest.raises(TypeError, match="functions of a recurrence must be"):
        mgrec.linear_recurrence(mgrec.Coefficient(lambda i: 1j * i), np.ones(3))


def test_repr():
    assert repr(mgrec.Coefficient(decay, X)) == "Coefficient(decay, 1 arrays)"
