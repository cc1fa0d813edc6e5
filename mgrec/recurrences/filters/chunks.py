"""Chunks as Dask's own functions need them, where a filter is made of several of these."""

from __future__ import annotations

from typing import Any


def without_empty_chunks(x: Any) -> Any:
    """The same array in chunks that all hold something; x itself where it has no others.

    Dask (2026.7) slices, joins and broadcasts to wrong shapes, or to graphs with missing keys,
    where chunks are empty.
    """
    chunks = getattr(x, "chunks", ())
    if all(all(lengths) for lengths in chunks):
        return x
    return x.rechunk(tuple(tuple(filter(None, lengths)) or (0,) for lengths in chunks))


def chunked_like(result: Any, x: Any) -> Any:
    """A result of the shape of x, in its chunks where x is a Dask array."""
    chunks = getattr(x, "chunks", None)
    return result if chunks in (None, getattr(result, "chunks", None)) else result.rechunk(chunks)
