"""Compilation of the functions of one step that a user has written."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from types import CellType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.registry import CPUDispatcher
from numba.np.ufunc.dufunc import DUFunc

from ...core.algebra.fingerprint import StepFunction, library_name, read_values
from .compilation import INNER, RARE_STEP, STEP

CACHE_SIZE = 256
"""Number of recurrences whose compiled functions are cached in memory."""


@numba.njit(**INNER)
def _where(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


@numba.njit(**INNER)
def _frexp(x: Any) -> Any:
    return math.frexp(x)


def _scalar_numpy() -> ModuleType:
    """Return NumPy for scalars: numba lacks frexp, and its where allocates an array."""
    module = ModuleType("mgrec_scalar_numpy")
    # Not all names at once: numpy.f2py and numpy.testing, which are in numpy.__all__, take 0.09 s.
    module.__dict__.update(where=_where, frexp=_frexp, __getattr__=partial(getattr, np))
    return module


_REPLACEMENTS = {id(np): _scalar_numpy(), id(np.where): _where, id(np.frexp): _frexp}


def compile_step(function: Callable[..., Any]) -> Any:
    """Return a function of one step for kernels, with NumPy's functions on scalars.

    The function keeps the values and functions that it reads now, whenever numba compiles it.
    """
    return _compile_step(StepFunction(function))


# Cached by the fingerprint: the same function object may read other values later.
@lru_cache(maxsize=CACHE_SIZE)
def _compile_step(step: StepFunction) -> Any:
    function = step.function
    if isinstance(function, FunctionType):
        options = RARE_STEP if getattr(function, "is_rare", False) else STEP
        return _freeze(function, _freeze_value_of_step, numba.njit(**options))
    if isinstance(function, CPUDispatcher):
        return _recompile(function)
    if isinstance(function, DUFunc):
        return _revectorize(function)
    return function


def _recompile(dispatcher: Any) -> Any:
    """Compile a numba function of the user again: its code may have older values."""

    def compile_frozen(function: FunctionType) -> Any:
        options = dispatcher.locals, dispatcher.targetoptions, dispatcher._compiler.pipeline_class
        return type(dispatcher)(function, *options)

    frozen = _freeze(dispatcher.py_func, _freeze_value, compile_frozen, dispatcher)
    if not dispatcher._can_compile:
        for signature in dispatcher.nopython_signatures:
            frozen.compile(signature)
        frozen.disable_compile()
    return frozen


def _revectorize(ufunc: Any) -> Any:
    """Do the same as :func:`_recompile` for a function of ``numba.vectorize``."""
    dispatcher = ufunc._dispatcher

    def vectorize_frozen(function: FunctionType) -> Any:
        return DUFunc(function, ufunc.identity, targetoptions=dict(dispatcher.targetoptions))

    frozen = _freeze(dispatcher.py_func, _freeze_value, vectorize_frozen, ufunc)
    if ufunc._frozen:
        for signature in dispatcher.overloads:
            frozen.add(signature)
        frozen.disable_compile()
    return frozen


def _freeze_value_of_step(value: Any) -> Any:
    if id(value) in _REPLACEMENTS:
        return _REPLACEMENTS[id(value)]
    if isinstance(value, FunctionType) and library_name(value) is None:
        return compile_step(value)
    return _freeze_value(value)


def _freeze_value(value: Any) -> Any:
    if isinstance(value, (CPUDispatcher, DUFunc)) and library_name(value) is None:
        return compile_step(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _freeze(
    function: FunctionType,
    freeze_value: Callable[[Any], Any],
    compile_frozen: Callable[[FunctionType], Any],
    compiled: Any = None,
) -> Any:
    """Return ``compile_frozen(function)``, with a copy of the values that the function reads.

    A recursive function, which reads itself or its `compiled` form, calls the result.
    """
    # Processes that load the compiled code import the module of this name.
    scope: dict[str, Any] = {"__builtins__": __builtins__, "__name__": "mgrec"}
    cells: dict[str, Any] = {}
    recursions = []
    for read in read_values(function):
        target = cells if read.is_free else scope
        if read.value is (compiled or function):
            recursions.append((target, read.path))
        else:
            _bind(target, read.path, freeze_value(read.value))
    code = function.__code__
    closure = {name: CellType(cells.get(name)) for name in code.co_freevars}
    copy = FunctionType(
        code, scope, function.__name__, function.__defaults__, tuple(closure.values()) or None
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    frozen = compile_frozen(copy)
    for target, path in recursions:
        _bind(target, path, frozen)
        if path[0] in closure:
            closure[path[0]].cell_contents = target[path[0]]
    return frozen


def _bind(scope: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Bind a name, or an attribute of a new module that has only the attributes read."""
    *modules, name = path
    for module in modules:
        scope = scope.setdefault(module, ModuleType(module)).__dict__
    scope[name] = value
