"""Backends: the memory that arrays are in, and the kernels that compute with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from .contract.kernels import Kernels

REGISTRY = {"cupy": ("cuda", "__cuda_array_interface__")}
"""For the library of each backend but the CPU's: its engine, and the attribute of its arrays' type.

The module ``engines/<engine>/backend.py`` has the backend as ``BACKEND``. It is imported when the
first of its arrays is passed. The page "Contributing" lists the parts of a backend.
"""

_PACKAGE = __package__.partition(".")[0]


@dataclass(frozen=True)
class Backend:
    """Arrays in host memory and kernels of the CPU; other backends override what differs.

    `engine`: name of the backend, and of the folders of its kernels.
    `library`: module of its arrays, with functions ``asarray`` and ``asnumpy``.
    `array_name`: its arrays in messages: "a NumPy array".
    `place`: where its arrays are, in messages.
    `is_asynchronous`: whether a phase returns before it is done: a solve may do other work while it
      waits.
    `broadcasts_state`: whether kernels take a state that all rows share as one number.
    `compiles_maps`: whether `determine` compiles all functions of a transfer map, ``compose``
      included.
    `reads_narrow`: whether kernels of filters and of contiguous rows read and write float16 and
      bfloat16.
    `repairs_segments`: whether kernels of segments solve rows again whose summaries are not valid.
    `compiles_shapes`: whether the shape of a chunk selects the kernels, however large the chunk is.
    `names_kernels`: whether the option `method` names kernels of this backend.
    `batch_size`: numbers of segments that are copied and solved together.
    `empty`, ``(shape, dtype) -> array``: allocate an array on the current device. A call of NumPy's
      own function saves time.
    """

    engine: ClassVar[str] = "cpu"
    library: ClassVar[str] = "numpy"
    array_name: ClassVar[str] = "a NumPy array"
    place: ClassVar[str] = "in host memory"
    is_host: ClassVar[bool] = True
    is_asynchronous: ClassVar[bool] = False
    broadcasts_state: ClassVar[bool] = False
    compiles_maps: ClassVar[bool] = False
    reads_narrow: ClassVar[bool] = False
    repairs_segments: ClassVar[bool] = True
    compiles_shapes: ClassVar[bool] = False
    names_kernels: ClassVar[bool] = False
    batch_size: ClassVar[int] = 1 << 22
    method: str = "auto"
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any] = np.empty

    def kernels(self, family: str) -> Kernels:
        """Return the kernels of a family."""
        try:
            return kernels_of(self.engine, family, self.method)
        except ModuleNotFoundError:
            if self.has_kernels(family):
                raise
        raise NotImplementedError(
            f"there are no kernels of {family} for arrays {self.place} yet: move the arrays to "
            f"host memory with {self.library}.asnumpy"
        )

    def has_kernels(self, family: str) -> bool:
        """Return whether a family has kernels of this backend."""
        return _has_folder(self.engine, family)

    def device_of(self, arrays: Iterable[Any]) -> AbstractContextManager[Any]:
        """Make the device of the arrays the current one."""
        return nullcontext()

    def array_type(self, arrays: Iterable[Any]) -> Any:
        """Return the type of the results of a call with these arrays."""
        return np.ndarray

    def to_host(self, array: object) -> np.ndarray:
        """Return an array in host memory."""
        return np.asarray(array)

    def from_host(self, array: Any, like: Any) -> Any:
        """Return an array in the memory of `like`, or of the chunks of a Dask array `like`."""
        return array

    def fetch(self, array: Any) -> Callable[[], np.ndarray]:
        """Start a copy of an array to the host; the returned function waits for the copy."""
        return lambda: array

    def cast(self, array: Any, dtype: np.dtype[Any]) -> Any:
        """Return a copy in another dtype. Subnormal numbers are kept."""
        return array.astype(dtype)

    def reversed_copy(self, array: Any, view: Any) -> Any:
        """Return a copy in C order of a view of an array, reversed along one axis."""
        return view.copy(order="C")

    def multiply_shifted(self, factor: Any, values: Any, product: Any, shift: int) -> None:
        """Write ``factor[i] * values[i - shift]`` of flat arrays where that value exists."""
        kept, sources = (slice(shift, None), slice(None, -shift))
        if shift < 0:
            kept, sources = (slice(None, shift), slice(-shift, None))
        np.multiply(factor[kept], values[sources], out=product[kept])

    def device_number(self, array: object) -> int:
        """Return the number of the device of an array."""
        return 0

    def is_writeable(self, array: Any) -> bool:
        """Return whether an array may be written to."""
        return bool(array.flags.writeable)

    def address(self, array: Any) -> int:
        """Return the address of the first element."""
        return int(array.ctypes.data)

    def may_share_memory(self, array: Any, other: Any) -> bool:
        """Return whether two arrays of this backend may share memory."""
        return np.may_share_memory(array, other)

    def memory_size(self, array: object) -> int | None:
        """Return the bytes of the device's memory, free or not; None if chunks are not limited."""
        return None

    def synchronize(self, array: object) -> None:
        """Wait for the kernels of the array's device."""

    def is_capturing(self) -> bool:
        """Return whether launches are recorded into a graph, and not run."""
        return False

    def raise_if_capturing(self, what: str, why: str) -> None:
        """Raise RuntimeError if launches are recorded, before what a graph cannot repeat."""

    def check_array(self, name: str, array: object) -> None:
        """Raise TypeError unless an array is of the library of the backend."""
        array_type = type(array)
        if array_type.__module__.partition(".")[0] != self.library:
            raise TypeError(
                f"{name} must be {self.array_name}; got {array_type.__module__}."
                f"{array_type.__name__}: wrap it with {self.library}.asarray"
            )


CPU = Backend()
"""One thread a call: each thread of a worker has its own chunks."""
CPU_THREADS = Backend("threads")
"""All threads of this process, for one call on a whole array."""


def backend_of(array: Any) -> Backend:
    """Return the backend of an array, or of each chunk of a Dask array; the CPU's for numbers."""
    array_type: Any = type(array)
    if array_type is np.ndarray:
        return CPU
    return _backend_of_type(array_type) or backend_of(array._meta)


def common_backend(arrays: Iterable[Any], method: str = "auto", host: Backend = CPU) -> Backend:
    """Return the backend for chunks of these arrays: a device's kernels of a method, or `host`."""
    for array in arrays:
        backend = backend_of(array)
        if backend is not CPU:
            return _with_method(backend, method)
    return host


@cache
def _with_method(backend: Backend, method: str) -> Backend:
    return type(backend)(method)


@cache
def _backend_of_type(array_type: Any) -> Backend | None:
    """Return the backend of a type of array; None for Dask, whose arrays have several."""
    # A CuPy array takes a microsecond to raise AttributeError; its type is cached.
    if hasattr(array_type, "_meta"):
        return None
    for engine, mark in REGISTRY.values():
        if hasattr(array_type, mark):
            backend: Backend = import_module(f"{_PACKAGE}.engines.{engine}.backend").BACKEND
            return backend
    return CPU


@cache
def kernels_of(engine: str, family: str, method: str = "auto") -> Kernels:
    """Return ``kernels(method)`` of a family's module of an engine, or of ``phases`` in its folder.

    `family` is a folder of this package, such as "scans" or "grids.table". On a CPU, the method
    "threads" divides a call among all threads; any other runs on the caller's thread.
    """
    module = import_module(f"{_PACKAGE}.{family}.{engine}")
    if hasattr(module, "__path__"):
        module = import_module(".phases", module.__name__)
    kernels: Kernels = module.kernels(method)
    return kernels


@cache
def _has_folder(engine: str, family: str) -> bool:
    return find_spec(f"{_PACKAGE}.{family}.{engine}") is not None
