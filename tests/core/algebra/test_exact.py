"""A sum or product and its rounding error are exact together."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgrec.core.algebra.exact import exact_product, exact_sum

pytestmark = pytest.mark.quick

numbers = st.floats(-(2.0**400), 2.0**400).filter(lambda x: x == 0 or abs(x) > 2.0**-400)


@given(numbers, numbers)
def test_a_sum_and_its_error_are_the_exact_sum(a, b):
    x, error = exact_sum(a, b)
    assert x == a + b
    assert Fraction(x) + Fraction(error) == Fraction(a) + Fraction(b)


@given(numbers, numbers)
def test_a_product_and_its_error_are_the_exact_product(a, b):
    p, error = exact_product(a, b)
    assert p == a * b
    assert Fraction(p) + Fraction(error) == Fraction(a) * Fraction(b)
