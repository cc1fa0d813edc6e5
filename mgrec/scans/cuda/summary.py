"""precompute for w = s·w + t in floating point: :mod:`mgrec.scans.affine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ..affine import NAN, REDO, AffineSummary
from ..growth import guarded_affine
from ..summary import ComposedMaps
from .precompute import launch_precompute


def launch_summary(chunk: Chunk) -> Callable[[], AffineSummary | ComposedMaps]:
    """Launch the reduction of every row of a chunk to a summary.

    Parameters
    ----------
    chunk : Chunk
        Of CuPy arrays on the current device, of a floating or complex dtype.

    Returns
    -------
    callable, ``() -> AffineSummary``
        Waits for it; the summary is in host memory. The operands of rows that must be done
        again come along, in host memory too.
    """
    composed = launch_precompute(guarded_affine(chunk.dtype), chunk)
    return lambda: _summary(chunk, composed())


def _summary(chunk: Chunk, composed: ComposedMaps) -> AffineSummary | ComposedMaps:
    if composed.maps is None:
        return composed
    mantissa, _, offset, *_ = composed.maps
    _, exponent, _, growth, more, _, _, flag = (part.real for part in composed.maps)
    offset[flag == NAN] = np.nan
    again = np.argwhere(flag == REDO) if (flag == REDO).any() else ()
    redo = {(int(o), int(i)): _row(chunk, int(o), int(i)) for o, i in again}
    wide = np.result_type(chunk.dtype, np.float64)
    with np.errstate(all="ignore"):
        # Beyond ±2**40 no state survives, and rows with growth of that size are done again.
        known = np.where(exponent == exponent, exponent, 0).astype(np.float64)
        exponents = np.minimum(np.maximum(known, -(2.0**40)), 2.0**40)
        return AffineSummary(
            mantissa.astype(wide),
            exponents.astype(np.int64),
            offset,
            np.log2(growth.astype(np.float64)) + more,
            redo,
        )


def _row(chunk: Chunk, outer: int, inner: int) -> Chunk:
    """One row with its operands in host memory: what travels when it must be done again."""

    def own(array: Any) -> np.ndarray:
        part = array[:, :, inner : inner + 1] if array.shape[2] > 1 else array
        return np.asarray(part.get() if hasattr(part, "get") else part)

    part = chunk.rows(outer, outer + 1)
    return part.map_arrays(own, (1, chunk.steps, 1))
