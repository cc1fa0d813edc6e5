"""Every public function with arguments that are wrong at random: what it raises, names one."""

import inspect
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from internals import solve_nothing

import mgrec
from mgrec import hmm, ndimage, signal, statespace
from mgrec.cli.examples import EXAMPLES, SOS, TABLE, A, B, X

MATRIX = TABLE.view(np.matrix)  # np.matrix(TABLE) warns
SCORES = {"match": 1, "mismatch": -1, "gap": -2}


def solve_factored(dl, d, du, b, **options):
    return mgrec.factor_tridiagonal(dl, d, du, **options).solve(b)


solve_factored.__signature__ = inspect.signature(mgrec.factor_tridiagonal)


def call_of(example):
    """Arguments by position, which are required, and by name."""
    given, parameters = example.data | example.others, inspect.signature(example.function).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return tuple(given.pop(name) for name in required), given


CALLS = {
    **{
        example.function: call_of(example)
        for example in EXAMPLES
        if example.path not in ("scan", "factor_tridiagonal")
    },
    mgrec.scan: ((mgrec.maps.max_plus, X, X), {"initial": 0.5}),
    mgrec.starts: (([2, 0, 3],), {}),
    mgrec.factor_tridiagonal: ((X, X + 2, X), {}),
    solve_factored: ((X, X + 2, X, X), {}),
    mgrec.check_laws: ((mgrec.maps.affine,), {"samples": 2}),
    mgrec.Coefficient: ((lambda i, x: x * i, X), {}),
    mgrec.Sequences: ((np.arange(4), np.array([0, 4])), {}),
    signal.lfilter_zi: ((B, A), {}),
    signal.lfiltic: ((B, A, X[:2]), {}),
    signal.sosfilt_zi: ((SOS,), {}),
    mgrec.maps.matrix: ((2,), {}),
}
"""Of each function arguments that it takes."""

LOOP = [0.5]
LOOP.append(LOOP)
UNKNOWN = da.ones(4, chunks=2)[da.ones(4, chunks=2) > 0]
REFUSED = [
    None, True, np.True_, "text", "", b"bytes", "nan", 10**400, -(10**30), object(), type, ..., {},
    {1.0}, {"a": X}, slice(3), lambda x: x, np.add, range(3), iter([1.0]), Decimal(1), LOOP,
    (LOOP,), Fraction(1, 3), np.ma.masked, np.ma.ones(40), np.random.default_rng(0), np.dtype("f8"),
    "f8", ">f8", np.ones(40, bool), np.full(40, "a"), np.full(40, b"ab"), np.array([1, None]),
    np.array("x"), np.zeros(40, "M8[s]"), np.timedelta64(1, "s"), np.datetime64("NaT", "s"),
    np.ones(40, "g"), np.ones(40, "G"), np.zeros(40, [("a", "f8")]), np.zeros(2, "V3"),
    [[1.0], [1.0, 2.0]], [X, TABLE], ["a", 1.0], [None], ((),), [[]], [object()],
    mgrec.maps.max_plus, mgrec.Coefficient(lambda i: i), UNKNOWN, mgrec.Sequences(None, None),
    mgrec.Sequences(np.arange(4), np.array([0, 9])), float, SCORES,
    da.ones((6, 7), chunks=3, dtype=bool), da.from_array(np.full(40, "a"), chunks=9),
    da.ma.masked_array(da.ones(40), mask=np.zeros(40, bool)),
]  # fmt: skip
ODD = [
    0, 1, -1, 2, 7, 0.0, -0.5, 1.5, np.nan, np.inf, -np.inf, np.float64(0.5), np.array(0.5),
    np.int64(1), (), [], (0,), (0, 1), (-1, -2), (0, 0), (1.0, 2.0), [0.5, 0.5], (0.5,) * 3,
    ("+", "*"), ("max", "+"), X, X[:1], X[:0], X[:3], X[::-1], TABLE, TABLE.T, TABLE[:, None],
    TABLE[:0], TABLE[:, :1], X.reshape(2, 4, 5), X > 0.5, X.view(np.recarray), MATRIX,
    np.zeros((0, 0)), np.zeros((2, 0, 3)), X.astype(">f8"), da.from_array(X, chunks=9),
    da.from_array(TABLE, chunks=4), da.ones(0), da.ones((0, 3), chunks=2), "auto", "stream", "max",
    "pad", "mean", "tiles",
]  # fmt: skip
"""What some argument of some function may be; all numbers are of dtypes compiled anyway."""
MORE = [
    1j, [1j], X.astype("f4"), X.astype("f2"), X.astype("c8"), X.astype("i4"), X.astype("u1"),
    TABLE.astype("i8"), X.astype(">f2"), da.from_array(X.astype(">i8"), chunks=11), np.arange(40),
    np.arange(42).reshape(6, 7),
]  # fmt: skip
"""For the extended run, which compiles."""
ENDLESS = {"sweeps", "samples"}
"""Arguments of which a large number takes long."""
CALLED = {"callback", "state"}
"""Functions of the caller's, whose errors are the caller's."""
NAMED = {*"arrays axis functions lift operand operands operators scores series shapes states".split()}
"""What messages may name in place of arguments."""
BROADCAST = {
    mgrec.linear_recurrence: slice(2), mgrec.rational_recurrence: slice(4),
    mgrec.scan: slice(1, None), mgrec.weighted_scan: slice(2), mgrec.sor: slice(1),
    mgrec.summed_area_table: slice(1), mgrec.wavefront: slice(1), mgrec.solve_tridiagonal: slice(4),
    solve_factored: slice(4), signal.ewm: slice(1), signal.lfilter: slice(2, 3),
    signal.sosfilt: slice(1, 2), signal.filtfilt: slice(2, 3), signal.sosfiltfilt: slice(1, 2),
    **{getattr(ndimage, name): slice(1) for name in ndimage.__all__},
}  # fmt: skip
"""Of which arguments by position the results have the broadcast shape."""


class Taken(Exception):
    """Arguments were taken, and nothing was solved."""


@pytest.fixture
def takes(monkeypatch):
    """Check arguments alone, which compiles nothing."""

    def taken():
        raise Taken

    solve_nothing(monkeypatch, taken)


def wrong_arguments(generator, function, values):
    """Arguments of a function of which one or two are drawn again."""
    positional, named = CALLS[function]
    arguments, options = list(positional), dict(named)
    parameters = inspect.signature(function).parameters.values()
    optional = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY or p.default is not p.empty]
    for _ in range(generator.integers(1, 3)):
        value = values[generator.integers(len(values))]
        place = generator.integers(len(arguments) + len(optional))
        if place < len(arguments):
            arguments[place] = value
            continue
        name = optional[place - len(arguments)]
        is_left = name in ENDLESS and isinstance(value, int)
        if not is_left and not (name in CALLED and callable(value)):
            options[name] = value
    taken = {p.name for p in list(parameters)[: len(arguments)] if p.kind is not p.VAR_POSITIONAL}
    return arguments, {name: value for name, value in options.items() if name not in taken}


def names_an_argument(message, function):
    names = {*inspect.signature(function).parameters} | NAMED
    names |= {mgrec.scan: {"s", "c"}, solve_factored: {"b"}}.get(function, set())
    long = "|".join(name for name in names if len(name) > 1)
    short = "|".join(name for name in names if len(name) == 1) or long
    after = r"( must|`|\[|, |: | and | is not )"
    return re.search(rf"\b({long})\b|\b({short})\b{after}", message) is not None


def failure_of(function, arguments, options):
    """What is wrong with how a function takes arguments, or None."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*arguments, **options)
    except Taken:
        return None
    except AssertionError:
        return None if function is mgrec.check_laws else "AssertionError"
    except np.linalg.LinAlgError:  # a singular system
        return None
    except (TypeError, ValueError, NotImplementedError) as error:
        kind = type(error)
        if kind is NotImplementedError and "filt" not in function.__name__:
            return f"NotImplementedError: {error}"
        if not kind.__module__.startswith(("builtins", "numpy", "mgrec")):
            return f"{kind.__module__}.{kind.__name__}"
        if not names_an_argument(str(error), function):
            return f"a message that names no argument: {kind.__name__}: {error}"
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return wrong_shape(function, arguments, options, result)


def wrong_shape(function, arguments, options, result):
    if function not in BROADCAST or "rhs_axis" in options:
        return None
    first = result[0] if isinstance(result, tuple) else result
    shapes = [np.shape(array) for array in arguments[BROADCAST[function]]]
    if any(length != length for shape in shapes for length in shape):
        return None
    wanted = np.broadcast_shapes(*shapes)
    return None if first.shape == wanted else f"shape {first.shape} instead of {wanted}"


def fuzz(seed, count, values):
    generator, functions, failures = np.random.default_rng(seed), [*CALLS], {}
    for number in range(count):
        function = functions[number % len(functions)]
        arguments, options = wrong_arguments(generator, function, values)
        failure = failure_of(function, arguments, options)
        if failure:
            failures.setdefault((function.__name__, failure), (number, arguments, options))
    return failures


def test_every_public_function_is_called():
    public = {
        getattr(module, name)
        for module in (mgrec, hmm, ndimage, signal, statespace)
        for name in module.__all__
    }
    not_called = {mgrec.TransferMap, mgrec.plan, *filter(inspect.ismodule, public)}
    assert public - not_called <= {*CALLS}


@pytest.mark.usefixtures("takes")
def test_wrong_arguments_are_refused_by_name():
    assert not fuzz(0, 1500, REFUSED + ODD)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 5))
def test_any_arguments_are_refused_by_name_or_solved(seed):
    assert not fuzz(seed, 5000, REFUSED + ODD + MORE)


def test_the_fuzzer_finds_what_is_wrong():
    def broken(x):
        raise KeyError(x)

    def nameless(x):
        raise ValueError("no such thing")

    assert failure_of(broken, [1], {}).startswith("KeyError")
    assert "names no argument" in failure_of(nameless, [1], {})
    assert failure_of(lambda x: np.ones(x), [-1], {}) is not None
