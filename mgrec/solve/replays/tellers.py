"""What tells kinds: shapes and types of arrays, and the values of everything else."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.algebra.coefficient import Coefficient
from ...core.algebra.transfer_map import TransferMap

_PLAIN = {bool, str, type(None), type}
_NUMBERS = {int, float, complex}
_MOST_BYTES = 4096
"""Of a NumPy array whose values tell a kind: coefficients of a filter."""
MOST_STEPS = 1 << 16
"""Of NumPy arrays: larger calls take long beside what is prepared for them."""


class Teller:
    """Tells a kind, value by value.

    Attributes
    ----------
    kind, leaves : list
        As far as they are told.
    array : type
        Of the arrays whose values a kind does not tell.
    """

    array: Any

    def __init__(self) -> None:
        self.kind: list[Any] = []
        self.leaves: list[Any] = []

    def tell_array(self, value: Any, by_type: bool) -> bool:
        """Add one of these; False where it hinders."""
        raise NotImplementedError

    def tell(self, value: Any, by_type: bool) -> bool:
        """Add a value; False where it hinders. Of numbers `by_type` the type counts alone."""
        own = type(value)
        if own is self.array:
            return self.tell_array(value, by_type)
        if own in _NUMBERS:
            if not by_type:
                return self.tell_value(value)
            self.kind.append(own)
            self.leaves.append(value)
            return True
        if own in _PLAIN:
            self.kind += (own, value)
            return True
        if own is TransferMap:
            self.kind.append(value)
            return True
        if own is tuple or own is list:
            self.kind += (own, len(value))
            return all(self.tell(item, by_type) for item in value)
        if own is Coefficient:
            self.kind += (own, value.function)
            return self.tell(value.arrays, by_type)
        if isinstance(value, np.dtype):
            self.kind.append(value)
            return True
        return self._tell_numpy(value, by_type)

    def _tell_numpy(self, value: Any, by_type: bool) -> bool:
        if not by_type:
            return self.tell_value(value)
        if not _is_numpy(value) or value.ndim:
            return False
        self.kind += (type(value), value.dtype)
        self.leaves.append(value)
        return True

    def tell_value(self, value: Any) -> bool:
        """Add numbers that a kind tells, all of them; False where they are none, or too many."""
        own = type(value)
        if _is_numpy(value):
            if value.nbytes > _MOST_BYTES:
                return False
            self.kind += (own, value.dtype, value.shape, value.tobytes())
            return True
        if own is tuple or own is list:
            self.kind += (own, len(value))
            return all(self.tell_value(item) for item in value)
        self.kind += (own, repr(value) if own in _NUMBERS else None)  # 0.0 is not -0.0
        return own in _NUMBERS


def _is_numpy(value: Any) -> bool:
    """Whether a value is an array or a number of NumPy's; a subclass may be masked."""
    return type(value) is np.ndarray or isinstance(value, np.generic)


class OnDevice(Teller):
    """Of CuPy arrays on the current device."""

    def __init__(self, cupy: Any) -> None:
        self.array, self.device = cupy.ndarray, cupy.cuda.runtime.getDevice()
        self.kind, self.leaves = [self.device], []

    def tell_array(self, value: Any, by_type: bool) -> bool:
        memory = value.data
        self.kind += (value.shape, value.strides, value.dtype, memory.ptr & 15)
        self.leaves.append(value)
        return bool(memory.device_id == self.device)


class OnHost(Teller):
    """Of NumPy arrays."""

    array = np.ndarray

    def tell_array(self, value: Any, by_type: bool) -> bool:
        if not value.ndim:
            return self._tell_numpy(value, by_type)
        self.kind += (value.shape, value.strides, value.dtype, value.flags.aligned)
        self.leaves.append(value)
        return bool(value.size <= MOST_STEPS)
