"""Functions are equal where they compute the same, in any process."""

import functools
import math
import subprocess
import sys
from collections import namedtuple
from enum import IntEnum

import cloudpickle
import numba
import numpy as np
import pytest

from mgrec.core.algebra.fingerprint import StepFunction, fingerprint, require_unchanged

pytestmark = pytest.mark.quick

factor = 3.0
sin = object()  # shares its name with NumPy's, and no fingerprint may ask for it


def scaled(x):
    return factor * x


def with_closure(value):
    return lambda x: x * value


def composed(first, second, third):
    return lambda x: first(second(third(x)))


def calling(function):
    return lambda x: function(x)


def first_of(pair):
    return lambda x: pair.a * x


class Colour(IntEnum):
    RED = 1
    BLUE = 2


def test_equal_code_is_equal_wherever_it_was_defined():
    assert fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    assert fingerprint(with_closure(2.0)) == fingerprint(with_closure(2.0))
    assert fingerprint(lambda x: np.sin(x)) == fingerprint(lambda x: np.sin(x))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x + 1, lambda x: x - 1),
        (lambda x: x + 1, lambda x: x + 1.0),
        (lambda x: x + 0.0, lambda x: x + -0.0),
        (lambda x: np.sin(x), lambda x: np.cos(x)),
        (lambda x: np.exp(x), lambda x: math.exp(x)),
        (lambda x, y=1: x + y, lambda x, y=2: x + y),
        (with_closure(2.0), with_closure(3.0)),
        (with_closure(np.ones(2)), with_closure(np.zeros(2))),
        (with_closure(np.float32(1)), with_closure(np.float64(1))),
        (with_closure(Colour.RED), with_closure(Colour.BLUE)),
        (with_closure(frozenset({1})), with_closure(frozenset({2}))),
        (first_of(namedtuple("P", "a b")(1, 2)), first_of(namedtuple("P", "b a")(1, 2))),
        (calling(namedtuple("P", "a b")), calling(namedtuple("P", "b a"))),
        (calling(namedtuple("P", "a", defaults=[1])), calling(namedtuple("P", "a", defaults=[2]))),
        (calling(ValueError), calling(type("MyError", (ValueError,), {}))),
        (lambda x: x[0], lambda *x: x[0]),
        (lambda *, x=1: x, lambda *, x=2: x),
        (calling(np.sin), calling(np.cos)),
        (calling(float), calling(complex)),
        (calling(numba.float32), calling(numba.float64)),
        (calling(functools.partial(max, 1)), calling(functools.partial(max, 2))),
        (calling(numba.njit(with_closure(2))), calling(numba.njit(with_closure(3)))),
        (calling(numba.njit(scaled)), calling(numba.njit(scaled, fastmath=True))),
        (calling(numba.njit(scaled)), calling(numba.vectorize(scaled))),
        (calling(numba.vectorize(with_closure(2))), calling(numba.vectorize(with_closure(3)))),
        (calling(numba.vectorize(scaled)), calling(numba.vectorize(fastmath=True)(scaled))),
        (calling(numba.njit(scaled)), calling(numba.njit(scaled, error_model="numpy"))),
        (
            calling(numba.njit(scaled, fastmath={"nnan"})),
            calling(numba.njit(scaled, fastmath={"ninf"})),
        ),
    ],
)
def test_what_computes_something_else_differs(one, other):
    assert fingerprint(one) != fingerprint(other)
    assert StepFunction(one) != StepFunction(other)


def test_the_order_of_functions_that_occur_again_counts():
    first, second = (lambda x: x + 1), (lambda x: x * 2)
    one = composed(first, second, first)
    other = composed(first, second, second)
    assert one(2) != other(2)
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(first, second, first) != fingerprint(first, second, second)


def test_functions_that_call_each_other_end():
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    assert fingerprint(even) != fingerprint(odd)


class Two:
    def times(self, x):
        return 2 * x


HIDDEN = r"plain Python functions, those of numba\.njit"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.vectorize(scaled), HIDDEN),
        (np.frompyfunc(scaled, 1, 1), HIDDEN),
        (numba.guvectorize("(n)->(n)")(scaled), HIDDEN),
        (functools.lru_cache(scaled), HIDDEN),
        ("text".upper, HIDDEN),
        (np.random.default_rng(0).normal, HIDDEN),
        (np.array([sin]).sum, HIDDEN),
        ({"a": 1}, r"may refer to numbers, arrays.*got \{'a': 1\} of dict"),
        (numba.cfunc("float64(float64)")(lambda x: x), "of CFunc"),
        (Two().times, "of Two"),
    ],
)
def test_values_whose_code_is_hidden_are_refused(value, words):
    with pytest.raises(TypeError, match=words):
        fingerprint(with_closure(value))


def test_signatures_of_compiled_functions_count():
    for compiler, listed in ((numba.njit, str), (numba.vectorize, lambda text: [text])):
        narrow, wide = (compiler(listed(f"{k}({k})"))(lambda x: x) for k in ("float32", "float64"))
        assert fingerprint(calling(narrow)) != fingerprint(calling(wide))


def test_running_code_leaves_its_fingerprint():
    function = with_closure(2.5)
    before = fingerprint(function)
    for x in range(10_000):
        function(x)
    assert fingerprint(function) == before


def test_what_has_changed_since_is_refused(monkeypatch):
    before = fingerprint(scaled)
    require_unchanged("Coefficient", before, scaled)
    monkeypatch.setitem(globals(), "factor", 4.0)
    assert fingerprint(scaled) != before
    with pytest.raises(RuntimeError, match=r"of a Coefficient read must stay.*make a new Coeff"):
        require_unchanged("Coefficient", before, scaled)


def test_pickled_functions_stay_equal():
    step = StepFunction(with_closure(2.5))
    again = cloudpickle.loads(cloudpickle.dumps(step))
    assert again == step
    assert hash(again) == hash(step)
    assert again.function(2.0) == 5.0
    assert fingerprint(again.function) == step.fingerprint


def test_another_process_finds_the_same_fingerprint():
    code = (
        "import numpy as np; from mgrec.core.algebra.fingerprint import fingerprint; k = 2.5\n"
        "print(fingerprint(lambda x: k * np.maximum(np.sin(x), 0.5), lambda a, b: (a, b)))"
    )
    prints = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(prints) == 1
