"""Public functions of traced arrays of jax: callbacks to host memory, with derivatives.

A function, and its adjoint, are each a ``jax.pure_callback`` with a ``jax.custom_vjp``. A second
derivative differentiates the composition of the adjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .rules import Redirect, Rule, common_dtype, rules


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
    if arguments.get("axis", -1) >= 0:
        # vmap adds axes in front.
        arguments["axis"] -= rule.count_axes({**rule.defaults, **arrays, **arguments})
    solve = _differentiable(name, tuple(arrays), tuple(arguments.items()))
    results = solve(*arrays.values())
    return results[0] if len(results) == 1 else tuple(results)


@cache
def _differentiable(
    name: str, names: tuple[str, ...], options: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    """Return a function of the named arrays, which returns a tuple of results."""
    rule = rules()[name]
    assert isinstance(rule, Rule)

    def named(arrays: Sequence[Any]) -> dict[str, Any]:
        return {**rule.defaults, **dict(zip(names, arrays, strict=True)), **dict(options)}

    def outline(arrays: Sequence[Any]) -> list[Any]:
        return [jax.ShapeDtypeStruct(*result) for result in rule.outlines(named(arrays))]

    def solve_on_host(*arrays: Any) -> tuple[Any, ...]:
        return rule.solve(named([np.asarray(array) for array in arrays]))

    def compose(grads: Sequence[Any], result: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        grad, grad_zf = (*(grad.conj() for grad in grads), None)[:2]
        gradients = rule.compose(grad, grad_zf, result, named(arrays), names)
        of_arrays = dict(zip(rule.names, gradients, strict=True))
        return tuple(of_arrays[key].conj() for key in names)

    def adjoint_on_host(grads: Any, result: Any, arrays: Any) -> tuple[Any, ...]:
        return compose(*jax.tree.map(np.asarray, (grads, result, arrays)))

    @jax.custom_vjp
    def adjoint(grads: Any, result: Any, arrays: Any) -> Any:
        outlines = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays)
        return _on_host(adjoint_on_host, outlines, grads, result, arrays)

    def adjoint_forward(*primals: Any) -> Any:
        return adjoint(*primals), primals

    def adjoint_backward(primals: Any, cotangents: Any) -> Any:
        _, pull_back = jax.vjp(compose, *primals)
        return pull_back(cotangents)

    adjoint.defvjp(adjoint_forward, adjoint_backward)

    @jax.custom_vjp
    def solve(*arrays: Any) -> Any:
        return _on_host(solve_on_host, tuple(outline(arrays)), *arrays)

    def forward(*arrays: Any) -> Any:
        results = solve(*arrays)
        return results, (results[0], arrays)

    def backward(kept: Any, cotangents: Any) -> Any:
        return adjoint(tuple(cotangents), *kept)

    solve.defvjp(forward, backward)
    return solve


def _on_host(function: Callable[..., Any], outlines: Any, *arguments: Any) -> Any:
    return jax.pure_callback(function, outlines, *arguments, vmap_method="sequential")
