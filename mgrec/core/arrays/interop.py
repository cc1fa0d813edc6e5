"""Interop with arrays of other libraries: conversion to native arrays, and of results back.

Native arrays are those of NumPy, CuPy and Dask. Validation raises :class:`NonNativeArray` for any
other array, and the public function is called again with native arrays (see ``solve/interop.py``):
calls of native arrays have no overhead. The type of an array identifies its library, which is never
imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from ..backends import REGISTRY, backend_of
from .array_types import bfloat16, has_bfloat16, is_bfloat16, is_lazy
from .series import (
    dask_series_converter,
    dask_series_to_native,
    is_series,
    series_converter,
    series_to_native,
)

FromNative = Callable[[Any], Any]
"""Function that converts a native array to an array of another library."""

_NATIVE = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, list, tuple)
_CUDA = {2, 13}
"""Device types of DLPack: CUDA, and CUDA managed memory."""
_DLPACK_ERRORS = (AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError, ValueError)


class NonNativeArray(TypeError):
    """Raised by validation for an array of another library, or one that is being differentiated."""


@dataclass(frozen=True)
class Library:
    """Adapter between arrays of a library and native arrays.

    `to_native`, ``(name, array, is_written) -> array``: return the native array of an array,
      without a copy. `name` is the argument's name in messages. `is_written` states that the memory
      is for a result. Raises TypeError for a dtype of the library's own, gradients, and missing
      integers.
    `result_converter`, ``(arrays, named) -> FromNative``: as :func:`result_converter`.
    `cast`, ``(value) -> value``: convert native arrays and numbers of lists to a dtype of the
      library, if it has not all of NumPy's.
    """

    name: str
    to_native: Callable[[str, Any, bool], Any]
    result_converter: Callable[[Sequence[Any], Sequence[Any]], FromNative]
    cast: Callable[[Any], Any] | None = None


def library_of(array: object) -> Library | None:
    """Return the library that owns an array; None for NumPy, CuPy and Dask.

    >>> library_of(np.ones(3)) is None
    True
    """
    array_type: Any = type(array)
    return _library_of(array_type)


@cache
def _library_of(array_type: type) -> Library | None:
    root = array_type.__module__.partition(".")[0]
    if issubclass(array_type, _NATIVE) or root in REGISTRY:
        return None
    if _is_data_array(array_type):
        # A result without a dimension of the operands stays an array: see solve/labelled.py.
        return Library("xarray", lambda name, x, is_written: x.data, lambda x, named: _unchanged)
    if hasattr(array_type, "to_dask_array") and hasattr(array_type, "divisions"):
        return Library(root, dask_series_to_native, dask_series_converter)
    if all(hasattr(array_type, name) for name in ("iloc", "index", "to_numpy")):
        return Library(root, series_to_native, series_converter)
    if not hasattr(array_type, "__dlpack__"):
        return None
    if _is_jax(array_type):
        return Library("jax", _tensor_to_native, _tensor_converter, _cast_for_jax)
    module = _module_of(array_type)
    if module is None and not hasattr(array_type, "__array_namespace__"):
        return None
    return Library(module.__name__ if module else root, _tensor_to_native, _tensor_converter)


def namespace_of(array: Any, native: Any) -> Any:
    """Return the module of functions for an array: torch, jax.numpy, ..., or `native`."""
    if library_of(array) is None:
        return native
    return _module_of(type(array)) or array.__array_namespace__()


def require_native(name: str, value: object) -> None:
    """Raise NonNativeArray if an array belongs to another library."""
    library = library_of(value)
    if library is not None:
        instead = "convert it by numpy.asarray, or by cupy.from_dlpack on a GPU"
        if library.name == "xarray":
            instead = "pass its .data"
        raise NonNativeArray(
            f"{name} must be a NumPy, CuPy or Dask array here; got one of {library.name}: {instead}"
        )


def is_table(value: object) -> bool:
    """Return whether a value is a DataFrame of pandas, cuDF or Dask."""
    return library_of(value) is not None and is_series(value) and value.ndim == 2  # type: ignore[attr-defined]


def is_tensor(value: object) -> bool:
    """Return whether a value is an array of torch, jax or another library of the array API."""
    library = library_of(value)
    return library is not None and library.to_native is _tensor_to_native


def to_native(name: str, value: object) -> Any:
    """Return the native array of an array of another library; return other values unchanged."""
    library = library_of(value)
    return value if library is None else library.to_native(name, value, False)


def result_converter(values: Sequence[Any], named: Sequence[Any]) -> FromNative:
    """Return the function that converts results to arrays of the library of all arguments.

    `named`: arguments among them whose names the results get.
    """
    library = next(filter(None, map(library_of, values)))
    return library.result_converter(values, named)


def check_one_library(values: Sequence[Any]) -> None:
    """Raise TypeError if arrays belong to several libraries; NumPy and CuPy do not count.

    Dask counts together with libraries whose arrays are in memory.
    """
    types = {library.name: type(x).__name__ for x in values if (library := library_of(x))}
    is_in_memory = any(map(is_tensor, values))
    if is_in_memory and any(map(is_lazy, values)):
        types["Dask"] = "Array"
    if len(types) > 1:
        got = " and ".join(f"{name} of {library}" for library, name in types.items())
        raise TypeError(
            f"arrays must be of one library, in addition to NumPy and CuPy; got {got}: convert "
            f"them to one array type, which the results have"
        )


def _unchanged(array: Any) -> Any:
    return array


def _is_data_array(array_type: type) -> bool:
    names = ((base.__module__.partition(".")[0], base.__name__) for base in array_type.__mro__)
    return ("xarray", "DataArray") in names


# Arrays of torch, jax and any library of the array API, by DLPack.


def _tensor_to_native(name: str, value: Any, is_written: bool) -> Any:
    """Return the memory of an array as a NumPy array, or as a CuPy array on its device.

    CuPy's current stream waits for the pending work of the library's own stream.
    """
    if hasattr(value, "requires_grad"):
        if is_recorded(value):
            raise NonNativeArray(
                f"{name} must not require gradients, which are not computed; got a "
                f"{_describe_tensor(value)} that does: pass {name}.detach()"
            )
        if has_tangent(value):
            raise NonNativeArray(
                f"{name} must not have a tangent, since derivatives in forward mode are not "
                f"computed; got a {_describe_tensor(value)} that has one"
            )
        value = value.detach() if value.requires_grad else value
    if _is_tracer(value):
        raise NonNativeArray(
            f"{name} must be an array; got a tracer, which represents one while jax traces a "
            f"function: call mgrec outside of jit, grad and vmap"
        )
    if is_written and _is_jax(type(value)):
        raise TypeError(f"{name} must be writeable; got a {_describe_tensor(value)}, which is immutable")
    try:
        array = _from_dlpack(name, value)
    except _DLPACK_ERRORS as error:
        reason = str(error).partition("\n")[0]
        raise TypeError(
            f"{name} must be of an integer, floating or complex dtype that DLPack supports; got "
            f"a {_describe_tensor(value)}: {reason}"
        ) from error
    is_checked = is_written and isinstance(array, np.ndarray)
    return _require_writeable(name, value, array) if is_checked else array


def is_differentiated(value: object) -> bool:
    """Return whether torch differentiates by a tensor, or jax traces an array."""
    if value is None or isinstance(value, _NATIVE):
        return False
    if hasattr(type(value), "requires_grad"):
        return is_recorded(value) or has_tangent(value)
    return _is_tracer(value)


def is_traced_by_torch() -> bool:
    """Return whether ``torch.compile`` traces a call, and reads the code of this package."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def is_recorded(tensor: Any) -> bool:
    """Return whether torch records operations on a tensor."""
    return bool(tensor.requires_grad and sys.modules["torch"].is_grad_enabled())


def _is_tracer(value: object) -> bool:
    return type(value).__name__.endswith("Tracer")


def has_tangent(tensor: Any) -> bool:
    """Return whether torch differentiates a tensor in forward mode."""
    forward_ad = sys.modules["torch"].autograd.forward_ad
    is_on = getattr(forward_ad, "_current_level", 0) >= 0  # to unpack takes microseconds
    return is_on and forward_ad.unpack_dual(tensor).tangent is not None


def _from_dlpack(name: str, value: Any) -> Any:
    """Return the memory of an array as an array of NumPy or CuPy."""
    # DLPack of NumPy has no bfloat16.
    dtype = str(getattr(value, "dtype", ""))
    if dtype == "torch.bfloat16" and has_bfloat16():
        return _from_dlpack(name, value.view(sys.modules["torch"].int16)).view(bfloat16())
    if value.__dlpack_device__()[0] in _CUDA:
        return _import_cupy(name).from_dlpack(value)
    return np.asarray(value) if dtype == "bfloat16" else np.from_dlpack(value)


def _describe_tensor(value: object) -> str:
    dtype = getattr(value, "dtype", "unknown dtype")
    return f"{type(value).__module__}.{type(value).__name__} of {dtype}"


def _is_jax(array_type: type) -> bool:
    return array_type.__module__.partition(".")[0] in ("jax", "jaxlib")


def _import_cupy(name: str) -> Any:
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            f"{name} is on a GPU, for which CuPy is needed: install cupy-cuda12x or cupy-cuda13x"
        ) from error
    return cupy


def _require_writeable(name: str, value: object, array: np.ndarray) -> np.ndarray:
    """Return the same memory, writeable: DLPack before version 1 does not state whether it is."""
    if array.flags.writeable:
        return array
    writeable = np.asarray(value)
    if writeable.ctypes.data != array.ctypes.data or not writeable.flags.writeable:
        raise TypeError(f"{name} must be writeable; got a {_describe_tensor(value)} that is not")
    return writeable


def _tensor_converter(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the function that converts results to arrays of an array API library."""
    array_type = type(values[0])
    if _is_jax(array_type):
        return partial(_as_jax_array, values[0].__array_namespace__())
    return partial(_as_tensor, _module_of(array_type) or values[0].__array_namespace__())


def _module_of(array_type: type) -> Any:
    """Return the module with ``from_dlpack`` of a type or of one of its bases, or None."""
    roots = (base.__module__.partition(".")[0] for base in array_type.__mro__)
    modules = (sys.modules.get(root) for root in roots)
    return next((module for module in modules if hasattr(module, "from_dlpack")), None)


def _cast_for_jax(value: Any) -> Any:
    """Convert numbers to a dtype of jax, as jax does: to 32 bits unless 64 are enabled."""
    if isinstance(value, tuple):
        items = map(_cast_for_jax, value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if hasattr(type(value), "map_arrays"):
        return value.map_arrays(_cast_for_jax)
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "kind", "") not in (*"iufc",) or not hasattr(value, "astype"):
        return value
    wanted = _canonical_dtype(dtype)
    return value if wanted == dtype else value.astype(wanted)


def _canonical_dtype(dtype: Any) -> np.dtype[Any]:
    canonical: np.dtype[Any] = sys.modules["jax"].dtypes.canonicalize_dtype(dtype)
    return canonical


def jax_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of results in jax: 32 bits unless 64 are enabled."""
    canonical = _canonical_dtype(dtype)
    if canonical != dtype and dtype.kind not in "fc":
        raise TypeError(
            f"results must be of a dtype that jax supports; got {dtype}, which it supports if "
            f"jax_enable_x64 is set: set it, or cast operands to floats"
        )
    return canonical


def _as_tensor(namespace: Any, array: Any) -> Any:
    """Return an array of torch, or of the array API, without negative strides."""
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if namespace.__name__ != "torch":
        # When the array of an operand is gone, a library other than torch may give its memory to
        # its next computation, whose stream does not wait.
        backend_of(array).synchronize(array)
    if not is_bfloat16(array.dtype):
        return namespace.from_dlpack(_compact(array))
    if namespace.__name__ == "torch":
        return namespace.from_dlpack(_compact(array).view(np.int16)).view(namespace.bfloat16)
    return namespace.asarray(array) if isinstance(array, np.ndarray) else namespace.from_dlpack(array)


def _as_jax_array(namespace: Any, array: Any) -> Any:
    wanted = jax_dtype(array.dtype)
    if wanted != array.dtype:
        with np.errstate(over="ignore"):  # as in jax
            array = array.astype(wanted)
    return _as_tensor(namespace, array)


def _compact(array: Any) -> Any:
    """Return the array, or a copy if its strides are not compact or its memory is read-only."""
    flags = array.flags
    is_compact = flags.c_contiguous or flags.f_contiguous
    return array if is_compact and getattr(flags, "writeable", True) else array.copy()
