"""The cache of compiled kernels on disk."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config
from numba.core.caching import FunctionCache, NullCache
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from ..code_on_disk import CodeFolder, log_not_stored

IN_MEMORY = "in memory"
"""Part of a kernel's key: the kernel is not stored on disk."""
STORED: list[str] = []
"""Names of the kernels that this process compiled and stored on disk."""
PACKAGE = Path(__file__).parents[2]
_VARIABLE = "NUMBA_CACHE_DIR"


class _CodeFiles:
    """One file of code for each key.

    numba numbers its files by an index: two processes that compile at the same time choose the
    same number, and one then runs the other's recurrence. numba also unpickles damaged files.
    """

    def __init__(self, parent: str, base: str) -> None:
        self._folder = CodeFolder(parent, _VARIABLE)
        self._base = base

    def load(self, key: Any) -> Any:
        code = self._folder.load(self._name(key), repr(key))
        return None if code is None else pickle.loads(code)

    def save(self, key: Any, data: Any) -> None:
        self._folder.store(self._name(key), repr(key), dumps(data))

    def _name(self, key: Any) -> str:
        return f"{self._base}.{sha256(repr(key).encode()).hexdigest()[:32]}.nbc"


class StepCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, with the fingerprints of the inner functions as key.

    numba's own key pickles the closure, in which a compiled function differs in every process:
    nothing was ever found again. Code that cannot be read is compiled again, and code that cannot
    be written (no permission, a full disk) is not stored.
    """

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        super().__init__(function)
        self._key = function.__module__, key
        # The key identifies the code: all installations of the same code share the files.
        folder = config.CACHE_DIR or self._cache_path
        self._cache_file = _CodeFiles(folder, self._impl.filename_base)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return compiled code, without numba's implementations of functions.

        Only compilation needs them, and loads them itself. They take half of the time to load code.
        """
        rtsys.initialize(target_context)
        return self._load_overload(signature, target_context)

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
            STORED.append(self._impl.filename_base)
        except OSError as error:  # numba creates the parent of the folder
            log_not_stored(_VARIABLE, f"{self.cache_path} cannot be written: {error}")

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return signature, codegen.magic_tuple(), self._key


class _NoFolder(NullCache):  # type: ignore[misc]
    def __init__(self, error: Exception) -> None:
        self._reason = str(error)

    def save_overload(self, signature: Any, data: Any) -> None:
        log_not_stored(_VARIABLE, self._reason)


def cache_on_disk(kernel: Callable[..., Any], *key: str) -> Any:
    """Return the cache of a kernel, or one that stores nothing if no folder can be written."""
    if IN_MEMORY in key:
        return NullCache()
    try:
        return StepCache(kernel, "-".join((*key, _versions())))
    except (RuntimeError, OSError) as error:
        return _NoFolder(error)


@cache
def _versions() -> str:
    """Return a hash of this package's code, which kernels may inline, and library versions."""
    source = b"".join(path.read_bytes() for path in sorted(PACKAGE.rglob("*.py")))
    return f"{sha256(source).hexdigest()}-{np.__version__}-{numba.__version__}"
