"""The functions of a step as numba compiles them: with all that they read as it is now."""

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

from ....algebra.fingerprint import StepFunction
from ....algebra.reads import library_name, reads
from .kernels import INNER, KEPT

Freeze = Callable[[Any], Any]


@numba.njit(**INNER)
def _where(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


@numba.njit(**INNER)
def _frexp(x: Any) -> Any:
    return math.frexp(x)


def _scalar_numpy() -> ModuleType:
    """NumPy as seen from one step: numba lacks frexp, and its where allocates an array."""
    module = ModuleType("mgrec_scalar_numpy")
    module.__dict__.update({name: getattr(np, name) for name in np.__all__})
    module.__dict__.update(where=_where, frexp=_frexp)
    return module


_REPLACEMENTS = {id(np): _scalar_numpy(), id(np.where): _where, id(np.frexp): _frexp}


def compile_step(function: Callable[..., Any]) -> Any:
    """Compile a function of one step, with NumPy's functions taken on scalars.

    Values and functions that it reads stay what they are now, whenever numba compiles it.
    """
    return _compiled(StepFunction(function))


# By what it computes: the same function object may read other values by now.
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
    """A function that the user compiles, anew: it may be compiled already with older values."""

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
    """The same of a function of ``numba.vectorize``."""
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

    Where it reads itself (`own`, if that is what its name stands for), it reads what is made.
    """
    # Whoever loads the compiled code imports the module that it is said to come from.
    scope: dict[str, Any] = {"__builtins__": __builtins__, "__name__": "mgrec"}
    cells: dict[str, Any] = {}
    itself = []
    for read in reads(function):
        target = cells if read.is_free else scope
        if read.value is (own or function):
            itself.append((target, read.path))
        else:
            _place(target, read.path, freeze(read.value))
    code = function.__code__
    closure = {name: CellType(cells.get(name)) for name in code.co_freevars}
    same = FunctionType(
        code, scope, function.__name__, function.__defaults__, tuple(closure.values()) or None
    )
    same.__kwdefaults__ = function.__kwdefaults__
    made = make(same)
    for target, path in itself:
        _place(target, path, made)
        if path[0] in closure:
            closure[path[0]].cell_contents = target[path[0]]
    return made


def _place(scope: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Bind a name, or an attribute of a module that has nothing else than what is read."""
    *modules, name = path
    for module in modules:
        scope = scope.setdefault(module, ModuleType(module)).__dict__
    scope[name] = value
