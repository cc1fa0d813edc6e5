"""Public functions of traced arrays of jax: custom calls of XLA, with derivatives.

A function, and its adjoint, are each a custom call with a ``jax.custom_vjp``. XLA calls Python with
the addresses of arrays, in host memory or on a GPU, where kernels are launched on its stream. A
second derivative differentiates the composition of the adjoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from itertools import accumulate
from operator import mul
from typing import Any

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np

from .jax_ffi import Memory, handler_of, host_array
from .rules import Redirect, Rule, common_dtype, rules

_TARGET = "mgrec"
_KEPT_BYTES = 1 << 16
_ARRAY = "array"
"""First element of an option that is an array."""


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
    arrays = {key: arguments.pop(key) for key in rule.names if arguments[key] is not None}
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
        raise TypeError(
            f"{name} must be an array that jax does not trace, since it has no gradient"
        )
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
    name: str,
    names: tuple[str, ...],
    constants: tuple[str, ...],
    options: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    """Return a function of the named arrays, which returns a tuple of results.

    The arrays `constants`, the last ones, have no gradients.
    """
    inputs = (*names, *constants)
    rule = rules()[name]
    assert isinstance(rule, Rule)

    def named(arrays: Sequence[Any]) -> dict[str, Any]:
        return {
            **rule.defaults,
            **dict(zip(inputs, arrays, strict=True)),
            **_decoded(dict(options)),
        }

    def outline(arrays: Sequence[Any]) -> list[Any]:
        return [jax.ShapeDtypeStruct(*result) for result in rule.outlines(named(arrays))]

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
    part: str, name: str, names: Sequence[str], constants: Sequence[str], options: Any,
    outlines: Any, arrays: Any,
) -> Any:  # fmt: skip
    """Return the results of a custom call, which knows what to compute by its key."""
    _register()
    key = json.dumps([part, name, names, constants, options])
    call = jax.ffi.ffi_call(_TARGET, outlines, vmap_method="sequential")
    return tuple(call(*arrays, key=key))


@cache
def _register() -> None:
    for platform, call in (("cpu", _compute_on_host), ("CUDA", _compute_on_gpu)):
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(handler_of(call)), platform=platform)


def _compute_on_host(key: str, operands: Any, results: Any, stream: Callable[[], int]) -> None:
    arrays = [*map(host_array, operands)]
    # Prepared calls keep numbers and coefficients, whose memory is that of XLA.
    copied = [array if array.nbytes > _KEPT_BYTES else array.copy() for array in arrays]
    _compute(key, copied, [*map(host_array, results)])


def _compute_on_gpu(key: str, operands: Any, results: Any, stream: Callable[[], int]) -> None:
    from ..engines.cuda.backend import BACKEND

    device = BACKEND.device_at(operands[0].address)

    def array(memory: Memory) -> Any:
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
    arguments = {
        **rule.defaults,
        **dict(zip(inputs, arrays[count:], strict=True)),
        **_decoded(dict(options)),
    }
    if part == "solve":
        if "out" in signature(rule.function).parameters:
            arguments["out"] = results[0]
        computed = rule.solve(arguments)
    else:
        computed = _gradients(rule, arrays[: count - 1], arrays[count - 1], arguments, names)
    for result, values in zip(results, computed, strict=True):
        if values is not result:
            result[...] = values
