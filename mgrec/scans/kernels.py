"""The kernels of scans on one backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ..core.backends import Backend
from ..core.contract.kernels import Kernels


@dataclass(frozen=True)
class ScanKernels(Kernels):
    """The phases of scans, and kernels that no other family has.

    Attributes
    ----------
    multiply_by_states : callable, optional
        Write the gradients of the coefficients of linear recurrences, from the adjoint.
    """

    multiply_by_states: Callable[..., None] | None = None


def kernels_of(backend: Backend) -> ScanKernels:
    """Return the kernels of scans on a backend."""
    return cast(ScanKernels, backend.kernels("scans"))
