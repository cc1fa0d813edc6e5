"""Square roots of the covariances that a model is given by."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.array_types import to_host
from ..core.backends import backend_of
from .cuda import roots as cuda_roots

ROUNDING = 2.0**-46
"""Error of a row of a root after some reflections, relative to the row."""
_FLOAT64 = np.dtype(np.float64)


def lower_root(covariance: Any, dtype: Any = None) -> Any:
    """Return lower triangular S of the symmetric parts S·S' of covariances, which may be singular.

    Pivots below rounding become 0. Covariances whose eigenvalues are negative by more than the
    rounding of a dtype, by default theirs, have roots of nan.
    """
    dtype = np.dtype(dtype or covariance.dtype)
    dtype = dtype if dtype.kind == "f" else _FLOAT64
    least = float(np.finfo(dtype).eps)
    if not backend_of(covariance).is_host:
        return cuda_roots.lower_root(covariance, least)
    P = covariance.astype(_FLOAT64)
    P = 0.5 * (P + P.swapaxes(-1, -2))
    S, size = np.zeros_like(P), P.shape[-1]
    with np.errstate(all="ignore"):
        for j in range(size):
            row = S[..., j, :j]
            remainder = P[..., j:, j] - (S[..., j:, :j] @ row[..., None])[..., 0]
            pivot, scale = remainder[..., 0], size * P[..., j, j]
            is_zero = pivot <= np.finfo(_FLOAT64).eps * scale
            is_negative = pivot < -least * scale
            root = np.sqrt(np.where(is_negative, np.nan, np.where(is_zero, 1.0, pivot)))
            column = np.where(is_zero & ~is_negative, 0.0, 1.0 / root)
            S[..., j:, j] = remainder * column[..., None]
    return S


def state_root(covariance: np.ndarray, selection: Any = None) -> np.ndarray:
    """Return roots (n, n) of selection·covariance·selection'."""
    root = lower_root(covariance)
    if selection is None:
        return root
    root = selection.astype(_FLOAT64) @ root
    n, noises = root.shape[-2:]
    if noises > n:
        return backend_of(root).from_host(triangular_root(to_host(root)), root)
    widths = [(0, 0)] * (root.ndim - 1) + [(0, n - noises)]
    return np.pad(root, widths)


def triangular_root(root: np.ndarray) -> np.ndarray:
    """Return lower triangular S with S·S' = A·A', for arrays A (..., n, k) with k at least n."""
    upper: np.ndarray = np.linalg.qr(root.swapaxes(-1, -2), mode="r")  # type: ignore[assignment]
    return upper.swapaxes(-1, -2)
