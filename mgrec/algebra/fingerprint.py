"""A hash of what Python functions do, stable from process to process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import CodeType, EllipsisType, FunctionType, MethodType, NoneType
from typing import Any

import numpy as np

from .reads import is_namespace, library_name, reads

_NUMBERS = {NoneType, EllipsisType, bool, int, float, complex, str, bytes, slice}
_VARIADIC = 0x04 | 0x08  # flags of a code with *args, **kwargs


def fingerprint(*values: Any) -> str:
    """Hash functions by their bytecode and by the values they refer to.

    Two functions with equal fingerprints compute the same, whichever process, module or
    notebook cell they were defined in: compiled code and Dask keys are named by it. What a
    function reads as ``cfg.K`` counts by its value, what it calls by its code, and what NumPy
    and other libraries hold by its name.

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
        A function refers to an object that cannot be compiled in, or in a way that its
        bytecode does not show.

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
    """A function of one step that equals any other that computes the same."""

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
        """Raise unless the function still reads what it read when it was given."""
        require_unchanged("Coefficient", self.fingerprint, self.function)


def require_unchanged(kind: str, before: str, *values: Any) -> None:
    """Raise unless the fingerprint is what it was: results and code are named by it.

    Raises
    ------
    RuntimeError
        A value that a function reads has changed since the fingerprint was taken, or is
        another one in this process.
    """
    if fingerprint(*values) != before:
        function = next(value for value in values if callable(value))
        raise RuntimeError(
            f"what the functions of a {kind} read must stay as it was when the {kind} was made; "
            f"got another value in their modules or closures (of {function!r}): make a new "
            f"{kind}, and give workers the same modules"
        )


def _absorb(digest: Any, value: Any, seen: dict[int, int]) -> None:
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
        kind = value.dtype.descr if value.dtype.names else value.dtype.str
        digest.update(repr((value.shape, kind)).encode() + value.tobytes())
    elif not _absorb_called(digest, value, seen):
        raise _refusal(value)


def _absorb_called(digest: Any, value: Any, seen: dict[int, int]) -> bool:
    """Hash what can be called; False where its code is hidden."""
    name = _name(value)
    if name is not None:
        digest.update(f"{name};".encode())
    elif isinstance(value, FunctionType):
        if id(value) in seen:
            digest.update(b"again %d;" % seen[id(value)])
        else:
            seen[id(value)] = len(seen)
            _absorb_function(digest, value, seen)
    elif isinstance(value, type) and _is_harmless(value):
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


def _absorb_function(digest: Any, function: FunctionType, seen: dict[int, int]) -> None:
    _absorb(digest, function.__code__, seen)
    _absorb(digest, function.__defaults__ or (), seen)
    _absorb(digest, _sorted(function.__kwdefaults__ or {}), seen)
    for read in reads(function):
        digest.update(f"{'.'.join(read.path)}=".encode())
        _absorb(digest, read.value, seen)


def _absorb_code(digest: Any, code: CodeType, seen: dict[int, int]) -> None:
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    names = code.co_names, code.co_varnames, counts, code.co_flags & _VARIADIC
    digest.update(code.co_code + code.co_exceptiontable + repr(names).encode())
    _absorb(digest, code.co_consts, seen)


def _absorb_compiled(digest: Any, dispatcher: Any, seen: dict[int, int]) -> None:
    """A function that numba compiles; options such as fastmath change what it computes."""
    signatures = () if dispatcher._can_compile else map(str, dispatcher.nopython_signatures)
    options = _sorted(dispatcher.targetoptions), _sorted(dispatcher.locals), tuple(signatures)
    _absorb(digest, ("compiled", options, dispatcher._compiler.pipeline_class), seen)
    _absorb(digest, dispatcher.py_func, seen)


def _absorb_vectorized(digest: Any, ufunc: Any, seen: dict[int, int]) -> None:
    """A function of ``numba.vectorize``; a frozen one compiles no further signatures."""
    dispatcher = ufunc._dispatcher
    signatures = tuple(map(str, dispatcher.overloads)) if ufunc._frozen else ()
    _absorb(digest, ("vectorized", _sorted(dispatcher.targetoptions), signatures), seen)
    _absorb(digest, dispatcher.py_func, seen)


def _sorted(options: dict[str, Any]) -> tuple[Any, ...]:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return _sorted(value)
        return frozenset(value) if isinstance(value, set) else value

    return tuple((name, plain(value)) for name, value in sorted(options.items()))


def _name(value: Any) -> str | None:
    if type(value).__module__.startswith("numba.core.types"):
        return str(value)  # numba.float64(x)
    return library_name(value)


def _is_plain(kind: type) -> bool:
    """A tuple, a list, or a named tuple that computes nothing."""
    if kind in (tuple, list):
        return True
    fields = getattr(kind, "_fields", ())
    own = {name for name in vars(kind) if not name.startswith("_")}
    return kind.__bases__ == (tuple,) and own == set(fields)


def _is_harmless(kind: type) -> bool:
    """A class that computes nothing: an exception to raise, a state or map to return."""
    return issubclass(kind, BaseException) or (issubclass(kind, tuple) and _is_plain(kind))


def _refusal(value: Any) -> TypeError:
    message = (
        f"a function of a recurrence may refer to numbers, arrays, NumPy's functions, plain "
        f"Python functions, those of numba.njit and numba.vectorize, and modules; got {value!r} of "
        f"{type(value).__name__}"
    )
    if is_namespace(value):
        message += ": write what is read from it where it is read, as module.name"
    return TypeError(message)
