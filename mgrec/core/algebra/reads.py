"""The values that a Python function reads from its module and its closure, by its bytecode."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from dis import get_instructions
from functools import reduce
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

# The contents of these libraries are hashed by name: they do not change while installed.
LIBRARIES = frozenset("builtins cmath cupy math numba numpy operator _operator scipy".split())

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_CELLS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_NO_OPERATION = {"CACHE", "EXTENDED_ARG", "NOP"}
_DYNAMIC = {"__import__", "eval", "exec", "globals"}
_Names = tuple[bool, tuple[str, ...]]


@dataclass(frozen=True)
class ReadValue:
    """A value that a function reads.

    Attributes
    ----------
    path : tuple of str
        Names that lead to the value: ``("cfg", "K")``.
    value : object
        The value. It is a module or class of the user only if the bytecode does not show which
        attribute is read from it.
    is_free : bool
        Whether the first name belongs to the closure, not to the module.
    """

    path: tuple[str, ...]
    value: Any
    is_free: bool


def read_values(function: FunctionType) -> tuple[ReadValue, ...]:
    """Return all values that a function and its inner functions read, in the order of the names.

    Raises
    ------
    TypeError
        If a name is not defined, or a value is read without a name.
    """
    code, closure = function.__code__, function.__closure__ or ()
    cells = dict(zip(code.co_freevars, closure, strict=True))
    by_path = {}
    for is_free, names in sorted(set(_chains(code, frozenset(cells)))):
        name = names[0]
        if is_free:
            value = _cell_value(cells[name], name)
        elif name in function.__globals__:
            value = function.__globals__[name]
        elif name in _DYNAMIC:
            raise _dynamic_read(name)
        elif hasattr(builtins, name):
            continue
        else:
            raise _undefined(name)
        path, value = _read_attributes(names, value)
        by_path[is_free, path] = ReadValue(path, value, is_free)
    return tuple(by_path.values())


def library_name(value: object) -> str | None:
    """Return the name of a library's module, class or function; None for other values."""
    if isinstance(value, ModuleType):
        return value.__name__ if _is_library(value.__name__) else None
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    module = getattr(value, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str | None):
        return None
    # Ufuncs have no __module__ before NumPy 2.4, and those of SciPy have none at all.
    candidates = [module] if module else ["numpy", "scipy.special"]
    for candidate in filter(_is_library, candidates):
        if candidate in sys.modules and _attribute(sys.modules[candidate], name) is value:
            return f"{candidate}:{name}"
    return None


def is_namespace(value: object) -> bool:
    """Return whether a value is a user's module or class, whose attributes are hashed."""
    return isinstance(value, (ModuleType, type)) and library_name(value) is None


def _is_library(module: str) -> bool:
    return module.split(".")[0] in LIBRARIES


def _attribute(module: ModuleType, name: str) -> Any:
    # vars instead of getattr: NumPy warns when some of its former names are read.
    first, *others = name.split(".")
    value = vars(module).get(first)
    return reduce(lambda value, name: getattr(value, name, None), others, value)


def _cell_value(cell: CellType, name: str) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise _undefined(name) from None


def _read_attributes(names: tuple[str, ...], value: object) -> tuple[tuple[str, ...], Any]:
    """Return the names read from a value, through modules and classes, and the last value."""
    length = 1
    while length < len(names) and is_namespace(value):
        if not hasattr(value, names[length]):
            raise _undefined(".".join(names[: length + 1]))
        value, length = getattr(value, names[length]), length + 1
    return names[:length], value


def _undefined(name: str) -> TypeError:
    return TypeError(
        f"a function of a recurrence must refer to names that are defined when the recurrence is "
        f"created; got {name}, which is not defined yet"
    )


def _dynamic_read(what: str) -> TypeError:
    return TypeError(
        f"a function of a recurrence must name the values that it reads, which are part of the key "
        f"of its compiled code; got {what}: import outside of the function, and write module.name"
    )


def _chains(code: CodeType, free: frozenset[str]) -> Iterator[_Names]:
    """Yield each name that is read, with the attributes that are read from it directly.

    A value that is stored or passed on ends the chain of its name.
    """
    chain: _Names | None = None
    for instruction in get_instructions(code):
        name, argument = instruction.opname, instruction.argval
        if name in _NO_OPERATION:
            continue
        if chain and name in _ATTRIBUTES:
            chain = chain[0], (*chain[1], argument)
            continue
        if chain:
            yield chain
        if name == "IMPORT_NAME":
            raise _dynamic_read(f"an import of {argument}")
        is_free = name in _CELLS and argument in free
        chain = (is_free, (argument,)) if is_free or name in _GLOBALS else None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _chains(inner, free & frozenset(inner.co_freevars))
