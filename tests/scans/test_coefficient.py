"""Coefficients computed on the fly."""

import cloudpickle
import numpy as np
import pytest

import mgrec


def decay(i, x):
    return np.exp(-0.01 * (i % 70)) * x


X = np.linspace(0.2, 0.9, 300)
T = np.linspace(-1, 1, 300)


def test_it_does_not_change_the_dtype():
    s = mgrec.Coefficient(decay, np.ones(3))
    assert mgrec.linear_recurrence(s, np.ones(3, np.float32)).dtype == np.float32
    assert mgrec.linear_recurrence(s, np.ones(3, np.int32)).dtype == np.float64


@pytest.mark.extended
def test_it_does_not_change_a_complex_dtype():
    s = mgrec.Coefficient(decay, np.ones(3))
    assert mgrec.linear_recurrence(s, np.ones(3, np.complex64)).dtype == np.complex64


@pytest.mark.extended
def test_a_coefficient_of_400_operations():
    def middle(i, x):
        y = x
        for _ in range(200):
            y = y * 1.01 / 1.0099
        return y

    w = mgrec.linear_recurrence(mgrec.Coefficient(middle, X), T)
    np.testing.assert_allclose(w, mgrec.linear_recurrence(middle(0, X), T), rtol=1e-12)


def test_pickled_coefficients_stay_equal():
    s, t = mgrec.Coefficient(decay, X[:9]), T[:9]
    again = cloudpickle.loads(cloudpickle.dumps(s))
    assert again.function == s.function
    np.testing.assert_array_equal(mgrec.linear_recurrence(again, t), mgrec.linear_recurrence(s, t))


def test_what_cannot_be_a_coefficient_is_refused():
    with pytest.raises(TypeError, match=r"must be a plain Python function.*got <ufunc 'sin'>"):
        mgrec.Coefficient(np.sin)
    with pytest.raises(TypeError, match="functions of a recurrence must be"):
        mgrec.linear_recurrence(mgrec.Coefficient(lambda i: 1j * i), np.ones(3))


def test_repr():
    assert repr(mgrec.Coefficient(decay, X)) == "Coefficient(decay, 1 arrays)"
