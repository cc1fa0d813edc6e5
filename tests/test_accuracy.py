"""Errors of each family against a loop in long double are at most a small multiple of those of the loop."""

import dask.array as da
import numpy as np
import pytest
from graphs import fetched

import mgrec
from mgrec.ndimage import uniform_filter1d
from mgrec.signal import ewm

STEPS = 800
NOISE = np.random.default_rng(3).standard_normal(STEPS)


def loop(step, *operands, state=0.0):
    states = []
    for values in zip(*operands, strict=True):
        state = step(state, *values)
        states.append(state)
    return np.array(states)


def moments(alpha, x):
    """Weighted means and variances, by the steps of West (1979)."""
    old, weight, mean, variance, variances = 1 - alpha, 0 * x[0], x[0], 0 * x[0], []
    for value in x:
        total = old * weight + 1
        off = value - mean
        variance = old * weight / total * (variance + off * off / total)
        mean, weight = mean + off / total, total
        variances.append(variance)
    return np.array(variances)


def box(x, size):
    padded = np.pad(x, (size // 2, size - 1 - size // 2), mode="symmetric")
    return np.array([padded[k : k + size].sum() for k in range(len(x))]) / size


GROWS = np.resize(np.repeat([2.0, 0.45], 40), STEPS)
"""Products grow by 1e12 before they decay."""
TURN = np.full((2, STEPS), [[np.cos(0.001)], [np.sin(0.001)]])
CASES = {
    "linear": (
        lambda s, t: mgrec.linear_recurrence(s, t, initial=0.5),
        lambda s, t: loop(lambda w, a, b: a * w + b, s, t, state=s.dtype.type(0.5)),
        (GROWS, NOISE),
    ),
    "rational": (
        lambda c, s: mgrec.rational_recurrence(c, -s, s, c, initial=0.3),
        lambda c, s: loop(lambda p, c, s: (c * p - s) / (s * p + c), c, s, state=c.dtype.type(0.3)),
        tuple(TURN),
    ),
    "table": (
        lambda x: mgrec.summed_area_table(x),
        lambda x: x.cumsum(0).cumsum(1),
        (1e4 + NOISE.reshape(20, 40),),
    ),
    "variance": (
        lambda x: ewm(x, alpha=1e-3, statistic="var", bias=True),
        lambda x: moments(x.dtype.type(1e-3), x),
        (1e8 + NOISE,),
    ),
    "box filter": (lambda x: uniform_filter1d(x, 51), lambda x: box(x, 51), (1e6 + NOISE,)),
}


def relative_errors(name, found, *operands):
    """The largest error of an array and that of the loop in float64, in parts of the largest value so far."""
    wanted, by_loop = (
        CASES[name][1](*(x.astype(dtype) for x in operands)) for dtype in (np.longdouble, float)
    )
    size = np.maximum.accumulate(abs(wanted))
    return [float((abs(array - wanted) / np.maximum(size, 1e-300)).max()) for array in (found, by_loop)]


@pytest.mark.parametrize("chunk", [None, 30])
@pytest.mark.parametrize("name", CASES)
def test_errors_are_those_of_the_loop(name, chunk, xp):
    function, _, operands = CASES[name]
    arrays = [xp.asarray(operand) for operand in operands]
    if chunk:
        arrays = [da.from_array(array, chunks=chunk, asarray=False) for array in arrays]
    error, of_loop = relative_errors(name, fetched(function(*arrays), xp), *operands)
    assert error <= 10 * max(of_loop, 4e-16)


def test_an_error_would_be_seen():
    function, _, (s, t) = CASES["linear"]
    error, of_loop = relative_errors("linear", function(s, t * (1 + 1e-13)), s, t)
    assert error > 10 * max(of_loop, 4e-16)
