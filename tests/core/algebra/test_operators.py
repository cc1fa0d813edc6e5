"""Pairs of operators: their laws, and what is refused."""

import numpy as np
import pytest

from mgrec.core.algebra.operators import (
    PAIRS,
    PLUS_PLUS,
    _function,
    as_custom_operators,
    as_operators,
    check_distributes,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_the_identity_leaves_numbers_as_they_are(pair, dtype):
    values = (np.random.default_rng(0).normal(size=100) * 99).astype(dtype)
    identity = pair.identity(np.dtype(dtype))
    assert identity.dtype == dtype
    np.testing.assert_array_equal(_function(pair.accumulate)(identity, values), values)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair != PLUS_PLUS])
@pytest.mark.parametrize("kind", ["i", "f"])
def test_named_pairs_pass_as_functions_do(pair, kind):
    names = pair.accumulate, pair.distribute
    functions = {
        "+": lambda a, b: a + b,
        "*": lambda a, b: a * b,
        "max": lambda a, b: np.maximum(a, b),
        "min": lambda a, b: np.minimum(a, b),
    }
    check_distributes(as_custom_operators([functions[name] for name in names]), kind)


def test_functions_that_compute_the_same_are_equal():
    one, other = (as_custom_operators((lambda a, b: a + b, "*")) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert not one.has_identity
    assert as_custom_operators(["max", "+"]) is as_operators(("max", "+"))


def test_a_pair_that_does_not_distribute():
    with pytest.raises(ValueError, match="for a, b, c = "):
        check_distributes(as_custom_operators((lambda a, b: a + b, "max")), "i")
