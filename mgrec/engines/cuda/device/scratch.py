"""Memory that the launches of one call share, kept for the next call on the same stream."""

from __future__ import annotations

import threading
from typing import Any

_local = threading.local()
_MOST_KEPT = 1 << 25


SHARED = "its kernels share memory that is of one call alone"
"""Why a graph cannot repeat a call: that memory is given back when the call returns."""


def scratch(size: int) -> Any:
    """Memory of `size` bytes on the current device and stream, until the next call there.

    More than 32 MB is of this call alone.
    """
    import cupy

    if size > _MOST_KEPT:
        return cupy.empty(size, cupy.uint8)
    known: dict[Any, Any] = _local.__dict__.setdefault("known", {})
    key = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    found = known.get(key)
    if found is None or found.size < size:
        found = known[key] = cupy.empty(size, cupy.uint8)
    return found
