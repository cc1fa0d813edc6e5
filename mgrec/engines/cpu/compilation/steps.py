"""Compile the functions of a step, with the values that they read now."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from types import CellType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.registry import CPUDispatcher
from numba.np.ufunc.dufunc import DUFunc

from ....core.algebra.fingerprint import StepFunction
from ....core.algebra.reads import library_name, reads
from .kernels import INNER, KEPT

Freeze = Callable[[Any], Any]


@numba.njit(**INNER)
def _where(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


@numba.njit(**INNER)
def _frexp(x: Any) -> Any:
    return math.frexp(x)


def _scalar_numpy() -> ModuleType:
    """NumPy on scalars: numba lacks frexp, and its where allocates an array."""
    module = ModuleType("mgrec_scalar_numpy")
    module.__dict__.update({name: getattr(np, name) for name in np.__all__})
    module.__dict__.update(where=_where, frexp=_frexp)
    return module


_REPLACEMENTS = {id(np): _scalar_numpy(), id(np.where): _where, id(np.frexp): _frexp}


def compile_step(function: Callable[..., Any]) -> Any:
    """Compile a function of one step, with NumPy's functions taken on scalars.

    It keeps the values and functions that it reads now, whenever numba compiles it.
    """
    return _compiled(StepFunction(function))


# Cached by what it computes: the same function object may read other values later.
@lru_cache(maxsize=KEPT)
def _compiled(step: StepFunction) -> Any:
    function = step.function
    if isinstance(function, FunctionType):
        return _made(function, _freeze_for_step, numba.njit(**INNER))
    if isinstance(function, CPUDispatcher):
        return _compile_again(function)
    if isinstance(function, DUFunc):
        return _vectorize_again(function)
    return function


def _compile_again(dispatcher: Any) -> Any:
    """Compile a numba function of the user again: it may hold older values."""

    def make(function: FunctionType) -> Any:
        options = dispatcher.locals, dispatcher.targetoptions, dispatcher._compiler.pipeline_class
        return type(dispatcher)(function, *options)

    again = _made(dispatcher.py_func, _freeze_for_user, make, dispatcher)
    if not dispatcher._can_compile:
        for signature in dispatcher.nopython_signatures:
            again.compile(signature)
        again.disable_compile()
    return again


def _vectorize_again(ufunc: Any) -> Any:
    """:func:`_compile_again` of a function of ``numba.vectorize``."""
    dispatcher = ufunc._dispatcher

    def make(function: FunctionType) -> Any:
        return DUFunc(function, ufunc.identity, targetoptions=dict(dispatcher.targetoptions))

    again = _made(dispatcher.py_func, _freeze_for_user, make, ufunc)
    if ufunc._frozen:
        for signature in dispatcher.overloads:
            again.add(signature)
        again.disable_compile()
    return again


def _freeze_for_step(value: Any) -> Any:
    if id(value) in _REPLACEMENTS:
        return _REPLACEMENTS[id(value)]
    if isinstance(value, FunctionType) and library_name(value) is None:
        return compile_step(value)
    return _freeze_for_user(value)


def _freeze_for_user(value: Any) -> Any:
    if isinstance(value, (CPUDispatcher, DUFunc)) and library_name(value) is None:
        return compile_step(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _made(
    function: FunctionType, freeze: Freeze, make: Callable[[FunctionType], Any], own: Any = None
) -> Any:
    """``make(function)``, where the function has a scope of its own with frozen values.

    A recursive function, whose name stands for `own`, calls what is made.
    """
    # Whoever loads the compiled code imports the module of this name.
    scope: dict[str, Any] = {"__builtins__": __builtins__, "__name__": "mgrec"}
    cells: dict[str, Any] = {}
    itself = []
    for read in reads(function):
        target = cells if read.is_free else scope
        if read.value is (own or function):
            itself.append((target, read.path))
        else:
            _bind(target, read.path, freeze(read.value))
    code = function.__code__
    closure = {name: CellType(cells.get(name)) for name in code.co_freevars}
    same = FunctionType(
        code, scope, function.__name__, function.__defaults__, tuple(closure.values()) or None
    )
    same.__kwdefaults__ = function.__kwdefaults__
    made = make(same)
    for target, path in itself:
        _bind(target, path, made)
        if path[0] in closure:
            closure[path[0]].cell_contents = target[path[0]]
    return made


def _bind(scope: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Bind a name, or an attribute of a new module that holds only what is read."""
    *modules, name = path
    for module in modules:
        scope = scope.setdefault(module, ModuleType(module)).__dict__
    scope[name] = value
