"""Compiled kernels on disk, known by what the functions compiled into them do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile


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


class StepCache(FunctionCache):  # type: ignore[misc]
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


def cache_on_disk(kernel: Callable[..., Any], *key: str) -> Any:
    """The cache of a kernel."""
    return StepCache(kernel, "-".join((*key, _versions())))


@cache
def _versions() -> str:
    """What a kernel holds beside the user's functions: this package's code, and NumPy's."""
    folder = Path(__file__).parent
    source = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return f"{sha256(source).hexdigest()}-{np.__version__}"
