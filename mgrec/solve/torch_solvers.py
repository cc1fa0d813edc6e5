"""Solves of tensors: of native arrays in place of them, or by their addresses on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from ..core.arrays.array_types import is_bfloat16
from ..core.arrays.interop import library_of, to_native
from ..core.contract.kernels import CacheMiss
from ..distributed.groups.calls import CALL
from .prepared import CacheEntry, PreparedCall, cache_entry
from .rules import Rule, numpy_dtype


def copy_to_host(rule: Rule, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Return NumPy arrays of the tensors that a function reads in host memory, for one on a GPU.

    Reading them waits for the GPU. The backward pass therefore takes those of the forward pass.
    """
    if rule.read_on_host is None or on_device(values).device.type == "cpu":
        return {}
    arguments = dict(zip(names, values, strict=True))
    tensors = {name: arguments[name] for name in rule.read_on_host(arguments)}
    # torch copies into pinned memory, without a wait for each copy.
    copies = {name: _plain(x).to("cpu", non_blocking=True) for name, x in tensors.items()}
    for device in {x.device for x in tensors.values() if x.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    return {name: to_native(name, copy) for name, copy in copies.items()}


def solve_native(names: Sequence[str], values: Sequence[Any], solve: Callable[[list[Any]], Any]) -> list[Any]:
    """Call ``solve`` with native arrays in place of tensors, on the current stream of torch."""
    like = on_device(values)
    if like.device.type == "cuda":
        return _solve_on_gpu(values, like.device, solve)
    native = [
        to_native(name, _plain(x)) if isinstance(x, torch.Tensor) else x
        for name, x in zip(names, _with_numbers(values), strict=True)
    ]
    convert = library_of(like).result_converter([like], [like])  # type: ignore[union-attr]
    return [convert(_at_least_array(result)) for result in solve(native)]


def _solve_on_gpu(values: Sequence[Any], device: Any, solve: Callable[[list[Any]], Any]) -> list[Any]:
    """Call ``solve`` with CuPy arrays.

    DLPack by the functions of both libraries, which also synchronise streams, took some 60 us of
    the host's time an array.
    """
    stream = torch.cuda.current_stream(device).cuda_stream
    with _backend().on_stream(stream, device.index):
        native = [
            _as_cupy(_backend(), x) if isinstance(x, torch.Tensor) else x for x in _with_numbers(values)
        ]
        # CuPy takes the number 1 for the legacy default stream.
        return [_from_cupy(result, stream or 1) for result in solve(native)]


def solve_by_address(rule: Rule, keys: Sequence[str], values: Sequence[Any]) -> list[Any] | None:
    """Run the prepared call of contiguous tensors of a GPU; None for other calls.

    Arrays of CuPy in place of tensors, and their results, took half of the host's time.
    """
    ranks = CALL.get()
    is_known = ranks is None or ranks.may_guess
    by_address = tensor_signature(rule, values) if is_known else None
    if by_address is None:
        return None
    signature, addresses = by_address
    cached = cache_entry(signature)
    if cached.prepared is None:
        return _prepare_call(rule, keys, values, cached) if cached.is_preparable else None
    like = next(value for value in values if isinstance(value, torch.Tensor))
    return solve_prepared(cached.prepared, like, addresses)


def tensor_signature(rule: Rule, values: Sequence[Any]) -> tuple[tuple[Any, ...], list[int]] | None:
    """Return the signature and addresses of contiguous tensors of a GPU; None for others."""
    device = next(value for value in values if isinstance(value, torch.Tensor)).get_device()
    if device < 0:
        return None
    signature: list[Any] = [rule.function, device]
    addresses = []
    for value in values:
        if isinstance(value, torch.Tensor):
            is_plain = value.is_contiguous() and not (value.is_conj() or value.is_neg())
            if value.get_device() != device or not (value.ndim and is_plain):
                return None
            addresses.append(value.data_ptr())
            signature += (value.shape, value.dtype, addresses[-1] & 15)
        elif isinstance(value, np.ndarray):
            signature += (value.shape, value.dtype, value.tobytes())
        else:
            signature += (type(value), repr(value))
    return tuple(signature), addresses


def solve_prepared(prepared: PreparedCall, like: Any, addresses: Sequence[int]) -> list[Any] | None:
    """Run a prepared call on the current stream; return None if it does not solve it."""
    dtype = torch_dtype(prepared.dtype)
    has_its_form = like.shape == prepared.shape and like.dtype == dtype
    result = torch.empty_like(like) if has_its_form else like.new_empty(prepared.shape, dtype=dtype)
    with _on_stream_of(result):
        try:
            prepared.solve_at(addresses, (result.data_ptr(),))
        except (CacheMiss, OverflowError, TypeError):
            return None  # The public function raises, or solves it in general.
    return [result]


def _prepare_call(
    rule: Rule, keys: Sequence[str], values: Sequence[Any], cached: CacheEntry[PreparedCall]
) -> list[Any]:
    """Solve, and give the entry of tensors the prepared call of CuPy arrays, if it takes these."""
    reader = getattr(rule.function, "rule", None)

    def solve(native: list[Any]) -> Any:
        arguments = dict(zip(keys, native, strict=True))
        results = rule.solve(arguments)
        call = None if reader is None else reader.read((), arguments)
        arrays = [x for x in native if hasattr(x, "flags") and not isinstance(x, np.ndarray)]
        if call and len(results) == 1 and [*map(id, call.arguments)] == [*map(id, arrays)]:
            cached.prepared = cache_entry(call.signature).prepared
        return results

    results = solve_native(keys, values, solve)
    cached.is_preparable = cached.prepared is not None
    return results


def differentiate_by_address(
    rule: Rule, keys: Sequence[str], values: Sequence[Any], on_host: dict[str, Any]
) -> list[Any] | None:
    """Return the gradients by kernels that take addresses; None if they do not compute them."""
    grad, _, result, *others = values
    if rule.differentiate_at is None or not result.is_cuda or CALL.get() is not None:
        return None
    shape, dtype, device = result.shape, result.dtype, result.get_device()
    arrays = {name: x for name, x in zip(rule.names, others, strict=False) if x is not None}
    addressed = [grad, result]
    for name, x in arrays.items():
        if name in on_host:
            continue
        if x.shape != shape or x.dtype != dtype or x.get_device() != device:
            return None
        if name not in rule.unread:
            addressed.append(x)
    for x in addressed:
        if not x.is_contiguous() or x.is_conj() or x.is_neg() or x.get_device() != device:
            return None
    first, count = len(rule.names), len(rule.inputs)
    if any(x is not None for x in others[first:count]):
        return None
    # The gradient of an array that is not read is the adjoint, which is solved first.
    gradients = {
        name: result.new_empty(x.shape, dtype=x.dtype) if name in on_host else torch.empty_like(result)
        for name, x in arrays.items()
        if name in values[-1] or name in rule.unread
    }
    addresses = [gradients[name].data_ptr() if name in gradients else 0 for name in arrays]
    options = dict(zip(keys[count:], others[count:], strict=False))
    with _on_stream_of(result):
        is_solved = rule.differentiate_at(
            _backend(),
            tuple(shape),
            _numpy_dtype(dtype),
            device,
            [x.data_ptr() for x in addressed],
            addresses,
            options | on_host,
        )
    return [gradients[name] for name in values[-1]] if is_solved else None


def _on_stream_of(tensor: Any) -> Any:
    """Make the device of a tensor, and its current stream, those of CuPy."""
    device = tensor.get_device()
    return _backend().on_stream(torch._C._cuda_getCurrentRawStream(device), device)


@cache
def _backend() -> Any:
    from ..engines.cuda.backend import BACKEND

    return BACKEND


def _with_numbers(values: Sequence[Any]) -> Sequence[Any]:
    """Return real tensors of no axes as numbers, if a tensor has a narrow dtype.

    As in torch, they do not promote it.
    """
    tensors = [x for x in values if isinstance(x, torch.Tensor)]
    if not any(x.dtype in (torch.bfloat16, torch.float16) for x in tensors):
        return values
    return [
        x.item() if isinstance(x, torch.Tensor) and not x.ndim and not x.is_complex() else x for x in values
    ]


def _from_cupy(array: Any, stream: int) -> Any:
    array = _compact(array)
    is_viewed = is_bfloat16(array.dtype)  # which DLPack of CuPy may not export
    words = array.view(np.int16) if is_viewed else array
    tensor = torch.utils.dlpack.from_dlpack(words.__dlpack__(stream=stream))
    return tensor.view(torch.bfloat16) if is_viewed else tensor


def _as_cupy(backend: Any, tensor: Any) -> Any:
    device, dtype = tensor.get_device(), _numpy_dtype(tensor.dtype)
    if device < 0:
        return to_native("an argument", _plain(tensor))
    tensor = tensor.resolve_conj().resolve_neg()
    strides = tuple([stride * dtype.itemsize for stride in tensor.stride()])
    return backend.view(tensor.data_ptr(), tuple(tensor.shape), strides, dtype, tensor, device)


@cache
def torch_dtype(dtype: np.dtype[Any]) -> Any:
    return getattr(torch, dtype.name)


@cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    return numpy_dtype(torch.empty(0, dtype=dtype))


def _compact(array: Any) -> Any:
    return array if array.flags.c_contiguous else array.copy()


def _plain(tensor: Any) -> Any:
    """Return the numbers of a tensor as DLPack exports them."""
    tensor = tensor.detach()
    return tensor.resolve_conj().resolve_neg() if tensor.is_conj() or tensor.is_neg() else tensor


def _at_least_array(result: Any) -> Any:
    return result if hasattr(result, "__dlpack__") else np.asarray(result)


def on_device(values: Sequence[Any]) -> Any:
    """Return the first tensor that is not in host memory, or the first of all."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return next((tensor for tensor in tensors if tensor.device.type != "cpu"), tensors[0])
