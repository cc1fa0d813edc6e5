"""Roots of covariances on a GPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.launches import Launch, run_launches

_THREADS = 128


def lower_root(covariance: Any, least: float) -> Any:
    """Return what :func:`mgrec.statespace.roots.lower_root` does, by one launch.

    Eigenvalues below ``-least``, relative to the variances, are not rounding. CuPy's functions took
    0.5 ms for a matrix (H100).
    """
    import cupy

    size = covariance.shape[-1]
    P = cupy.ascontiguousarray(covariance.astype(np.float64))
    S = cupy.empty(P.shape, np.float64)
    count = P.size // size**2
    if count:
        arguments = (P, S, np.int64(count), np.float64(least))
        run_launches(
            Launch(_program(size), "root_kernel", -(-count // _THREADS), _THREADS, arguments)
        )
    return S


@cache
def _program(size: int) -> str:
    definitions = print_definitions(kernel_text("engines/cuda/scalar/numeric"), {"N": size})
    return definitions + kernel_text("statespace/cuda/lower_root")
