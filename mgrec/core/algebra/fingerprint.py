"""Hashes of Python functions that are the same in each process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import CodeType, EllipsisType, FunctionType, MethodType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from .reads import is_namespace, library_name, read_values

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

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
