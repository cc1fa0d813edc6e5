"""Compiled kernels on disk, keyed by what the functions compiled into them compute."""

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
from numba.core.serialize import dumps

from ...code_on_disk import CodeFolder, log_not_stored

_VARIABLE = "NUMBA_CACHE_DIR"
IN_MEMORY = "in memory"
"""Part of a kernel's key that keeps it from the disk."""


class _CodeFiles:
    """One file of code for each key.

    numba lists its files in an index and numbers them by it: two processes that compile at the
    same time choose the same number, and one then runs the other's recurrence. It unpickles
    whatever the files hold.
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
    """numba's cache on disk, keyed by what the compiled-in functions compute.

    numba's own key pickles the closure, and a compiled function pickles differently in every
    process: nothing was ever found again. Code that cannot be read is compiled again, and code
    that cannot be written (no permission, a full disk) is not kept.
    """

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        super().__init__(function)
        self._key = function.__module__, key
        # The key says all: installations of the same code share what they compile.
        folder = config.CACHE_DIR or self._cache_path
        self._cache_file = _CodeFiles(folder, self._impl.filename_base)

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError as error:  # numba makes the parent of the folder
            log_not_stored(_VARIABLE, f"{self.cache_path} cannot be written: {error}")

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return signature, codegen.magic_tuple(), self._key


class _NoFolder(NullCache):  # type: ignore[misc]
    def __init__(self, error: Exception) -> None:
        self._reason = str(error)

    def save_overload(self, signature: Any, data: Any) -> None:
        log_not_stored(_VARIABLE, self._reason)


def cache_on_disk(kernel: Callable[..., Any], *key: str) -> Any:
    """The cache of a kernel, or one that keeps nothing where nothing can be written."""
    if IN_MEMORY in key:
        return NullCache()
    try:
        return StepCache(kernel, "-".join((*key, _versions())))
    except (RuntimeError, OSError) as error:
        return _NoFolder(error)


@cache
def _versions() -> str:
    """A hash of this package's code that may be compiled in, and versions of NumPy and numba."""
    package = Path(__file__).parents[3]
    folders = (package / place for place in ("algebra", "families", "backends/cpu"))
    source = b"".join(
        path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py"))
    )
    return f"{sha256(source).hexdigest()}-{np.__version__}-{numba.__version__}"
