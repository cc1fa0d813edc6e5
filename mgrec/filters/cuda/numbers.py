"""Numbers of a filter that its kernels take: coefficients by value, powers from the device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..cascade import Cascade
from ..power import doubled_powers
from .direct import direct_coefficients
from .program import FilterLayout

# A scan of a warp's lanes, and one of its block's warps.
_POWERS = 10


def _device() -> int:
    import cupy

    return int(cupy.cuda.runtime.getDevice())


def coefficients(cascade: Cascade, layout: FilterLayout) -> Any:
    """b and −a of all sections: one value, or a function that finds many on the device."""
    if layout.is_by_value:
        return _packed(cascade, layout.states, layout.direct)
    return lambda: _kept(cascade, layout.states, layout.direct, _device())


@lru_cache(maxsize=256)
def _packed(cascade: Cascade, dtype: np.dtype[Any], direct: bool) -> np.ndarray:
    """b and −a of all sections as one value that a kernel takes."""
    if direct:
        b, a = direct_coefficients(cascade)
    else:
        b = np.array([section.b for section in cascade.sections], dtype)
        a = np.array([section.a for section in cascade.sections], dtype)
    both = np.concatenate([b.ravel(), -a.ravel()])
    return both.view(f"V{both.nbytes}")


@lru_cache(maxsize=64)
def _kept(cascade: Cascade, dtype: np.dtype[Any], direct: bool, device: int) -> Any:
    return _on_device(_packed(cascade, dtype, direct).view(np.uint8))


def powers(cascade: Cascade, length: int, chunk: int) -> Any:
    """A**length and its powers by which a block scans the segments of a row."""
    return _powers(cascade, length, chunk, _device())


@lru_cache(maxsize=64)
def _powers(cascade: Cascade, length: int, chunk: int, device: int) -> Any:
    return _on_device(doubled_powers(cascade, length, chunk, _POWERS))


def _on_device(array: np.ndarray) -> Any:
    """A copy that all streams may read from now on."""
    import cupy

    copy = cupy.asarray(array)
    cupy.cuda.get_current_stream().synchronize()
    return copy
