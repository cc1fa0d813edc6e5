"""Hashes of Python functions that are the same in each process, and the values functions read."""

from __future__ import annotations

import builtins
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dis import get_instructions
from enum import Enum
from functools import lru_cache, partial, reduce
from hashlib import sha256
from types import CodeType, EllipsisType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NamedTuple

import numpy as np

# The contents of these libraries are hashed by name: they do not change while installed.
LIBRARIES = frozenset("builtins cmath cupy math numba numpy operator _operator scipy".split())

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_DYNAMIC = {"__import__", "eval", "exec", "globals"}
_NUMBERS = {NoneType, EllipsisType, bool, int, float, complex, str, bytes, slice}
_VARIADIC = 0x04 | 0x08  # flags of a code with *args, **kwargs
_Path = tuple[str, ...]


class ReadValue(NamedTuple):
    """A value that a function reads, with the names that lead to it: ``("cfg", "K")``."""

    path: _Path
    value: Any
    is_free: bool
    """Whether the first name belongs to the closure, not to the module."""


def read_values(function: FunctionType) -> Iterator[ReadValue]:
    """Yield all values that a function and its inner functions read, in the order of the names.

    Of a user's module or class these are all attributes whose names occur in the function, which
    may be more than it reads. Raise TypeError if a name is not defined.
    """
    names, attributes, imports = _names(function.__code__)
    scope = function.__globals__
    for what in [f"an import of {name}" for name in imports] + sorted((names & _DYNAMIC) - scope.keys()):
        raise TypeError(
            f"a function of a recurrence must name the values that it reads, which are part of the key "
            f"of its compiled code; got {what}: import outside of the function, and write module.name"
        )
    values = {(False, name): scope[name] for name in names & scope.keys()}
    missing = [name for name in names - scope.keys() if not hasattr(builtins, name)]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[True, name] = cell.cell_contents
        except ValueError:
            missing.append(name)
    if missing:
        raise TypeError(
            f"a function of a recurrence must refer to names that are defined when the recurrence is "
            f"created; got {min(missing)}, which is not defined yet"
        )
    for is_free, name in sorted(values):
        value = values[is_free, name]
        # A module of which no attribute is named is yielded itself, and refused.
        for path, item in [*_attributes((name,), value, attributes, [])] or [((name,), value)]:
            yield ReadValue(path, item, is_free)


@lru_cache(maxsize=256)
def _names(code: CodeType) -> tuple[set[str], list[str], list[str]]:
    """Return the global names that a code and its inner codes read, all their names, and imports."""
    instructions = list(get_instructions(code))
    names = {x.argval for x in instructions if x.opname in _GLOBALS}
    imports = [x.argval for x in instructions if x.opname == "IMPORT_NAME"]
    attributes = {*code.co_names}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            inner_names, inner_attributes, inner_imports = _names(inner)
            names, imports = names | inner_names, imports + inner_imports
            attributes.update(inner_attributes)
    return names, sorted(attributes), imports


def _attributes(path: _Path, value: Any, names: list[str], owners: list[Any]) -> Iterator[tuple[_Path, Any]]:
    """Yield a value, or the attributes with these names of a user's module or class."""
    if not _is_namespace(value):
        yield path, value
    elif value not in owners:
        for name in names:
            if hasattr(value, name):
                yield from _attributes((*path, name), getattr(value, name), names, [*owners, value])


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


def _is_namespace(value: object) -> bool:
    """Return whether a value is a user's module or class, whose attributes are hashed."""
    is_class = isinstance(value, type) and not _is_constructor_only(value)
    return (is_class or isinstance(value, ModuleType)) and library_name(value) is None


def _is_library(module: str) -> bool:
    return module.split(".")[0] in LIBRARIES


def _attribute(module: ModuleType, name: str) -> Any:
    # vars instead of getattr: NumPy warns when some of its former names are read.
    first, *others = name.split(".")
    value = vars(module).get(first)
    return reduce(lambda value, name: getattr(value, name, None), others, value)


def fingerprint(*values: Any) -> str:
    """Hash functions by their bytecode and by the values they refer to, to 32 hexadecimal digits.

    Two functions with equal fingerprints compute the same, whichever process, module or notebook
    cell defined them. Fingerprints are the keys of compiled code and of Dask tasks. A value that a
    function reads as ``cfg.K`` is hashed by its value, a called function by its code, and an object
    of NumPy or another library by its name. Raise TypeError for other objects.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    return sha256(repr(_describe(values, {})).encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class StepFunction:
    """A function of one step; two are equal if their fingerprints are."""

    function: Callable[..., Any]
    fingerprint: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", fingerprint(self.function))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepFunction) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return ("mgrec.StepFunction", self.fingerprint)

    @property
    def codes(self) -> tuple[CodeType, ...]:
        return (self.function.__code__,)

    def require_unchanged(self) -> None:
        """Raise unless the values that the function reads are unchanged."""
        require_unchanged("Coefficient", self.fingerprint, self.function)


def require_unchanged(owner: str, expected: str, *values: Any) -> None:
    """Raise unless values have a fingerprint, which is the key of results and of compiled code."""
    if fingerprint(*values) != expected:
        function = next(value for value in values if callable(value))
        raise RuntimeError(
            f"the values that the functions of a {owner} read must stay unchanged after it was "
            f"created; got another value in a module or closure of {function!r}: make a new "
            f"{owner}, and give workers the same modules"
        )


def _describe(value: Any, seen: dict[int, int]) -> tuple[Any, ...]:
    """Return strings, bytes and numbers, nested in tuples, that determine what a value computes.

    `seen` has the number of each function that was described before.
    """
    value_type = type(value)
    if value_type in _NUMBERS or isinstance(value, np.generic):
        return value_type.__name__, repr(value)
    if value_type is CodeType:
        counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount
        names = value.co_names, value.co_varnames, counts, value.co_flags & _VARIADIC
        return "code", value.co_code, value.co_exceptiontable, names, _describe(value.co_consts, seen)
    if isinstance(value, (tuple, list)) and _is_plain(value_type):
        fields = getattr(value, "_fields", ())
        return "items", value_type.__name__, fields, *(_describe(item, seen) for item in value)
    if isinstance(value, frozenset):
        return "set", *sorted(map(repr, value))
    if isinstance(value, Enum):
        return "enum", value_type.__qualname__, value.name, _describe(value.value, seen)
    if value_type in (np.ndarray, np.memmap) and not value.dtype.hasobject:
        dtype = value.dtype.descr if value.dtype.names else value.dtype.str
        return "array", value.shape, dtype, sha256(value.tobytes()).digest()
    if value_type.__module__.startswith("numba.core.types"):
        return "library", str(value)  # numba.float64(x)
    if (name := library_name(value)) is not None:
        return "library", name
    if value_type is FunctionType and id(value) in seen:
        return "again", seen[id(value)]
    if (parts := _parts(value, seen)) is None:
        raise _unsupported(value)
    return tuple(_describe(part, seen) for part in parts)


def _parts(value: Any, seen: dict[int, int]) -> tuple[Any, ...] | None:
    """Return the values that determine a callable; None if its code is not accessible."""
    if isinstance(value, FunctionType):
        seen[id(value)] = len(seen)
        reads = tuple((read.path, read.value) for read in read_values(value))
        defaults = value.__defaults__ or (), _sorted(value.__kwdefaults__ or {})
        return "function", value.__code__, *defaults, reads
    if isinstance(value, type) and _is_constructor_only(value):
        fields = getattr(value, "_fields", ()), _sorted(getattr(value, "_field_defaults", {}))
        return "class", value.__qualname__, *fields
    if isinstance(value, MethodType):
        return "method", value.__func__, value.__self__
    if type(value) is partial:
        return "partial", value.func, value.args, _sorted(value.keywords)
    if hasattr(value, "py_func") and hasattr(value, "targetoptions"):  # of numba.njit
        signatures = () if value._can_compile else map(str, value.nopython_signatures)
        options = _sorted(value.targetoptions), _sorted(value.locals), tuple(signatures)
        return "compiled", *options, value._compiler.pipeline_class, value.py_func
    if type(value).__name__ == "DUFunc" and hasattr(value, "_dispatcher"):  # of numba.vectorize
        dispatcher = value._dispatcher
        signatures = map(str, dispatcher.overloads) if value._frozen else ()
        return "vectorized", _sorted(dispatcher.targetoptions), tuple(signatures), dispatcher.py_func
    return None


def _sorted(options: dict[str, Any]) -> tuple[Any, ...]:
    def plain(value: object) -> Any:
        if isinstance(value, dict):
            return _sorted(value)
        return frozenset(value) if isinstance(value, set) else value

    return tuple((name, plain(value)) for name, value in sorted(options.items()))


def _is_plain(value_type: type) -> bool:
    """Return whether a type is a tuple, a list, or a named tuple without computed attributes."""
    if value_type in (tuple, list):
        return True
    fields = getattr(value_type, "_fields", ())
    attributes = {name for name in vars(value_type) if not name.startswith("_")}
    return value_type.__bases__ == (tuple,) and attributes == set(fields)


def _is_constructor_only(value_type: type) -> bool:
    """Return whether a class is an exception, or a plain tuple for states and maps."""
    is_plain_tuple = issubclass(value_type, tuple) and _is_plain(value_type)
    return is_plain_tuple or issubclass(value_type, BaseException)


def _unsupported(value: object) -> TypeError:
    message = (
        f"a function of a recurrence may refer to numbers, arrays, NumPy's functions, plain "
        f"Python functions, those of numba.njit and numba.vectorize, and modules; got {value!r} of "
        f"{type(value).__name__}"
    )
    if _is_namespace(value):
        message += ": write module.name where the value is read"
    elif hasattr(value, "__dict__"):  # an instance, of which functions are methods
        message += ": write functions outside of classes, and pass numbers as operands"
    return TypeError(message)


MAX_VARIANTS = 32
"""Number of variants of one code before a warning."""

Codes = tuple[CodeType, ...]


@dataclass
class _Variants:
    fingerprints: set[str] = field(default_factory=set)
    has_warned: bool = False

    def accept(self, fingerprint: str) -> bool:
        """Return whether a fingerprint is one of the first MAX_VARIANTS."""
        if len(self.fingerprints) < MAX_VARIANTS:
            self.fingerprints.add(fingerprint)
        return fingerprint in self.fingerprints


_lock = threading.Lock()


@lru_cache(maxsize=256)
def _variants_of(codes: Codes) -> _Variants:
    return _Variants()


def is_within_limit(codes: Codes, fingerprint: str) -> bool:
    """Return whether a function is one of the first MAX_VARIANTS of its code in this process."""
    with _lock:
        return _variants_of(codes).accept(fingerprint)


def warn_of_variants(owner: str, codes: Codes, fingerprint: str) -> None:
    """Warn once for each code with too many variants that numbers belong in operands."""
    with _lock:
        variants = _variants_of(codes)
        if variants.accept(fingerprint) or variants.has_warned:
            return
        variants.has_warned = True
    code = codes[0]
    warnings.warn(
        f"{MAX_VARIANTS + 1} times a {owner} was made of the same code ({code.co_name} in "
        f"{code.co_filename}, line {code.co_firstlineno}) with other values in its closure or "
        f"module: each one is compiled again, and numba never frees the 5 to 12 MB that it takes. "
        f"Pass numbers that change as operands: a scalar stays a scalar",
        stacklevel=stacklevel_of_caller(),
    )


def stacklevel_of_caller() -> int:
    """Return the ``stacklevel`` of the first frame outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "mgrec":
        frame, level = frame.f_back, level + 1
    return level
