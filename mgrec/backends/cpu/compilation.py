"""Compile the functions of a recurrence with numba, and keep the result on disk."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from itertools import dropwhile, takewhile
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.errors import NumbaError

# No fastmath: the results of a plain loop are those of the same loop in NumPy scalars.
OPTIONS = {"nogil": True, "error_model": "numpy"}
# For functions that only kernels call: what Python and C would call takes a third of the time.
INNER = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# numba tells functions of one name apart by a number that counts from 1 in every process. Two
# kernels from the cache on disk that came from two processes then had parts of the same name,
# and the second ran the first one's: the recurrence of another function, without a word.
FunctionIdentity._unique_ids = iter(lambda: secrets.randbits(62), None)


@numba.njit(**OPTIONS)
def _where(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


@numba.njit(**OPTIONS)
def _frexp(x: Any) -> Any:
    return math.frexp(x)


def _scalar_numpy() -> ModuleType:
    """NumPy as seen from one step: numba lacks frexp, and its where allocates an array."""
    module = ModuleType("mgrec_scalar_numpy")
    module.__dict__.update({name: getattr(np, name) for name in np.__all__})
    module.__dict__.update(where=_where, frexp=_frexp)
    return module


_OWN = Path(__file__).parents[2], Path(numba.__file__).parent
_REPLACEMENTS = {id(np): _scalar_numpy(), id(np.where): _where, id(np.frexp): _frexp}


@cache
def compile_step(function: Callable[..., Any]) -> Any:
    """Compile a function of one step, with NumPy's functions taken on scalars."""
    if not isinstance(function, FunctionType):
        return function  # compiled by the user already
    scope = {
        name: _REPLACEMENTS.get(id(value), _compile_called(value))
        for name, value in function.__globals__.items()
        if name in _names(function.__code__) or name == "__builtins__"
    }
    # Whoever loads the compiled code imports the module that it is said to come from.
    scope["__name__"] = "mgrec"
    step = FunctionType(
        function.__code__,
        scope,
        function.__name__,
        function.__defaults__,
        tuple(map(_replaced_cell, function.__closure__ or ())) or None,
    )
    return numba.njit(**OPTIONS)(step)


def _names(code: Any) -> set[str]:
    nested = [const for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(*(_names(inner) for inner in nested))


def _compile_called(value: Any) -> Any:
    return compile_step(value) if isinstance(value, FunctionType) else value


def _replaced_cell(cell: Any) -> Any:
    value = cell.cell_contents
    return type(cell)(_REPLACEMENTS.get(id(value), _compile_called(value)))


@cache
def _own_source() -> str:
    folder = Path(__file__).parent
    return sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()


class _CacheFiles(IndexDataCacheFile):  # type: ignore[misc]
    """An index, and one file of code named after its key.

    numba numbers the files by the index that it has read: two processes that compile at
    the same time choose the same number, and one then runs the other's recurrence.
    """

    def save(self, key: Any, data: Any) -> None:
        base = self._index_name.removesuffix(".nbi")
        name = f"{base}.{sha256(repr(key).encode()).hexdigest()[:32]}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


class _StepCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, keyed by what the compiled-in functions do.

    numba's own key pickles the closure, and a compiled function pickles differently in
    every process: nothing was ever found again.
    """

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        super().__init__(function)
        self._key = key
        self._cache_file = _CacheFiles(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return signature, codegen.magic_tuple(), self._key


def compile_kernel(kernel: Callable[..., Any], *key: str) -> Any:
    """Compile a kernel, cached on disk.

    Parameters
    ----------
    kernel : function
    *key : str
        Fingerprints of the functions that the kernel's closure holds compiled.
    """
    dispatcher = numba.njit(**OPTIONS)(kernel)
    dispatcher._cache = _StepCache(kernel, "-".join((*key, _own_source())))

    def run(*arguments: Any) -> None:
        try:
            dispatcher(*arguments)
        except NumbaError as error:
            raise TypeError(
                "the functions of a recurrence must be arithmetic and NumPy ufuncs on scalars "
                "of the recurrence's dtype, which numba compiles (np.where(condition, x, y) for "
                f"a choice); numba says: {_reason(str(error))}"
            ) from error

    return run


def _reason(message: str) -> str:
    """What numba says first, and of which function: 50 lines on its way there come after."""
    lines = dropwhile(lambda line: line.startswith("Failed in "), message.splitlines())
    first = takewhile(lambda line: not line.startswith(("During: ", "File ", "There ")), lines)
    return " ".join((*" ".join(first).split(), _place(message)))


def _place(message: str) -> str:
    """The first line of code in a message that is neither ours nor numba's, or the function."""
    for file, line in re.findall(r'File "([^"<]+)", line (\d+)', message):
        path = Path(file).resolve()
        if not any(map(path.is_relative_to, _OWN)):
            return f"({path}, line {line})"
    functions = re.findall(r"<function (\S+) at ", message)
    return f"(in {functions[0]})" if functions else ""


def writable(array: np.ndarray) -> np.ndarray:
    """The same memory, typed as writable: numba compiles read-only arrays a second time.

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
