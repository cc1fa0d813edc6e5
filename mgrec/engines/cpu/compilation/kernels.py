"""Compile kernels with numba, and keep the result on disk."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextvars import ContextVar
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.bytecode import FunctionIdentity
from numba.core.errors import NumbaError

from .stored import cache_on_disk

# No fastmath: the results of a plain loop are those of the same loop in NumPy scalars.
OPTIONS = {"nogil": True, "error_model": "numpy"}
# For functions that only kernels call: wrappers for Python and C take a third of the time.
INNER = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# For those that are many instructions, but must be in the loop that calls them.
WITHIN = {**INNER, "forceinline": True}
# Recurrences whose compiled functions are cached, those used last.
KEPT = 256
_OWN = Path(__file__).parents[3], Path(numba.__file__).parent

# numba tells functions of one name apart by a number that counts from 1 in every process. Of two
# cached kernels that two processes had compiled, the second silently ran functions of the first.
# What others compile is counted as before.
_IS_OURS: ContextVar[bool] = ContextVar("is_ours", default=False)
_COUNT = FunctionIdentity._unique_ids
FunctionIdentity._unique_ids = iter(
    lambda: secrets.randbits(62) if _IS_OURS.get() else next(_COUNT), None
)


def compile_kernel(kernel: Callable[..., Any], *key: str) -> Any:
    """Compile a kernel, cached on disk; `key`: fingerprints of functions in its closure."""
    dispatcher = numba.njit(no_cfunc_wrapper=True, **OPTIONS)(kernel)
    dispatcher._cache = cache_on_disk(kernel, *key)
    compile_for = dispatcher.compile

    def compile_ours(signature: Any) -> Any:
        if numba.types.pyobject in signature:
            raise TypeError("kernels must be given arrays in native byte order, and numbers")
        token = _IS_OURS.set(True)
        try:
            return compile_for(signature)
        finally:
            _IS_OURS.reset(token)

    dispatcher.compile = compile_ours

    def run(*arguments: Any) -> Any:
        try:
            return dispatcher(*arguments)
        except NumbaError as error:
            raise TypeError(
                "the functions of a recurrence must be arithmetic and NumPy ufuncs on scalars "
                "of the recurrence's dtype, which numba compiles (np.where(condition, x, y) for "
                f"a choice); numba says: {_reason(str(error))}"
            ) from error

    return run


def _reason(message: str) -> str:
    """What numba says first, and of which function, without the 50 lines that follow."""
    lines = dropwhile(lambda line: line.startswith("Failed in "), message.splitlines())
    first = takewhile(lambda line: not line.startswith(("During: ", "File ", "There ")), lines)
    reason = " ".join((*" ".join(first).split(), _location(message)))
    if "yield in a closure" in reason:
        reason += ": write out the terms of a generator expression, such as sum(x for x in step)"
    return reason


def _location(message: str) -> str:
    """The user's first line of code in a message, or the function."""
    for file, line in re.findall(r'File "([^"<]+)", line (\d+)', message):
        path = Path(file).resolve()
        if not any(map(path.is_relative_to, _OWN)):
            return f"({path}, line {line})"
    functions = re.findall(r"<function (\S+) at ", message)
    return f"(in {functions[0]})" if functions else ""


def writable(array: np.ndarray) -> np.ndarray:
    """The same memory, typed as writable: numba would compile again for read-only arrays.

    No kernel writes into an operand.
    """
    if array.flags.writeable:
        return array
    return np.asarray(_Exposed(array))


class _Exposed:
    def __init__(self, array: np.ndarray) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self.owner = array
