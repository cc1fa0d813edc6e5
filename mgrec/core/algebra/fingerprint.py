"""Hashes of Python functions that are the same in each process, and the values functions read."""

from __future__ import annotations

import builtins
import hashlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dis import get_instructions
from enum import Enum
from functools import lru_cache, partial, reduce
from types import CellType, CodeType, EllipsisType, FunctionType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hashlib import _Hash as Digest


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


_NUMBERS = {NoneType, EllipsisType, bool, int, float, complex, str, bytes, slice}
_VARIADIC = 0x04 | 0x08  # flags of a code with *args, **kwargs


def fingerprint(*values: Any) -> str:
    """Hash functions by their bytecode and by the values they refer to.

    Two functions with equal fingerprints compute the same, whichever process, module or notebook
    cell defined them. Fingerprints are the keys of compiled code and of Dask tasks. A value that a
    function reads as ``cfg.K`` is hashed by its value, a called function by its code, and an object
    of NumPy or another library by its name.

    Parameters
    ----------
    *values : function, scalar, array, str or tuple of these

    Returns
    -------
    str
        32 hexadecimal digits.

    Raises
    ------
    TypeError
        If a function refers to an object that cannot be compiled, or in a way that its bytecode
        does not show.

    Examples
    --------
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    digest = hashlib.sha256()
    _absorb(digest, values, {})
    return digest.hexdigest()[:32]


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
    """Raise unless values have a fingerprint, which is the key of results and of compiled code.

    Raises
    ------
    RuntimeError
        If a value that a function reads has changed since the fingerprint was computed, or differs
        in this process.
    """
    if fingerprint(*values) != expected:
        function = next(value for value in values if callable(value))
        raise RuntimeError(
            f"the values that the functions of a {owner} read must stay unchanged after it was "
            f"created; got another value in a module or closure of {function!r}: make a new "
            f"{owner}, and give workers the same modules"
        )


def _absorb(digest: Digest, value: Any, seen: dict[int, int]) -> None:
    if type(value) in _NUMBERS or isinstance(value, np.generic):
        digest.update(f"{type(value).__name__}:{value!r};".encode())
    elif isinstance(value, CodeType):
        _absorb_code(digest, value, seen)
    elif isinstance(value, (tuple, list)) and _is_plain(type(value)):
        fields = getattr(value, "_fields", ())
        digest.update(f"({type(value).__name__}{fields}{len(value)}".encode())
        for item in value:
            _absorb(digest, item, seen)
    elif isinstance(value, frozenset):
        _absorb(digest, ("frozenset", *sorted(map(repr, value))), seen)
    elif isinstance(value, Enum):
        _absorb(digest, (type(value).__qualname__, value.name, value.value), seen)
    elif type(value) in (np.ndarray, np.memmap) and not value.dtype.hasobject:
        dtype = value.dtype.descr if value.dtype.names else value.dtype.str
        digest.update(repr((value.shape, dtype)).encode() + value.tobytes())
    elif not _absorb_called(digest, value, seen):
        raise _unsupported(value)


def _absorb_called(digest: Digest, value: Any, seen: dict[int, int]) -> bool:
    """Hash a callable; return False if its code is not accessible."""
    name = _name(value)
    if name is not None:
        digest.update(f"{name};".encode())
    elif isinstance(value, FunctionType):
        if id(value) in seen:
            digest.update(b"again %d;" % seen[id(value)])
        else:
            seen[id(value)] = len(seen)
            _absorb_function(digest, value, seen)
    elif isinstance(value, type) and _is_constructor_only(value):
        fields = getattr(value, "_fields", ()), _sorted(getattr(value, "_field_defaults", {}))
        _absorb(digest, ("class", value.__qualname__, fields), seen)
    elif isinstance(value, MethodType):
        _absorb(digest, ("method", value.__func__, value.__self__), seen)
    elif type(value) is partial:
        _absorb(digest, ("partial", value.func, value.args, *_sorted(value.keywords)), seen)
    elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):
        _absorb_compiled(digest, value, seen)
    elif type(value).__name__ == "DUFunc" and hasattr(value, "_dispatcher"):
        _absorb_vectorized(digest, value, seen)
    else:
        return False
    return True


def _absorb_function(digest: Digest, function: FunctionType, seen: dict[int, int]) -> None:
    _absorb(digest, function.__code__, seen)
    _absorb(digest, function.__defaults__ or (), seen)
    _absorb(digest, _sorted(function.__kwdefaults__ or {}), seen)
    for read in read_values(function):
        digest.update(f"{'.'.join(read.path)}=".encode())
        _absorb(digest, read.value, seen)


def _absorb_code(digest: Digest, code: CodeType, seen: dict[int, int]) -> None:
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    names = code.co_names, code.co_varnames, counts, code.co_flags & _VARIADIC
    digest.update(code.co_code + code.co_exceptiontable + repr(names).encode())
    _absorb(digest, code.co_consts, seen)


def _absorb_compiled(digest: Digest, dispatcher: Any, seen: dict[int, int]) -> None:
    """Hash a function that numba compiles; options such as fastmath change its results."""
    signatures = () if dispatcher._can_compile else map(str, dispatcher.nopython_signatures)
    options = _sorted(dispatcher.targetoptions), _sorted(dispatcher.locals), tuple(signatures)
    _absorb(digest, ("compiled", options, dispatcher._compiler.pipeline_class), seen)
    _absorb(digest, dispatcher.py_func, seen)


def _absorb_vectorized(digest: Digest, ufunc: Any, seen: dict[int, int]) -> None:
    """Hash a function of ``numba.vectorize``; a frozen one compiles no further signatures."""
    dispatcher = ufunc._dispatcher
    signatures = tuple(map(str, dispatcher.overloads)) if ufunc._frozen else ()
    _absorb(digest, ("vectorized", _sorted(dispatcher.targetoptions), signatures), seen)
    _absorb(digest, dispatcher.py_func, seen)


def _sorted(options: dict[str, Any]) -> tuple[Any, ...]:
    def plain(value: object) -> Any:
        if isinstance(value, dict):
            return _sorted(value)
        return frozenset(value) if isinstance(value, set) else value

    return tuple((name, plain(value)) for name, value in sorted(options.items()))


def _name(value: object) -> str | None:
    if type(value).__module__.startswith("numba.core.types"):
        return str(value)  # numba.float64(x)
    return library_name(value)


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
    if is_namespace(value):
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
