"""Arrays of torch, jax and any library of the array API, by DLPack."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..kinds import is_on_gpu

_CUDA = {2, 13}
"""Device types of DLPack: CUDA, and CUDA managed memory."""
_FAILURES = (
    AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


def taken(name: str, value: Any, is_written: bool) -> Any:
    """Return the memory of an array as a NumPy array, or as a CuPy array on its device.

    CuPy's current stream waits for the pending work of the library's own stream.
    """
    if getattr(value, "requires_grad", False):
        raise TypeError(
            f"{name} must not require gradients, which are not computed; got a {_shown(value)} "
            f"that does: pass {name}.detach()"
        )
    if type(value).__name__.endswith("Tracer"):
        raise TypeError(
            f"{name} must be an array; got a tracer, which represents one while jax traces a "
            f"function: call mgrec outside of jit, grad and vmap"
        )
    if is_written and _is_jax(value):
        raise TypeError(f"{name} must be writeable; got a {_shown(value)}, which is immutable")
    try:
        if value.__dlpack_device__()[0] in _CUDA:
            return _cupy(name).from_dlpack(value)
        array = np.from_dlpack(value)
    except _FAILURES as error:
        reason = str(error).partition("\n")[0]
        raise TypeError(
            f"{name} must be of an integer, floating or complex dtype that DLPack supports; got "
            f"a {_shown(value)}: {reason}"
        ) from error
    return _writeable(name, value, array) if is_written else array


def _shown(value: Any) -> str:
    dtype = getattr(value, "dtype", "unknown dtype")
    return f"{type(value).__module__}.{type(value).__name__} of {dtype}"


def _is_jax(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib")


def _cupy(name: str) -> Any:
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            f"{name} is on a GPU, for which CuPy is needed: install cupy-cuda12x or cupy-cuda13x"
        ) from error
    return cupy


def _writeable(name: str, value: Any, array: np.ndarray) -> np.ndarray:
    """Return the same memory, writeable: DLPack before version 1 does not state whether it is."""
    if array.flags.writeable:
        return array
    writeable = np.asarray(value)
    if writeable.ctypes.data != array.ctypes.data or not writeable.flags.writeable:
        raise TypeError(f"{name} must be writeable; got a {_shown(value)} that is not")
    return writeable


def returning(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the function that converts results to arrays of an array API library."""
    module = module_of(type(values[0]))
    return partial(_returned, module or values[0].__array_namespace__())


def module_of(array_type: type) -> Any:
    """Return the module with ``from_dlpack`` of a type or of one of its bases, or None."""
    roots = (base.__module__.partition(".")[0] for base in array_type.__mro__)
    modules = (sys.modules.get(root) for root in roots)
    return next((module for module in modules if hasattr(module, "from_dlpack")), None)


def returning_to_jax(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the function that converts results to arrays of jax, if it has their dtype."""
    return partial(_returned_to_jax, values[0].__array_namespace__())


def listed_by_jax(values: list[Any]) -> list[Any]:
    """Convert floats and complex numbers to the dtype of jax: 32 bits unless 64 are enabled."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        return values
    if array.dtype.kind not in "fc":
        return values
    return list(array.astype(sys.modules["jax"].dtypes.canonicalize_dtype(array.dtype)))


def _returned(namespace: Any, array: Any) -> Any:
    """Return an array of torch, or of the array API, without negative strides."""
    if is_on_gpu(array) and namespace.__name__ != "torch":
        _synchronize(array.device)
    return namespace.from_dlpack(_compact(array))


def _returned_to_jax(namespace: Any, array: Any) -> Any:
    # Without this check jax would convert float64 to float32.
    if sys.modules["jax"].dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise TypeError(
            f"results must be of a dtype that jax supports; got {array.dtype}, which it supports "
            f"if jax_enable_x64 is set: set it, or cast operands and coefficients to 32 bits"
        )
    if is_on_gpu(array):
        _synchronize(array.device)
    return namespace.from_dlpack(_compact(array))


def _synchronize(device: Any) -> None:
    """Wait for the kernels of a device.

    When the CuPy array of an operand is gone, a library other than torch may give its memory to its
    next computation, whose stream does not wait.
    """
    with device:
        _cupy("an array").cuda.get_current_stream().synchronize()


def _compact(array: Any) -> Any:
    """Return the array, or a copy if its strides are not compact or its memory is read-only."""
    flags = array.flags
    is_compact = flags.c_contiguous or flags.f_contiguous
    return array if is_compact and getattr(flags, "writeable", True) else array.copy()
