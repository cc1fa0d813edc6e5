"""Public functions of traced arrays of jax: custom calls of XLA, with derivatives.

A function, and its adjoint, are each a custom call with a ``jax.custom_vjp``. XLA calls Python by
its foreign function interface (FFI) with the addresses of arrays, in host memory or on a GPU, where
kernels are launched on its stream. A second derivative differentiates the composition of the
adjoint. The structures are those of ``xla/ffi/api/c_api.h``; each begins with its size and its
extensions. Where XLA has a newer interface than `_NEWEST`, ``jax.pure_callback`` calls Python.
"""

from __future__ import annotations

import ctypes
import json
import warnings
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from inspect import signature
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, NamedTuple

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np

from ..core.arrays.array_types import bfloat16
from ..core.arrays.interop import jax_dtype
from ..core.arrays.validation import as_real
from .rules import Redirect, Rule, common_dtype, rules

_SIZE: list[Any] = [("struct_size", c_size_t), ("extension", c_void_p)]
_METADATA, _EXECUTE, _INTERNAL = 1, 3, 13
"""Type of an extension, stage of a call, and code of an error."""
_NEWEST = 0, 3
"""The newest version of the interface with which the structures were compared; those that handlers
use are the same in older versions. jax 0.6 has version 0.1, jax 0.10 has 0.3."""
_DTYPES = {
    1: "bool",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "uint8",
    7: "uint16",
    8: "uint32",
    9: "uint64",
    10: "float16",
    11: "float32",
    12: "float64",
    15: "complex64",
    18: "complex128",
}
_BFLOAT16 = 16
_TARGET = "mgrec"
_KEPT_BYTES = 1 << 16
_ARRAY = "array"
"""First element of an option that is an array."""


class _Version(ctypes.Structure):
    _fields_ = [*_SIZE, ("major", c_int), ("minor", c_int)]


class _Metadata(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("version", _Version), ("traits", ctypes.c_uint32)]


class _MetadataExtension(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("type", c_int),
        ("next", c_void_p),
        ("metadata", POINTER(_Metadata)),
    ]


class _Bytes(ctypes.Structure):
    _fields_ = [("start", c_void_p), ("size", c_size_t)]


class _Buffer(ctypes.Structure):
    _fields_ = [*_SIZE, ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64))]


class _Buffers(ctypes.Structure):
    _fields_ = [*_SIZE, ("size", c_int64), ("types", c_void_p), ("values", POINTER(POINTER(_Buffer)))]


class _Attributes(ctypes.Structure):
    _fields_ = [
        *_SIZE,
        ("size", c_int64),
        ("types", c_void_p),
        ("names", c_void_p),
        ("values", POINTER(POINTER(_Bytes))),
    ]


class _ErrorArguments(ctypes.Structure):
    _fields_ = [*_SIZE, ("message", c_char_p), ("code", c_int)]


class _StreamArguments(ctypes.Structure):
    _fields_ = [*_SIZE, ("context", c_void_p), ("stream", c_void_p)]


_CREATE_ERROR = ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorArguments))
_GET_STREAM = ctypes.CFUNCTYPE(c_void_p, POINTER(_StreamArguments))


class _Api(ctypes.Structure):
    _fields_ = [
        *_SIZE,
        ("version", _Version),
        ("internal", c_void_p),
        ("create_error", _CREATE_ERROR),
        ("others", c_void_p * 3),
        ("get_stream", _GET_STREAM),
    ]


class _Frame(ctypes.Structure):
    _fields_ = [
        *_SIZE,
        ("api", POINTER(_Api)),
        ("context", c_void_p),
        ("stage", c_int32),
        ("operands", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
    ]


class ForeignArray(NamedTuple):
    """An array in C order by its address."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


Call = Callable[[str, Sequence[ForeignArray], Sequence[ForeignArray], Callable[[], int]], None]
"""Function ``(key, operands, results, stream)`` that writes results; ``stream()`` is an address."""

_HANDLER = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))


def _handler_of(call: Call) -> Any:
    """Return a handler of XLA that runs `call` with the only attribute of the custom call."""

    def handle(pointer: Any) -> int | None:
        frame = pointer.contents
        api = frame.api.contents
        try:
            if frame.extension:
                _answer_version(frame.extension, api.version)
            elif frame.stage == _EXECUTE:
                key = frame.attributes.values[0].contents
                call(
                    ctypes.string_at(key.start, key.size).decode(),
                    _memory(frame.operands),
                    _memory(frame.results),
                    lambda: _stream(api, frame.context),
                )
        except BaseException as error:
            message = f"{type(error).__name__}: {error}".encode()
            arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message, _INTERNAL)
            return int(api.create_error(ctypes.byref(arguments)))
        return None

    return _HANDLER(handle)


_versions: list[tuple[int, int]] = []
"""Versions of the interface that XLA passed to handlers when they were registered."""


def _answer_version(address: int, version: _Version) -> None:
    """Write to XLA's memory that the handler has the version of XLA's interface."""
    _versions.append((version.major, version.minor))
    extension = _MetadataExtension.from_address(address)
    if extension.type == _METADATA:
        metadata = extension.metadata.contents
        metadata.version.major, metadata.version.minor = version.major, version.minor


def _memory(buffers: _Buffers) -> list[ForeignArray]:
    pointers = [buffers.values[k].contents for k in range(buffers.size)]
    return [
        ForeignArray(
            buffer.data or 0,
            tuple(buffer.dims[: buffer.rank]),
            bfloat16() if buffer.dtype == _BFLOAT16 else np.dtype(_DTYPES[buffer.dtype]),
        )
        for buffer in pointers
    ]


def _stream(api: _Api, context: int) -> int:
    arguments = _StreamArguments(ctypes.sizeof(_StreamArguments), None, context, None)
    if api.get_stream(ctypes.byref(arguments)):
        raise RuntimeError("XLA has no stream for this call")
    return arguments.stream or 0


def host_array(memory: ForeignArray) -> np.ndarray:
    """Return memory of the host as an array."""
    size = prod(memory.shape) * memory.dtype.itemsize
    if not size:
        return np.empty(memory.shape, memory.dtype)
    data: Any = (ctypes.c_byte * size).from_address(memory.address)
    return np.frombuffer(data, memory.dtype).reshape(memory.shape)


def is_traced(values: Sequence[Any]) -> bool:
    """Return whether jax traces a function of these arrays: jit, grad, vmap, ..."""
    return any(isinstance(value, jax.core.Tracer) for value in values)


def call(name: str, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call a public function of traced arrays by its qualified name."""
    rule = rules()[name]
    if isinstance(rule, Redirect):
        return rule.call(*operands, **options)
    named = zip(signature(rule.function).parameters, operands, strict=False)
    arguments = rule.bind({**dict(named), **options}, "traced arrays of jax")
    for key in rule.numbers:
        if arguments[key] is not None and not isinstance(arguments[key], jax.core.Tracer):
            arguments[key] = as_real(key, arguments[key])
    options_of_floats = [key for key in rule.numbers if isinstance(arguments[key], float)]
    arrays = {
        key: arguments.pop(key)
        for key in rule.names
        if arguments[key] is not None and key not in options_of_floats
    }
    numbers = [value for value in arrays.values() if isinstance(value, (int, float, complex))]
    known = [common_dtype(jnp.asarray(x)) for x in arrays.values() if hasattr(x, "dtype")]
    dtype = jnp.result_type(*known, *numbers)
    arrays = {
        key: jnp.asarray(value, dtype if isinstance(value, (int, float, complex)) else None)
        for key, value in arrays.items()
    }
    constants = {key: arguments.pop(key) for key in rule.constants}
    constants = {key: value for key, value in constants.items() if value is not None}
    coefficients = {
        key: _encoded(key, constants.pop(key))
        for key in [*constants]
        if jnp.issubdtype(_dtype_of(constants[key]), jnp.inexact)
    }
    constants = {key: jnp.asarray(value) for key, value in constants.items()}
    if arguments.get("axis", -1) >= 0:
        # vmap adds axes in front.
        count = rule.count_axes({**rule.defaults, **arrays, **_decoded(coefficients), **arguments})
        if arguments["axis"] < count:  # otherwise an error names the axis
            arguments["axis"] -= count
    solve = _differentiable(
        name, tuple(arrays), tuple(constants), (*arguments.items(), *coefficients.items())
    )
    results = solve(*arrays.values(), *constants.values())
    return results[0] if len(results) == 1 else tuple(results)


def _dtype_of(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def _encoded(name: str, value: Any) -> tuple[Any, ...]:
    """Return coefficients without gradients as an option, which is part of a key."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name} must be an array that jax does not trace, since it has no gradient")
    array = np.asarray(value)
    array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
    return _ARRAY, array.dtype.str, array.shape, array.tobytes().hex()


def _decoded(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with arrays in place of those that are encoded."""

    def value_of(value: Any) -> Any:
        if not isinstance(value, (tuple, list)) or _ARRAY not in value[:1]:
            return value
        return np.frombuffer(bytes.fromhex(value[3]), value[1]).reshape(value[2])

    return {name: value_of(value) for name, value in options.items()}


@cache
def _differentiable(
    name: str, names: tuple[str, ...], constants: tuple[str, ...], options: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    """Return a function of the named arrays, which returns a tuple of results.

    The arrays `constants`, the last ones, have no gradients.
    """
    inputs = (*names, *constants)
    rule = rules()[name]
    assert isinstance(rule, Rule)

    def named(arrays: Sequence[Any]) -> dict[str, Any]:
        return {**rule.defaults, **dict(zip(inputs, arrays, strict=True)), **_decoded(dict(options))}

    def outline(arrays: Sequence[Any]) -> list[Any]:
        outlines = rule.outlines(named(arrays))
        return [jax.ShapeDtypeStruct(shape, jax_dtype(dtype)) for shape, dtype in outlines]

    def compose(grads: Sequence[Any], result: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        return _gradients(rule, grads, result, named(arrays), names)

    @jax.custom_vjp
    def adjoint(grads: Any, result: Any, arrays: Any) -> Any:
        outlines = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays[: len(names)])
        operands = (*grads, result, *arrays)
        return _custom_call("adjoint", name, names, constants, options, outlines, operands)

    def adjoint_forward(*primals: Any) -> Any:
        return adjoint(*primals), primals

    def adjoint_backward(primals: Any, cotangents: Any) -> Any:
        _, pull_back = jax.vjp(compose, *primals)
        return pull_back(cotangents)

    adjoint.defvjp(adjoint_forward, adjoint_backward)

    @jax.custom_vjp
    def solve(*arrays: Any) -> Any:
        outlines = tuple(outline(arrays))
        return _custom_call("solve", name, names, constants, options, outlines, arrays)

    def forward(*arrays: Any) -> Any:
        results = solve(*arrays)
        return results, (results[0], arrays)

    def backward(kept: Any, cotangents: Any) -> Any:
        return (*adjoint(tuple(cotangents), *kept), *[None] * len(constants))

    solve.defvjp(forward, backward)
    return solve


def _gradients(
    rule: Rule, grads: Sequence[Any], result: Any, arguments: dict[str, Any], names: Sequence[str]
) -> tuple[Any, ...]:
    """Return the gradients of the named arguments, which are conjugates of those of a rule."""
    grad, grad_zf = (*(grad.conj() for grad in grads), None)[:2]
    gradients = rule.compose(grad, grad_zf, result, arguments, names)
    of_arrays = dict(zip(rule.names, gradients, strict=True))
    return tuple(of_arrays[key].conj() for key in names)


def _custom_call(
    part: str,
    name: str,
    names: Sequence[str],
    constants: Sequence[str],
    options: Any,
    outlines: Any,
    arrays: Any,
) -> Any:
    """Return the results of a custom call, which knows what to compute by its key."""
    key = json.dumps([part, name, names, constants, options])
    if _has_known_interface():
        call = jax.ffi.ffi_call(_TARGET, outlines, vmap_method="sequential")
        return tuple(call(*arrays, key=key))

    def computed(*operands: Any) -> tuple[np.ndarray, ...]:
        results = tuple([np.empty(outline.shape, outline.dtype) for outline in outlines])
        _compute(key, [np.array(operand) for operand in operands], [*results])
        return results

    return jax.pure_callback(computed, tuple(outlines), *arrays, vmap_method="sequential")


@cache
def _has_known_interface() -> bool:
    """Return whether XLA has an interface with the same structures."""
    newest = max(_versions, default=(0, 0))
    if newest[0] == _NEWEST[0] and newest <= _NEWEST:
        return True
    warnings.warn(
        f"mgrec does not know version {newest[0]}.{newest[1]} of XLA's foreign function interface: "
        f"traced arrays of jax are copied, those of a GPU to host memory",
        stacklevel=2,
    )
    return False


def _compute_on_host(key: str, operands: Any, results: Any, stream: Callable[[], int]) -> None:
    arrays = [*map(host_array, operands)]
    # Prepared calls keep numbers and coefficients, whose memory is that of XLA.
    copied = [array if array.nbytes > _KEPT_BYTES else array.copy() for array in arrays]
    _compute(key, copied, [*map(host_array, results)])


def _compute_on_gpu(key: str, operands: Any, results: Any, stream: Callable[[], int]) -> None:
    from ..engines.cuda.backend import BACKEND

    device = BACKEND.device_at(operands[0].address)

    def array(memory: ForeignArray) -> Any:
        lengths = [memory.dtype.itemsize, *memory.shape[:0:-1]]
        strides = tuple(accumulate(lengths, mul))[::-1] if memory.shape else ()
        return BACKEND.view(memory.address, memory.shape, strides, memory.dtype, memory, device)

    with BACKEND.on_stream(stream(), device):
        _compute(key, [*map(array, operands)], [*map(array, results)])


def _compute(key: str, arrays: list[Any], results: list[Any]) -> None:
    """Write the results of a function, or of its adjoint."""
    part, name, names, constants, options = json.loads(key)
    inputs = (*names, *constants)
    rule = rules()[name]
    assert isinstance(rule, Rule)
    count = len(arrays) - len(inputs)
    arguments = {**rule.defaults, **dict(zip(inputs, arrays[count:], strict=True)), **_decoded(dict(options))}
    if part == "solve":
        has_out = "out" in signature(rule.function).parameters
        if has_out and rule.outlines(arguments)[0][1] == results[0].dtype:
            arguments["out"] = results[0]
        computed = rule.solve(arguments)
    else:
        computed = _gradients(rule, arrays[: count - 1], arrays[count - 1], arguments, names)
    for result, values in zip(results, computed, strict=True):
        if values is not result:
            result[...] = values


# XLA takes one handler for each platform, and calls it as long as the process lives. Threads that
# trace their first functions at the same time import this module once.
_HANDLERS = {"cpu": _handler_of(_compute_on_host), "CUDA": _handler_of(_compute_on_gpu)}
for _platform, _handler in _HANDLERS.items():
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(_handler), platform=_platform)
