"""Pairs of operators (accumulate ◇, distribute ∘) of weighted scans and wavefront loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .fingerprint import StepFunction, warn_of_variants

_NAMES = ("+", "*", "max", "min")
_TRIALS = 100


@dataclass(frozen=True)
class Operators:
    """Two operators; ∘ distributes over ◇, or both are the same (Hou, Wang & Feng 2018).

        (a ◇ b) ∘ w = (a ∘ w) ◇ (b ∘ w)

    `accumulate`, `distribute`: ◇ and ∘: "+", "*", "max" or "min", or a function of two numbers.
    """

    accumulate: str | StepFunction
    distribute: str | StepFunction

    @property
    def functions(self) -> list[StepFunction]:
        """The operators that are functions of the user."""
        pair = self.accumulate, self.distribute
        return [operator for operator in pair if isinstance(operator, StepFunction)]

    @property
    def has_identity(self) -> bool:
        return self.accumulate in ("+", "max", "min")

    def identity(self, dtype: np.dtype[Any]) -> Any:
        """Return the identity of ◇ in a dtype: the lowest number for "max".

        >>> MAX_PLUS.identity(np.dtype(np.int8)), MAX_PLUS.identity(np.dtype(float))
        (np.int8(-128), np.float64(-inf))
        """
        if self.accumulate == "+":
            return dtype.type(0)
        if dtype.kind == "f":
            return dtype.type(-np.inf if self.accumulate == "max" else np.inf)
        info = np.iinfo(dtype)
        return dtype.type(info.min if self.accumulate == "max" else info.max)


PLUS_TIMES = Operators("+", "*")
MAX_PLUS = Operators("max", "+")
MIN_PLUS = Operators("min", "+")
PLUS_PLUS = Operators("+", "+")
PAIRS = (PLUS_TIMES, MAX_PLUS, MIN_PLUS, PLUS_PLUS)


def as_operators(value: object) -> Operators:
    """Return the named pair, one of PAIRS."""
    if isinstance(value, (tuple, list)) and all(isinstance(name, str) for name in value):
        for pair in PAIRS:
            if tuple(value) == (pair.accumulate, pair.distribute):
                return pair
    raise ValueError(f"operators must be one of {_WANTED}; got {value!r}")


_WANTED = ", ".join(str((pair.accumulate, pair.distribute)) for pair in PAIRS)


def as_custom_operators(value: object) -> Operators:
    """Return a named pair, or a pair with functions of the user."""
    if not isinstance(value, (tuple, list)) or not any(map(callable, value)):
        return as_operators(value)
    if len(value) != 2 or not all(_is_operator(f) for f in value):
        raise ValueError(
            f"operators must be two, each a plain Python function of two numbers or one of "
            f"{', '.join(map(repr, _NAMES))}; got {value!r}"
        )
    accumulate, distribute = (f if f in _NAMES else StepFunction(f) for f in value)
    pair = Operators(accumulate, distribute)
    for operator in pair.functions:
        warn_of_variants("pair of operators", operator.codes, operator.fingerprint)
    return pair


@lru_cache
def check_distributes(pair: Operators, dtype_kind: str) -> None:
    """Test on random numbers that ∘ distributes over ◇ in a pair with functions of the user.

    `dtype_kind`, {"i", "f"}: integers from -99 to 99, or normally distributed floats.

    Raise ValueError if ∘ is not ◇ and does not distribute over it. The message has the
    counterexample.
    """
    if not pair.functions or pair.accumulate == pair.distribute:
        return
    add, weigh = _function(pair.accumulate), _function(pair.distribute)
    law = "distribute(accumulate(a, b), c) == accumulate(distribute(a, c), distribute(b, c))"
    _check_law(law, lambda a, b, c: (weigh(add(a, b), c), add(weigh(a, c), weigh(b, c))), dtype_kind)


@lru_cache
def check_composes(pair: Operators, dtype_kind: str) -> None:
    """Test on random numbers that steps of a pair compose, as compensation needs.

    Named pairs do. ◇ must be associative and commutative, and ∘ associative: the weights of two
    steps then combine to one. Raises ValueError with a counterexample.
    """
    if not pair.functions:
        return
    add, weigh = _function(pair.accumulate), _function(pair.distribute)
    laws = {
        "accumulate(accumulate(a, b), c) == accumulate(a, accumulate(b, c))": (
            lambda a, b, c: (add(add(a, b), c), add(a, add(b, c)))
        ),
        "accumulate(a, b) == accumulate(b, a)": lambda a, b, c: (add(a, b), add(b, a)),
        "distribute(distribute(a, b), c) == distribute(a, distribute(b, c))": (
            lambda a, b, c: (weigh(weigh(a, b), c), weigh(a, weigh(b, c)))
        ),
    }
    for law, sides in laws.items():
        _check_law(f"{law} for compensation", sides, dtype_kind)


def _check_law(law: str, sides: Callable[..., Any], dtype_kind: str) -> None:
    """Raise ValueError if both sides of a law differ for any of some random numbers."""
    generator = np.random.default_rng(0)
    for _ in range(_TRIALS):
        a, b, c = generator.integers(-99, 100, 3) if dtype_kind == "i" else generator.standard_normal(3)
        with np.errstate(all="ignore"):
            left, right = sides(a, b, c)
        if not np.allclose(left, right, 1e-9, 1e-12, equal_nan=True):
            raise ValueError(
                f"operators must be such that {law}; got {left} against {right} for a, b, c = {a}, {b}, {c}"
            )


def _is_operator(value: object) -> bool:
    code = getattr(value, "__code__", None)
    return value in _NAMES if code is None else code.co_argcount == 2


def _function(operator: str | StepFunction) -> Any:
    if isinstance(operator, StepFunction):
        return operator.function
    return {"+": np.add, "*": np.multiply, "max": np.maximum, "min": np.minimum}[operator]
