"""Rounding errors against wide precision: no worse than SciPy's by a stated factor."""

from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from scipy import signal

from mgrec.filters.cascade import Cascade, doubled_powers, power
from mgrec.signal import lfilter, sosfilt

# As the docstring of lfilter says.
FACTOR = 8
DIGITS = 200  # binary digits of the reference
LENGTH = 3000

POLYNOMIALS = {
    **{f"Butterworth {n}, {w}": signal.butter(n, w) for n in range(2, 21, 2) for w in (0.5, 0.2)},
    # Every order is compiled, for seconds: these are of orders that other tests have.
    **{f"Butterworth {n}, 0.02": signal.butter(n, 0.02) for n in (2, 3, 4, 5)},
    "Butterworth 3, high": signal.butter(3, 0.001, "high"),
    "Chebyshev 8": signal.cheby1(8, 1, 0.2),
    "Chebyshev 5, high": signal.cheby2(5, 40, 0.3, "high"),
    "elliptic 5": signal.ellip(5, 1, 60, 0.3),
    "band 4": signal.butter(4, [0.1, 0.3], "band"),
    "notch at 1e-4": signal.iirnotch(2e-4, 30),
}
SECTIONS = {
    **{f"Butterworth {n}": signal.butter(n, 0.2, output="sos") for n in (2, 8, 20)},
    "low": signal.butter(8, 0.002, output="sos"),
    "notch at 1e-4": signal.tf2sos(*signal.iirnotch(2e-4, 30)),
}


def wide(values):
    """Numbers as integers, in units of 2**-DIGITS."""
    return [int(Fraction(float(value)) * 2**DIGITS) for value in values]


def in_wide_precision(b, a, x):
    """b(z)/a(z) in integers; a_0 is 1, or divides in float64 as SciPy divides."""
    b, a = wide(np.asarray(b) / a[0]), wide(np.asarray(a) / a[0])
    order = max(len(a), len(b)) - 1
    b, a = b + [0] * (order + 1 - len(b)), a + [0] * (order + 1 - len(a))
    state, outputs = [0] * (order + 1), []
    for value in x:
        y = (b[0] * value + state[0]) >> DIGITS
        for i in range(order):
            state[i] = state[i + 1] + b[i + 1] * value - a[i + 1] * y
        outputs.append(y)
    return outputs


def in_sections(sos, x):
    results = wide(x)
    for section in sos:
        results = in_wide_precision(section[:3], section[3:], results)
    return results


def errors(results, reference):
    """Root mean squares of the differences, each relative to the largest value."""
    exact = [Fraction(y, 2**DIGITS) for y in reference]
    size = max(abs(y) for y in exact)
    found = []
    for result in results:
        differences = [float((Fraction(float(y)) - e) / size) for y, e in zip(result, exact, strict=True)]
        found.append(np.sqrt(np.mean(np.square(differences))))
    return found


def assert_as_accurate(results, scipys, reference):
    *ours, theirs = errors([*results, scipys], reference)
    assert max(ours) <= FACTOR * theirs + np.finfo(float).eps, (ours, theirs)


# Every order is compiled, for seconds.
@pytest.mark.extended
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_transfer_functions(name):
    b, a = POLYNOMIALS[name]
    x = np.random.default_rng(7).normal(size=LENGTH)
    chunked = lfilter(b, a, da.from_array(x, chunks=211)).compute()
    reference = in_wide_precision(b, a, wide(x))
    assert_as_accurate([lfilter(b, a, x), chunked], signal.lfilter(b, a, x), reference)


# One and ten sections are compiled for themselves, for seconds.
@pytest.mark.parametrize("name", with_extended(SECTIONS, "Butterworth 2", "Butterworth 20", "notch at 1e-4"))
def test_sections(name):
    sos = SECTIONS[name]
    x = np.random.default_rng(7).normal(size=LENGTH)
    reference = in_sections(sos, x)
    chunked = sosfilt(sos, da.from_array(x, chunks=211)).compute()
    assert_as_accurate([sosfilt(sos, x), chunked], signal.sosfilt(sos, x), reference)


@pytest.mark.extended
@pytest.mark.parametrize("name", ["Butterworth 2, 0.5", "Butterworth 4, 0.2", "notch at 1e-4"])
def test_float32_is_at_least_as_accurate(name):
    b, a = (part.astype("f4") for part in POLYNOMIALS[name])
    x = np.random.default_rng(7).normal(size=LENGTH).astype("f4")
    ba, aa = (part.astype(float) / float(a[0]) for part in (b, a))
    ours, theirs = errors([lfilter(b, a, x), signal.lfilter(b, a, x)], in_wide_precision(ba, aa, wide(x)))
    assert ours <= theirs


def test_this_finds_a_result_that_is_too_coarse():
    sos, x = SECTIONS["Butterworth 8"], np.random.default_rng(7).normal(size=500)
    coarse = sosfilt(sos, x).astype("f4")
    with pytest.raises(AssertionError):
        assert_as_accurate([coarse], signal.sosfilt(sos, x), in_sections(sos, x))


def test_powers_where_all_poles_are_one():
    cascade = Cascade.of_polynomials([1], np.poly(np.ones(8)))
    exact = np.eye(8, k=1).astype(int).astype(object)
    exact[:, 0] = [-int(c) for c in np.poly(np.ones(8))[1:]]
    exact = np.linalg.matrix_power(exact, 16)
    for doubled in doubled_powers(cascade, 4, 4, 20)[0, 1:]:
        np.testing.assert_array_equal(doubled, exact.astype(float))
        exact = exact @ exact
    np.testing.assert_array_equal(power(cascade, 16 << 20)[0], exact.astype(float))


def draw_complex(size, seed=7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=size) + 1j * rng.normal(size=size)


def ratio(b, a):
    """Errors of b/a over a white signal, mgrec's as multiples of SciPy's."""
    x = draw_complex(400)
    exact = signal.lfilter(*(np.asarray(part, np.clongdouble) for part in (b, a, x)))
    ours, theirs = (np.square(np.abs(y - exact)).mean() for y in (lfilter(b, a, x), signal.lfilter(b, a, x)))
    return np.sqrt(ours / theirs)


def test_a_complex_first_coefficient_costs_no_digits():
    """Quotients that NumPy rounded had 13 times SciPy's errors."""
    assert ratio([1], [1.29 + 0.48j, -1.16 + 0.63j]) <= FACTOR
    rng, found = np.random.default_rng(7), []
    for order in (1, 2, 3, 4) * 10:
        poles = rng.uniform(0.3, 0.999, order) * np.exp(2j * np.pi * rng.random(order))
        first = complex(*rng.normal(size=2))
        found.append(ratio(first * draw_complex(order + 1), first * np.poly(poles)))
    assert max(found) <= FACTOR
    assert np.median(found) <= 1


@pytest.mark.skipif(np.finfo("g").nmant < 60, reason="no extended precision on this machine")
def test_complex_quotients_are_rounded_once():
    b, a = draw_complex(50), draw_complex(50, seed=8)
    (section,) = Cascade.of_polynomials(b, a).sections
    size = Fraction(a[0].real) ** 2 + Fraction(a[0].imag) ** 2
    for computed, given in zip((*section.b, *section.a), (*b, *a), strict=True):
        x, y, u, v = map(Fraction, (given.real, given.imag, a[0].real, a[0].imag))
        for have, exact in ((computed.real, x * u + y * v), (computed.imag, y * u - x * v)):
            assert abs(have - float(exact / size)) <= np.spacing(abs(have)) * 0.51
