"""Functions of :mod:`mgrec.core.algebra.powers` in the C++ that does them by bits."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from ....core.algebra import powers
from .symbols import Symbol, cast

Function = Callable[..., Any]


def record_powers(function: Function, seen: dict[Function, Function] | None = None) -> Function:
    """The same function, which calls the C++ of `kernels/scalar/numeric.cuh` wherever it scales."""
    seen = {} if seen is None else seen
    if function in seen or not isinstance(function, FunctionType):
        return seen.get(function, function)
    scope = dict(function.__globals__)
    code, closure = function.__code__, function.__closure__
    same = FunctionType(code, scope, function.__name__, function.__defaults__, closure)
    same.__kwdefaults__ = function.__kwdefaults__
    seen[function] = same
    for name in _names(code) & scope.keys():
        value = scope[name]
        if value in _RECORDED:
            scope[name] = _RECORDED[value]
        elif isinstance(value, FunctionType):
            scope[name] = record_powers(value, seen)
    return same


def _names(code: CodeType) -> set[str]:
    nested = [const for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*(_names(inner) for inner in nested))


def _recorded(function: Function) -> Function:
    def recorded(*operands: Any) -> Any:
        symbols = [x for x in operands if isinstance(x, Symbol) and x.dtype.kind == "f"]
        if not symbols:
            return function(*operands)
        record, dtype = symbols[0].record, symbols[0].dtype
        values = ", ".join(cast(record, x, dtype) for x in operands)
        return record.define(f"{function.__name__}({values})", dtype)

    return recorded


_RECORDED = {
    function: _recorded(function)
    for function in (powers.inverse_power, powers.exponent_gap, powers.power_of_two)
}
