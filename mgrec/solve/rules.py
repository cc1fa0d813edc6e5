"""Rules: which public functions torch and jax differentiate, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from ..core.algebra.coefficient import Coefficient
from ..core.arrays.array_types import bfloat16, is_narrow, result_type
from ..core.arrays.interop import is_differentiated
from ..distributed.expressions import leaves

_PACKAGE = __package__.partition(".")[0]
_MODULES = (
    "banded.adjoint",
    "ewm.adjoint",
    "filters.adjoint",
    "filters.zero_phase_adjoint",
    "grids.table.api",
    "hmm.adjoint",
    "ndimage.adjoint",
    "scans.adjoint",
    "scans.map_adjoint",
    "scans.matrix.adjoint",
    "statespace.adjoint",
    "tridiagonal.adjoint",
)
"""Modules with ``RULES``."""
_DEFAULTS = ("auto", "stream", "mean", "pad")
"""Defaults of options without a rule."""


@dataclass(frozen=True)
class Rule:
    """How one public function is differentiated.

    `compose`, ``(grad, grad_zf, result, arguments, of) -> gradients``: return the gradients of all
      `arrays`, as the adjoint does, from a dict of the arguments. `grad_zf` is the gradient of a
      second result, or None.
    `arrays`: arguments with gradients. Those with the suffix "?" may be None.
    `outlines`, ``(arguments) -> sequence of (shape, dtype)``: return the shapes and dtypes of the
      results. Arguments may be of any library.
    `unread`: arrays of which the adjoint uses only the shape and the dtype.
    `name`: name of the operator of torch. The default is that of the function.
    `axes`, ``(arguments) -> int``: return the number of axes among which the argument ``axis`` is
      one. The default is that of the first result.
    `takes_bfloat16`: whether the function and its adjoint take bfloat16; tensors of torch are cast
      otherwise.
    `constants`: arguments that are arrays without gradients, or None: masks, labels and
      coefficients.
    `numbers`: those of `arrays` that are one real number each, which the function reads in host
      memory in float64: a smoothing factor. They do not promote the dtype of the results.
    `check`, ``(arguments) -> None``: raises an error for arguments without gradients.
    `differentiate_at`: ``(backend, shape, dtype, device, addresses, results, options) -> bool``:
      write the gradients of all `arrays` if all are contiguous and have one shape and dtype. Those
      that are read in host memory are among the options, as NumPy arrays. Addresses are those of
      the gradient of the result, of the result, and of the arrays that are read; results are 0 for
      gradients that are not wanted, but for arrays that are `unread`. Return False if the kernels
      do not compute these gradients.
    `read_on_host`, ``(arguments) -> names``: return the names of the arrays whose numbers the
      function reads in host memory: those of the coefficients of a filter.
    `takes_group`: whether `compose` computes gradients over the ranks of a group.
    `steps_shape`, ``(arguments) -> shape``: return the shape of steps and rows, if the result is a
      sum over steps, the same on all ranks of a group. The default is the shape of the result.
    """

    function: Callable[..., Any]
    compose: Callable[..., Sequence[Any]]
    arrays: tuple[str, ...]
    options: dict[str, tuple[str, Any]]
    outlines: Callable[[dict[str, Any]], Sequence[tuple[Any, np.dtype[Any]]]]
    unread: tuple[str, ...] = ()
    name: str = ""
    axes: Callable[[dict[str, Any]], int] | None = None
    takes_bfloat16: bool = False
    constants: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    check: Callable[[dict[str, Any]], None] | None = None
    differentiate_at: Callable[..., bool] | None = None
    read_on_host: Callable[[dict[str, Any]], Sequence[str]] | None = None
    takes_group: bool = False
    steps_shape: Callable[[dict[str, Any]], tuple[Any, ...]] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays with gradients."""
        return tuple(name.removesuffix("?") for name in self.arrays)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of all arrays: those with gradients first."""
        return *self.names, *self.constants

    @property
    def defaults(self) -> dict[str, Any]:
        """Defaults of the arguments; None for arrays."""
        options = {name: default for name, (_, default) in self.options.items()}
        return {**dict.fromkeys(self.inputs), **options}

    def count_axes(self, arguments: dict[str, Any]) -> int:
        """Return the number of axes among which the argument ``axis`` is one."""
        if self.axes is not None:
            return self.axes(arguments)
        return len(self.outlines(arguments)[0][0])

    def bind(self, arguments: dict[str, Any], context: str) -> dict[str, Any]:
        """Return the arguments that the rule has, with defaults; raise TypeError for others.

        `context` is where the function is called, for the message.
        """
        kept = self.defaults
        for name in self.names:
            if isinstance(arguments.get(name), Coefficient):
                raise TypeError(
                    f"{name} must be an array or a number for {context}; got a Coefficient, "
                    f"which has no gradient: compute its numbers as an array"
                )
        for name, value in arguments.items():
            if name in kept:
                kept[name] = value
            elif not (value is None or (isinstance(value, str) and value in _DEFAULTS)):
                raise TypeError(
                    f"{name} is not supported for {context}; got a {type(value).__name__}: "
                    f"leave it out, or compute without gradients"
                )
        for name in self.options:
            if any(map(is_differentiated, leaves(kept[name]))):
                raise TypeError(
                    f"{name} has no gradient; got a {type(kept[name]).__name__} that is "
                    f"differentiated: pass a number, in torch {name}.detach()"
                )
        if self.check is not None:
            self.check(kept)
        return kept

    def solve(self, arguments: dict[str, Any]) -> tuple[Any, ...]:
        """Call the function; return a tuple of results."""
        results = self.function(**arguments)
        return results if isinstance(results, tuple) else (results,)


def rule_of_adjoint(
    adjoint: Any,
    function: Callable[..., Any],
    options: dict[str, tuple[str, Any]],
    outlines: Callable[[dict[str, Any]], Sequence[tuple[Any, np.dtype[Any]]]],
    **others: Any,
) -> Rule:
    """Return the rule of a function with a public adjoint, also over the ranks of a group.

    `others` are further attributes of the rule.
    """
    parameters = signature(adjoint).parameters
    takes_result = [*parameters][1] not in adjoint.arrays

    def compose(grad: Any, grad_zf: Any, result: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
        results = (grad, result) if takes_result else (grad,)
        of_states = {"grad_zf": grad_zf} if "grad_zf" in parameters else {}
        return adjoint.compose(*results, **arguments, **of_states, of=of)

    arrays = tuple(name + "?" * (parameters[name].default is None) for name in adjoint.arrays)
    constants = ("reset",) if "reset" in parameters else ()
    return Rule(function, compose, arrays, options, outlines, constants=constants, takes_group=True, **others)


def rule_of_rows(
    adjoint: Any, function: Callable[..., Any], steps_shape: Callable[[dict[str, Any]], tuple[Any, ...]]
) -> Rule:
    """Return the rule of a function with one number of float64 for each row, and resets.

    The numbers are sums over steps, and their gradients are computed over the ranks of a group.
    ``steps_shape(arguments)`` returns the shape of steps and rows.
    """

    def outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
        shape = list(steps_shape(arguments))
        del shape[arguments["axis"]]
        return [(tuple(shape), np.dtype(np.float64))]

    return rule_of_adjoint(
        adjoint,
        function,
        {"axis": ("int", -1)},
        outlines,
        name=adjoint.__name__,
        axes=lambda arguments: len(steps_shape(arguments)),
        steps_shape=steps_shape,
    )


@dataclass(frozen=True)
class Redirect:
    """A public function that is differentiated as another one, which has a rule.

    `call`: takes the arguments of `function`, calls the other one and returns the result.
    """

    function: Callable[..., Any]
    call: Callable[..., Any]


@cache
def rules() -> dict[str, Rule | Redirect]:
    """Return all rules, by the qualified name of the function."""
    by_name = {}
    for module in _MODULES:
        for rule in import_module(f"{_PACKAGE}.{module}").RULES:
            by_name[qualified_name(rule.function)] = rule
    return by_name


def qualified_name(function: Any) -> str:
    return f"{function.__module__}.{function.__name__}"


def numpy_dtype(array: Any) -> np.dtype[Any]:
    """Return the dtype of an array of any library as NumPy's."""
    name = str(array.dtype).rpartition(".")[2]
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def common_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return the dtype of the results of arrays of any library; None is left out.

    Real numbers do not promote a narrow dtype.
    """
    pairs = [(numpy_dtype(array), array.ndim) for array in arrays if array is not None]
    if any(is_narrow(dtype) for dtype, _ in pairs):
        kept = [(dtype, ndim) for dtype, ndim in pairs if ndim or dtype.kind == "c"]
        pairs = kept or pairs
    return result_type([dtype for dtype, _ in pairs])


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """Return the broadcast shape; lengths may be symbols of torch."""
    ndim = max(map(len, shapes))
    aligned = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(
        next((length for length in lengths if length != 1), 1) for lengths in zip(*aligned, strict=True)
    )
