"""Few rows are propagated by Python's numbers: with the bits that arrays give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mgrec.scans.summaries as module
from mgrec.scans.summaries import (
    FEW_ROWS,
    AffineSummary,
    are_short,
    propagate_affine,
    propagate_short,
)

NUMBERS = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-45, 1e38, -3.4e38, 1e300, -1e308, np.inf, np.nan]


def drawn(generator, shape, dtype):
    """Ordinary numbers, or those at the ends of what a dtype holds."""
    ordinary = generator.standard_normal(shape)
    rare = generator.choice(NUMBERS, shape)
    with np.errstate(over="ignore"):
        return np.where(generator.random(shape) < 0.7, ordinary, rare).astype(dtype)


def summary(generator, shape, dtype):
    most = generator.choice([1, 100, 1000, 5000])
    exponent = generator.integers(-most, most + 1, shape)
    growth = np.abs(exponent) * generator.uniform(-0.1, 1, shape)
    growth = np.where(generator.random(shape) < 0.1, generator.choice([np.inf, -np.inf]), growth)
    return AffineSummary(
        drawn(generator, shape, float), exponent, drawn(generator, shape, dtype), growth
    )


def one_by_one(summaries, carry_in):
    carry_outs = [carry_in]
    for each in summaries:
        carry_outs.append(propagate_affine(each, carry_outs[-1]))
    return carry_outs[1:]


def assert_same_bits(got, wanted):
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(0, 9), st.sampled_from([(1, 1), (1, 3), (2, 2)]))
def test_few_rows_give_the_bits_of_arrays(dtype, seed, count, shape):
    generator = np.random.default_rng(seed)
    summaries = [summary(generator, shape, dtype) for _ in range(count)]
    carry_in = drawn(generator, shape, generator.choice([dtype, "float64"]))
    assert are_short(summaries)
    assert_same_bits(propagate_short(summaries, carry_in), one_by_one(summaries, carry_in))


def test_other_bits_show(monkeypatch):
    carry_in = np.ones((1, 1), np.float32)
    summaries = [AffineSummary(carry_in / 3.0, np.zeros((1, 1), int), carry_in, 0.0 * carry_in)] * 8
    wanted = one_by_one(summaries, carry_in)
    monkeypatch.setattr(module, "ldexp", lambda value, power: np.ldexp(value, power + 1))
    with pytest.raises(AssertionError):
        assert_same_bits(propagate_short(summaries, carry_in), wanted)


def test_many_rows_complex_rows_and_rows_to_be_done_again_are_not_short():
    generator = np.random.default_rng(0)
    few = summary(generator, (1, FEW_ROWS), "float32")
    again = AffineSummary(few.mantissa, few.exponent, few.offset, few.growth, {(0, 0): None})
    assert are_short([few])
    assert not are_short([summary(generator, (1, 0), "float32")])
    assert not are_short([few, summary(generator, (1, FEW_ROWS + 1), "float32")])
    assert not are_short([few, summary(generator, (1, 1), "complex64")])
    assert not are_short([few, again])
    assert not are_short([few, (few.mantissa,)])
