"""The judge of long runs: exact where it must be, and not to be fooled."""

from fractions import Fraction

import numpy as np
import pytest
from internals import Judge
from oracles import linear, loop

RANDOM = np.random.default_rng(3)


def exact(s, t, initial):
    w, found = Fraction(initial), []
    for s_i, t_i in zip(s.tolist(), t.tolist(), strict=True):
        w = Fraction(s_i) * w + Fraction(t_i)
        found.append(w)
    return found


def drawn(dtype, size=60):
    s = RANDOM.uniform(-1.2, 1.2, size).astype(dtype)
    return s, RANDOM.normal(size=size).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_are_those_of_rational_arithmetic(dtype):
    s, t = drawn(dtype)
    computed = loop(linear, (s, t), 0.5, dtype)
    judge = Judge(np.dtype(dtype), 0.5)
    judge.add(s[:20], t[:20], computed[:20])
    judge.add(s[20:], t[20:], computed[20:])
    pairs = zip(computed.tolist(), exact(s, t, 0.5), strict=True)
    wanted = max(abs(float(Fraction(c) - e)) for c, e in pairs)
    assert judge.largest_error == pytest.approx(wanted, rel=1e-6)
    assert judge.largest_error > 0
    assert judge.largest_difference == 0
    assert judge.holds
    assert judge.steps == 60


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bound_is_the_stated_one(dtype):
    """One result at the bound is judged 1, whatever the chunks."""
    s, t = drawn(dtype)
    w, size, count = exact(s, t, 2.0), Fraction(2), Fraction(0)
    for s_i, t_i in zip(s.tolist(), t.tolist(), strict=True):
        size = abs(Fraction(s_i)) * size + abs(Fraction(t_i))
        count = abs(Fraction(s_i)) * count + 1
    info = np.finfo(dtype)
    bound = 4 * 60 * Fraction(float(info.eps)) / 2 * size
    bound += Fraction(float(info.smallest_subnormal)) * count
    computed = loop(linear, (s, t), 2.0, dtype)
    computed[-1] = float(w[-1] + bound)
    judge = Judge(np.dtype(dtype), 2.0)
    judge.add(s[:7], t[:7], computed[:7])
    judge.add(s[7:], t[7:], computed[7:])
    assert judge.largest_fraction == pytest.approx(1, abs=0.05)
    computed[-1] = float(w[-1] + 2 * bound)
    again = Judge(np.dtype(dtype), 2.0)
    again.add(s, t, computed)
    assert not again.holds


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1.5])
def test_one_wrong_result_is_refused_and_operands_may_be_read_only(wrong):
    s, t, w = np.full(3, 0.5), np.ones(3), np.array([1.0, 1.5, 1.75])
    for array in (s, t, w):
        array.flags.writeable = False
    judge = Judge(np.dtype(float))
    judge.add(s, t, w)
    assert judge.largest_error == 0
    judge.add(s[:1], t[:1], np.array([wrong]))
    assert not judge.holds


@pytest.mark.parametrize("wrong", [0, 1])
def test_each_of_several_results_is_judged(wrong):
    results = [np.array([1.0, 1.5, 1.75]), np.array([1.0, 1.5, 1.75])]
    results[wrong][1] += 2**-10
    judge = Judge(np.dtype(float))
    judge.add(np.full(3, 0.5), np.ones(3), *results)
    assert judge.largest_error == judge.largest_difference == 2**-10
    assert judge.steps == 3
