"""Symbols that record the operations of a plain Python function on its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from ...core.algebra.exact import exponent_gap, inverse_power, power_of_two
from .cpp import FUNCTIONS, Statement, ctype, literal, names_without

Operand = Any
Function = Callable[..., Any]
_MAX_DECISIONS = 4


@dataclass
class Record:
    """The statements of one function, in the order of execution: statement k defines ``v<k>``.

    `role` is the function's name in messages (``lift of 'affine'``), `known` the value of each
    expression so far, so that none is computed twice, and `assumed` the values of the first
    decisions of this run.
    """

    role: str
    statements: list[Statement] = field(default_factory=list)
    known: dict[tuple[str, str], Symbol] = field(default_factory=dict)
    assumed: tuple[bool, ...] = ()
    decisions: list[Symbol] = field(default_factory=list)

    def define(
        self, expression: str, dtype: np.dtype[Any], choice: tuple[str, str, str] | None = None
    ) -> Symbol:
        """Return the symbol of a C++ expression, in a new statement if it is not known."""
        key = (expression, dtype.str)
        if key not in self.known:
            self.known[key] = Symbol(f"v{len(self.statements)}", dtype, self)
            self.statements.append(Statement(ctype(dtype), expression, choice))
        return self.known[key]

    def refuse(self, operation: str, instead: str) -> TypeError:
        return TypeError(f"{self.role} cannot run on a GPU: {operation}; {instead}")


class Symbol:
    """A scalar of a known dtype, whose value is computed on the GPU.

    Arithmetic follows NumPy's promotion (Python numbers are weak), so that the traced function
    computes in the same dtypes as in NumPy.
    """

    __slots__ = ("code", "dtype", "record")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, code: str, dtype: np.dtype[Any], record: Record) -> None:
        self.code = code
        self.dtype = dtype
        self.record = record

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            how = f"np.{ufunc.__name__}.{method}" if method != "__call__" else ", ".join(kwargs)
            raise self.record.refuse(f"it uses {how} of a ufunc", "call ufuncs on scalars only")
        return record_ufunc(self.record, ufunc, inputs)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where and len(args) == 3 and not kwargs:
            return record_where(self.record, *args)
        if function is np.any and len(args) == 1 and not kwargs:
            return Decision(cast(self.record, self, np.dtype(bool)), np.dtype(bool), self.record)
        raise self.record.refuse(
            f"it calls np.{function.__name__}", "use arithmetic, NumPy ufuncs and np.where"
        )

    def __bool__(self) -> bool:
        raise self.record.refuse(
            "it takes a branch on a value (if, and, or, not, min, max, while)",
            "write np.where(condition, x, y), np.minimum, np.maximum, &, |, ~",
        )

    def _not_a_number(self, wanted: str, instead: str) -> TypeError:
        return self.record.refuse(f"it needs a value as {wanted} while it is traced", instead)

    def __float__(self) -> float:
        raise self._not_a_number("a float", "replace math.f(x) and float(x) by NumPy ufuncs")

    def __int__(self) -> int:
        raise self._not_a_number("an int", "replace int(x) by np.floor(x) or np.trunc(x)")

    def __complex__(self) -> complex:
        raise self._not_a_number("a complex number", "replace complex(x, y) by x + 1j*y")

    def __index__(self) -> int:
        raise self._not_a_number("an index", "a coefficient cannot look up a table")

    def __iter__(self) -> Any:
        raise self._not_a_number("a tuple", "the state of this map is one scalar")

    @property
    def real(self) -> Symbol:
        return self if self.dtype.kind != "c" else _component(self, "re")

    @property
    def imag(self) -> Any:
        return 0 if self.dtype.kind != "c" else _component(self, "im")

    def conjugate(self) -> Any:
        return np.conjugate(self)

    def astype(self, dtype: Any) -> Symbol:
        dtype = np.dtype(dtype)
        return self.record.define(cast(self.record, self, dtype), dtype)


class Decision(Symbol):
    """``np.any(condition)``, the only condition on which a traced function may branch."""

    __slots__ = ()

    def __bool__(self) -> bool:
        decisions, assumed = self.record.decisions, self.record.assumed
        decisions.append(self)
        return assumed[len(decisions) - 1] if len(decisions) <= len(assumed) else True


def _operator(ufunc: np.ufunc, swap: bool = False) -> Callable[..., Any]:
    def method(self: Symbol, *others: Operand) -> Any:
        operands = (*others, self) if swap else (self, *others)
        return record_ufunc(self.record, ufunc, operands)

    return method


_BINARY: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
_COMPARISON: dict[str, np.ufunc] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_UNARY: dict[str, np.ufunc] = {
    "neg": np.negative,
    "pos": np.positive,
    "abs": np.absolute,
    "invert": np.invert,
}
for _name, _ufunc in (_BINARY | _COMPARISON | _UNARY).items():
    setattr(Symbol, f"__{_name}__", _operator(_ufunc))
for _name, _ufunc in _BINARY.items():
    setattr(Symbol, f"__r{_name}__", _operator(_ufunc, swap=True))


def record_ufunc(record: Record, ufunc: np.ufunc, inputs: tuple[Operand, ...]) -> Any:
    """Record a ufunc of scalars, with the dtypes that NumPy would choose."""
    names = FUNCTIONS.get(ufunc.__name__)
    if names is None:
        raise record.refuse(
            f"np.{ufunc.__name__} has no CUDA spelling here",
            f"the ufuncs that have one are {', '.join(sorted(FUNCTIONS))}",
        )
    input_dtypes = tuple(_weak_dtype(operand) for operand in inputs)
    try:
        dtypes = ufunc.resolve_dtypes((*input_dtypes, *(None,) * ufunc.nout))
    except TypeError:
        got = " and ".join(map(str, input_dtypes))
        raise record.refuse(f"np.{ufunc.__name__} is not defined for {got}", "cast first") from None
    arguments = ", ".join(
        cast(record, operand, dtype) for operand, dtype in zip(inputs, dtypes, strict=False)
    )
    outputs = tuple(
        record.define(f"{name}({arguments})", dtype)
        for name, dtype in zip(names, dtypes[ufunc.nin :], strict=True)
    )
    return outputs[0] if ufunc.nout == 1 else outputs


def record_where(record: Record, condition: Operand, x: Operand, y: Operand) -> Any:
    """Record ``np.where``."""
    dtype = np.result_type(*(v.dtype if isinstance(v, Symbol) else v for v in (x, y)))
    flag = cast(record, condition, np.dtype(bool))
    choice = (flag, cast(record, x, dtype), cast(record, y, dtype))
    return record.define("{} ? {} : {}".format(*choice), dtype, choice)


def merge_branches(record: Record, trace: Callable[[], Any], assumed: tuple[bool, ...] = ()) -> Any:
    """Run a function once for each outcome of its decisions, and choose among the results."""
    if len(assumed) > _MAX_DECISIONS:
        raise record.refuse("it branches too often", "write np.where(condition, x, y)")
    record.assumed, record.decisions = assumed, []
    result = trace()
    if len(record.decisions) <= len(assumed):
        return result
    condition = record.decisions[len(assumed)]
    if_true, if_false = (merge_branches(record, trace, (*assumed, x)) for x in (True, False))
    pairs = list(zip(_as_tuple(if_true), _as_tuple(if_false), strict=True))
    names_if_false = names_without(record.statements, condition.code)
    if all(_code(x, names_if_false) == _code(y, {}) for x, y in pairs):
        return if_true  # each np.where of the condition has chosen already
    chosen = tuple(x if _is_same(x, y) else record_where(record, condition, x, y) for x, y in pairs)
    return chosen if isinstance(if_true, tuple) else chosen[0]


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _code(value: Operand, names: dict[str, str]) -> Any:
    return names.get(value.code, value.code) if isinstance(value, Symbol) else value


def _is_same(x: Operand, y: Operand) -> bool:
    return x is y or (not isinstance(x, Symbol) and not isinstance(y, Symbol) and bool(x == y))


def _component(symbol: Symbol, name: str) -> Symbol:
    real = np.empty(0, symbol.dtype).real.dtype
    return symbol.record.define(f"{symbol.code}.{name}", real)


def cast(record: Record, operand: Operand, dtype: np.dtype[Any]) -> str:
    """Return an operand, a symbol or a number, as a C++ value of `dtype`."""
    if not isinstance(operand, Symbol):
        return literal(operand, dtype)
    if operand.record is not record:
        raise record.refuse("it keeps a value of an earlier step", "pass it through the state")
    if operand.dtype == dtype:
        return operand.code
    return f"cast<{ctype(dtype)}>({operand.code})"


def _weak_dtype(operand: Operand) -> Any:
    if isinstance(operand, Symbol):
        return operand.dtype
    if isinstance(operand, (bool, np.generic)):
        return np.dtype(type(operand))
    return type(operand)


def record_powers(function: Function, seen: dict[Function, Function] | None = None) -> Function:
    """Return the same function, with powers of two by the functions of ``numeric.cuh``."""
    seen = {} if seen is None else seen
    if function in seen or not isinstance(function, FunctionType):
        return seen.get(function, function)
    scope = dict(function.__globals__)
    code, closure = function.__code__, function.__closure__
    copy = FunctionType(code, scope, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    seen[function] = copy
    for name in _names_read(code) & scope.keys():
        value = scope[name]
        if value in _RECORDED:
            scope[name] = _RECORDED[value]
        elif isinstance(value, FunctionType):
            scope[name] = record_powers(value, seen)
    return copy


def _names_read(code: CodeType) -> set[str]:
    nested = [const for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*(_names_read(inner) for inner in nested))


def _recorded(function: Function) -> Function:
    def recorded(*operands: Any) -> Any:
        symbols = [x for x in operands if isinstance(x, Symbol) and x.dtype.kind == "f"]
        if not symbols:
            return function(*operands)
        record, dtype = symbols[0].record, symbols[0].dtype
        values = ", ".join(cast(record, x, dtype) for x in operands)
        return record.define(f"{function.__name__}({values})", dtype)

    return recorded


_RECORDED = {f: _recorded(f) for f in (inverse_power, exponent_gap, power_of_two)}
