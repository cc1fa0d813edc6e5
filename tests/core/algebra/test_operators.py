"""Pairs of operators, named or functions: what they compute, and what is refused."""

import numpy as np
import pytest

import mgrec

pytestmark = pytest.mark.quick

PAIRS = [("+", "*"), ("max", "+"), ("min", "+")]
FUNCTIONS = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "max": lambda a, b: np.maximum(a, b),
    "min": lambda a, b: np.minimum(a, b),
}


def solve(dtype, operators, weights=(2, -1, 3)):
    local = (np.random.default_rng(0).normal(size=(6, 7)) * 99).astype(dtype)
    borders = {"above": 1, "left": 2, "corner": 3}
    return mgrec.wavefront(local, weights=weights, operators=operators, strategy="tiles", **borders)


@pytest.mark.extended
@pytest.mark.parametrize("pair", PAIRS, ids="".join)
@pytest.mark.parametrize("dtype", ["i8", "f8"])
def test_named_pairs_compute_as_functions_do(pair, dtype):
    functions = tuple(FUNCTIONS[name] for name in pair)
    np.testing.assert_array_equal(solve(dtype, pair), solve(dtype, functions))


def test_a_pair_that_does_not_distribute():
    with pytest.raises(ValueError, match="for a, b, c = "):
        solve("i8", (FUNCTIONS["+"], "max"))
