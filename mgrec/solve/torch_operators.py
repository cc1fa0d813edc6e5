"""Operators of torch: public functions inside autograd and ``torch.compile``.

Each :class:`.rules.Rule` is two operators of the library "mgrec": the function, and its backward
pass. A second derivative differentiates the composition of the adjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch

from ..core.arrays.interop import library_of, to_native
from .rules import Rule, rules

_PLACE = "tensors that require gradients, nor inside of torch.compile"


@dataclass(frozen=True)
class Operator:
    """The operator of a public function, its rule, and the names of the function's parameters.

    The dict ``OPERATORS`` of this module has all operators by the function's qualified name.
    """

    run: Any
    rule: Rule
    parameters: tuple[str, ...]


def is_recorded(values: Sequence[Any]) -> bool:
    """Return whether torch records operations of these tensors: autograd, or torch.func."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    return any(map(torch._C._functorch.is_functorch_wrapped_tensor, tensors))


def call(operator: Operator, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call an operator with the arguments of the public function."""
    rule, named = operator.rule, zip(operator.parameters, operands, strict=False)
    arguments = rule.bind({**dict(named), **options}, _PLACE)
    tensors = [x for x in map(arguments.get, rule.names) if isinstance(x, torch.Tensor)]
    for key in rule.names:
        arguments[key] = _as_tensor(arguments[key], tensors[0])
    results = operator.run(**arguments)
    return results[0] if len(results) == 1 else tuple(results)


def _as_tensor(value: Any, like: Any) -> Any:
    """Return an operand as a tensor. A number promotes weakly, and stays in host memory."""
    if value is None or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (int, float, complex)):
        return torch.zeros((), dtype=like.dtype) + value
    return torch.as_tensor(np.asarray(value))


def _define(rule: Rule) -> Any:
    name = f"mgrec::{rule.function.__name__}"
    arrays = [f"Tensor{'?' * array.endswith('?')} {array.strip('?')}" for array in rule.arrays]
    # Without defaults: torch leaves out values that are defaults.
    options = [f"{kind} {key}" for key, (kind, _) in rule.options.items()]
    parameters, keys = ", ".join([*arrays, *options]), (*rule.names, *rule.options)
    backward_pass = _define_backward(rule, name, parameters, keys)

    def solve(*values: Any) -> list[Any]:
        return _run(keys, values, lambda native: rule.solve(dict(zip(keys, native, strict=True))))

    def outline(*values: Any) -> list[Any]:
        arguments = dict(zip(keys, values, strict=True))
        like = _on_device(values)
        return [
            like.new_empty(shape, dtype=getattr(torch, dtype.name))
            for shape, dtype in rule.outlines(arguments)
        ]

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        kept = [
            x.new_empty(()).expand(x.shape) if key in rule.unread else x
            for key, x in zip(rule.names, inputs, strict=False)
        ]
        ctx.save_for_backward(output[0], *kept)
        ctx.options = inputs[len(kept) :]

    def differentiate(ctx: Any, grads: Any) -> Any:
        result, *kept = ctx.saved_tensors
        of = [key for key, needed in zip(rule.names, ctx.needs_input_grad, strict=False) if needed]
        grad, grad_zf = (*grads, None)[:2]
        grad = torch.zeros_like(result) if grad is None else grad
        gradients = iter(backward_pass(grad, grad_zf, result, *kept, *ctx.options, of))
        of_arrays = [next(gradients) if key in of else None for key in rule.names]
        return (*of_arrays, *[None] * len(ctx.options))

    return _operator(name, f"({parameters}) -> Tensor[]", solve, outline, keep, differentiate)


def _define_backward(rule: Rule, name: str, parameters: str, keys: Sequence[str]) -> Any:
    count = 3 + len(rule.names)

    def compose(grad: Any, grad_zf: Any, result: Any, *values: Any) -> list[Any]:
        *values, of = values  # type: ignore[assignment]
        gradients = rule.compose(grad, grad_zf, result, dict(zip(keys, values, strict=True)), of)
        named = dict(zip(rule.names, gradients, strict=True))
        return [named[key] for key in of]

    def solve(*values: Any) -> list[Any]:
        arrays = dict(zip(rule.names, values[3:], strict=False))
        names = ("grad", "grad_zf", "result", *keys, "of")
        gradients = _run(names, values, lambda native: compose(*native))
        return [
            gradient.to(arrays[key].device)
            for key, gradient in zip(values[-1], gradients, strict=True)
        ]

    def outline(*values: Any) -> list[Any]:
        arrays = dict(zip(rule.names, values[3:], strict=False))
        return [arrays[key].new_empty(arrays[key].shape) for key in values[-1]]

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:count])
        ctx.options = inputs[count:]

    def differentiate(ctx: Any, grads: Any) -> Any:
        with torch.enable_grad():
            # Views, so that a result is differentiated as an argument of its own.
            inputs: list[Any] = [None if x is None else x.view_as(x) for x in ctx.saved_tensors]
            pairs = [
                (output, grad)
                for output, grad in zip(compose(*inputs, *ctx.options), grads, strict=True)
                if grad is not None and output.requires_grad
            ]
        needed = [
            x if needs and x.requires_grad else None
            for x, needs in zip(inputs, ctx.needs_input_grad, strict=False)
        ]
        found = iter(
            torch.autograd.grad(
                [output for output, _ in pairs], [x for x in needed if x is not None],
                [grad for _, grad in pairs],
                create_graph=torch.is_grad_enabled(), allow_unused=True,
            )
            if pairs else ()
        )  # fmt: skip
        of_inputs = [None if x is None else next(found, None) for x in needed]
        return (*of_inputs, *[None] * len(ctx.options))

    schema = f"(Tensor grad, Tensor? grad_zf, Tensor result, {parameters}, str[] of) -> Tensor[]"
    return _operator(f"{name}_backward", schema, solve, outline, keep, differentiate)


def _operator(
    name: str, schema: str, solve: Callable[..., Any], outline: Callable[..., Any],
    keep: Callable[..., Any], differentiate: Callable[..., Any],
) -> Any:  # fmt: skip
    operator = torch.library.custom_op(name, solve, mutates_args=(), schema=schema)
    operator.register_fake(outline)
    operator.register_autograd(differentiate, setup_context=keep)

    def solve_each(info: Any, in_dims: Sequence[int | None], *values: Any) -> Any:
        calls = [
            operator(*[
                value if dim is None or isinstance(dim, list) else value.select(dim, k)
                for value, dim in zip(values, in_dims, strict=True)
            ])
            for k in range(info.batch_size)
        ]  # fmt: skip
        results = [torch.stack(list(parts)) for parts in zip(*calls, strict=True)]
        return results, [0] * len(results)

    operator.register_vmap(solve_each)
    return operator


def _run(
    names: Sequence[str], values: Sequence[Any], solve: Callable[[list[Any]], Any]
) -> list[Any]:
    """Call ``solve`` with native arrays in place of tensors, on the current stream of torch."""
    like = _on_device(values)
    with _on_stream(like):
        native = [
            to_native(name, _plain(x)) if isinstance(x, torch.Tensor) else x
            for name, x in zip(names, values, strict=True)
        ]
        convert = library_of(like).result_converter([like], [like])  # type: ignore[union-attr]
        return [convert(_at_least_array(result)) for result in solve(native)]


def _plain(tensor: Any) -> Any:
    """Return the numbers of a tensor as DLPack exports them."""
    return tensor.detach().resolve_conj().resolve_neg()


def _at_least_array(result: Any) -> Any:
    return result if hasattr(result, "__dlpack__") else np.asarray(result)


def _on_device(values: Sequence[Any]) -> Any:
    """Return the first tensor that is not in host memory, or the first of all."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return next((tensor for tensor in tensors if tensor.device.type != "cpu"), tensors[0])


def _on_stream(tensor: Any) -> AbstractContextManager[Any]:
    if tensor.device.type != "cuda":
        return nullcontext()
    from ..engines.cuda.backend import BACKEND

    stream = torch.cuda.current_stream(tensor.device)
    return BACKEND.on_stream(stream.cuda_stream, tensor.device.index)


def __getattr__(name: str) -> Any:
    # Defined when they are first used: also ``torch.compile`` runs this function, untraced.
    if name != "OPERATORS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    operators = {
        name: Operator(_define(rule), rule, tuple(signature(rule.function).parameters))
        for name, rule in rules().items()
    }
    globals()[name] = operators
    return operators
