"""Arrays that DLPack hands over: those of torch, jax and every library of the array API."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..kinds import is_on_gpu

_CUDA = {2, 13}
"""Device types of DLPack: CUDA, and memory that CUDA manages."""
_FAILURES = (
    AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


def taken(name: str, value: Any, is_written: bool) -> Any:
    """The memory of an array as a NumPy array, or as a CuPy array of its device.

    CuPy's current stream waits for what the library's own has still to do.
    """
    if getattr(value, "requires_grad", False):
        raise TypeError(
            f"{name} must be without gradients, which are not computed; got a {_shown(value)} that "
            f"requires them: pass {name}.detach()"
        )
    if type(value).__name__.endswith("Tracer"):
        raise TypeError(
            f"{name} must be an array; got what stands for one while jax traces a function: call "
            f"mgrec outside jit, grad and vmap"
        )
    if is_written and _is_jax(value):
        raise TypeError(f"{name} must be an array to write to; got a {_shown(value)}: none changes")
    try:
        if value.__dlpack_device__()[0] in _CUDA:
            return _cupy(name).from_dlpack(value)
        array = np.from_dlpack(value)
    except _FAILURES as error:
        reason = str(error).partition("\n")[0]
        raise TypeError(
            f"{name} must be of an integer, floating or complex dtype that DLPack hands over; got "
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
    """The same memory to write to: DLPack before its version 1 does not say whether one may."""
    if array.flags.writeable:
        return array
    own = np.asarray(value)
    if own.ctypes.data != array.ctypes.data or not own.flags.writeable:
        raise TypeError(f"{name} must be an array to write to; got a {_shown(value)} that is not")
    return own


def returning(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """What makes arrays of torch, or of another library of the array API."""
    module = module_of(type(values[0]))
    return partial(_returned, module or values[0].__array_namespace__())


def module_of(kind: type) -> Any:
    """What has ``from_dlpack`` of the modules that a type and its bases are of, or None."""
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    modules = (sys.modules.get(root) for root in roots)
    return next((module for module in modules if hasattr(module, "from_dlpack")), None)


def returning_to_jax(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """What makes arrays of jax, if it has their dtype."""
    return partial(_returned_to_jax, values[0].__array_namespace__())


def listed_by_jax(values: list[Any]) -> list[Any]:
    """Floats and complex numbers as jax makes arrays of them: of 32 bits unless it has 64."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        return values
    if array.dtype.kind not in "fc":
        return values
    return list(array.astype(sys.modules["jax"].dtypes.canonicalize_dtype(array.dtype)))


def _returned(namespace: Any, array: Any) -> Any:
    """An array of torch, or of the array API: no strides below 0."""
    if is_on_gpu(array) and namespace.__name__ != "torch":
        _finish(array.device)
    return namespace.from_dlpack(_compact(array))


def _returned_to_jax(namespace: Any, array: Any) -> Any:
    # What is not asked for, jax makes float32 of float64.
    if sys.modules["jax"].dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise TypeError(
            f"results must be of a dtype that jax has; got {array.dtype}, which it has where "
            f"jax_enable_x64 is set: set it, or cast operands and coefficients to 32 bits"
        )
    if is_on_gpu(array):
        _finish(array.device)
    return namespace.from_dlpack(_compact(array))


def _finish(device: Any) -> None:
    """Wait for the kernels of a device.

    A library other than torch may give the memory of an operand to its next computation, whose
    stream does not wait, as soon as the CuPy array of it is gone.
    """
    with device:
        _cupy("an array").cuda.get_current_stream().synchronize()


def _compact(array: Any) -> Any:
    """The same, or a copy where strides or memory that is not to be written hinder."""
    flags = array.flags
    is_compact = flags.c_contiguous or flags.f_contiguous
    return array if is_compact and getattr(flags, "writeable", True) else array.copy()
