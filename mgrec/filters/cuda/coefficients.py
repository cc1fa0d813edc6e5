"""The coefficients of a filter in the form of its kernels, and powers of A on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..cascade import Cascade
from ..power import doubled_powers
from .program import FilterLayout

# float32 inputs times gains, and divided by them, stay far from the limits of float64.
_LEAST, _MOST = 2.0**-300, 2.0**300
# A carry-in is added to the first steps, which must exist. More states are left to the transposed
# form: 64 of them spill registers in the loop.
_SHORT, _MANY = 64, 32
# Number of powers for a scan of the lanes of a warp, and one of the warps of a block.
_POWERS = 10


def is_direct(cascade: Cascade, steps: int, dtype: np.dtype[Any], states: np.dtype[Any]) -> bool:
    """Return whether to compute in direct form I, with the gain b_0 taken out of each section.

    A sample then takes less arithmetic. Only float32 results allow it: over white signals and
    constants, errors of seven designs were 0.5 to 2.4 times those of the transposed form, both
    about 1e-16 to 1e-13 of the outputs. A single section would gain nothing, since its gain takes
    the operation of b_0.

    Examples
    --------
    >>> two = Cascade.of_sections([[2.0, 1, 0, 1, 0.5, 0], [0.5, 1, 0, 1, 0.5, 0]])
    >>> is_direct(two, 1000, np.dtype("f4"), np.dtype("f8"))
    True
    """
    if dtype.char != "f" or states.char != "d" or steps < _SHORT:
        return False
    is_cascade = len(cascade.sections) > 1 and 0 < cascade.states <= _MANY
    return is_cascade and _has_safe_gains(cascade)


@lru_cache(maxsize=1024)
def _has_safe_gains(cascade: Cascade) -> bool:
    with np.errstate(all="ignore"):
        sizes = np.abs(gains(cascade))
        ratios = np.abs(direct_coefficients(cascade)[0])
    return bool((sizes > _LEAST).all() and (sizes < _MOST).all() and (ratios < _MOST).all())


def gains(cascade: Cascade) -> np.ndarray:
    """Return the product of b_0 of each section and of all later ones, and 1."""
    first = np.array([section.b[0] for section in cascade.sections])
    return np.append(np.cumprod(first[::-1])[::-1], 1.0)


def direct_coefficients(cascade: Cascade) -> tuple[np.ndarray, np.ndarray]:
    """Return b and a, (sections, order + 1), of direct form I.

    b_1, b_2, … are divided by b_0. In place of b_0 and a_0 are the gain by which the inputs of a
    section are multiplied, and −1 over the gain by which its outputs are.
    """
    b, a = (part.copy() for part in cascade.float64_coefficients)
    gain = gains(cascade)
    b /= b[:, :1].copy()
    b[:, 0], a[:, 0] = gain[:-1], -1 / gain[1:]
    return b, a


def coefficients(cascade: Cascade, layout: FilterLayout) -> Any:
    """Return b and −a of all sections: one value, or a function that returns a device array."""
    if layout.is_by_value:
        return _packed(cascade, layout.states, layout.direct)
    return lambda: on_device(_packed, cascade, layout.states, layout.direct)


@lru_cache(maxsize=256)
def _packed(cascade: Cascade, dtype: np.dtype[Any], direct: bool) -> np.ndarray:
    """Return b and −a of all sections as one value."""
    if direct:
        b, a = direct_coefficients(cascade)
    else:
        b = np.array([section.b for section in cascade.sections], dtype)
        a = np.array([section.a for section in cascade.sections], dtype)
    both = np.concatenate([b.ravel(), -a.ravel()])
    return both.view(f"V{both.nbytes}")


def powers(cascade: Cascade, length: int, chunk: int) -> Any:
    """Return the powers of A, on the device, with which a block scans the segments of a row."""
    return on_device(doubled_powers, cascade, length, chunk, _POWERS)


def on_device(function: Callable[..., np.ndarray], *arguments: Any) -> Any:
    """Return the bytes of a function's array on the current device, valid on all streams."""
    import cupy

    return _on_device(int(cupy.cuda.runtime.getDevice()), function, *arguments)


@lru_cache(maxsize=128)
def _on_device(device: int, function: Callable[..., np.ndarray], *arguments: Any) -> Any:
    import cupy

    copy = cupy.asarray(function(*arguments).view(np.uint8))
    cupy.cuda.get_current_stream().synchronize()
    return copy
