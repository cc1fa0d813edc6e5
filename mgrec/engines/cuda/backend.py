"""The backend of CuPy arrays: memory of a GPU, and copies from and to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import is_lazy
from ...core.arrays.validation import extents_overlap
from ...core.backends import CPU, Backend, backend_of
from .device import fetch, is_capturing, raise_if_capturing


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an array in memory of CuPy's pool on the current device."""
    import cupy

    return cupy.empty(shape, dtype)


@dataclass(frozen=True)
class CudaBackend(Backend):
    """Arrays of CuPy, and the kernels that compute with them."""

    engine: ClassVar[str] = "cuda"
    library: ClassVar[str] = "cupy"
    array_name: ClassVar[str] = "a CuPy array"
    place: ClassVar[str] = "on a GPU"
    is_host: ClassVar[bool] = False
    is_asynchronous: ClassVar[bool] = True
    broadcasts_state: ClassVar[bool] = True
    compiles_maps: ClassVar[bool] = True
    repairs_segments: ClassVar[bool] = False
    compiles_shapes: ClassVar[bool] = True
    names_kernels: ClassVar[bool] = True
    batch_size: ClassVar[int] = 1 << 24  # a GPU needs more numbers to be busy

    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any] = _empty

    def device_of(self, arrays: Iterable[Any]) -> AbstractContextManager[Any]:
        """Make the device of the first CuPy array the current one."""
        return self._first(arrays).device

    def array_type(self, arrays: Iterable[Any]) -> Any:
        return type(self._first(arrays))

    def to_host(self, array: Any) -> np.ndarray:
        return np.asarray(array.get())

    def from_host(self, array: Any, like: Any) -> Any:
        is_in_memory = backend_of(array) is CPU and not is_lazy(array)
        return np.asarray(array, like=getattr(like, "_meta", like)) if is_in_memory else array

    def fetch(self, array: Any) -> Callable[[], np.ndarray]:
        return fetch(array)

    def cast(self, array: Any, dtype: np.dtype[Any]) -> Any:
        """Return a copy in another dtype. CuPy's own casts flush subnormal numbers to 0."""
        result = array.astype(dtype)
        sizes = array.dtype.char + dtype.char
        repair = _widen if sizes in _WIDER else _narrow if sizes in _NARROWER else None
        if repair is not None:
            repair(array.real, result.real)
            if array.dtype.kind == dtype.kind == "c":
                repair(array.imag, result.imag)
        return result

    def device_number(self, array: Any) -> int:
        return int(array.device.id)

    def is_writeable(self, array: Any) -> bool:
        return True

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def may_share_memory(self, array: Any, other: Any) -> bool:
        if not array.size or not other.size:
            return False
        return extents_overlap(_extent(array), _extent(other))

    def memory_size(self, array: Any) -> int:
        return _memory_size(array.device)

    def synchronize(self, array: Any) -> None:
        import cupy

        with array.device:
            cupy.cuda.get_current_stream().synchronize()

    def is_capturing(self) -> bool:
        return is_capturing()

    def raise_if_capturing(self, what: str, why: str) -> None:
        raise_if_capturing(what, why)

    @contextmanager
    def on_stream(self, address: int, device: int) -> Iterator[None]:
        """Make a stream of another library the current one."""
        import cupy

        with cupy.cuda.Device(device), cupy.cuda.ExternalStream(address, device):
            yield

    def _first(self, arrays: Iterable[Any]) -> Any:
        return next(array for array in arrays if backend_of(array) is not CPU)


BACKEND = CudaBackend()

_LEAST_NORMAL_BITS, _LEAST_NORMAL, _LEAST = 0x00800000, 2.0**-126, 2.0**-149
"""The least normal number of float32, its bits, and the least positive number."""
_WIDER, _NARROWER = ("fd", "fD", "FD"), ("df", "dF", "DF")
"""Casts between float32 and float64, and complex numbers of these."""


_memory_sizes: dict[int, int] = {}
"""By device number: every chunk needs the size, and the driver is slow to answer."""


def _memory_size(device: Any) -> int:
    if device.id not in _memory_sizes:
        _memory_sizes[device.id] = int(device.mem_info[1])
    return _memory_sizes[device.id]


def _widen(part: Any, wide: Any) -> None:
    # CuPy compiles with -ftz=true: conversions from float32 flush subnormal numbers, those of
    # integers do not.
    magnitude_bits = part.view(np.uint32) & np.uint32(0x7FFFFFFF)
    tiny = np.copysign(magnitude_bits * _LEAST, wide)
    wide[...] = np.where(magnitude_bits < _LEAST_NORMAL_BITS, tiny, wide)


def _narrow(part: Any, narrow: Any) -> None:
    # The bits of a subnormal number are its size in units of the least positive number.
    units = np.rint(np.abs(part) / _LEAST).astype(np.uint32) | np.signbit(part) * np.uint32(1 << 31)
    bits = narrow.view(np.uint32)
    bits[...] = np.where(np.abs(part) < _LEAST_NORMAL, units, bits)


def _extent(array: Any) -> tuple[int, int]:
    start = stop = array.data.ptr
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    for length, stride in zip(array.shape, array.strides, strict=True):
        extent = (length - 1) * stride
        start, stop = start + min(0, extent), stop + max(0, extent)
    return start, stop + array.dtype.itemsize
