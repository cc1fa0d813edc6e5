"""The kernels of tridiagonal systems on one backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ..core.arrays.chunk import Chunk
from ..core.backends import Backend
from ..core.contract.kernels import Kernels, Summarise


@dataclass(frozen=True)
class TridiagonalKernels(Kernels):
    """The phases of tridiagonal systems, and kernels that no other family has.

    Attributes
    ----------
    finds_nan : bool
        `determine` returns whether all operands are finite, for every method.
    launch_determine : callable, optional
        Launch `determine`; the returned function waits, and returns what `determine` returns.
    precompute_ends : callable, optional, ``(algebra, chunk, rows) -> (() -> summary) or None``
        Launch the summaries of the first and of the last rows of a chunk of one outer row, as those
        of two outer rows. None if the device cannot.
    differentiate : callable, optional, ``(shape, dtype, device, addresses, results) -> bool``
        Write the gradients of real contiguous systems along the last axis, and return whether that
        succeeded. Addresses are those of the gradient of x, of x, dl, d and du; results those of
        the gradients of dl, d, du and b.
    """

    finds_nan: bool = False
    launch_determine: Callable[..., Callable[[], Any]] | None = None
    precompute_ends: Callable[[Any, Chunk, int], Summarise | None] | None = None
    differentiate: Callable[..., bool] | None = None


def kernels_of(backend: Backend) -> TridiagonalKernels:
    """Return the kernels of tridiagonal systems on a backend."""
    return cast(TridiagonalKernels, backend.kernels("tridiagonal"))
