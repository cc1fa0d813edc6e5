"""Compilation of kernels by numba, and of the functions that they call."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.errors import NumbaError

from .compilers import (
    KernelCompiler,
    LinkedCompiler,
    SizedCompiler,
    SmallCompiler,
    SmallStepCompiler,
    StepCompiler,
    compiling,
)
from .kernel_cache import PACKAGE, cache_on_disk

OPTIONS = {"nogil": True, "error_model": "numpy"}
"""Without fastmath: a plain loop has the results of the same loop in NumPy scalars."""
INNER: dict[str, Any] = {
    **OPTIONS,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": LinkedCompiler,
}
"""For functions that only kernels call: wrappers for Python and C take a third of the time."""
INLINED = {**INNER, "forceinline": True}
"""For functions of many instructions that must be part of the loop that calls them."""
SIZED: dict[str, Any] = {**INNER, "pipeline_class": SizedCompiler}
"""For functions of many instructions whose first argument is a size: see :mod:`.columns`."""
RARE: dict[str, Any] = {**INNER, "pipeline_class": SmallCompiler}
"""For functions that take a negligible part of a kernel's time: LLVM neither copies nor unrolls."""
STEP: dict[str, Any] = {**INNER, "pipeline_class": StepCompiler}
"""For functions of the user."""
RARE_STEP: dict[str, Any] = {**INNER, "pipeline_class": SmallStepCompiler, "forceinline": False}
"""For functions that :func:`mgrec.core.algebra.transfer_map.rare` marks: LLVM does not inline them."""
_LIBRARIES = PACKAGE, Path(numba.__file__).parent


def compile_kernel(kernel: Callable[..., Any], *key: str, allocates: bool = True) -> Any:
    """Return a kernel that compiles at its first call, or loads its code from disk.

    `key` has the fingerprints of the functions in its closure. A kernel that allocates no arrays
    compiles in less time, because numba then counts no references.
    """
    options = {**OPTIONS, "no_cfunc_wrapper": True, "pipeline_class": KernelCompiler}
    dispatcher = numba.njit(_nrt=allocates, **options)(kernel)
    dispatcher._cache = cache_on_disk(kernel, *key)
    compile_signature = dispatcher.compile

    def compile_for_kernel(signature: Any) -> Any:
        if numba.types.pyobject in signature:
            raise TypeError("kernels must be given arrays in native byte order, and numbers")
        with compiling():
            address = compile_signature(signature)
        compiled = dispatcher.overloads[signature]
        for environment in compiled._find_referenced_environments():
            compiled.codegen.set_env(environment.env_name, environment)
        return address

    dispatcher.compile = compile_for_kernel

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
    """Return the first reason in a message of numba, with its function, without 50 more lines."""
    lines = dropwhile(lambda line: line.startswith("Failed in "), message.splitlines())
    first = takewhile(lambda line: not line.startswith(("During: ", "File ", "There ")), lines)
    reason = " ".join((*" ".join(first).split(), _location(message)))
    if "yield in a closure" in reason:
        reason += ": write out the terms of a generator expression, such as sum(x for x in step)"
    return reason


def _location(message: str) -> str:
    """Return the first line of the user's code in a message, or the name of the function."""
    for file, line in re.findall(r'File "([^"<]+)", line (\d+)', message):
        path = Path(file).resolve()
        if not any(map(path.is_relative_to, _LIBRARIES)):
            return f"({path}, line {line})"
    functions = re.findall(r"<function (\S+) at ", message)
    return f"(in {functions[0]})" if functions else ""


def writable(array: np.ndarray) -> np.ndarray:
    """Return the same memory as a writable array: numba would compile again for read-only ones."""
    if array.flags.writeable:
        return array
    view = array.view()
    try:
        view.flags.writeable = True  # as the memory of a Series: a tenth of the time
    except ValueError:
        view = np.asarray(_WritableView(array))
    return view


class _WritableView:
    def __init__(self, array: np.ndarray) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self.array = array
