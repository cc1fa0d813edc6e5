"""scan with maps of a user's own."""

import math

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended

import mgrec

RATE = 0.25


def halved(x):
    return RATE * 2 * x


def averaging(weight):
    """An exponential average, written with a closure, a module's function and np.where."""
    return mgrec.TransferMap(
        lift=lambda x: (1 - weight, np.where(x > 0, weight * x, halved(weight * x))),
        compose=lambda earlier, later: (earlier[0] * later[0], later[0] * earlier[1] + later[1]),
        apply=lambda step, w: step[0] * w + step[1],
        identity=(1.0, 0.0),
        name="averaging",
    )


def averages(weight, x):
    w, states = 0.0, []
    for value in x:
        w = (1 - weight) * w + weight * (value if value > 0 else value / 2)
        states.append(w)
    return states


@pytest.mark.parametrize("weight", with_extended([0.5, 0.1], 0.5))
def test_closures_modules_and_where(weight):
    x = np.random.default_rng(0).normal(size=300)
    transfer_map, w, states = averaging(weight), 0.0, []
    mgrec.check_laws(transfer_map)
    for value in x:
        w = transfer_map.apply(transfer_map.lift(value), w)
        states.append(w)
    np.testing.assert_allclose(states, averages(weight, x), 1e-12)
    # One thread has the bits of the loop.
    np.testing.assert_array_equal(mgrec.scan(transfer_map, x, initial=0.0), states)
    lazy = mgrec.scan(transfer_map, da.from_array(x, chunks=77), initial=0.0)
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), states, 1e-12)


def test_frexp_in_a_map():
    # The exponent of the largest number so far.
    largest = mgrec.TransferMap(
        lift=lambda x: (np.frexp(np.abs(x))[1] + 0.0,),
        compose=lambda earlier, later: (np.maximum(earlier[0], later[0]),),
        apply=lambda step, e: np.maximum(step[0], e),
        identity=(-np.inf,),
    )
    x = np.random.default_rng(0).normal(size=100) * 1e5
    for given in (x, da.from_array(x, chunks=30)):
        result = np.asarray(mgrec.scan(largest, given, initial=-np.inf))
        np.testing.assert_array_equal(result, np.maximum.accumulate(np.frexp(x)[1]))


def sums(**changed):
    parts = {
        "lift": lambda x: (x,),
        "compose": lambda earlier, later: (earlier[0] + later[0],),
        "apply": lambda step, w: w + step[0],
        "identity": (0.0,),
    }
    return mgrec.TransferMap(**{**parts, **changed})


def test_operands_with_defaults_may_be_left_out():
    counting, x = sums(lift=lambda x, by=1.0: (x * by,)), np.ones(4)
    assert mgrec.scan(counting, x, initial=0.0).tolist() == [1, 2, 3, 4]
    assert mgrec.scan(counting, x, 2.0, initial=0.0).tolist() == [2, 4, 6, 8]
    with pytest.raises(ValueError, match="takes 2 operands"):
        mgrec.scan(counting, initial=0.0)


def test_messages_call_operands_what_lift_does():
    with pytest.raises(TypeError, match="c must be a number; got a bool"):
        mgrec.scan(mgrec.maps.max_plus, np.ones(3), True, initial=0.0)
    with pytest.raises(ValueError, match=r"got s: \(3,\), c: \(4,\)"):
        mgrec.scan(mgrec.maps.max_plus, np.ones(3), np.ones(4), initial=0.0)


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ({"lift": lambda x: x}, r"lift of .* tuple of 1, as the identity is; got np.float64\(0.0"),
        ({"lift": lambda x: (x, x)}, "lift of .* tuple of 1"),
        ({"compose": lambda earlier, later: earlier[0] + later[0]}, "compose of .* tuple of 1"),
        ({"compose": lambda f: f}, r"^compose of .* must take \(earlier, later\); got .* \(f\)"),
        ({"apply": lambda f: f}, r"^apply of .* must take \(map, state\); got .* \(f\)"),
        ({"compose": lambda f, g: (str(f[0] + g[0]),)}, "numba says"),
        (
            {"compose": lambda f, g: (sum(step[0] for step in (f, g)),)},
            r"write out the terms of a generator expression, such as sum\(",
        ),
    ],
)
def test_functions_that_are_refused(functions, words, monkeypatch):
    """Also on one thread, which never calls compose."""
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    with pytest.raises(TypeError, match=words):
        mgrec.scan(sums(**functions), np.ones(3), initial=0.0)


def test_functions_that_raise_in_python_alone():
    logarithms = sums(lift=lambda x: (math.log(x) - math.log(x),))
    assert mgrec.scan(logarithms, np.ones(3), initial=1.0).tolist() == [1, 1, 1]


def test_what_cannot_be_compiled_is_a_type_error_that_names_the_function():
    # No other file has this code: of those that have the same, the message names one.
    texts = sums(lift=lambda x: (str(x),), apply=lambda text, number: text[0] + number)
    with pytest.raises(TypeError, match=r"must be arithmetic.*numba says.*test_custom") as told:
        mgrec.scan(texts, np.ones(3), initial=0.0)
    assert len(str(told.value)) < 500


def test_a_coefficient_as_an_operand():
    ramp = mgrec.Coefficient(lambda i: 1.0 * i)
    w = mgrec.scan(mgrec.maps.max_plus, ramp, da.zeros(6, chunks=2), initial=0.0)
    assert w.compute(scheduler="sync").tolist() == [0, 1, 3, 6, 10, 15]


def test_mobius_divides_integers_as_numbers():
    one = np.ones(3, int)
    halves = mgrec.scan(mgrec.maps.mobius, 1, one, 1, 0, initial=1)
    np.testing.assert_allclose(halves, [2, 3 / 2, 5 / 3])
    with pytest.raises(TypeError, match="must be real; got complex128"):
        mgrec.scan(mgrec.maps.mobius, 1j, one, 1, 0, initial=1)
