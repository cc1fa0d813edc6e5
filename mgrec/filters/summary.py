"""The summary of a filter's chunk: k scalars a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.algebra.exact import exact_product, exact_sum
from ..core.arrays.chunk import Chunk
from .cascade import Cascade
from .power import power

# Beyond these the chunk itself travels: every step decides what overflows, and where. The radius
# leaves room for the rounding of poles that coincide on the unit circle.
UNSTABLE, GROWTH = 1.001, 2.0**60


@dataclass(frozen=True)
class CascadeSummary:
    """``carry_out = A**steps · carry_in + offset``.

    Attributes
    ----------
    cascade : Cascade
    steps : int
    offset : array (states, outer, inner), float64 or complex128
        The carry-out for a carry-in of 0.
    redo : Chunk, optional
        The chunk itself, where its offset is not enough.
    """

    cascade: Cascade
    steps: int
    offset: np.ndarray
    redo: Chunk | None = None


def is_tame(cascade: Cascade, steps: int) -> bool:
    """Whether A**steps stays small enough for a summary."""
    if cascade.radius < 1 or cascade.radius > UNSTABLE:
        return cascade.radius < 1
    high, _ = power(cascade, steps)
    return bool((np.abs(high) <= GROWTH).all())


def propagate_cascade(summary: CascadeSummary, carry_in: np.ndarray) -> np.ndarray:
    """The states after a chunk without ``redo``, from finite states before it.

    Products and sums are carried with their rounding errors (Ogita, Rump, Oishi 2005): a
    boundary between chunks costs one rounding, as a step does.
    """
    if carry_in.size == 0:
        return carry_in
    high, low = power(summary.cascade, summary.steps)
    rows = carry_in.reshape(len(carry_in), -1)
    offset = summary.offset.reshape(rows.shape)
    if summary.cascade.is_complex or carry_in.dtype.kind == "c":
        size = len(rows)
        after = _weighed(_real(high), _real(low), _parts(rows), _parts(offset))
        return (after[:size] + 1j * after[size:]).reshape(carry_in.shape)
    return _weighed(high, low, rows, offset).reshape(carry_in.shape)


def _real(matrix: np.ndarray) -> np.ndarray:
    return np.block([[matrix.real, -matrix.imag], [matrix.imag, matrix.real]])


def _parts(rows: np.ndarray) -> np.ndarray:
    return np.concatenate([rows.real, rows.imag])


def _weighed(
    high: np.ndarray, low: np.ndarray, carry_in: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    with np.errstate(all="ignore"):
        total, error = offset.astype(np.float64), np.zeros_like(offset)
        for column, little, state in zip(
            high.T[:, :, None], low.T[:, :, None], carry_in, strict=True
        ):
            product, rounding = exact_product(column, state)
            total, lost = exact_sum(total, product)
            error += lost + rounding + little * state
        exact = total + error
        # Splitting overflows near the largest number.
        return np.where(np.isfinite(exact), exact, total)
