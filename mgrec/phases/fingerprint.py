"""A hash of what Python functions do, stable from process to process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from dis import get_instructions
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np


def fingerprint(*values: Any) -> str:
    """Hash functions by their bytecode and by the values they refer to.

    Two functions with equal fingerprints compute the same, whichever process,
    module or notebook cell they were defined in: compiled code is stored and
    Dask keys are made by it.

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
        A function refers to an object that cannot be compiled in, so that
        nothing can be said about what it computes.

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


def _absorb(digest: Any, value: Any, seen: dict[int, int]) -> None:
    if isinstance(value, (tuple, list)):
        digest.update(b"(%d" % len(value))
        for item in value:
            _absorb(digest, item, seen)
    elif isinstance(value, FunctionType):
        if id(value) in seen:
            digest.update(b"again %d;" % seen[id(value)])
        else:
            seen[id(value)] = len(seen)
            _absorb_function(digest, value, seen)
    elif isinstance(value, CodeType):
        digest.update(value.co_code + repr((value.co_names, value.co_varnames)).encode())
        _absorb(digest, value.co_consts, seen)
    elif hasattr(value, "py_func"):
        _absorb(digest, value.py_func, seen)
    elif isinstance(value, (ModuleType, type, np.ufunc)) or callable(value):
        module = getattr(value, "__module__", None) or ""
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
        digest.update(f"{module}:{name};".encode())
    elif isinstance(value, np.ndarray):
        digest.update(repr((value.shape, value.dtype.str)).encode() + value.tobytes())
    elif value is None or isinstance(
        value, (bool, int, float, complex, str, bytes, np.generic, frozenset)
    ):
        digest.update(f"{type(value).__name__}:{value!r};".encode())
    else:
        raise TypeError(
            f"a function of a recurrence may refer to numbers, arrays, functions and "
            f"modules; got {value!r} of {type(value).__name__}"
        )


def _absorb_function(digest: Any, function: FunctionType, seen: dict[int, int]) -> None:
    _absorb(digest, function.__code__, seen)
    _absorb(digest, function.__defaults__ or (), seen)
    for cell in function.__closure__ or ():
        _absorb(digest, cell.cell_contents, seen)
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            digest.update(name.encode())
            _absorb(digest, function.__globals__[name], seen)


def _global_names(code: CodeType) -> list[str]:
    # co_names has attributes too: np.sin would ask for whatever the module calls `sin`.
    own = {i.argval for i in get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    nested = [const for const in code.co_consts if isinstance(const, CodeType)]
    return sorted(own.union(*(_global_names(inner) for inner in nested)))
