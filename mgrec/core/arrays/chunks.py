"""Changes of chunks that Dask's own functions need."""

from __future__ import annotations

from typing import Any


def without_empty_chunks(x: Any) -> Any:
    """Return the same array without empty chunks.

    If chunks are empty, Dask (2026.7) slices, joins and broadcasts to wrong shapes, or to graphs
    with missing keys.
    """
    chunks = getattr(x, "chunks", None) or ()  # None of a DataArray in memory
    if all(all(lengths) for lengths in chunks):
        return x
    return x.rechunk(tuple(tuple(filter(None, lengths)) or (0,) for lengths in chunks))


def chunked_like(result: Any, x: Any) -> Any:
    """Return a result with the chunks of x, if x is a Dask array."""
    chunks = getattr(x, "chunks", None)
    return result if chunks in (None, getattr(result, "chunks", None)) else result.rechunk(chunks)
