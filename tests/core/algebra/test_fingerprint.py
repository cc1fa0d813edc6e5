"""Functions are equal where they compute the same, in any process."""

import functools
import math
import os.path
import subprocess
import sys
from collections import namedtuple
from enum import IntEnum
from types import ModuleType

import cloudpickle
import numba
import numpy as np
import pytest

import mgrec

pytestmark = pytest.mark.quick

factor = 3.0
sin = object()  # shares its name with NumPy's, and no fingerprint may ask for it


def scaled(x):
    return factor * x


def reading(*functions):
    """A recurrence whose functions are these."""
    plain = lambda x: x, lambda f, g: f, lambda f, w: w
    return mgrec.TransferMap(*functions, *plain[len(functions) :], identity=(0,))


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
    assert reading(lambda x: x + 1) == reading(lambda x: x + 1)
    assert reading(with_closure(2.0)) == reading(with_closure(2.0))
    assert reading(lambda x: np.sin(x)) == reading(lambda x: np.sin(x))


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
        (calling(numba.njit(scaled, fastmath={"nnan"})), calling(numba.njit(scaled, fastmath={"ninf"}))),
    ],
)
def test_what_computes_something_else_differs(one, other):
    assert reading(one) != reading(other)


def test_the_order_of_functions_that_occur_again_counts():
    first, second = (lambda x: x + 1), (lambda x: x * 2)
    one = composed(first, second, first)
    other = composed(first, second, second)
    assert one(2) != other(2)
    assert reading(one) != reading(other)
    pairs = lambda f, g: first(f), lambda f, g: second(f)
    assert reading(first, *pairs) != reading(first, *pairs[::-1])


def test_functions_that_call_each_other_end():
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    assert reading(even) != reading(odd)


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
        (Two().times, "of Two"),
    ],
)
def test_values_whose_code_is_hidden_are_refused(value, words):
    with pytest.raises(TypeError, match=words):
        reading(with_closure(value))


def test_callbacks_of_c_are_refused():
    with pytest.raises(TypeError, match="of CFunc"):
        reading(with_closure(numba.cfunc("float64(float64)")(lambda x: x)))


def test_signatures_of_compiled_functions_count():
    for compiler, listed in ((numba.njit, str), (numba.vectorize, lambda text: [text])):
        narrow, wide = (compiler(listed(f"{k}({k})"))(lambda x: x) for k in ("float32", "float64"))
        assert reading(calling(narrow)) != reading(calling(wide))


def test_running_code_leaves_its_reading():
    function = with_closure(2.5)
    before = reading(function)
    for x in range(10_000):
        function(x)
    assert reading(function) == before


def test_pickled_functions_stay_equal():
    one = reading(with_closure(2.5))
    again = cloudpickle.loads(cloudpickle.dumps(one))
    assert again == one
    assert hash(again) == hash(one)
    assert again.lift(2.0) == 5.0
    assert reading(again.lift) == one


def test_another_process_finds_the_same_reading():
    code = (
        "import numpy as np; import mgrec; k = 2.5\n"
        "lift = lambda x: k * np.maximum(np.sin(x), 0.5)\n"
        "one = mgrec.TransferMap(lift, lambda a, b: (a, b), lambda f, w: w, (0,))\n"
        "print(one.__dask_tokenize__())"
    )
    prints = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)
    }
    assert len(prints) == 1


# --- what functions read from modules and closures ----------------------------------------------


def module_of(name, **values):
    module = ModuleType(name)
    vars(module).update(values)
    return module


def gain(x):
    return x * cfg.K


cfg = module_of("cfg", K=2.0, gain=gain, inner=module_of("cfg.inner", L=1.0))


class Settings:
    K = 2.0


def aliased():
    same = cfg
    return lambda x: x * same.K


def stored(x):
    same = cfg
    return same.K * x


def nested(x):
    return [(lambda y: y * cfg.K)(x) for _ in range(2)]


def test_modules_that_name_each_other_end(monkeypatch):
    monkeypatch.setattr(cfg.inner, "cfg", cfg, raising=False)
    assert reading(lambda x: cfg.inner.L * x) == reading(lambda x: cfg.inner.L * x)


def test_attributes_of_other_values_are_not_read_from_named_tuples(monkeypatch):
    pair = namedtuple("P", "a b")
    assert reading(lambda x: pair(x, x).a) == reading(lambda x: pair(x, x).a)


def test_values_and_code_of_modules_and_classes_count(monkeypatch):
    functions = [
        lambda x: x * cfg.K,
        aliased(),
        stored,
        nested,
        lambda x: (x, cfg)[1].K,
        lambda x: cfg.gain(x),
        lambda x: gain(x),
        lambda x: (lambda: gain(x))(),
        lambda x, f=gain: f(x),
    ]
    for owner, name, value, readers in (
        (cfg, "K", 3.0, functions),
        (cfg, "gain", lambda x: x + cfg.K, [lambda x: cfg.gain(x)]),
        (cfg.inner, "L", 3.0, [lambda x: x * cfg.inner.L]),
        (Settings, "K", 3.0, [lambda x: x * Settings.K]),
    ):
        before = [*map(reading, readers)]
        with monkeypatch.context() as changed:
            changed.setattr(owner, name, value)
            for function, earlier in zip(readers, before, strict=True):
                assert reading(function) != earlier
        assert [*map(reading, readers)] == before


def imported(x):
    from math import pi

    return pi * x


def early():
    function = lambda x: x * later  # noqa: E731
    yield function
    later = 2.0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: getattr(cfg, "K") * x, "got <module 'cfg'>.*write module.name where the value is read"),  # noqa: B009
        (lambda x, m=cfg: m.K * x, "got <module 'cfg'>"),
        (lambda x: Settings(x), "got <class .*Settings'>"),
        (lambda x: os.path.getsize("file") * x, "got"),
        (lambda x: globals()["cfg"].K * x, "got globals: import outside"),
        (imported, "got an import of math: import outside"),
        (lambda x: missing * x, "got missing, which is not defined yet"),  # noqa: F821
        (next(early()), "got later, which is not defined yet"),
        (lambda x: cfg.missing * x, "got <module 'cfg'>"),
    ],
)
def test_values_that_a_function_does_not_name_are_refused(function, words):
    with pytest.raises(TypeError, match=words):
        reading(function)
