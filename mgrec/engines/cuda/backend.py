"""The backend of CuPy arrays: memory of a GPU, copies from and to it, and reversed copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import is_lazy, is_narrow
from ...core.arrays.validation import extents_overlap
from ...core.backends import CPU, Backend, backend_of
from .cpp import ctype
from .device import MULTIPROCESSORS, fetch, is_capturing, raise_if_capturing
from .launches import Launch, LaunchByAddress, PreparedLaunches, Slot


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
    reads_narrow: ClassVar[bool] = True
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

    def on_stream(self, address: int, device: int) -> AbstractContextManager[Any]:
        """Make a stream of another library the current one."""
        import cupy

        is_current = cupy.cuda.get_current_stream().ptr == address
        if is_current and cupy.cuda.runtime.getDevice() == device:
            return nullcontext()
        stack = ExitStack()
        stack.enter_context(cupy.cuda.Device(device))
        if cupy.cuda.get_current_stream().ptr != address:
            # CuPy has deprecated ExternalStream in favour of a method that it did not have before.
            stream = cupy.cuda.Stream
            is_new = hasattr(stream, "from_external")
            stack.enter_context(
                stream.from_external(_ForeignStream(address))
                if is_new
                else cupy.cuda.ExternalStream(address, device)
            )
        return stack

    def device_at(self, address: int) -> int:
        """Return the number of the device with an address."""
        import cupy

        return int(cupy.cuda.runtime.pointerGetAttributes(address).device)

    def reversed_copy(self, array: Any, view: Any) -> Any:
        import cupy

        if not array.size or view.strides[-1] != -array.itemsize or not can_reverse(array):
            return super().reversed_copy(array, view)
        result = cupy.empty(array.shape, array.dtype)
        reverse(array, result)
        return result

    def multiply_shifted(self, factor: Any, values: Any, product: Any, shift: int) -> None:
        aligned = all(array.data.ptr % 16 == 0 for array in (factor, product))
        words = factor.nbytes // 16
        is_real = factor.dtype.char in "fd" or is_narrow(factor.dtype)
        has_same_form = factor.dtype == values.dtype == product.dtype and is_real
        if aligned and has_same_form and words * 16 == factor.nbytes and words:
            _shifted_product()(factor, values, shift, factor.size, product, size=words)
        else:
            super().multiply_shifted(factor, values, product, shift)

    def view(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        owner: Any,
        device: int,
    ) -> Any:
        """Return memory of another library as an array, which keeps `owner` alive."""
        import cupy

        if 0 in shape:
            return cupy.empty(shape, dtype)
        size = dtype.itemsize + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        memory = cupy.cuda.UnownedMemory(address, size, owner, device)
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0), strides)

    def _first(self, arrays: Iterable[Any]) -> Any:
        return next(array for array in arrays if backend_of(array) is not CPU)


@dataclass(frozen=True)
class _ForeignStream:
    """A stream by its address, in the protocol of CUDA."""

    address: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


@cache
def _shifted_product() -> Any:
    """Return the kernel of products in words of 16 bytes, which CuPy's own product does not read.

    2^26 products of float32 took 0.27 ms on an H100, by CuPy 0.32 ms.
    """
    import cupy

    return cupy.ElementwiseKernel(
        "raw T factor, raw T values, int64 shift, int64 count",
        "raw T product",
        """
        constexpr int N = 16 / sizeof(T);
        const long long first = (long long)i * N;
        const Word<T> left = *reinterpret_cast<const Word<T>*>(&factor[first]);
        Word<T> word;
        for (int r = 0; r < N; ++r) {
          const long long k = first + r - shift;
          word.v[r] = T(0);
          if (k >= 0 && k < count) word.v[r] = left.v[r] * values[k];
        }
        *reinterpret_cast<Word<T>*>(&product[first]) = word;
        """,
        "mgrec_shifted_product",
        preamble="template <class T> struct alignas(16) Word { T v[16 / sizeof(T)]; };",
    )


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


_THREADS, _BLOCKS = 256, 16 * MULTIPROCESSORS
_REVERSAL = """
struct alignas(16) Word {{ {unsigned} v[{length}][{parts}]; }};
extern "C" __global__ void __launch_bounds__({threads}) reverse_kernel(
    const Word* from, Word* to, long long words, long long count) {{
  const long long stride = gridDim.x * (long long)blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += stride) {{
    const long long row = i / words;
    const Word earlier = from[row * words + words - 1 - (i - row * words)];
    Word word;
#pragma unroll
    for (int r = 0; r < {length}; ++r)
#pragma unroll
      for (int p = 0; p < {parts}; ++p) word.v[r][p] = earlier.v[{length} - 1 - r][p];
    to[i] = word;
  }}
}}
"""


def can_reverse(array: Any) -> bool:
    """Return whether the rows of a CuPy array are words of 16 bytes."""
    row_bytes = array.shape[-1] * array.itemsize if array.ndim else 0
    is_laid_out = array.flags.c_contiguous and array.data.ptr % 16 == 0
    has_words = row_bytes and row_bytes % 16 == 0 and array.itemsize in (2, 4, 8, 16)
    return bool(has_words and is_laid_out)


def reverse(array: Any, result: Any) -> None:
    """Write the rows of an array in reverse. CuPy took 0.33 ms for 2^26 float32 on an H100."""
    import cupy

    launch = prepare_reversal(array.shape, array.dtype, cupy.cuda.runtime.getDevice())
    launch(array.data.ptr, result.data.ptr)


def prepare_reversal(shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Callable[[int, int], None]:
    """Return ``reverse(source, target)`` for rows at these addresses, multiples of 16."""
    launch = _prepare_reversal(dtype.itemsize, device)
    words, count = (n * dtype.itemsize // 16 for n in (shape[-1], prod(shape)))
    return lambda source, target: launch([source, target, words, count])


@lru_cache(maxsize=64)
def _prepare_reversal(itemsize: int, device: int) -> LaunchByAddress:
    number = np.dtype(np.int64)
    arguments = (Slot(0), Slot(1), Slot(2, (), number, None), Slot(3, (), number, None))
    size = min(itemsize, 8)  # A complex128 has two parts of 8 bytes.
    text = _REVERSAL.format(
        unsigned=ctype(np.dtype(f"u{size}")), length=16 // itemsize, parts=itemsize // size, threads=_THREADS
    )
    launch = Launch(text, "reverse_kernel", _BLOCKS, _THREADS, arguments)
    return LaunchByAddress(PreparedLaunches(launch))
