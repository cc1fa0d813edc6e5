"""Operators of torch: public functions inside autograd and ``torch.compile``.

Each :class:`.rules.Rule` is two operators of the library "mgrec": the function, and its backward
pass. A second derivative differentiates the composition of the adjoint. ``torch.compile`` traces
operators. Other calls run a ``torch.autograd.Function`` of the same parts: an operator took 0.3 ms
of the host's time, on a machine with an H100.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial, reduce
from inspect import signature
from typing import Any

import numpy as np
import torch

from ..core.arrays.array_types import has_bfloat16
from ..core.arrays.interop import has_tangent, is_differentiated, result_converter, to_native
from ..core.arrays.validation import as_any_array, as_real
from ..core.contract.kernels import CacheMiss
from ..distributed.expressions import leaves
from ..distributed.groups.calls import CALL, call_on_group
from ..distributed.groups.ends import start_gradients
from .prepared import CacheEntry, Call, PreparedCall, cache_entry
from .rules import Redirect, Rule, rules
from .torch_solvers import (
    copy_to_host,
    differentiate_by_address,
    on_device,
    solve_by_address,
    solve_native,
    solve_prepared,
    tensor_signature,
    torch_dtype,
)

_HAS_BFLOAT16 = has_bfloat16()
# torch destroys the operators of a thread if another one defines them, too.
_DEFINING = threading.Lock()
_CONTEXT = "tensors that require gradients, nor inside of torch.compile"


@dataclass(frozen=True)
class Pair:
    """A function of tensors and options that is differentiated, which returns several tensors.

    `traced`: operator of the library "mgrec".
    """

    traced: Callable[..., Sequence[Any]]
    eager: Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Operator:
    """The operator of a public function, its rule, and the names of the function's parameters.

    The dict ``OPERATORS`` of this module has all operators by the function's qualified name.
    """

    pair: Pair
    rule: Rule
    parameters: tuple[str, ...]


def takes_group(operator: Operator | Redirect) -> bool:
    """Return whether the gradients of a function are computed over the ranks of a group."""
    return isinstance(operator, Redirect) or operator.rule.takes_group


def needs_operator(values: Sequence[Any]) -> bool:
    """Return whether torch records a call with these arguments, or one has a dtype of torch's own."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return any(x.dtype == torch.bfloat16 or is_differentiated(x) or _is_transformed(x) for x in tensors)


def is_solved_by_address(
    operator: Operator | Redirect, operands: Sequence[Any], options: dict[str, Any]
) -> bool:
    """Return whether an operator passes the tensors of a call on ranks to kernels by addresses.

    Arrays of CuPy in their place took 0.3 ms more of the host's time. The GPU has no work then,
    since the call before has waited for the other ranks.
    """
    if CALL.get() is None or isinstance(operator, Redirect) or not takes_group(operator):
        return False
    rule = operator.rule
    arguments = {**dict(zip(operator.parameters, operands, strict=False)), **options}
    arrays = [x for key in rule.names if (x := arguments.get(key)) is not None]
    are_tensors = all(isinstance(x, torch.Tensor) and x.is_cuda and x.ndim for x in arrays)
    known = rule.defaults
    has_known_options = all(key in known or x is None for key, x in arguments.items())
    return are_tensors and len({x.dtype for x in arrays}) == 1 and has_known_options


def _is_transformed(tensor: Any) -> bool:
    """Return whether a tensor is one of ``torch.func.vmap`` or another transformation."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def _is_in_grad(tensor: Any) -> bool:
    """Return whether ``torch.func.grad``, or a function that calls it, transforms a tensor."""
    while _is_transformed(tensor):
        if torch._C._functorch.is_gradtrackingtensor(tensor):
            return True
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return False


def call(
    operator: Operator | Redirect,
    operands: Sequence[Any],
    options: dict[str, Any],
    recorded: Call | None = None,
) -> Any:
    """Call an operator with the arguments of the public function."""
    if isinstance(operator, Redirect):
        first = next(iter(signature(operator.function).parameters))
        _refuse_list(first, operands[0] if operands else options.get(first))
        return operator.call(*operands, **options)
    rule, named = operator.rule, zip(operator.parameters, operands, strict=False)
    arguments = rule.bind({**dict(named), **options}, _CONTEXT)
    _refuse_without_gradient(rule, arguments)
    named_tensors = [(key, arguments[key]) for key in rule.names]
    named_tensors = [(key, x) for key, x in named_tensors if isinstance(x, torch.Tensor)]
    tensors = [x for _, x in named_tensors]
    is_compiled = torch.compiler.is_compiling()
    if not is_compiled:
        _refuse_transformations(rule.function.__name__, tensors)
    dtypes = [x.dtype for key, x in named_tensors if x.ndim and key not in rule.numbers]
    dtypes = dtypes or [tensors[0].dtype]
    dtype = dtypes[0] if len({*dtypes}) == 1 else reduce(torch.promote_types, dtypes)
    wide = torch.float32 if tensors[0].dtype == torch.bfloat16 else tensors[0].dtype
    is_cast = not (rule.takes_bfloat16 and _HAS_BFLOAT16)
    for key in rule.names:
        is_number, value = key in rule.numbers, arguments[key]
        arguments[key] = _as_number(key, value) if is_number else _as_tensor(value, wide, is_cast)
    for key in rule.constants:
        arguments[key] = _as_constant(key, arguments[key], wide, tensors)
    is_traced = is_compiled or any(map(_is_transformed, tensors))
    function = operator.pair.traced if is_traced else operator.pair.eager
    results = function(*arguments.values())
    if dtype == torch.bfloat16 and not results[0].is_complex():
        results = [results[0].to(dtype), *results[1:]]
    elif recorded is not None and not is_traced:
        _prepare_recorded(operator, recorded, [*arguments.values()])
    return results[0] if len(results) == 1 else tuple(results)


@dataclass(frozen=True)
class RecordedCall:
    """A function for calls of one signature that torch records.

    `values`: arguments of the function; None for tensors of a call.
    `positions`, tuple of (int, int): pairs of the index of a value and the index of the tensor of a
      call that it is.
    `cached_solver`: that of the addresses of the tensors, on a GPU.
    """

    function: Callable[..., Sequence[Any]]
    values: tuple[Any, ...]
    positions: tuple[tuple[int, int], ...]
    cached_solver: CacheEntry[PreparedCall] | None

    def __call__(self, call: Call) -> Any:
        """Return the result of a call."""
        values = [*self.values]
        for position, number in self.positions:
            values[position] = call.arguments[number]
        results = self.function(*values, cached_solver=self.cached_solver)
        return results[0] if len(results) == 1 else tuple(results)


def _prepare_recorded(operator: Operator, call: Call, values: Sequence[Any]) -> None:
    """Cache the arguments of an operator for calls of a signature, unless tensors are converted."""
    numbers = {id(tensor): number for number, tensor in enumerate(call.arguments)}
    positions = [(k, numbers[id(x)]) for k, x in enumerate(values) if id(x) in numbers]
    if sorted(number for _, number in positions) != [*range(len(call.arguments))]:
        return
    constants = [None if id(x) in numbers else x for x in values]
    # Another stream would not wait for a constant of a GPU.
    if any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in constants):
        return
    by_address = None if operator.rule.read_on_host else tensor_signature(operator.rule, values)
    cached_solver = None if by_address is None else cache_entry(by_address[0])
    # Copies, since the caller may write into the memory of an array that has become a tensor.
    copies = tuple(map(deepcopy, constants))
    recorded = RecordedCall(operator.pair.eager, copies, tuple(positions), cached_solver)
    cache_entry(call.signature).prepared = recorded


def _refuse_transformations(name: str, tensors: Sequence[Any]) -> None:
    """Raise NotImplementedError for derivatives that torch would drop, or not describe."""
    if any(map(has_tangent, tensors)):
        raise NotImplementedError(f"{name} has no derivatives in forward mode")
    if any(map(_is_in_grad, tensors)):
        raise NotImplementedError(
            f"{name} has no derivatives in torch.func: call torch.autograd.grad, or backward() of the result"
        )


def _refuse_without_gradient(rule: Rule, arguments: dict[str, Any]) -> None:
    """Raise TypeError for tensors that require gradients in lists, or without a derivative."""
    for name in rule.names:
        _refuse_list(name, arguments[name])
    for name in rule.constants:
        if any(map(is_differentiated, leaves(arguments[name]))):
            raise TypeError(
                f"{name} must not require gradients, which are not computed: pass {name}.detach()"
            )


def _refuse_list(name: str, value: Any) -> None:
    """Raise TypeError for a list of tensors that require gradients."""
    if isinstance(value, (tuple, list)) and any(map(is_differentiated, leaves(value))):
        raise TypeError(
            f"{name} must be one tensor, since its numbers require gradients; got a "
            f"{type(value).__name__} of tensors: join them by torch.stack"
        )


def _as_number(name: str, value: Any) -> Any:
    """Return a number as a tensor of float64 without axes, in host memory; torch records it."""
    if value is None:
        return value
    if not isinstance(value, torch.Tensor):
        is_float = isinstance(value, float)  # perhaps a symbol of torch.compile
        return torch.zeros((), dtype=torch.float64) + (value if is_float else as_real(name, value))
    if value.numel() != 1 or value.is_complex():
        raise TypeError(f"{name} must be a real number; got a tensor of {value.numel()}")
    return value.reshape(()).to("cpu", torch.float64)


def _as_tensor(value: Any, dtype: Any, is_cast: bool) -> Any:
    """Return an operand as a tensor, one of bfloat16 cast to float32 with `is_cast`.

    A number promotes `dtype` weakly, and stays in host memory.
    """
    if isinstance(value, torch.Tensor):
        return value.float() if is_cast and value.dtype == torch.bfloat16 else value
    if value is None:
        return value
    if isinstance(value, (int, float, complex)):
        return torch.zeros((), dtype=dtype) + value
    if torch.compiler.is_compiling():
        return _as_traced(value, dtype)
    # DLPack copies what torch does not take: other byte orders, negative strides.
    tensor = torch.empty(0)
    return result_converter([tensor], [tensor])(as_any_array("an operand", np.asarray(value)))


def _as_traced(value: Any, dtype: Any) -> Any:
    """Return an array as a tensor; numbers of a list promote `dtype` weakly."""
    tensor = torch.as_tensor(np.asarray(value))
    if not isinstance(value, (list, tuple)) or (tensor.is_floating_point() > dtype.is_floating_point):
        return tensor
    return tensor.to(torch.promote_types(dtype, torch.complex32) if tensor.is_complex() else dtype)


def _as_constant(name: str, value: Any, dtype: Any, tensors: Sequence[Any]) -> Any:
    """Return coefficients as a tensor, a mask or labels as one on the device of others."""
    if value is None or isinstance(value, torch.Tensor):
        return value
    try:
        tensor = torch.as_tensor(np.asarray(value))
        if tensor.is_floating_point() or tensor.is_complex():
            tensor = _as_traced(value, dtype)
        is_number = tensor.is_floating_point() or tensor.is_complex()
        return tensor if is_number else tensor.to(on_device(tensors).device)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be numbers, a mask of bool or labels that are integers for {_CONTEXT}; "
            f"got a {type(value).__name__}: {error}"
        ) from error


def _define(rule: Rule) -> Pair:
    name = f"mgrec::{rule.name or rule.function.__name__}"
    arrays = [f"Tensor{'?' * array.endswith('?')} {array.strip('?')}" for array in rule.arrays]
    arrays += [f"Tensor? {constant}" for constant in rule.constants]
    # Without defaults: torch leaves out values that are defaults.
    options = [f"{schema} {key}" for key, (schema, _) in rule.options.items()]
    parameters, keys = ", ".join([*arrays, *options]), (*rule.inputs, *rule.options)
    count = len(rule.inputs)
    backward_pass = _define_backward(rule, name, parameters, keys)

    def solve(values: Sequence[Any], on_host: dict[str, Any]) -> list[Any]:
        values = [on_host.get(key, x) for key, x in zip(keys, values, strict=True)]
        results = solve_by_address(rule, keys, values)
        return results or solve_native(
            keys, values, lambda native: rule.solve(dict(zip(keys, native, strict=True)))
        )

    def outline(*values: Any) -> list[Any]:
        arguments = dict(zip(keys, values, strict=True))
        like = on_device(values)
        return [like.new_empty(shape, dtype=torch_dtype(dtype)) for shape, dtype in rule.outlines(arguments)]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        kept = [
            _placeholder(x, output[0]) if key in rule.unread else x
            for key, x in zip(rule.inputs, inputs, strict=False)
        ]
        ctx.save_for_backward(output[0], *kept)
        ctx.options = inputs[len(kept) :]

    @cache
    def wanted(needs: tuple[bool, ...]) -> list[str]:
        return [key for key, needed in zip(rule.names, needs, strict=False) if needed]

    def differentiate(backward_pass: Any, ctx: Any, grads: Any, **on_host: Any) -> Any:
        result, *kept = ctx.saved_tensors
        of = wanted(ctx.needs_input_grad)
        grad, grad_zf = (*grads, None)[:2]
        grad = torch.zeros_like(result) if grad is None else grad
        operands = grad, grad_zf, result, *kept, *ctx.options, of
        gradients = iter(backward_pass(*operands, **on_host))
        of_arrays = [next(gradients) if key in of else None for key in rule.names]
        return (*of_arrays, *[None] * (len(rule.constants) + len(ctx.options)))

    def differentiate_eagerly(ctx: Any, grads: Any) -> Any:
        # The gradient of a sum is expanded, with strides of 0, for which no call is prepared.
        grads = [None if grad is None else grad.contiguous() for grad in grads]
        if ctx.group is not None and CALL.get() is None:
            return call_on_group(ctx.group, differentiate_on_group, ctx, grads)
        return differentiate(backward_pass.eager, ctx, grads, on_host=ctx.on_host)

    def differentiate_on_group(ctx: Any, grads: Sequence[Any]) -> Any:
        """Compute the gradients of this rank's arguments, which are parts of those of all ranks."""
        result, *kept = ctx.saved_tensors
        arguments = dict(zip(keys, [*kept, *ctx.options], strict=True))
        axis = arguments["axis"] % rule.count_axes(arguments)
        shape = result.shape if rule.steps_shape is None else rule.steps_shape(arguments)
        # Results that all ranks return: sums over steps, or final states.
        common = 1 if rule.steps_shape is None else 0
        has_common, grads = len(grads) > common, [*grads, None][:2]
        native = None if grads[common] is None else to_native("grad", grads[common])
        native = start_gradients(shape[axis], native, has_common)
        if native is not None:
            grads[common] = result_converter([result], [result])(native)
        try:
            return differentiate(backward_pass.eager, ctx, grads, on_host=ctx.on_host)
        except CacheMiss:
            start_gradients(shape[axis], native)
        return differentiate(backward_pass.eager, ctx, grads, on_host=ctx.on_host)

    differentiate_on_group.__name__ = f"the gradient of {name}"

    differentiated = Pair(partial(differentiate, backward_pass.traced), differentiate_eagerly)
    read = partial(copy_to_host, rule, keys)
    schema = f"({parameters}) -> Tensor[]"
    return _pair(name, schema, read, solve, outline, save, differentiated, count)


def _placeholder(tensor: Any, kept: Any) -> Any:
    """Return a tensor of the same shape and dtype, without memory of its own."""
    has_its_form = tensor.shape == kept.shape and tensor.dtype == kept.dtype
    return kept if has_its_form else tensor.new_empty(()).expand(tensor.shape)


def _define_backward(rule: Rule, name: str, parameters: str, keys: Sequence[str]) -> Pair:
    count = 3 + len(rule.inputs)

    def compose(grad: Any, grad_zf: Any, result: Any, *values: Any) -> list[Any]:
        *values, of = values  # type: ignore[assignment]
        gradients = rule.compose(grad, grad_zf, result, dict(zip(keys, values, strict=True)), of)
        named = dict(zip(rule.names, gradients, strict=True))
        return [named[key] for key in of]

    names = ("grad", "grad_zf", "result", *keys, "of")

    def solve(values: Sequence[Any], on_host: dict[str, Any]) -> list[Any]:
        gradients = differentiate_by_address(rule, keys, values, on_host)
        if gradients is not None and not on_host:
            return gradients
        arrays = dict(zip(rule.names, values[3:], strict=False))
        if gradients is None:
            operands = [on_host.get(name, x) for name, x in zip(names, values, strict=True)]
            gradients = solve_native(names, operands, lambda native: compose(*native))
        return [gradient.to(arrays[key].device) for key, gradient in zip(values[-1], gradients, strict=True)]

    def outline(*values: Any) -> list[Any]:
        arrays = dict(zip(rule.names, values[3:], strict=False))
        return [arrays[key].new_empty(arrays[key].shape) for key in values[-1]]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:count])
        ctx.options = inputs[count:]

    def differentiate(ctx: Any, grads: Any) -> Any:
        if getattr(ctx, "group", None) is not None:
            raise NotImplementedError("gradients on a group have no derivatives")
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
        gradients = iter(
            torch.autograd.grad(
                [output for output, _ in pairs],
                [x for x in needed if x is not None],
                [grad for _, grad in pairs],
                create_graph=torch.is_grad_enabled(),
                allow_unused=True,
            )
            if pairs
            else ()
        )
        of_inputs = [None if x is None else next(gradients, None) for x in needed]
        return (*of_inputs, *[None] * len(ctx.options))

    schema = f"(Tensor grad, Tensor? grad_zf, Tensor result, {parameters}, str[] of) -> Tensor[]"
    pair = Pair(differentiate, differentiate)
    read = partial(copy_to_host, rule, names)
    return _pair(f"{name}_backward", schema, read, solve, outline, save, pair, count)


def _pair(
    name: str,
    schema: str,
    read: Callable[..., dict[str, Any]],
    solve: Callable[..., list[Any]],
    outline: Callable[..., Any],
    save: Callable[..., Any],
    differentiate: Pair,
    inputs: int,
) -> Pair:
    """Return the operator and the function of the same parts; those of `differentiate` are theirs.

    The first `inputs` arguments are tensors or None.
    ``solve(values, read(values))`` computes the results. ``save(ctx, inputs, outputs)`` saves what
    ``differentiate(ctx, grads)`` needs.
    """

    def solve_traced(*values: Any) -> list[Any]:
        return solve(values, read(values))

    operator = torch.library.custom_op(name, solve_traced, mutates_args=(), schema=schema)
    operator.register_fake(outline)
    operator.register_autograd(differentiate.traced, setup_context=save)

    def solve_each(info: Any, in_dims: Sequence[Any], *values: Any) -> Any:
        if not info.batch_size:
            raise ValueError("vmap needs a batch of at least one element; got a batch of 0")
        calls = [
            operator(
                *[
                    value.select(dim, k) if isinstance(dim, int) else value
                    for value, dim in zip(values, in_dims, strict=True)
                ]
            )
            for k in range(info.batch_size)
        ]
        results = [torch.stack(list(parts)) for parts in zip(*calls, strict=True)]
        return results, [0] * len(results)

    operator.register_vmap(solve_each)

    class Function(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> tuple[Any, ...]:
            # A method setup_context, which torch.func needs, would take 50 us.
            *operands, options, on_host, cached_solver = arguments
            results: Any = None
            values = [*operands, *options]
            if cached_solver is not None and cached_solver.prepared is not None:
                tensors = [x for x in operands if x is not None]
                addresses = [x.data_ptr() for x in tensors]
                results = solve_prepared(cached_solver.prepared, tensors[0], addresses)
            results = tuple(results or solve(values, on_host))
            ctx.set_materialize_grads(False)
            ctx.on_host, group_call = on_host, CALL.get()
            ctx.group = None if group_call is None else group_call.group
            save(ctx, values, results)
            return results

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return *differentiate.eager(ctx, grads)[:inputs], None, None, None

    def call_function(
        *values: Any,
        on_host: dict[str, Any] | None = None,
        cached_solver: CacheEntry[PreparedCall] | None = None,
    ) -> Any:
        on_host = read(values) if on_host is None else on_host
        # Without a graph of the backward pass: recording one would take 60 us.
        if not torch.is_grad_enabled():
            return solve(values, on_host)
        return Function.apply(*values[:inputs], values[inputs:], on_host, cached_solver)

    return Pair(operator, call_function)


def _operators() -> dict[str, Operator | Redirect]:
    return {
        name: rule
        if isinstance(rule, Redirect)
        else Operator(_define(rule), rule, tuple(signature(rule.function).parameters))
        for name, rule in rules().items()
    }


_LATER: dict[str, Callable[[], Any]] = {
    "OPERATORS": _operators,
    # The graphs of torch.compile end before a call on a group. This imports what takes 3 s.
    "call_on_group_untraced": lambda: torch.compiler.disable(call_on_group),
}


def __getattr__(name: str) -> Any:
    # Defined when they are first used: also ``torch.compile`` runs this function, untraced.
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _DEFINING:
        if name not in globals():
            globals()[name] = _LATER[name]()
    return globals()[name]
