"""Functions of NumPy for Dask arrays with graphs, also where ``dask.array`` makes expressions."""

from __future__ import annotations

from dask.array.core import broadcast_to, concatenate
from dask.array.creation import full_like
from dask.array.gufunc import apply_gufunc
from dask.array.routines import where

__all__ = ["apply_gufunc", "broadcast_to", "concatenate", "full_like", "where"]
