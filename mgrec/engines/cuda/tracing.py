"""Python functions of a recurrence as C++, traced by calls with symbols.

Where a function has a rare, slow branch (a division out of range, a sine of a large number), the
C++ has a fast version without the branch, which sets `odd` if its result must not be used.

Error bounds of coefficients with shortened sines and cosines follow from interval arithmetic. A
coefficient is called with intervals, each with bounds of its absolute and relative error. They
support sums, products, sines and cosines. A coefficient with other operations, or that subtracts
nearly equal numbers, keeps the sines of its dtype.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ...core.algebra.fingerprint import StepFunction, require_unchanged
from ...core.algebra.transfer_map import TransferMap
from .cpp import ctype, print_statements
from .symbols import Record, Symbol, cast, merge_branches, record_powers

WAVE = 2.0**-30
"""Relative error of ``engines/cuda/numeric.cuh``."""
ALLOWED = 2.0**-27
"""Largest relative error of a result: an eighth of the rounding error of float32."""


@dataclass(frozen=True)
class Interval(NDArrayOperatorsMixin):
    """Values from `low` to `high`, with bounds of their errors.

    >>> wave = np.sin(Interval(0, 10))
    >>> bool((0.5 + 0.4 * wave).relative < 5 * WAVE), (1 + wave).relative
    (True, inf)
    """

    low: float
    high: float
    absolute: float = 0.0
    relative: float = 0.0

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def least(self) -> float:
        return max(self.low, -self.high, 0.0)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operation = _OPERATIONS.get(ufunc.__name__)
        if operation is None or method != "__call__" or kwargs:
            return NotImplemented
        return operation(*map(_interval, inputs))


def _interval(x: Any) -> Interval:
    return x if isinstance(x, Interval) else Interval(float(x), float(x))


def _sum(x: Interval, y: Interval) -> Interval:
    low, high, absolute = x.low + y.low, x.high + y.high, x.absolute + y.absolute
    least = Interval(low, high).least
    relative = 0.0 if absolute == 0 else absolute / least if least > 0 else math.inf
    return Interval(low, high, absolute, relative)


def _product(x: Interval, y: Interval) -> Interval:
    ends = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    relative = x.relative + y.relative
    absolute = relative and x.largest * y.absolute + y.largest * x.absolute
    return Interval(min(ends), max(ends), absolute, relative)


def _negative(x: Interval) -> Interval:
    return Interval(-x.high, -x.low, x.absolute, x.relative)


def _wave(x: Interval) -> Interval:
    if x.relative:
        raise ValueError("a sine of a number that is not exact")
    return Interval(-1.0, 1.0, WAVE, WAVE)


_OPERATIONS: dict[str, Callable[..., Interval]] = {
    "add": _sum,
    "subtract": lambda x, y: _sum(x, _negative(y)),
    "multiply": _product,
    "negative": _negative,
    "positive": lambda x: x,
    "sin": _wave,
    "cos": _wave,
}


def may_shorten_waves(function: Callable[..., Any], operands: int) -> bool:
    """Return whether a coefficient has sines whose errors its rounding to float32 hides."""
    index, numbers = Interval(0.0, 2.0**63), [Interval(-math.inf, math.inf)] * operands
    try:
        result = function(index, *numbers)
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return False  # tracing raises the error, if there is one
    return isinstance(result, Interval) and 0 < result.relative <= ALLOWED


_MAX_STATES = 8
_WAVE = re.compile(r"np_(sin|cos)\(")
_CACHE_SIZE = 1024


@lru_cache(maxsize=_CACHE_SIZE)
def trace_transfer_map(transfer_map: TransferMap, dtype: np.dtype[Any], states: int) -> str:
    """Return a transfer map as C++ ``struct Transfer``, for host and device.

    Results of other dtypes than `dtype` are cast to it. `states` is the number of scalars in the
    state. Raise TypeError for an operation that cannot be recorded, and RuntimeError if a value
    that the functions read has changed since the map was made.
    """
    transfer_map.require_unchanged()
    arity = operand_count(transfer_map.lift)
    width = len(transfer_map.identity)
    name = transfer_map.name
    lift = _trace(f"lift of {name!r}", transfer_map.lift, [("step", arity)], dtype, "Map", width)
    compose = _operation(
        f"compose of {name!r}",
        transfer_map.compose,
        [("earlier", "Map"), ("later", "Map")],
        (width, width),
        dtype,
        "Map",
        width,
    )
    apply = _operation(
        f"apply of {name!r}",
        transfer_map.apply,
        [("map", "Map"), ("state", "State")],
        (width, states),
        dtype,
        "State",
        states,
        scalar=states == 1,
    )
    return f"""
struct Transfer {{
  typedef {ctype(dtype)} T;
  static constexpr int OPERANDS = {arity}, WIDTH = {width}, STATES = {states};
  static constexpr bool QUICK = {str("odd)" in compose + apply).lower()};
  struct Map {{ T v[WIDTH]; }};
  struct State {{ T v[STATES]; }};
  DEVICE static Map lift(const T (&step)[OPERANDS]) {{{lift}}}
{compose}{apply}}};
"""


@lru_cache(maxsize=_CACHE_SIZE)
def trace_coefficient(
    step: StepFunction, name: str, operands: tuple[np.dtype[Any], ...], dtype: np.dtype[Any]
) -> str:
    """Return ``step.function(index, *operands)`` as a C++ function `name`."""
    step.require_unchanged()
    function = step.function
    record = Record(f"Coefficient {function.__name__!r}")
    index = Symbol("index", np.dtype(np.int64), record)
    values = [Symbol(f"x{k}", dtype, record) for k, dtype in enumerate(operands)]
    result = merge_branches(record, lambda: function(index, *values))
    if isinstance(result, tuple):
        raise record.refuse("it returns a tuple", "return one scalar")
    parameters = "".join(f", {ctype(x)} x{k}" for k, x in enumerate(operands))
    body = _body(record, f"return {cast(record, result, dtype)};")
    return f"\nDEVICE inline {ctype(dtype)} {name}(long long index{parameters}) {{{body}}}\n"


@lru_cache(maxsize=_CACHE_SIZE)
def trace_fast_coefficient(
    step: StepFunction, name: str, operands: tuple[np.dtype[Any], ...], dtype: np.dtype[Any]
) -> str:
    """Return the fast version ``<name>_quickly`` of a coefficient, otherwise ""."""
    if dtype != np.float32 or not may_shorten_waves(step.function, len(operands)):
        return ""
    text = trace_coefficient(step, name, operands, dtype)
    text = text.replace(f" {name}(", f" {name}_quickly(bool& odd, ", 1)
    text = text.replace("cast<double>(index)", "quick_double(index)")
    return _WAVE.sub(r"quick_\1(odd, ", text)


@lru_cache(maxsize=_CACHE_SIZE)
def trace_operator(step: StepFunction, name: str, dtype: np.dtype[Any]) -> str:
    """Return ``step.function(a, b)`` as a C++ function `name` of two numbers of a dtype."""
    require_unchanged("pair of operators", step.fingerprint, step.function)
    record = Record(f"Operator {step.function.__name__!r}")
    operands = [Symbol(x, dtype, record) for x in "ab"]
    result = merge_branches(record, lambda: step.function(*operands))
    if isinstance(result, tuple):
        raise record.refuse("it returns a tuple", "return one number")
    body, T = _body(record, f"return {cast(record, result, dtype)};"), ctype(dtype)
    return f"\nDEVICE inline {T} {name}({T} a, {T} b) {{{body}}}\n"


def operand_count(lift: Callable[..., Any]) -> int:
    """Return the number of operands of a step."""
    code = lift.__code__
    if code.co_flags & 0x04:
        raise TypeError(f"lift must name its operands one by one; got *{code.co_varnames[-1]}")
    return int(code.co_argcount)


@lru_cache(maxsize=_CACHE_SIZE)
def state_count(transfer_map: TransferMap) -> int:
    """Return the number of scalars of a state: as many as `apply` takes and returns."""
    record = Record(f"apply of {transfer_map.name!r}")
    dtype = np.dtype(float)
    step = tuple(Symbol(f"m{k}", dtype, record) for k in range(len(transfer_map.identity)))
    state = tuple(Symbol(f"w{k}", dtype, record) for k in range(_MAX_STATES))
    problem: Exception = TypeError(f"{record.role} must return as many scalars as a state has")
    for count in range(1, _MAX_STATES + 1):
        try:
            result = transfer_map.apply(step, state[:count] if count > 1 else state[0])
        except (TypeError, ValueError, IndexError) as error:
            problem = error
            continue
        if len(result if isinstance(result, tuple) else (result,)) == count:
            return count
    raise problem


def _operation(
    role: str,
    function: Callable[..., Any],
    parameters: list[tuple[str, str]],
    counts: tuple[int, int],
    dtype: np.dtype[Any],
    returns: str,
    width: int,
    *,
    scalar: bool = False,
) -> str:
    """Return a function of two tuples, with a fast version if it has a rare branch."""
    groups = [(f"{name}.v", count) for (name, _), count in zip(parameters, counts, strict=True)]
    exact, fast = (
        _trace(role, function, groups, dtype, returns, width, grouped=True, scalar=scalar, is_fast=is_fast)
        for is_fast in (False, True)
    )
    name = role.split()[0]
    names = ", ".join(parameter for parameter, _ in parameters)
    references = ", ".join(f"const {T}& {parameter}" for parameter, T in parameters)
    if dtype.kind != "f" or "odd" not in fast:
        return f"""  DEVICE static {returns} {name}({references}) {{{exact}}}
  DEVICE static {returns} {name}_exactly({references}) {{ return {name}({names}); }}
  DEVICE static {returns} {name}_quickly({references}, bool&) {{ return {name}({names}); }}
"""
    values = ", ".join(f"{T} {parameter}" for parameter, T in parameters)
    return f"""  DEVICE static __attribute__((noinline))
  {returns} {name}_exactly({values}) {{{exact}}}
  DEVICE static {returns} {name}_quickly({references}, bool& odd) {{{fast}}}
  DEVICE static {returns} {name}({references}) {{
    bool odd = false;
    {returns} result = {name}_quickly({names}, odd);
    if (__builtin_expect(odd, 0)) result = {name}_exactly({names});
    return result;
  }}
"""


def _trace(
    role: str,
    function: Callable[..., Any],
    parameters: Iterable[tuple[str, int]],
    dtype: np.dtype[Any],
    returns: str,
    width: int,
    *,
    grouped: bool = False,
    scalar: bool = False,
    is_fast: bool = False,
) -> str:
    record = Record(role)
    groups: list[Any] = [
        tuple(Symbol(f"{name}[{k}]", dtype, record) for k in range(count)) for name, count in parameters
    ]
    if scalar:
        groups[-1] = groups[-1][0]
    recorded = record_powers(function)
    arguments = groups if grouped else groups[0]
    if is_fast:
        record.assumed = (False,) * 64
        result = recorded(*arguments)
    else:
        result = merge_branches(record, lambda: recorded(*arguments))
    values = result if isinstance(result, tuple) else (result,)
    if len(values) != width:
        raise TypeError(f"{role} must return {width} scalars; got {len(values)}")
    components = ", ".join(cast(record, value, dtype) for value in values)
    statement = f"return {returns}{{{{{components}}}}};"
    if not is_fast:
        return _body(record, statement)
    tests = "".join(f"odd = odd | {decision.code}; " for decision in record.decisions)
    return _body(record, tests + statement).replace("np_divide(", "quick_divide(odd, ")


def _body(record: Record, result: str) -> str:
    lines = print_statements(record.statements, result)
    return "".join(f"\n    {line}" for line in lines) + "\n  "
