"""Compiled kernels on disk, keyed by what the functions compiled into them compute."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from ...uncached import say_uncached

_FOLDER = "NUMBA_CACHE_DIR"
IN_MEMORY = "in memory"
"""Part of a kernel's key that keeps it from the disk."""


class _CacheFiles(IndexDataCacheFile):  # type: ignore[misc]
    """An index, and one file of code named after its key.

    numba numbers the files by the index: two processes that compile at the same time choose
    the same number, and one then runs the other's recurrence.
    """

    def save(self, key: Any, data: Any) -> None:
        base = self._index_name.removesuffix(".nbi")
        name = f"{base}.{sha256(repr(key).encode()).hexdigest()[:32]}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


class StepCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, keyed by what the compiled-in functions compute.

    numba's own key pickles the closure, and a compiled function pickles differently in every
    process: nothing was ever found again. Code that cannot be read is compiled again, and code
    that cannot be written (no permission, a full disk) is not kept.
    """

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        super().__init__(function)
        self._key = key
        self._cache_file = _CacheFiles(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(signature, target_context)
        except OSError:
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError as error:
            say_uncached(_FOLDER, f"{self.cache_path} cannot be written: {error}")

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return signature, codegen.magic_tuple(), self._key


class _NoFolder(NullCache):  # type: ignore[misc]
    def __init__(self, error: Exception) -> None:
        self._reason = str(error)

    def save_overload(self, signature: Any, data: Any) -> None:
        say_uncached(_FOLDER, self._reason)


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
    """A hash of this package's code that may be compiled in, and NumPy's version."""
    package = Path(__file__).parents[3]
    folders = (package / place for place in ("algebra", "families", "backends/cpu"))
    source = b"".join(
        path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py"))
    )
    return f"{sha256(source).hexdigest()}-{np.__version__}"
