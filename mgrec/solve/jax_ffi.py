"""Functions of Python as custom calls of XLA, by its foreign function interface (FFI).

The structures are those of ``xla/ffi/api/c_api.h``; each begins with its size and its extensions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays.array_types import bfloat16

_SIZE: list[Any] = [("struct_size", c_size_t), ("extension", c_void_p)]
_METADATA, _EXECUTE, _INTERNAL = 1, 3, 13
"""Type of an extension, stage of a call, and code of an error."""
_DTYPES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32",
    9: "uint64", 10: "float16", 11: "float32", 12: "float64", 15: "complex64", 18: "complex128",
}  # fmt: skip
_BFLOAT16 = 16


class _Version(ctypes.Structure):
    _fields_ = [*_SIZE, ("major", c_int), ("minor", c_int)]


class _Metadata(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("version", _Version), ("traits", ctypes.c_uint32)]


class _MetadataExtension(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("type", c_int), ("next", c_void_p),
        ("metadata", POINTER(_Metadata)),
    ]  # fmt: skip


class _Bytes(ctypes.Structure):
    _fields_ = [("start", c_void_p), ("size", c_size_t)]


class _Buffer(ctypes.Structure):
    _fields_ = [
        *_SIZE, ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64)),
    ]  # fmt: skip


class _Buffers(ctypes.Structure):
    _fields_ = [
        *_SIZE, ("size", c_int64), ("types", c_void_p), ("values", POINTER(POINTER(_Buffer))),
    ]  # fmt: skip


class _Attributes(ctypes.Structure):
    _fields_ = [
        *_SIZE, ("size", c_int64), ("types", c_void_p), ("names", c_void_p),
        ("values", POINTER(POINTER(_Bytes))),
    ]  # fmt: skip


class _ErrorArguments(ctypes.Structure):
    _fields_ = [*_SIZE, ("message", c_char_p), ("code", c_int)]


class _StreamArguments(ctypes.Structure):
    _fields_ = [*_SIZE, ("context", c_void_p), ("stream", c_void_p)]


_CREATE_ERROR = ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorArguments))
_GET_STREAM = ctypes.CFUNCTYPE(c_void_p, POINTER(_StreamArguments))


class _Api(ctypes.Structure):
    _fields_ = [
        *_SIZE, ("version", _Version), ("internal", c_void_p), ("create_error", _CREATE_ERROR),
        ("others", c_void_p * 3), ("get_stream", _GET_STREAM),
    ]  # fmt: skip


class _Frame(ctypes.Structure):
    _fields_ = [
        *_SIZE, ("api", POINTER(_Api)), ("context", c_void_p), ("stage", c_int32),
        ("operands", _Buffers), ("results", _Buffers), ("attributes", _Attributes),
    ]  # fmt: skip


class Memory(NamedTuple):
    """An array in C order by its address."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


Call = Callable[[str, Sequence[Memory], Sequence[Memory], Callable[[], int]], None]
"""Function ``(key, operands, results, stream)`` that writes results; ``stream()`` is an address."""

_HANDLER = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))


@cache
def handler_of(call: Call) -> Any:
    """Return a handler of XLA that runs `call` with the only attribute of the custom call."""

    def handle(pointer: Any) -> int | None:
        frame = pointer.contents
        api = frame.api.contents
        try:
            if frame.extension:
                _report_version(frame.extension, api.version)
            elif frame.stage == _EXECUTE:
                key = frame.attributes.values[0].contents
                call(
                    ctypes.string_at(key.start, key.size).decode(), _memory(frame.operands),
                    _memory(frame.results), lambda: _stream(api, frame.context),
                )  # fmt: skip
        except BaseException as error:
            message = f"{type(error).__name__}: {error}".encode()
            arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message, _INTERNAL)
            return int(api.create_error(ctypes.byref(arguments)))
        return None

    return _HANDLER(handle)


def _report_version(address: int, version: _Version) -> None:
    """Report that the handler has the version of the interface of XLA."""
    extension = _MetadataExtension.from_address(address)
    if extension.type == _METADATA:
        metadata = extension.metadata.contents
        metadata.version.major, metadata.version.minor = version.major, version.minor


def _memory(buffers: _Buffers) -> list[Memory]:
    pointers = [buffers.values[k].contents for k in range(buffers.size)]
    return [
        Memory(
            buffer.data or 0, tuple(buffer.dims[: buffer.rank]),
            bfloat16() if buffer.dtype == _BFLOAT16 else np.dtype(_DTYPES[buffer.dtype]),
        )
        for buffer in pointers
    ]  # fmt: skip


def _stream(api: _Api, context: int) -> int:
    arguments = _StreamArguments(ctypes.sizeof(_StreamArguments), None, context, None)
    if api.get_stream(ctypes.byref(arguments)):
        raise RuntimeError("XLA has no stream for this call")
    return arguments.stream or 0


def host_array(memory: Memory) -> np.ndarray:
    """Return memory of the host as an array."""
    size = prod(memory.shape) * memory.dtype.itemsize
    if not size:
        return np.empty(memory.shape, memory.dtype)
    data: Any = (ctypes.c_byte * size).from_address(memory.address)
    return np.frombuffer(data, memory.dtype).reshape(memory.shape)
